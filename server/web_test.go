package server

import (
	"net/http/httptest"
	"strings"
	"testing"
)

// TestRoot holds that / is the page for browsers, with and without a key, and the table of paths for programs with one.
func TestRoot(t *testing.T) {
	s := build(t, Config{Models: []Served{served(newFake("fake", "x"))}, Keys: []Key{{Secret: "secret"}}})
	const browser = "text/html,application/xhtml+xml,*/*;q=0.8"
	for _, c := range []struct {
		path, accept, key string
		status            int
		says              string
	}{
		{"/", browser, "", 200, "<!doctype html>"},
		{"/", browser, "secret", 200, "<!doctype html>"},
		{"/", "*/*", "secret", 200, "/v1/chat/completions"},
		{"/", "*/*", "", 401, "invalid_api_key"},
		{"/", "*/*", "wrong", 401, "invalid_api_key"},
		{"/web/app.js", "*/*", "", 200, "import"},
		{"/web/none.js", "*/*", "", 404, ""},
		{"/web", "*/*", "secret", 404, "unknown_url"},
	} {
		r, w := httptest.NewRequest("GET", c.path, nil), httptest.NewRecorder()
		r.Header.Set("Accept", c.accept)
		if c.key != "" {
			r.Header.Set("Authorization", "Bearer "+c.key)
		}
		s.ServeHTTP(w, r)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.says) {
			t.Errorf("%s, Accept %s, key %q: %d %.200s; want %d and %q", c.path, c.accept, c.key, w.Code, w.Body, c.status, c.says)
		}
		if c.path == "/" && !strings.Contains(strings.Join(w.Header().Values("Vary"), ","), "Accept") {
			t.Errorf("/, Accept %s: Vary is %q; want Accept", c.accept, w.Header().Values("Vary"))
		}
	}
	if w := postTo(s, "/"); w.Code != 405 {
		t.Errorf("POST /: %d; want 405", w.Code)
	}
}

// TestRootBelowPath holds that the page is at the root path with a slash at the end, since its own paths are relative.
func TestRootBelowPath(t *testing.T) {
	s := build(t, Config{Models: []Served{served(newFake("fake", "x"))}, RootPath: "/llm"})
	for _, c := range []struct {
		path   string
		status int
		to     string
	}{{"/llm", 308, "/llm/"}, {"/llm/", 200, ""}, {"/llm/web/app.js", 200, ""}, {"/", 200, ""}} {
		r, w := httptest.NewRequest("GET", c.path, nil), httptest.NewRecorder()
		r.Header.Set("Accept", "text/html")
		s.ServeHTTP(w, r)
		if w.Code != c.status || w.Header().Get("Location") != c.to {
			t.Errorf("%s: %d, Location %q; want %d, %q", c.path, w.Code, w.Header().Get("Location"), c.status, c.to)
		}
	}
}

func postTo(s *Server, path string) *httptest.ResponseRecorder {
	r, w := httptest.NewRequest("POST", path, strings.NewReader("{}")), httptest.NewRecorder()
	r.Header.Set("Accept", "text/html")
	s.ServeHTTP(w, r)
	return w
}
