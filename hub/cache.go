package hub

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"
)

// Model is one servable model of the cache.
type Model struct {
	Name     Name      // as ParseName reads it; Tag is set for GGUF
	Commit   string    // 40 hex digits
	Format   string    // "safetensors", "pytorch", "gguf" or "adapter"
	Files    []string  // inside the snapshot, with slashes
	Size     int64     // bytes of Files
	Modified time.Time // of the newest file
	Path     string    // as Pull returns it
}

func (c *Client) folder(repo string) string {
	return filepath.Join(c.CacheDir, "models--"+strings.ReplaceAll(repo, "/", "--"))
}

func (c *Client) snapshot(repo, commit string) string {
	return filepath.Join(c.folder(repo), "snapshots", commit)
}

func (c *Client) lockPath(repo, etag string) string {
	return filepath.Join(c.CacheDir, ".locks", filepath.Base(c.folder(repo)), etag+".lock")
}

// Lookup finds a model in the cache without using the network. It does not find a model with a missing file.
func (c *Client) Lookup(n Name) (path string, ok bool, err error) {
	path, ok, err = c.lookup(n)
	if err != nil {
		err = fmt.Errorf("hub: %s: %w", n, err)
	}
	return path, ok, err
}

func (c *Client) lookup(n Name) (string, bool, error) {
	commit, err := c.commit(n)
	if commit == "" || err != nil {
		return "", false, err
	}
	dir := c.snapshot(n.Repo, commit)
	names, err := present(dir)
	if err != nil {
		return "", false, err
	}
	want, err := local(dir, names, n.Tag)
	if errors.Is(err, ErrNotFound) {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	return want.path(dir), true, nil
}

func (w choice) path(dir string) string {
	if w.format == "gguf" {
		return filepath.Join(dir, filepath.FromSlash(w.weights[0]))
	}
	return dir
}

// local chooses among the files of a snapshot, and reads its index.
func local(dir string, names []string, tag string) (choice, error) {
	want, err := choose(names, tag)
	if err != nil || want.index == "" {
		return want, err
	}
	want.weights, err = want.indexed(dir, names)
	return want, err
}

// commit returns the commit that a name refers to in the cache; "" if none.
func (c *Client) commit(n Name) (string, error) {
	if commitRE.MatchString(n.Revision) {
		return n.Revision, nil
	}
	path := filepath.Join(c.folder(n.Repo), "refs", filepath.FromSlash(n.revision()))
	b, err := readSmall(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	commit := strings.TrimSpace(string(b))
	if !commitRE.MatchString(commit) {
		return "", fmt.Errorf("%s: expected a commit of 40 hex digits, found %.60q", path, commit)
	}
	return commit, nil
}

// readSmall reads a file of at most maxListing bytes.
func readSmall(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxListing+1))
	if err == nil && len(b) > maxListing {
		err = fmt.Errorf("%s: longer than %d bytes", path, maxListing)
	}
	return b, err
}

// present lists the files of a snapshot that lead to contents, with slashes; none if there is no snapshot.
func present(dir string) ([]string, error) {
	var names []string
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || d.IsDir() || length(p) < 0 {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		names = append(names, filepath.ToSlash(rel))
		return err
	})
	return names, err
}

// List returns every complete, servable model of the cache, sorted by name.
func (c *Client) List() ([]Model, error) {
	repos, err := os.ReadDir(c.CacheDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("hub: %w", err)
	}
	var models []Model
	for _, r := range repos {
		name, ok := strings.CutPrefix(r.Name(), "models--")
		if !ok || !r.IsDir() {
			continue
		}
		n, err := ParseName("hf.co/" + strings.Replace(name, "--", "/", 1))
		if err != nil {
			continue
		}
		found, err := c.listRepo(n.Repo)
		if err != nil {
			return nil, fmt.Errorf("hub: %s: %w", n, err)
		}
		models = append(models, found...)
	}
	sort.SliceStable(models, func(i, j int) bool { return models[i].Name.String() < models[j].Name.String() })
	return models, nil
}

func (c *Client) listRepo(repo string) ([]Model, error) {
	refs, err := c.refs(repo)
	if err != nil {
		return nil, err
	}
	commits, err := os.ReadDir(filepath.Join(c.folder(repo), "snapshots"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var models []Model
	for _, d := range commits {
		if !commitRE.MatchString(d.Name()) {
			continue
		}
		revision := d.Name()
		for r, commit := range refs {
			if commit == d.Name() && (r == "main" || revision != "main" && (revision == commit || r < revision)) {
				revision = r
			}
		}
		if revision == "main" {
			revision = ""
		}
		dir := c.snapshot(repo, d.Name())
		names, err := present(dir)
		if err != nil {
			return nil, err
		}
		for _, w := range servable(dir, names) {
			m := Model{Name: Name{Repo: repo, Revision: revision, Tag: w.tag}, Commit: d.Name(), Format: w.format, Path: w.path(dir)}
			m.Files = append(append(m.Files, w.meta...), w.weights...)
			for _, f := range m.Files {
				if fi, err := os.Stat(filepath.Join(dir, filepath.FromSlash(f))); err == nil {
					m.Size += fi.Size()
					if fi.ModTime().After(m.Modified) {
						m.Modified = fi.ModTime()
					}
				}
			}
			models = append(models, m)
		}
	}
	return models, nil
}

// servable returns every complete choice among a snapshot's files.
func servable(dir string, names []string) []choice {
	var out []choice
	if w, err := local(dir, names, ""); err == nil && w.format != "gguf" {
		out = append(out, w)
	}
	groups, _ := ggufGroups(names)
	for _, g := range groups {
		if w, err := g.choice(); err == nil {
			out = append(out, w)
		}
	}
	return out
}

// refs returns the commit of each revision.
func (c *Client) refs(repo string) (map[string]string, error) {
	dir := filepath.Join(c.folder(repo), "refs")
	names, err := present(dir)
	refs := map[string]string{}
	for _, r := range names {
		if !revisionRE.MatchString(r) {
			continue
		}
		b, err := readSmall(filepath.Join(dir, filepath.FromSlash(r)))
		if err != nil {
			return nil, err
		}
		refs[r] = strings.TrimSpace(string(b))
	}
	return refs, err
}
