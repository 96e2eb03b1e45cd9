package hub

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Name identifies a model of a hub.
type Name struct {
	Repo     string // "owner/name"; a few old repositories have no owner
	Revision string // branch, git tag or commit; empty for main
	Tag      string // quant tag (Q4_K_M) or file name of a GGUF file; empty for the default
}

var (
	segmentRE  = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_.-]{0,94}[A-Za-z0-9_])?$`)
	revisionRE = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.+=-]*(/[A-Za-z0-9_][A-Za-z0-9_.+=-]*)*$`)
	tagRE      = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,199}$`)
	commitRE   = regexp.MustCompile(`^[0-9a-f]{40}$`)
)

// ParseName reads owner/name, owner/name@revision, owner/name:TAG, owner/name@revision:TAG, each also behind
// hf.co/ or huggingface.co/ with or without https://. Only behind such a prefix may the owner be missing.
func ParseName(s string) (Name, error) {
	rest, hosted := strings.TrimPrefix(s, "https://"), false
	for _, host := range []string{"hf.co/", "huggingface.co/"} {
		if r, ok := strings.CutPrefix(rest, host); ok {
			rest, hosted = r, true
			break
		}
	}
	if !hosted && rest != s {
		return Name{}, fmt.Errorf("hub: name %q: an address must begin with https://huggingface.co/ or https://hf.co/", s)
	}
	var n Name
	tagged, revised := false, false
	rest, n.Tag, tagged = strings.Cut(rest, ":")
	n.Repo, n.Revision, revised = strings.Cut(rest, "@")
	parts := strings.Split(n.Repo, "/")
	if len(parts) != 2 && !(hosted && len(parts) == 1) {
		return Name{}, fmt.Errorf("hub: %q is no name of a hub's model: those are owner/name", s)
	}
	for _, p := range parts {
		if !segmentRE.MatchString(p) || strings.Contains(p, "--") || strings.Contains(p, "..") || strings.HasSuffix(p, ".git") {
			return Name{}, fmt.Errorf("hub: name %q: %q is no name of a hub (letters, digits, '-', '_', '.')", s, p)
		}
	}
	if revised && (!revisionRE.MatchString(n.Revision) || len(n.Revision) > 200 || strings.Contains(n.Revision, "..")) {
		return Name{}, fmt.Errorf("hub: name %q: %q is no revision", s, n.Revision)
	}
	if tagged && !tagRE.MatchString(n.Tag) {
		return Name{}, fmt.Errorf("hub: name %q: %q is no tag", s, n.Tag)
	}
	return n, nil
}

// String is the name as ParseName reads it.
func (n Name) String() string {
	s := n.Repo
	if !strings.Contains(s, "/") {
		s = "hf.co/" + s
	}
	if n.Revision != "" {
		s += "@" + n.Revision
	}
	if n.Tag != "" {
		s += ":" + n.Tag
	}
	return s
}

func (n Name) revision() string {
	if n.Revision == "" {
		return "main"
	}
	return n.Revision
}

// Target is what a command-line argument names: an existing file or folder (Path), or a model of a hub (Name).
type Target struct {
	Path string // empty for a hub name
	Dir  bool   // Path is a folder
	Name Name
}

// Resolve decides whether an argument is a path or a hub name. An existing file is a path; an argument that looks like
// a path and does not exist is an error. The caller must try the names of built-in models first.
func Resolve(s string) (Target, error) {
	if fi, err := os.Stat(s); err == nil {
		return Target{Path: s, Dir: fi.IsDir()}, nil
	} else if looksLikePath(s) {
		return Target{}, fmt.Errorf("hub: %w", err)
	}
	n, err := ParseName(s)
	if err != nil {
		return Target{}, fmt.Errorf("%w; and no file or folder has that name", err)
	}
	return Target{Name: n}, nil
}

func looksLikePath(s string) bool {
	return filepath.IsAbs(s) || strings.HasPrefix(s, ".") || strings.HasPrefix(s, "~") || strings.HasSuffix(s, "/") ||
		strings.Contains(s, `\`) || strings.HasSuffix(s, ".gguf") && !strings.Contains(s, ":")
}
