package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/kvasir-llm/kvasir/model/family"
	"github.com/kvasir-llm/kvasir/server"
	"github.com/kvasir-llm/kvasir/weights"
)

// partName is what a file of a model may be called, when it has several.
var partName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// placeFiles makes an entry of the files of a recipe.
func (c *catalog) placeFiles(e *entry, r server.Recipe) (err error) {
	if len(r.Files) > 0 {
		if e.Model, err = c.place(r.Files); err != nil {
			return err
		}
	}
	if len(r.Adapter) > 0 {
		e.Adapter, err = c.place(r.Adapter)
	}
	return err
}

// checkFiles reports what is wrong with files that came with a recipe, before a model is made of them.
func (e entry) checkFiles(name string, r server.Recipe) error {
	if len(r.Files) > 0 {
		found, err := e.open(name)
		if err != nil {
			return fmt.Errorf("files: %w", err)
		}
		defer found.ckpt.Close()
		if _, err := family.Read(found.ckpt); err != nil {
			return fmt.Errorf("files: %w", err)
		}
	}
	if len(r.Adapter) > 0 {
		ckpt, err := weights.Open(e.Adapter)
		if err != nil {
			return fmt.Errorf("adapters: %w", err)
		}
		return ckpt.Close()
	}
	return nil
}

// place returns a path under which files are found as one checkpoint: that of a single file, or of a folder that links
// to several, beside them.
func (c *catalog) place(files []server.File) (string, error) {
	if len(files) == 1 {
		return filepath.Abs(files[0].Path)
	}
	sum := sha256.New()
	for _, f := range files {
		if !partName.MatchString(f.Name) {
			return "", &server.RecipeError{Problem: fmt.Sprintf("files: %q is no name of a file", f.Name)}
		}
		fmt.Fprintf(sum, "%s %s\n", f.Name, filepath.Base(f.Path))
	}
	at, err := filepath.Abs(filepath.Join(filepath.Dir(files[0].Path), "files-"+hex.EncodeToString(sum.Sum(nil)[:16])))
	if err == nil {
		err = os.MkdirAll(at, 0o700)
	}
	for _, f := range files {
		link := filepath.Join(at, f.Name)
		if _, lerr := os.Lstat(link); err == nil && lerr != nil {
			err = os.Symlink(filepath.Join("..", filepath.Base(f.Path)), link)
		}
	}
	return at, err
}

// blobsOf returns the files of clients that an entry is made of, and the folders that link to them.
func (c *catalog) blobsOf(e entry) (files, folders []string) {
	if c.serve.blobs == nil {
		return nil, nil
	}
	add := func(path string) {
		if own, err := c.serve.blobs.Path(filepath.Base(path)); err == nil && same(own, path) {
			files = append(files, own)
		}
	}
	for _, at := range []string{e.Model, e.Adapter} {
		if !filepath.IsAbs(at) {
			continue
		}
		add(at)
		links, err := os.ReadDir(at)
		if err != nil {
			continue
		}
		n := len(files)
		for _, l := range links {
			if to, err := os.Readlink(filepath.Join(at, l.Name())); err == nil {
				add(filepath.Join(at, to))
			}
		}
		if len(files) > n {
			folders = append(folders, at)
		}
	}
	return files, folders
}

// same reports whether two paths lead to one file.
func same(a, b string) bool {
	one, err := os.Stat(a)
	other, oerr := os.Stat(b)
	return err == nil && oerr == nil && os.SameFile(one, other)
}

// dropFiles removes the files of an entry that is gone, but for those that others are made of.
func (c *catalog) dropFiles(gone entry) {
	files, folders := c.blobsOf(gone)
	var keep []string
	for _, e := range c.named() {
		f, d := c.blobsOf(e)
		keep = append(append(keep, f...), d...)
	}
	for _, at := range folders {
		if !slices.Contains(keep, at) {
			os.RemoveAll(at) // of links; what is left takes no place
		}
	}
	for _, at := range files {
		if slices.Contains(keep, at) {
			continue
		}
		if err := c.serve.blobs.Remove(at); err != nil {
			c.log.Warn("a file of a deleted model stays", "error", err)
		}
	}
}
