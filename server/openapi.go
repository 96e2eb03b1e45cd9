package server

import (
	"net/http"
	"strings"
)

// openapi answers with an OpenAPI description of the paths: what each is for, its method, and whether it needs a key.
// The members of bodies are those of the APIs' own descriptions.
func (s *Server) openapi(w http.ResponseWriter, _ *http.Request) {
	type object = map[string]any
	json := object{"application/json": object{"schema": object{"type": "object"}}}
	paths := object{}
	for path, r := range s.routes {
		operation := object{"summary": r.about, "responses": object{
			"200":     object{"description": "the answer"},
			"default": object{"description": "an error, in the words of the API", "content": json}}}
		if r.method == http.MethodPost {
			operation["requestBody"] = object{"content": json}
		}
		if r.access != anyone {
			operation["security"] = []object{{"bearer": []string{}}}
		}
		if path == modelPath {
			path += "{model}"
			operation["parameters"] = []object{{"name": "model", "in": "path", "required": true,
				"schema": object{"type": "string"}}}
		}
		paths[path] = object{strings.ToLower(r.method): operation}
	}
	out := object{"openapi": "3.1.0", "info": object{"title": "kvasir", "version": s.cfg.Version}, "paths": paths,
		"components": object{"securitySchemes": object{"bearer": object{"type": "http", "scheme": "bearer"}}}}
	if s.cfg.RootPath != "" {
		out["servers"] = []object{{"url": s.cfg.RootPath}}
	}
	s.write(w, http.StatusOK, out)
}
