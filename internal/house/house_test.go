// Package house holds the tests that keep the house in order: which room imports which, that every room says what it is
// for, that files stay readable and that every dependency has its reason written down.
package house

import (
	"bufio"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	root   = "../.."
	module = "github.com/kvasir-llm/kvasir/"
)

// policy is what policy.txt says.
type policy struct {
	floor     map[string]int
	beside    map[string][]string
	forbidden map[string][]string
}

func readPolicy(t *testing.T) policy {
	t.Helper()
	f, err := os.Open("policy.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p := policy{map[string]int{}, map[string][]string{}, map[string][]string{}}
	for s := bufio.NewScanner(f); s.Scan(); {
		head, list, _ := strings.Cut(s.Text(), ":")
		words := strings.Fields(head)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if len(words) != 2 {
			t.Fatalf("policy.txt: %q", s.Text())
		}
		if words[0] == "not" {
			p.forbidden[words[1]] = strings.Fields(list)
			continue
		}
		floor, err := strconv.Atoi(words[0])
		if err != nil {
			t.Fatalf("policy.txt: %q: %v", s.Text(), err)
		}
		p.floor[words[1]], p.beside[words[1]] = floor, strings.Fields(list)
	}
	return p
}

// source is one Go file of the repository.
type source struct {
	name, room string // path and folder, from the root
	test       bool
	lines      int
	ast        *ast.File
}

func sources(t *testing.T) []source {
	t.Helper()
	var out []source
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && name != root) {
			return fs.SkipDir
		}
		if d.IsDir() || filepath.Ext(name) != ".go" {
			return nil
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, data, parser.ParseComments)
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, name)
		rel = filepath.ToSlash(rel)
		out = append(out, source{rel, path.Dir(rel), strings.HasSuffix(rel, "_test.go"), strings.Count(string(data), "\n"), file})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 30 {
		t.Fatalf("found only %d Go files below %s", len(out), root)
	}
	return out
}

func (s source) imports() []string {
	var out []string
	for _, i := range s.ast.Imports {
		p, _ := strconv.Unquote(i.Path.Value)
		out = append(out, p)
	}
	return out
}

func TestFloors(t *testing.T) {
	p := readPolicy(t)
	seen := map[string]bool{}
	for _, s := range sources(t) {
		if strings.HasPrefix(s.room, "internal/") || isTool(s) {
			continue
		}
		floor, ok := p.floor[s.room]
		seen[s.room] = true
		if !ok {
			t.Errorf("%s: room %s is not in policy.txt", s.name, s.room)
			continue
		}
		if s.test {
			continue // a test may look down from anywhere: imports of tests are bounded by Go's own ban on cycles
		}
		for _, imp := range s.imports() {
			room, ours := strings.CutPrefix(imp, module)
			below, known := p.floor[room]
			if ours && (!known || below >= floor && !slices.Contains(p.beside[s.room], room)) {
				t.Errorf("%s (floor %d) imports %s, which is not below it", s.name, floor, room)
			}
		}
	}
	for room := range p.floor {
		if !seen[room] {
			t.Errorf("policy.txt names room %s, which does not exist", room)
		}
	}
}

// isTool reports whether a file is a program for go generate, outside every package.
func isTool(s source) bool {
	for _, c := range s.ast.Comments {
		if c.Pos() < s.ast.Package && strings.Contains(c.Text()+c.List[0].Text, "go:build ignore") {
			return true
		}
	}
	return false
}

func TestPureRooms(t *testing.T) {
	p := readPolicy(t)
	for _, s := range sources(t) {
		forbidden := p.forbidden[s.room]
		if s.test || forbidden == nil {
			continue
		}
		for _, imp := range s.imports() {
			for _, f := range forbidden {
				if imp == f || strings.HasPrefix(imp, f+"/") {
					t.Errorf("%s imports %s", s.name, imp)
				}
			}
		}
		if slices.Contains(forbidden, "go") {
			ast.Inspect(s.ast, func(n ast.Node) bool {
				if _, ok := n.(*ast.GoStmt); ok {
					t.Errorf("%s starts a goroutine", s.name)
				}
				return true
			})
		}
	}
}

func TestPackageComments(t *testing.T) {
	comments := map[string][]string{}
	for _, s := range sources(t) {
		if isTool(s) {
			continue
		}
		if !s.test {
			comments[s.room] = append(comments[s.room], "")
		}
		if s.ast.Doc != nil && (!s.test || s.room == "internal/house") {
			comments[s.room] = append(comments[s.room], s.name)
			if text := s.ast.Doc.Text(); len(text) < 80 {
				t.Errorf("%s: the package comment %q says too little", s.name, text)
			}
		}
	}
	for room, files := range comments {
		files = slices.DeleteFunc(files, func(f string) bool { return f == "" })
		if len(files) != 1 {
			t.Errorf("package %s has %d package comments %v; want one", room, len(files), files)
		}
	}
}

func TestFileSizes(t *testing.T) {
	for _, s := range sources(t) {
		if s.lines > 600 && !ast.IsGenerated(s.ast) {
			t.Errorf("%s has %d lines; split it by concept, at most 600", s.name, s.lines)
		}
		if depth := strings.Count(s.room, "/"); depth > 1 {
			t.Errorf("%s lies %d folders deep; at most two", s.name, depth+1)
		}
	}
}

func TestDependenciesHaveReasons(t *testing.T) {
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile(filepath.Join(root, "docs", "dependencies.md"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mod)) {
		words := strings.Fields(line)
		if len(words) < 2 || !strings.Contains(words[0], "/") || strings.Contains(line, "// indirect") {
			continue
		}
		if !strings.Contains(string(doc), fmt.Sprintf("`%s`", words[0])) {
			t.Errorf("docs/dependencies.md gives no reason for %s", words[0])
		}
	}
}

var link = regexp.MustCompile(`\]\(([^)#]+)[^)]*\)`)

func TestLinks(t *testing.T) {
	pages, _ := filepath.Glob(filepath.Join(root, "*.md"))
	more, _ := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if pages = append(pages, more...); len(pages) < 8 {
		t.Fatalf("found only %d pages", len(pages))
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), m[1])); err != nil {
				t.Errorf("%s links to %s, which does not exist", filepath.Base(page), m[1])
			}
		}
	}
}
