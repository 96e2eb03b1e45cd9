package house

import (
	"flag"
	"fmt"
	"go/ast"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// rewrite regenerates the lists beside this file from the code. The diff must show that they shrink, except for moved
// code.
var rewrite = flag.Bool("rewrite", false, "write columns.txt, functions.txt, rooms.txt and exports.txt anew")

const (
	maxColumns  = 120 // of comments and prose; a tab counts as 4
	maxFunction = 80  // lines
)

// readList reads a list beside this file: lines of a name and a number, 1 by default. Lines that begin with # are
// comments.
func readList(t *testing.T, file string) map[string]int {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]int{}
	for line := range strings.Lines(string(data)) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] == "#" {
			continue
		}
		n, err := 1, error(nil)
		if len(words) > 1 {
			n, err = strconv.Atoi(words[1])
		}
		if len(words) > 2 || err != nil {
			t.Fatalf("%s: %q; want a name and a number", file, line)
		}
		out[words[0]] = n
	}
	return out
}

// writeList writes a list and keeps its comments.
func writeList(t *testing.T, file string, list map[string]int) {
	t.Helper()
	old, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for line := range strings.Lines(string(old)) {
		if strings.HasPrefix(line, "#") {
			b.WriteString(line)
		}
	}
	b.WriteString("\n")
	for _, name := range slices.Sorted(maps.Keys(list)) {
		b.WriteString(name)
		if n := list[name]; n != 1 {
			fmt.Fprint(&b, " ", n)
		}
		b.WriteString("\n")
	}
	if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// within fails if something found is above its entry in the list, and for a strict list also if an entry is above what
// was found. With -rewrite it writes the list instead.
func within(t *testing.T, file string, strict bool, found map[string]int, what string) {
	t.Helper()
	if *rewrite {
		writeList(t, file, found)
		return
	}
	allowed := readList(t, file)
	for name, n := range found {
		if n > allowed[name] {
			t.Errorf("%s: %s: %d; %s allows %d", name, what, n, file, allowed[name])
		}
	}
	for name, n := range allowed {
		if strict && found[name] < n {
			t.Errorf("%s has %d for %s, which is better now: run go test ./internal/house -rewrite", file, n, name)
		}
	}
}

// columns returns the width of a line.
func columns(line string) int {
	line = strings.TrimRight(line, "\n")
	return utf8.RuneCountInString(line) + 3*strings.Count(line, "\t")
}

// TestColumns limits the width of comment and prose lines. Code, tables, examples and lines of a single word may be
// longer. The list is not strict, so that a room can improve without changing it.
func TestColumns(t *testing.T) {
	found := map[string]int{}
	for _, s := range sources(t) {
		n := 0
		for line := range strings.Lines(s.text) {
			if strings.HasPrefix(strings.TrimLeft(line, "\t"), "//") && !strings.HasPrefix(line, "//go:") && columns(line) > maxColumns {
				n++
			}
		}
		if n > 0 {
			found[s.room] += n
		}
	}
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		n, fenced := 0, false
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "```") {
				fenced = !fenced
			}
			prose := !fenced && !strings.HasPrefix(line, "|") && !strings.HasPrefix(line, "    ") && strings.Contains(line, " ")
			if prose && columns(line) > maxColumns {
				n++
			}
		}
		if n > 0 {
			name, _ := filepath.Rel(root, page)
			found[filepath.ToSlash(name)] = n
		}
	}
	within(t, "columns.txt", false, found, "comment or prose lines of more than 120 columns")
}

// TestFunctionLengths limits the lines of functions outside of tests.
func TestFunctionLengths(t *testing.T) {
	found := map[string]int{}
	for _, s := range sources(t) {
		if s.test || ast.IsGenerated(s.ast) {
			continue
		}
		for _, d := range s.ast.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Body == nil {
				continue
			}
			if n := s.fset.Position(f.End()).Line - s.fset.Position(f.Pos()).Line + 1; n > maxFunction {
				found[s.room+"."+receiver(f)+f.Name.Name] = n
			}
		}
	}
	within(t, "functions.txt", true, found, "lines of a function; at most 80")
}

// receiver returns the name of a method's type and a dot, "" for a function.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	typ := f.Recv.List[0].Type
	for {
		switch x := typ.(type) {
		case *ast.StarExpr:
			typ = x.X
		case *ast.IndexExpr:
			typ = x.X
		case *ast.Ident:
			return x.Name + "."
		default:
			return ""
		}
	}
}

// TestRoomSizes limits the lines of Go, assembly and CUDA of each room, without tests. Split a room that needs more, or
// raise its bound and give the reason in the commit.
func TestRoomSizes(t *testing.T) {
	sizes := map[string]int{}
	for _, s := range sources(t) {
		if !s.test && !isTool(s) && !ast.IsGenerated(s.ast) {
			sizes[s.room] += s.lines
		}
	}
	for room := range sizes {
		for _, pattern := range []string{"*.s", "*.h", "*.cu", "*.cuh"} {
			files, _ := filepath.Glob(filepath.Join(root, room, pattern))
			for _, file := range files {
				data, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				if !strings.HasPrefix(string(data), "// Code generated") {
					sizes[room] += strings.Count(string(data), "\n")
				}
			}
		}
	}
	bounds := readList(t, "rooms.txt")
	if *rewrite {
		for room, n := range sizes {
			if b := bounds[room]; n <= b && b <= n*3/2 {
				sizes[room] = b
			} else {
				sizes[room] = (n*5/4 + 99) / 100 * 100
			}
		}
		writeList(t, "rooms.txt", sizes)
		return
	}
	for room, n := range sizes {
		if bounds[room] == 0 {
			t.Errorf("rooms.txt has no bound for %s (%d lines): run go test ./internal/house -rewrite", room, n)
		} else if n > bounds[room] {
			t.Errorf("%s has %d lines of production code; rooms.txt allows %d", room, n, bounds[room])
		}
	}
	for room := range bounds {
		if _, ok := sizes[room]; !ok {
			t.Errorf("rooms.txt names room %s, which does not exist: run go test ./internal/house -rewrite", room)
		}
	}
}

// pages returns the documentation files that the rules of prose and links cover.
func pages(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "hub/builtin/*.md"} {
		found, _ := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
		out = append(out, found...)
	}
	if len(out) < 20 {
		t.Fatalf("found only %d pages", len(out))
	}
	return out
}
