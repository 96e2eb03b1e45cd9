// Package house tests the order of the house: allowed imports, package comments, the sizes of files, functions, comment
// lines and rooms, unused exports, reasons for dependencies, and links. Some rules tolerate present offenders, listed
// in text files beside the tests. After moving code or removing an offender, regenerate the lists with
//
//	go test ./internal/house -rewrite
//
// The lists may only shrink.
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
	"sync"
	"testing"
)

const (
	root   = "../.."
	module = "github.com/kvasir-llm/kvasir/"
)

// policy is what policy.txt says.
type policy struct {
	floor     map[string]int
	imports   map[string][]string // rooms that a room imports
	forbidden map[string][]string
	below     map[string]int // the floor from which on no room may import a room
}

func readPolicy(t *testing.T) policy {
	t.Helper()
	f, err := os.Open("policy.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p := policy{map[string]int{}, map[string][]string{}, map[string][]string{}, map[string]int{}}
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
		if words[0] == "below" {
			floor, err := strconv.Atoi(words[1])
			if err != nil {
				t.Fatalf("policy.txt: %q: %v", s.Text(), err)
			}
			for _, room := range strings.Fields(list) {
				p.below[room] = floor
			}
			continue
		}
		floor, err := strconv.Atoi(words[0])
		if err != nil {
			t.Fatalf("policy.txt: %q: %v", s.Text(), err)
		}
		p.floor[words[1]], p.imports[words[1]] = floor, strings.Fields(list)
	}
	return p
}

// source is one Go file of the repository.
type source struct {
	name, room string // path and folder, from the root
	test       bool   // or the emulator of a GPU, which only tests use
	text       string
	lines      int
	fset       *token.FileSet
	ast        *ast.File
}

// parsed reads every Go file once.
var parsed = sync.OnceValues(func() ([]source, error) {
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
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, data, parser.ParseComments)
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, name)
		rel = filepath.ToSlash(rel)
		out = append(out, source{
			name: rel, room: path.Dir(rel), test: strings.HasSuffix(rel, "_test.go") || builtWith(file, "emulate"),
			text: string(data), lines: strings.Count(string(data), "\n"), fset: fset, ast: file,
		})
		return nil
	})
	if err == nil && len(out) < 30 {
		err = fmt.Errorf("found only %d Go files below %s", len(out), root)
	}
	return out, err
})

// sources returns every Go file of the repository, in the order of their names.
func sources(t *testing.T) []source {
	t.Helper()
	all, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func (s source) imports() []string {
	var out []string
	for _, i := range s.ast.Imports {
		p, _ := strconv.Unquote(i.Path.Value)
		out = append(out, p)
	}
	return out
}

// TestFloors compares what rooms import with policy.txt. A test may look down from anywhere: its imports are bounded by
// Go's own ban on cycles.
func TestFloors(t *testing.T) {
	p := readPolicy(t)
	seen, imported := map[string]bool{}, map[string]map[string]bool{}
	for _, s := range sources(t) {
		if strings.HasPrefix(s.room, "internal/") || isTool(s) {
			continue
		}
		if seen[s.room] = true; s.test {
			continue
		}
		if _, ok := p.floor[s.room]; !ok {
			t.Errorf("%s: room %s is not in policy.txt", s.name, s.room)
			continue
		}
		if imported[s.room] == nil {
			imported[s.room] = map[string]bool{}
		}
		for _, imp := range s.imports() {
			if room, ours := strings.CutPrefix(imp, module); ours {
				imported[s.room][room] = true
				if !slices.Contains(p.imports[s.room], room) {
					t.Errorf("%s imports %s, which policy.txt does not allow", s.name, room)
				}
			}
		}
	}
	for room, floor := range p.floor {
		if !seen[room] {
			t.Errorf("policy.txt names room %s, which does not exist", room)
			continue
		}
		for _, to := range p.imports[room] {
			below, known := p.floor[to]
			most, hidden := p.below[to]
			switch {
			case !imported[room][to]:
				t.Errorf("policy.txt lets %s import %s, which it does not", room, to)
			case !known || below > floor:
				t.Errorf("policy.txt lets %s (floor %d) import %s, which is not below or beside it", room, floor, to)
			case hidden && floor >= most:
				t.Errorf("policy.txt lets %s (floor %d) import %s, which is hidden from floor %d on", room, floor, to, most)
			}
		}
	}
	for room := range p.below {
		if !seen[room] {
			t.Errorf("policy.txt hides room %s, which does not exist", room)
		}
	}
}

// isTool reports whether a file is a program for go generate, outside every package: in a folder that begins with an
// underscore, or left out of every build.
func isTool(s source) bool {
	return strings.HasPrefix(path.Base(s.room), "_") || builtWith(s.ast, "ignore")
}

// builtWith reports whether a file's build constraint is a tag.
func builtWith(file *ast.File, tag string) bool {
	for _, c := range file.Comments {
		if c.Pos() < file.Package && c.List[0].Text == "//go:build "+tag {
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
		if depth := strings.Count(s.room, "/"); depth > 1 && !isTool(s) {
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
	for _, page := range pages(t) {
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
