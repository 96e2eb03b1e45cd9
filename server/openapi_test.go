package server

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestOpenAPI holds that all paths are described, by their methods.
func TestOpenAPI(t *testing.T) {
	s := build(t, Config{Models: []Served{served(newFake("fake"))}, RootPath: "/llm"})
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest("GET", "/openapi.json", nil))
	var out struct {
		OpenAPI string
		Servers []struct{ URL string }
		Paths   map[string]map[string]struct {
			Summary   string
			Responses map[string]any
			Security  []any
		}
	}
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil || w.Code != 200 || out.OpenAPI != "3.1.0" || out.Servers[0].URL != "/llm" {
		t.Fatalf("%d %v %s", w.Code, err, w.Body)
	}
	for path, r := range s.routes {
		if path == modelPath {
			path += "{model}"
		}
		if got := out.Paths[path][strings.ToLower(r.method)]; got.Summary != r.about || len(got.Responses) != 2 || len(got.Security) > 0 != (r.access != anyone) {
			t.Errorf("%s: %+v", path, got)
		}
	}
	if len(out.Paths) != len(s.routes) {
		t.Errorf("%d paths are described; there are %d", len(out.Paths), len(s.routes))
	}
}
