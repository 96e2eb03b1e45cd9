package server

import (
	"encoding/json"
	"reflect"
	"strings"
	"time"

	"github.com/kvasir-llm/kvasir/api/openai"
)

// object is a JSON Schema, or another part of an OpenAPI description.
type object = map[string]any

// schemas makes JSON Schemas of Go types that are written as JSON.
type schemas struct {
	named map[string]any // the structs, by the names under which references find them
}

// ownSchemas are those of types that write themselves.
var ownSchemas = map[reflect.Type]object{
	reflect.TypeFor[time.Time]():       {"type": "string", "format": "date-time"},
	reflect.TypeFor[json.RawMessage](): {},
	reflect.TypeFor[openai.Logprob]():  {"type": "number"},
	reflect.TypeFor[openai.Bytes]():    {"type": "array", "items": object{"type": "integer"}},
	reflect.TypeFor[openai.Vector](): {"anyOf": []object{{"type": "array", "items": object{"type": "number"}},
		{"type": "string", "contentEncoding": "base64"}}},
	reflect.TypeFor[openai.Item](): {"type": "object", "required": []string{"type", "id", "status"},
		"properties": object{"type": object{"enum": []string{openai.ItemMessage, openai.ItemCall, openai.ItemOutput,
			openai.ItemReasoning}}, "id": object{"type": "string"}, "status": object{"type": "string"},
			"role": object{"type": "string"}, "content": object{"type": "array", "items": object{"type": "object"}},
			"summary": object{"type": "array"}, "encrypted_content": object{"type": "string"},
			"call_id": object{"type": "string"}, "name": object{"type": "string"}, "namespace": object{"type": "string"}, "arguments": object{"type": "string"},
			"output": object{"type": "string"}}},
}

// of returns the schema of a type. What encoding/json writes as null may be null.
func (s *schemas) of(t reflect.Type) object {
	if own, ok := ownSchemas[t]; ok {
		return own
	}
	switch t.Kind() {
	case reflect.Pointer:
		return object{"anyOf": []object{s.of(t.Elem()), {"type": "null"}}}
	case reflect.Slice:
		return object{"type": []string{"array", "null"}, "items": s.of(t.Elem())}
	case reflect.Map:
		return object{"type": []string{"object", "null"}, "additionalProperties": s.of(t.Elem())}
	case reflect.String:
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Float32, reflect.Float64:
		return object{"type": "number"}
	case reflect.Struct:
		return s.structure(t)
	case reflect.Interface:
		return object{}
	}
	return object{"type": "integer"}
}

// structure returns a reference to the schema of a struct that has a name, and else the schema itself.
func (s *schemas) structure(t reflect.Type) object {
	if t.Name() == "" {
		return s.members(t)
	}
	name := strings.NewReplacer("[", "_", "]", "", "/", "_", ".", "_").Replace(
		strings.ReplaceAll(t.String(), "github.com/kvasir-llm/kvasir/api/", ""))
	if s.named[name] == nil {
		s.named[name] = object{} // which ends recursion
		s.named[name] = s.members(t)
	}
	return object{"$ref": "#/components/schemas/" + name}
}

// members returns the schema of an object with the fields of a struct, those of embedded structs among them.
func (s *schemas) members(t reflect.Type) object {
	properties, required := object{}, []string{}
	for _, f := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || !f.IsExported() || name == "-" {
			continue
		}
		of := f.Type
		switch {
		case options != "omitempty":
			required = append(required, name)
		case of.Kind() == reflect.Pointer && f.Tag.Get("null") == "": // else it is there as null, too
			of = of.Elem()
		}
		properties[name] = s.of(of)
		if allowed := f.Tag.Get("enum"); allowed != "" {
			properties[name] = object{"enum": strings.Split(allowed, ",")}
		}
	}
	return object{"type": "object", "properties": properties, "required": required}
}
