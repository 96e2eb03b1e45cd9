package hub

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Remove deletes a model from the cache and returns the number of bytes freed. With a tag it deletes only that GGUF
// file, else the snapshot with the refs to it; then it deletes every blob that no snapshot links to, and partial
// downloads. While a pull fetches one of the repository's files, no snapshot is removed: the error names the file.
func (c *Client) Remove(n Name) (freed int64, err error) {
	freed, err = c.remove(n)
	if err != nil {
		err = fmt.Errorf("hub: remove %s: %w", n, err)
	}
	return freed, err
}

func (c *Client) remove(n Name) (int64, error) {
	commit, err := c.commit(n)
	if err != nil {
		return 0, err
	}
	dir := c.snapshot(n.Repo, commit)
	if _, err := os.Stat(dir); commit == "" || err != nil {
		if left, _ := filepath.Glob(filepath.Join(c.folder(n.Repo), "blobs", "*.incomplete")); len(left) == 0 || n.Tag != "" {
			return 0, fmt.Errorf("%w %s", ErrMissing, c.CacheDir)
		}
		if err := c.idle(n.Repo); err != nil {
			return 0, err
		}
		return c.sweep(n.Repo)
	}
	freed := int64(0)
	if n.Tag != "" {
		names, err := present(dir)
		if err != nil {
			return 0, err
		}
		want, err := choose(names, n.Tag)
		if err != nil {
			return 0, err
		}
		for _, f := range want.weights {
			size, err := unlink(filepath.Join(dir, filepath.FromSlash(f)))
			freed += size
			if err != nil {
				return freed, err
			}
		}
		names, err = present(dir)
		if err != nil || len(names) > 0 {
			swept, serr := c.sweep(n.Repo)
			return freed + swept, errors.Join(err, serr)
		}
	}
	if err := c.idle(n.Repo); err != nil {
		return freed, err
	}
	if err := c.forget(n.Repo, commit); err != nil {
		return freed, err
	}
	err = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			size, uerr := unlink(p)
			freed += size
			return uerr
		}
		return err
	})
	if err == nil {
		err = os.RemoveAll(dir)
	}
	swept, serr := c.sweep(n.Repo)
	return freed + swept, errors.Join(err, serr)
}

// idle fails if a pull, of this process or another, is fetching a file of the repository.
func (c *Client) idle(repo string) error {
	parts, err := filepath.Glob(filepath.Join(c.folder(repo), "blobs", "*.incomplete"))
	for _, part := range parts {
		etag, _, _ := strings.Cut(filepath.Base(part), ".")
		unlock, ok, err := tryLock(c.lockPath(repo, etag))
		if errors.Is(err, fs.ErrNotExist) {
			continue // no pull without a folder of locks
		}
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("a pull is fetching %s", part)
		}
		unlock()
	}
	return err
}

// forget deletes the refs to a commit and the Python client's notes beside its snapshot.
func (c *Client) forget(repo, commit string) error {
	refs, err := c.refs(repo)
	if err != nil {
		return err
	}
	for r, at := range refs {
		if at == commit {
			if err := os.Remove(filepath.Join(c.folder(repo), "refs", filepath.FromSlash(r))); err != nil {
				return err
			}
		}
	}
	for _, p := range []string{filepath.Join(".no_exist", commit), filepath.Join("trees", commit+".json")} {
		if err := os.RemoveAll(filepath.Join(c.folder(repo), p)); err != nil {
			return err
		}
	}
	return nil
}

// unlink deletes a file or link; the bytes freed are those of a file that was no link.
func unlink(path string) (int64, error) {
	fi, err := os.Lstat(path)
	if err != nil {
		return 0, err
	}
	if err := os.Remove(path); err != nil || !fi.Mode().IsRegular() {
		return 0, err
	}
	return fi.Size(), nil
}

// sweep deletes blobs without a link from any snapshot and, if neither blob nor snapshot is left, the repository's
// folder. It keeps blobs that a pull is fetching.
func (c *Client) sweep(repo string) (int64, error) {
	blobs, err := os.ReadDir(filepath.Join(c.folder(repo), "blobs"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	if err := os.MkdirAll(filepath.Dir(c.lockPath(repo, "x")), 0o777); err != nil {
		return 0, err
	}
	var freed int64
	for _, b := range blobs {
		size, err := c.sweepBlob(repo, b.Name())
		freed += size
		if err != nil {
			return freed, err
		}
	}
	for _, dir := range []string{"blobs", "snapshots"} {
		left := filepath.Join(c.folder(repo), dir)
		if err := os.Remove(left); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return freed, nil // not empty
		}
	}
	return freed, os.RemoveAll(c.folder(repo))
}

// sweepBlob deletes one blob, unless a snapshot links to it or its lock is held.
func (c *Client) sweepBlob(repo, name string) (freed int64, err error) {
	etag, _, _ := strings.Cut(name, ".")
	unlock, ok, err := tryLock(c.lockPath(repo, etag))
	if err != nil || !ok {
		return 0, err
	}
	defer unlock()
	blob := filepath.Join(c.folder(repo), "blobs", name)
	linked := false
	err = filepath.WalkDir(filepath.Join(c.folder(repo), "snapshots"), func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.Type()&fs.ModeSymlink != 0 {
			if to, rerr := os.Readlink(p); rerr == nil && filepath.Base(to) == name {
				linked = true
				return fs.SkipAll
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	if err != nil || linked {
		return 0, err
	}
	shared, _ := os.Readlink(blob)
	freed, err = unlink(blob)
	if err == nil && shared != "" {
		freed, err = c.sweepShared(filepath.Join(filepath.Dir(blob), shared))
	}
	return freed, err
}

// sweepShared deletes a payload of the store that newer Python clients share between repositories
// (blobs/<2 hex>/<64 hex> in the cache folder), unless its manifest (.refs: one path of a repository's blob per line)
// names another link to it. Without a readable manifest it stays.
func (c *Client) sweepShared(payload string) (int64, error) {
	rel, err := filepath.Rel(filepath.Join(c.CacheDir, "blobs"), payload)
	if err != nil || !filepath.IsLocal(rel) || !etagRE.MatchString(filepath.Base(rel)) {
		return 0, nil
	}
	unlock, ok, err := tryLock(payload + ".lock")
	if err != nil || !ok {
		return 0, err
	}
	defer unlock()
	refs, err := readSmall(payload + ".refs")
	if err != nil {
		return 0, nil
	}
	for _, line := range strings.Split(string(refs), "\n") {
		link := filepath.Join(c.CacheDir, filepath.FromSlash(line))
		if to, err := os.Readlink(link); err == nil && filepath.Join(filepath.Dir(link), to) == payload {
			return 0, nil
		}
	}
	freed, err := unlink(payload)
	return freed, errors.Join(err, os.Remove(payload+".refs"))
}
