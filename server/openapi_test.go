package server

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
)

// operation is what tests read of an OpenAPI description.
type operation struct {
	Summary     string
	Security    []any
	RequestBody struct {
		Content map[string]struct{ Schema map[string]any }
	}
	Responses map[string]struct {
		Content map[string]struct{ Schema map[string]any }
	}
}

type description struct {
	OpenAPI    string
	Servers    []struct{ URL string }
	Paths      map[string]map[string]operation
	Components struct{ Schemas map[string]any }
}

func readDescription(t *testing.T, s *Server) (d description) {
	t.Helper()
	text, err := json.Marshal(s.describePaths())
	if err == nil {
		err = json.Unmarshal([]byte(strings.ReplaceAll(string(text), "#/components/schemas/", "#/$defs/")), &d)
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// described is the server that was described last.
var described struct {
	of *Server
	as description
}

// find returns the description of a route.
func (d *description) find(key, method string) operation {
	path := strings.TrimPrefix(key, method+" ")
	if path == modelPath {
		path += "{id}"
	}
	return d.Paths[path][strings.ToLower(method)]
}

// TestOpenAPI holds that all routes are described, with their methods, bodies and answers.
func TestOpenAPI(t *testing.T) {
	s := build(t, Config{Models: []Served{served(newFake("fake"))}, RootPath: "/llm"})
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest("GET", "/openapi.json", nil))
	d := readDescription(t, s)
	if w.Code != 200 || !json.Valid(w.Body.Bytes()) || d.OpenAPI != "3.1.0" || d.Servers[0].URL != "/llm" {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	other := map[string]bool{"/": true, "/web/": true, "/docs": true, "/metrics": true, "/invocations": true, "/openapi.json": true, // not JSON of a type
		"/kv/events/snapshot": true, transfersPath: true, "/v1/files/{id}/content": true, "/v1/load_lora_adapter": true, "/v1/unload_lora_adapter": true,
		blobPath: true, "HEAD " + blobPath: true}
	n := 0
	for key, r := range s.routes {
		op := d.find(key, r.method)
		if op.Summary != r.about || len(op.Security) > 0 != (r.access != anyone) {
			t.Errorf("%s: %+v", key, op)
		}
		if (len(op.Responses["200"].Content) == 0) != other[key] {
			t.Errorf("%s: the answer is described as %v", key, op.Responses["200"])
		}
		if want := requestDecoders[key] != nil || key == filesPath || key == blobPath; want != (len(op.RequestBody.Content) > 0) {
			t.Errorf("%s: the body is described: %t, want %t", key, !want, want)
		}
	}
	for _, methods := range d.Paths {
		n += len(methods)
	}
	if n != len(s.routes) {
		t.Errorf("%d routes are described; there are %d", n, len(s.routes))
	}
}

// checkDescribed holds that an answer is as its route is described, member by member.
func checkDescribed(t *testing.T, s *Server, r *http.Request, w *httptest.ResponseRecorder) {
	t.Helper()
	found, ok := s.find(r)
	if _, second := s.twin(r); !ok || second || w.Code == 204 {
		return
	}
	key := canonical(r.URL.Path)
	if _, ok := s.routes[r.Method+" "+key]; ok {
		key = r.Method + " " + key
	}
	if described.of != s {
		described.of, described.as = s, readDescription(t, s)
	}
	d := &described.as
	op := d.find(key, found.method)
	status := "200"
	if w.Code >= 400 && w.Code != 503 { // which /health describes itself with
		status = "default"
	}
	kind, _, _ := strings.Cut(w.Header().Get("Content-Type"), ";")
	shape := op.Responses[status].Content[kind].Schema
	if shape == nil {
		if kind == "application/json" && key != "/openapi.json" && key != "/invocations" && w.Code != 503 {
			t.Errorf("%s %s: %d %s is not described", r.Method, r.URL.Path, w.Code, kind)
		}
		return
	}
	if w.Code == 503 && op.RequestBody.Content != nil {
		shape = op.Responses["default"].Content[kind].Schema
	}
	check := resolve(t, d.Components.Schemas, shape)
	for _, text := range values(kind, w.Body.String()) {
		var v any
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Errorf("%s: %v: %s", r.URL.Path, err, text)
		} else if err := check.Validate(v); err != nil {
			t.Errorf("%s %s answers with what is not described: %v\n%s", r.Method, r.URL.Path, err, text)
		}
	}
}

// values returns the JSON values of an answer.
func values(kind, body string) (list []string) {
	switch kind {
	case "application/json":
		return []string{body}
	case "application/x-ndjson":
		return strings.Split(strings.TrimSpace(body), "\n")
	}
	for line := range strings.Lines(body) {
		if data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: "); ok && data != "[DONE]" {
			list = append(list, data)
		}
	}
	return list
}

// resolve makes a validator of a schema that has no room for members that it does not name.
func resolve(t *testing.T, named map[string]any, shape map[string]any) *jsonschema.Resolved {
	t.Helper()
	root := map[string]any{"$defs": named, "allOf": []any{shape}}
	closed(root)
	text, err := json.Marshal(root)
	var schema jsonschema.Schema
	if err == nil {
		err = json.Unmarshal(text, &schema)
	}
	if err != nil {
		t.Fatal(err)
	}
	out, err := schema.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// closed forbids members without a name in all objects that have some.
func closed(v any) {
	switch v := v.(type) {
	case map[string]any:
		if v["properties"] != nil && v["type"] == "object" && v["additionalProperties"] == nil {
			v["additionalProperties"] = false
		}
		for _, x := range v {
			closed(x)
		}
	case []any:
		for _, x := range v {
			closed(x)
		}
	}
}
