package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"

	"github.com/kvasir-llm/kvasir/hub"
	"github.com/kvasir-llm/kvasir/hub/builtin"
	"github.com/kvasir-llm/kvasir/server"
	"github.com/kvasir-llm/kvasir/shelf"
)

// Create implements server.Catalog. The new entry is kept in the file of models, if there is one.
func (c *catalog) Create(name string, r server.Recipe) error {
	if !entryName.MatchString(name) {
		return &server.RecipeError{Problem: fmt.Sprintf("model: %q: want letters, digits, and . _ : / @ - between them", name)}
	}
	e, ok := c.named()[r.From]
	if !ok {
		e = entry{Model: r.From}
	}
	if err := c.placeFiles(&e, r); err != nil {
		return err
	}
	e.Pinned = false
	set(&e.System, r.System)
	if r.Template != "" {
		e.Template, e.Source = "", r.Template
	}
	if len(r.Options) > 0 {
		options := maps.Clone(e.Parameters)
		if options == nil {
			options = map[string]any{}
		}
		maps.Copy(options, r.Options)
		e.Parameters = options
	}
	set(&e.Context, r.Context)
	if err := e.check(); err != nil {
		return &server.RecipeError{Problem: err.Error()}
	}
	if err := e.checkFiles(name, r); err != nil {
		return &server.RecipeError{Problem: err.Error()}
	}
	return c.change(name, &e)
}

// change puts an entry into the catalog and its file, or takes it out if e is nil.
func (c *catalog) change(name string, e *entry) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.serve.ModelList != "" {
		if err := saveModel(c.serve.ModelList, name, e); err != nil {
			return fmt.Errorf("%s: %w", c.serve.ModelList, err)
		}
	}
	entries := maps.Clone(c.named())
	if e == nil {
		delete(entries, name)
	} else {
		entries[name] = *e
	}
	c.entries.Store(&entries)
	return nil
}

// errNoFetching is returned for changes of the cache of models.
var errNoFetching = fmt.Errorf("%w: the cache of models is not changed from here; the server would have to be started with --allow-pull",
	server.ErrFixed)

// Delete implements server.Catalog. What others are made of stays in the cache until it is deleted by its own name.
func (c *catalog) Delete(name string) error {
	if e, ok := c.named()[name]; ok {
		if err := c.change(name, nil); err != nil {
			return err
		}
		c.dropFiles(e)
		return nil
	}
	if !c.serve.AllowPull {
		return errNoFetching
	}
	if name == builtin.Name {
		return fmt.Errorf("%w: %s is part of the program", server.ErrFixed, name)
	}
	n, err := hub.ParseName(name)
	if err != nil {
		return shelf.ErrNotFound
	}
	client, err := hub.FromEnv(os.Getenv)
	if err == nil {
		_, err = client.Remove(n)
	}
	return err
}

// Pull implements server.Catalog.
func (c *catalog) Pull(ctx context.Context, name string, progress func(file string, done, total int64)) error {
	if !c.serve.AllowPull {
		return errNoFetching
	}
	if name == builtin.Name {
		return nil
	}
	n, err := hub.ParseName(name)
	if err != nil {
		return shelf.ErrNotFound
	}
	client, err := hub.FromEnv(os.Getenv)
	if err != nil {
		return err
	}
	client.UserAgent = "kvasir/" + version()
	percents := map[string]int64{}
	_, err = client.Pull(ctx, n, func(e hub.Event) {
		if e.File == "" || e.Total <= 0 {
			return
		}
		percent, told := percents[e.File]
		if now := 1 + 100*e.Done/e.Total; !told || now != percent { // a line for each file and percent
			percents[e.File] = now
			progress(e.File, e.Done, e.Total)
		}
	})
	if errors.Is(err, hub.ErrNotFound) || errors.Is(err, hub.ErrDenied) || errors.Is(err, fs.ErrNotExist) {
		c.log.Warn("a model cannot be fetched", "model", n, "error", err)
		err = shelf.ErrNotFound
	}
	return err
}
