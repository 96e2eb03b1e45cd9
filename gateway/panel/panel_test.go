package panel

import (
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

// TestFiles holds that the page comes with its policy, asks only for files that there are, and makes no HTML of text.
func TestFiles(t *testing.T) {
	get := func(path string) string {
		w := httptest.NewRecorder()
		Handler().ServeHTTP(w, httptest.NewRequest("GET", Prefix+path, nil))
		if w.Code != 200 || w.Header().Get("Content-Security-Policy") != policy {
			t.Errorf("%s: status %d, %v", path, w.Code, w.Header())
		}
		return w.Body.String()
	}
	page := get("")
	asks := regexp.MustCompile(`(?:src|href)="([^"]+)"`).FindAllStringSubmatch(page, -1)
	if len(asks) < 2 {
		t.Fatalf("the page asks for %v", asks)
	}
	for _, m := range asks {
		text := get(m[1])
		for _, bad := range []string{"innerHTML", "insertAdjacentHTML", "eval(", "http://", "https://", "@import"} {
			if strings.Contains(strings.ReplaceAll(text, "http://www.w3.org/2000/svg", ""), bad) {
				t.Errorf("%s has %s", m[1], bad)
			}
		}
	}
	w := httptest.NewRecorder()
	if Handler().ServeHTTP(w, httptest.NewRequest("GET", Prefix+"other.js", nil)); w.Code != 404 {
		t.Errorf("status %d of a file that is not there", w.Code)
	}
}
