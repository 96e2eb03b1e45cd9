package openai

import (
	"encoding/json"

	"github.com/kvasir-llm/kvasir/api/wire"
)

// Structure says what form an answer must have. Exactly one of the fields up to Tags is set. On the wire it is OpenAI's
// response_format, vLLM's structured_outputs or guided_…, or llama.cpp's grammar or json_schema.
type Structure struct {
	Schema  json.RawMessage // a JSON Schema
	JSON    bool            // any JSON object
	Regex   string
	Choice  []string
	Grammar string // GBNF or EBNF
	Tags    []StructuralTag

	Triggers []string // of Tags
	Path     string   // of it in the request
}

// StructuralTag is a part of an answer that begins with Begin, goes on as a schema says, and ends with End.
type StructuralTag struct {
	Begin, End string
	Schema     json.RawMessage
}

const maxChoices = 1024 // texts of a choice, and structural tags

// structure reads a member that gives an answer a form. Two of them are an error.
func (r *Common) structure(c *wire.Cursor, key string) (known bool, err error) {
	var s *Structure
	switch key {
	case "response_format":
		s, err = responseFormat(c)
	case "structured_outputs":
		s, err = structuredOutputs(c)
	case "guided_json", "json_schema":
		s = &Structure{Path: c.Path()}
		s.Schema, err = schemaOrText(c)
	case "guided_regex":
		s, err = textual(c, func(s *Structure, text string) { s.Regex = text })
	case "guided_grammar", "grammar":
		s, err = textual(c, func(s *Structure, text string) { s.Grammar = text })
	case "guided_choice":
		s = &Structure{Path: c.Path()}
		s.Choice, err = choices(c)
	default:
		return false, nil
	}
	if err == nil && s != nil && r.Structure != nil {
		err = c.Wrong("excludes %s, which is given too", r.Structure.Path)
	}
	if s != nil {
		r.Structure = s
	}
	return true, err
}

// textual reads a text that is not empty.
func textual(c *wire.Cursor, put func(*Structure, string)) (*Structure, error) {
	text, err := c.Text()
	switch {
	case err != nil:
	case text == "":
		err = c.Wrong("is empty")
	case len(text) > MaxSchema:
		err = c.Wrong("has %d bytes; at most %d are allowed", len(text), MaxSchema)
	}
	s := &Structure{Path: c.Path()}
	put(s, text)
	return s, err
}

// schemaOrText reads a schema, or the text of one, as vLLM takes it.
func schemaOrText(c *wire.Cursor) (json.RawMessage, error) {
	if c.Peek() != '"' {
		return schema(c)
	}
	text, err := c.Text()
	switch {
	case err != nil:
	case len(text) > MaxSchema:
		err = c.Wrong("has %d bytes; at most %d are allowed", len(text), MaxSchema)
	case !json.Valid([]byte(text)):
		err = c.Wrong("expected the text of a JSON Schema, found no JSON")
	}
	return json.RawMessage(text), err
}

func choices(c *wire.Cursor) (list []string, err error) {
	err = c.Array("an array of strings", func(i int) error {
		if i == maxChoices {
			return c.Wrong("at most %d strings are allowed", maxChoices)
		}
		s, err := c.Text()
		if err == nil && s == "" {
			err = c.Wrong("expected a string that is not empty")
		}
		list = append(list, s)
		return err
	})
	if err == nil && len(list) == 0 {
		err = c.Wrong("expected at least one string")
	}
	return list, err
}

