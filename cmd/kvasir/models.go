package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/kvasir-llm/kvasir/hub"
	"github.com/kvasir-llm/kvasir/hub/builtin"
	"github.com/kvasir-llm/kvasir/weights"
)

// place is where a model named on the command line lies.
type place struct {
	name string // how it is called when served
	path string // a file or folder; "" is inside the program
}

// notCached is the error for a hub model that would have to be fetched.
type notCached struct{ name string }

func (e notCached) Error() string {
	return fmt.Sprintf("model %q is not in the local cache; fetch it with: kvasir pull %s", e.name, e.name)
}

// find finds a model by built-in name, file, folder or hub name; "" is the built-in model. It asks no network: the
// error for a hub model that is not in the cache is notCached.
func find(name string) (place, error) {
	if name == "" || name == builtin.Name {
		return place{name: builtin.Name}, nil
	}
	target, err := hub.Resolve(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return place{}, fmt.Errorf("no file or folder %q", name)
	case err != nil:
		return place{}, fmt.Errorf("no model %q (built in is %s): %w", name, builtin.Name, err)
	case target.Path != "":
		return place{baseName(target.Path), target.Path}, nil
	}
	client, err := hub.FromEnv(os.Getenv)
	if err != nil {
		return place{}, err
	}
	path, ok, err := client.Lookup(target.Name)
	if err == nil && !ok {
		err = notCached{name}
	}
	return place{name, path}, err
}

// baseName is what a file or folder is called when served.
func baseName(path string) string {
	if whole, err := filepath.Abs(path); err == nil {
		path = whole
	}
	base := filepath.Base(path)
	for _, suffix := range []string{".gguf", ".safetensors.index.json", ".safetensors"} {
		base = strings.TrimSuffix(base, suffix)
	}
	return base
}

func (p place) open() (*weights.Checkpoint, error) {
	if p.path == "" {
		return builtin.Open()
	}
	return weights.Open(p.path)
}

// named is an open model.
type named struct {
	name string // how it is called when served
	ckpt *weights.Checkpoint
}

// openModel opens a model. A hub model that is not in the local cache is fetched.
func openModel(ctx context.Context, name string) (named, error) {
	p, err := find(name)
	if errors.As(err, new(notCached)) {
		if p.path, err = pull(ctx, name, os.Stderr); err != nil {
			err = fmt.Errorf("there is no file or folder %q here, and as a hub's model: %w", name, err)
		}
	}
	if err != nil {
		return named{}, err
	}
	ckpt, err := p.open()
	return named{p.name, ckpt}, err
}

// openLocal opens a model that is already here: looking at a model fetches nothing.
func openLocal(name string) (named, error) {
	p, err := find(name)
	if err != nil {
		return named{}, err
	}
	ckpt, err := p.open()
	return named{p.name, ckpt}, err
}

// isModel reports whether an argument names a model rather than being a prompt: it is the built-in name, exists, or has
// the form of a path or a hub name.
func isModel(arg string) bool {
	if arg == builtin.Name {
		return true
	}
	_, err := hub.Resolve(arg)
	return err == nil || errors.Is(err, fs.ErrNotExist) && !strings.ContainsAny(arg, " \n\t")
}
