package house

import (
	"go/ast"
	"testing"
)

// TestGoroutines holds that all rooms start goroutines with guard: a panic on any other ends the process. Tests and
// programs for go generate may do as they like.
func TestGoroutines(t *testing.T) {
	guarded := 0
	for _, s := range sources(t) {
		if s.test || s.room == "guard" || isTool(s) {
			continue
		}
		ast.Inspect(s.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				t.Errorf("%s starts a goroutine with a go statement; want guard.Go", s.name)
			case *ast.CallExpr:
				f, ok := n.Fun.(*ast.SelectorExpr)
				if !ok {
					break
				}
				if from, ok := f.X.(*ast.Ident); ok && from.Name == "guard" {
					guarded++
				} else if f.Sel.Name == "Go" {
					t.Errorf("%s starts a goroutine with a method Go; want guard.Go or guard.Group", s.name)
				}
			case *ast.SelectorExpr: // also where it is only named, to be called later
				if n.Sel.Name == "AfterFunc" {
					t.Errorf("%s starts a goroutine with AfterFunc; want guard.After or guard.OnDone", s.name)
				}
			}
			return true
		})
	}
	if guarded == 0 {
		t.Error("no goroutine was found; is this test still looking in the right place?")
	}
}