// responseFormat reads {"type": "text" | "json_object" | "json_schema" | "structural_tag", …}; text is nil.
func responseFormat(c *wire.Cursor) (*Structure, error) {
	s := &Structure{Path: c.Path()}
	path, kind := c.Path(), ""
	var members []string
	err := c.Object(func(key string) (err error) {
		if key != "type" {
			members = append(members, key)
		}
		switch key {
		case "type":
			if kind, err = c.Text(); err == nil {
				switch kind {
				case "text", "json_object", "json_schema", "structural_tag":
				default:
					err = wire.Invalid(c.Path(), wire.CodeUnsupported,
						"expected text, json_object, json_schema or structural_tag, found %q", wire.Clip([]byte(kind)))
				}
			}
		case "json_schema":
			err = jsonSchema(c, s)
		case "schema": // llama.cpp's, of a json_object
			s.Path = c.Path()
			s.Schema, err = schema(c)
		case "structures":
			s.Tags, err = structuralTags(c)
		case "triggers":
			s.Triggers, err = choices(c)
		default:
			err = c.Unsupported()
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	wants := map[string]string{"json_schema": "json_schema", "structures": "structural_tag", "triggers": "structural_tag",
		"schema": "json_object"}
	for _, key := range members {
		if wants[key] != kind {
			return nil, wire.Invalid(path+"."+key, wire.CodeInvalidValue, "only allowed with type %s", wants[key])
		}
	}
	switch {
	case kind == "":
		return nil, wire.Missing(path+".type", "text, json_object, json_schema or structural_tag")
	case kind == "text":
		return nil, nil
	case kind == "json_schema" && s.Schema == nil:
		return nil, wire.Missing(path+".json_schema.schema", "a JSON Schema")
	case kind == "structural_tag" && (s.Tags == nil || s.Triggers == nil):
		return nil, wire.Missing(path+".structures", "structures and triggers")
	}
	s.JSON = kind == "json_object" && s.Schema == nil
	return s, nil
}

// jsonSchema reads {"name": …, "schema": {…}, "strict": …}. The schema is kept whether strict is set or not.
func jsonSchema(c *wire.Cursor, s *Structure) error {
	name := ""
	err := c.Object(func(key string) (err error) {
		switch key {
		case "name":
			name, err = c.Label(MaxLabel)
		case "description":
			_, err = c.Text()
		case "schema":
			s.Path = c.Path()
			s.Schema, err = schema(c)
		case "strict":
			_, err = c.Bool()
		default:
			err = c.Unsupported()
		}
		return err
	})
	if err == nil && name == "" {
		err = wire.Missing(c.Path()+".name", "a name")
	}
	return err
}

// structuralTags reads [{"begin": …, "schema": {…}, "end": …}].
func structuralTags(c *wire.Cursor) (list []StructuralTag, err error) {
	err = c.Array("an array of structural tags", func(i int) error {
		if i == maxChoices {
			return c.Wrong("at most %d structural tags are allowed", maxChoices)
		}
		var t StructuralTag
		err := c.Object(func(key string) (err error) {
			switch key {
			case "begin":
				t.Begin, err = c.Text()
			case "end":
				t.End, err = c.Text()
			case "schema":
				t.Schema, err = schemaOrText(c)
			default:
				err = c.Unsupported()
			}
			return err
		})
		switch {
		case err != nil:
		case t.Begin == "":
			err = wire.Missing(c.Path()+".begin", "a string")
		case t.Schema == nil:
			err = wire.Missing(c.Path()+".schema", "a JSON Schema")
		}
		list = append(list, t)
		return err
	})
	return list, err
}

// structuredOutputs reads vLLM's {"json" | "regex" | "choice" | "grammar" | "json_object": …}; an empty one is nil.
func structuredOutputs(c *wire.Cursor) (*Structure, error) {
	var s *Structure
	err := c.Object(func(key string) (err error) {
		if s != nil && key != "disable_any_whitespace" && key != "disable_additional_properties" {
			return c.Wrong("excludes %s, which is given too", s.Path)
		}
		switch key {
		case "json":
			s = &Structure{Path: c.Path()}
			s.Schema, err = schemaOrText(c)
		case "regex":
			s, err = textual(c, func(s *Structure, text string) { s.Regex = text })
		case "grammar":
			s, err = textual(c, func(s *Structure, text string) { s.Grammar = text })
		case "choice":
			s = &Structure{Path: c.Path()}
			s.Choice, err = choices(c)
		case "json_object":
			on := false
			if on, err = c.Bool(); on {
				s = &Structure{Path: c.Path(), JSON: true}
			}
		case "disable_any_whitespace", "disable_additional_properties":
			err = c.Inert("false")
		default:
			err = c.Unsupported()
		}
		return err
	})
	return s, err
}
