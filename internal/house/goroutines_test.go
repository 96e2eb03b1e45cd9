package house

import (
	"go/ast"
	"strings"
	"testing"
)

// TestGoroutines holds that the server and the program start goroutines with guard.Go only: a panic on any other ends
// the process.
func TestGoroutines(t *testing.T) {
	guarded := 0
	for _, s := range sources(t) {
		if s.test || s.room != "server" && !strings.HasPrefix(s.room, "cmd/") {
			continue
		}
		ast.Inspect(s.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				t.Errorf("%s starts a goroutine with a go statement; want guard.Go", s.name)
			case *ast.CallExpr:
				f, ok := n.Fun.(*ast.SelectorExpr)
				if !ok || f.Sel.Name != "Go" {
					break
				}
				if from, ok := f.X.(*ast.Ident); ok && from.Name == "guard" {
					guarded++
				} else {
					t.Errorf("%s starts a goroutine with a method Go; want guard.Go", s.name)
				}
			}
			return true
		})
	}
	if guarded == 0 {
		t.Error("no goroutine was found; is this test still looking in the right place?")
	}
}
