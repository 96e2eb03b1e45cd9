package hub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/kvasir-llm/kvasir/guard"
)

// Pull downloads a model into the cache and returns its path: the snapshot folder of a safetensors or PyTorch model, or
// the (first) .gguf file in it. It does not fetch cached files again, and it resumes interrupted downloads; when ctx
// ends, partial files stay for the next Pull. Offline, it finds what Lookup finds.
func (c *Client) Pull(ctx context.Context, n Name, progress func(Event)) (string, error) {
	path, err := c.pull(ctx, n, progress)
	if err != nil {
		return "", fmt.Errorf("hub: %s: %w", n, err)
	}
	return path, nil
}

func (c *Client) pull(ctx context.Context, n Name, progress func(Event)) (string, error) {
	if c.Offline {
		path, ok, err := c.lookup(n)
		if err == nil && !ok {
			err = fmt.Errorf("%w and not in the cache %s", ErrOffline, c.CacheDir)
		}
		return path, err
	}
	var mu sync.Mutex
	report := func(e Event) {
		mu.Lock()
		defer mu.Unlock()
		if progress != nil {
			progress(e)
		}
	}
	report(Event{State: Listing, Total: -1})
	l, err := c.list(ctx, n, report)
	if err != nil {
		return "", err
	}
	dir, names := c.snapshot(n.Repo, l.commit), l.names()
	want, err := choose(names, n.Tag)
	if err != nil {
		return "", err
	}
	if err := c.fetchAll(ctx, n, l, want.meta, report); err != nil {
		return "", err
	}
	if want.index != "" {
		if want.weights, err = want.indexed(dir, names); err != nil {
			return "", err
		}
	}
	if err := c.fetchAll(ctx, n, l, want.weights, report); err != nil {
		return "", err
	}
	for _, name := range append(want.meta, want.weights...) {
		if length(filepath.Join(dir, filepath.FromSlash(name))) < 0 {
			return "", fmt.Errorf("%s was removed from the cache during the pull", name)
		}
	}
	if err := c.writeRef(n, l.commit); err != nil {
		return "", err
	}
	return want.path(dir), nil
}

// fetchAll fetches files of a listing, a few at a time; the first error stops the others.
func (c *Client) fetchAll(ctx context.Context, n Name, l listing, names []string, report func(Event)) error {
	byName := map[string]remote{}
	for _, f := range l.files {
		byName[f.path] = f
	}
	for _, name := range names {
		report(Event{State: Queued, File: name, Total: byName[name].size})
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	parallel := c.Parallel
	if parallel <= 0 {
		parallel = 4
	}
	slots := make(chan struct{}, parallel)
	var all guard.Group
	for _, name := range names {
		slots <- struct{}{}
		all.Start(func() error {
			defer func() { <-slots }()
			if ctx.Err() != nil {
				return nil
			}
			if err := guard.Try(func() error { return c.file(ctx, n, l.commit, byName[name], report) }); err != nil {
				stop(fmt.Errorf("%s: %w", name, err))
			}
			return nil
		})
	}
	return cmp.Or(all.Wait(), context.Cause(ctx))
}

// file downloads one file into the snapshot, under the lock of its blob.
func (c *Client) file(ctx context.Context, n Name, commit string, f remote, report func(Event)) error {
	if err := c.head(ctx, n, commit, &f, report); err != nil {
		return err
	}
	link := filepath.Join(c.snapshot(n.Repo, commit), filepath.FromSlash(f.path))
	if sized(link, f.size) {
		report(Event{State: Cached, File: f.path, Done: length(link), Total: length(link)})
		return nil
	}
	blob := filepath.Join(c.folder(n.Repo), "blobs", f.etag)
	for _, dir := range []string{filepath.Dir(blob), filepath.Dir(link)} {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return err
		}
	}
	unlock, err := c.lock(ctx, n.Repo, f, report)
	if err != nil {
		return err
	}
	defer unlock()
	state := Cached
	if !sized(blob, f.size) {
		if err := os.Remove(blob); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := c.fetch(ctx, n, commit, f, blob, report); err != nil {
			return err
		}
		state = Done
	}
	if err := place(blob, link); err != nil {
		return err
	}
	report(Event{State: state, File: f.path, Done: length(link), Total: length(link)})
	return nil
}

// length is the size of the regular file that path leads to, or -1.
func length(path string) int64 {
	fi, err := os.Stat(path)
	if err != nil || !fi.Mode().IsRegular() {
		return -1
	}
	return fi.Size()
}

// sized reports that path leads to a regular file, of that size unless it is negative.
func sized(path string, size int64) bool {
	found := length(path)
	return found >= 0 && (size < 0 || found == size)
}

// place makes the snapshot's relative link to a blob, or a hard link where symbolic links do not exist.
func place(blob, link string) error {
	target, err := filepath.Rel(filepath.Dir(link), blob)
	if err != nil {
		return err
	}
	if there, err := os.Readlink(link); err == nil && there == target {
		return nil // another process may be reading through it: leave it alone
	}
	if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err = os.Symlink(target, link); err != nil && os.Link(blob, link) != nil {
		return err
	}
	return nil
}

// lock waits for the lock of a blob.
func (c *Client) lock(ctx context.Context, repo string, f remote, report func(Event)) (func(), error) {
	path := c.lockPath(repo, f.etag)
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return nil, err
	}
	for told := false; ; told = true {
		unlock, ok, err := tryLock(path)
		if err != nil || ok {
			return unlock, err
		}
		if !told {
			report(Event{State: Waiting, File: f.path, Total: f.size, Reason: fmt.Errorf("%s is locked by another process", path)})
		}
		if err := wait(ctx, 100*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// writeRef records the commit of the revision. It comes last, so that a revision never refers to a half-fetched model.
func (c *Client) writeRef(n Name, commit string) error {
	if n.revision() == commit {
		return nil
	}
	path := filepath.Join(c.folder(n.Repo), "refs", filepath.FromSlash(n.revision()))
	if old, err := os.ReadFile(path); err == nil && string(old) == commit {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".ref-*.tmp")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, werr := tmp.WriteString(commit)
	if err := errors.Join(werr, tmp.Chmod(0o644), tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}
