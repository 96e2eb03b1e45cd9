package house

import (
	"go/ast"
	"go/token"
	"strconv"
	"strings"
	"testing"
)

// room is a package's exports and the names that other packages use of it.
type room struct {
	name    string
	exports map[string]ast.Node // declarations by name, methods as "Type.Method"
	used    map[string]bool
}

// standardMethods are methods that the standard library or another dependency calls through an interface.
var standardMethods = strings.Fields(`String Error Unwrap Is As Read Write Close Seek ReadAt WriteAt ReadFrom WriteTo
	ReadByte Len Less Swap Push Pop MarshalJSON UnmarshalJSON MarshalText UnmarshalText MarshalYAML ServeHTTP Flush Format GoString
	Describe Collect`)

// TestExports finds exports that no other room uses; a room's own tests do not count. It reads names, not types: a
// method counts as used if another room, tests included, selects that name of any value, or if an interface has a
// method of that name. A type counts as used if the declaration of something used names it. Fields are not checked.
func TestExports(t *testing.T) {
	rooms, methods := exports(t)
	for _, s := range sources(t) {
		names := imported(s, rooms)
		ast.Inspect(s.ast, func(n ast.Node) bool {
			x, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if id, ok := x.X.(*ast.Ident); ok && names[id.Name] != nil {
				names[id.Name].used[x.Sel.Name] = true
				return true
			}
			for _, r := range methods[x.Sel.Name] {
				if r.name != s.room {
					r.used["."+x.Sel.Name] = true
				}
			}
			return true
		})
	}
	unused := map[string]int{}
	for _, r := range rooms {
		r.spread()
		for name := range r.exports {
			if !r.isUsed(name) {
				unused[r.name+"."+name] = 1
			}
		}
	}
	if len(rooms) < 20 {
		t.Fatalf("found exports of %d rooms only", len(rooms))
	}
	within(t, "exports.txt", true, unused, "exported, but no other room uses it")
}

// exports returns the exports of every room, by its path, and the rooms that have a method of a name.
func exports(t *testing.T) (map[string]*room, map[string][]*room) {
	rooms, methods := map[string]*room{}, map[string][]*room{}
	called := map[string]bool{}
	for _, name := range standardMethods {
		called[name] = true
	}
	for _, s := range sources(t) {
		ast.Inspect(s.ast, func(n ast.Node) bool {
			if i, ok := n.(*ast.InterfaceType); ok {
				for _, m := range i.Methods.List {
					for _, name := range m.Names {
						called[name.Name] = true
					}
				}
			}
			return true
		})
	}
	for _, s := range sources(t) {
		if s.test || isTool(s) || s.ast.Name.Name == "main" || strings.HasPrefix(s.room, "internal/") {
			continue
		}
		r := rooms[s.room]
		if r == nil {
			r = &room{s.room, map[string]ast.Node{}, map[string]bool{}}
			rooms[s.room] = r
		}
		for _, d := range s.ast.Decls {
			r.declare(d)
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil && f.Name.IsExported() {
				methods[f.Name.Name] = append(methods[f.Name.Name], r)
				if called[f.Name.Name] {
					r.used["."+f.Name.Name] = true
				}
			}
		}
	}
	return rooms, methods
}

// declare adds the exports of a declaration.
func (r *room) declare(d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if of := receiver(d); d.Name.IsExported() && (of == "" || token.IsExported(of)) {
			r.exports[of+d.Name.Name] = d.Type
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				if spec.Name.IsExported() {
					r.exports[spec.Name.Name] = spec.Type
				}
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					if name.IsExported() {
						r.exports[name.Name] = spec.Type
					}
				}
			}
		}
	}
}

// spread marks as used the names in declarations of used exports, until it finds no more.
func (r *room) spread() {
	for more := true; more; {
		more = false
		for name, decl := range r.exports {
			if !r.isUsed(name) || decl == nil {
				continue
			}
			ast.Inspect(decl, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok && r.exports[id.Name] != nil && !r.used[id.Name] {
					r.used[id.Name], more = true, true
				}
				return true
			})
		}
	}
}

func (r *room) isUsed(name string) bool {
	if _, method, ok := strings.Cut(name, "."); ok {
		return r.used["."+method]
	}
	return r.used[name]
}

// imported returns the rooms that a file imports, by their local names.
func imported(s source, rooms map[string]*room) map[string]*room {
	out := map[string]*room{}
	for _, i := range s.ast.Imports {
		p, _ := strconv.Unquote(i.Path.Value)
		r := rooms[strings.TrimPrefix(p, module)]
		if r == nil || r.name == s.room {
			continue
		}
		name := r.name[strings.LastIndex(r.name, "/")+1:]
		if i.Name != nil {
			name = i.Name.Name
		}
		out[name] = r
	}
	return out
}
