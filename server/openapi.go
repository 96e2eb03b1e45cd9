package server

import (
	_ "embed"
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/kvasir-llm/kvasir/api/openai"
)

// reply is what a path answers, as values of the types that are written: whole, and, if it has a stream, each event or
// line of that. Neither is needed for answers that are not JSON.
type reply struct{ whole, event any }

// requestSchemas has a JSON Schema for the body of each POST, under its path. A test makes it of what the decoders
// accept: go test ./server -run TestRequestSchemas -rewrite.
//
//go:embed requests.json
var requestSchemas []byte

// ownReplies are what the paths of no API answer.
var ownReplies = map[string]reply{
	"/health": {whole: healthReport{}}, "/ping": {whole: healthReport{}}, "/load": {whole: serverLoad{}},
	"/version": {whole: versionReport{}}, "/models": {whole: processList{}}, "/models/load": {whole: success{}},
	"/models/unload": {whole: success{}}, "/reset_prefix_cache": {whole: forgotten{}}, "/kv/blocks": {whole: blockList{}},
	"/is_sleeping": {whole: sleepReport{}}, "/sleep": {whole: sleepReport{}}, "/wake_up": {whole: sleepReport{}}, "/kv/pin": {whole: openai.PinResponse{}}, "/kv/unpin": {whole: openai.PinResponse{}},
}

// openapi answers with an OpenAPI description of the paths.
func (s *Server) openapi(w http.ResponseWriter, _ *http.Request) {
	s.write(w, http.StatusOK, s.describePaths())
}

// describePaths returns an OpenAPI description: of each path its methods, the bodies of requests and answers, and
// whether it needs a key.
func (s *Server) describePaths() object {
	var bodies map[string]json.RawMessage
	if err := json.Unmarshal(requestSchemas, &bodies); err != nil { // the file is part of the binary
		panic(err)
	}
	types, paths := &schemas{named: map[string]any{}}, object{}
	for _, key := range slices.Sorted(maps.Keys(s.routes)) {
		r := s.routes[key]
		path := strings.TrimPrefix(key, r.method+" ")
		operation := s.operation(types, key, path, r, bodies)
		if path == modelPath {
			path += "{id}"
		}
		if paths[path] == nil {
			paths[path] = object{}
		}
		paths[path].(object)[strings.ToLower(r.method)] = operation
	}
	out := object{"openapi": "3.1.0", "info": object{"title": "kvasir", "version": s.cfg.Version}, "paths": paths,
		"components": object{"schemas": types.named,
			"securitySchemes": object{"bearer": object{"type": "http", "scheme": "bearer"}}}}
	if s.cfg.RootPath != "" {
		out["servers"] = []object{{"url": s.cfg.RootPath}}
	}
	return out
}

// operation describes a route.
func (s *Server) operation(types *schemas, key, path string, r route, bodies map[string]json.RawMessage) object {
	replies, api, kind := ownReplies, s.fallback, "kvasir"
	if own := s.apis[path]; own != nil {
		replies, api, kind = own.replies, own, own.title
	}
	out := object{"summary": r.about, "tags": []string{kind}, "responses": object{
		"200": object{"description": "the answer", "content": content(types, replies[key], api)},
		"default": object{"description": "an error", "content": object{
			"application/json": object{"schema": types.failure(api)}}}}}
	switch {
	case path == filesPath && r.method == http.MethodPost:
		out["requestBody"] = object{"required": true, "content": object{"multipart/form-data": object{"schema": uploadSchema}}}
	case path == blobPath && r.method == http.MethodPost:
		out["requestBody"] = object{"required": true, "content": object{"application/octet-stream": object{}}}
	case bodies[key] != nil:
		out["requestBody"] = object{"required": true, "content": object{"application/json": object{"schema": bodies[key]}}}
	}
	if r.access != anyone {
		out["security"] = []object{{"bearer": []string{}}}
	}
	if path == blobPath {
		out["parameters"] = []object{{"name": "digest", "in": "path", "required": true, "schema": object{"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"}}}
	}
	if strings.Contains(path, "{id}") || path == modelPath {
		out["parameters"] = []object{{"name": "id", "in": "path", "required": true, "schema": object{"type": "string"}}}
	}
	return out
}

// failure describes the answers of an API that are errors.
func (s *schemas) failure(api *dialect) object {
	t := reflect.TypeOf(api.fail(&failure{}))
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return s.of(t)
}

// content describes an answer in each of its types.
func content(types *schemas, r reply, api *dialect) object {
	out := object{}
	if r.whole != nil {
		out["application/json"] = object{"schema": types.of(reflect.TypeOf(r.whole))}
	}
	if r.event != nil {
		kind, _, _ := strings.Cut(api.streamType, ";")
		out[kind] = object{"schema": object{"description": "the data of each event, or each line",
			"anyOf": []object{types.of(reflect.TypeOf(r.event)), types.failure(api)}}}
	}
	return out
}

// uploadSchema is the form of an upload.
var uploadSchema = object{"type": "object", "required": []string{"file", "purpose"}, "properties": object{
	"file": object{"type": "string", "contentMediaType": "application/octet-stream"}, "purpose": object{"type": "string"},
	"expires_after[anchor]": object{"const": "created_at"}, "expires_after[seconds]": object{"type": "integer"}}}
