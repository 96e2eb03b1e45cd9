package anthropic

import (
	"encoding/json"
	"strings"

	"github.com/kvasir-llm/kvasir/api/wire"
)

// Tool is a tool that the model may call and the client runs.
type Tool struct {
	Name        string
	Description string
	Schema      json.RawMessage // the JSON Schema of its input
	Strict      bool            // calls must match the schema
}

// ToolChoice says whether tools are called.
type ToolChoice struct {
	Mode   string // auto, any, tool or none; "" is auto
	Name   string // with the mode tool: the one that is called
	Single bool   // at most one call
}

// maxToolName is the most characters of a tool's name.
const maxToolName = 128

// tool reads the i-th tool.
func (r *Request) tool(c *wire.Cursor, i int) error {
	if i == maxTools {
		return c.Wrong("at most %d tools are allowed", maxTools)
	}
	var t Tool
	err := c.Object(func(key string) error { return r.toolField(c, &t, key) })
	switch {
	case err != nil:
		return err
	case t.Name == "":
		return wire.Missing(c.Path()+".name", "the name of a tool")
	case t.Schema == nil:
		return wire.Missing(c.Path()+".input_schema", "a JSON Schema")
	}
	for _, other := range r.Tools {
		if other.Name == t.Name {
			return wire.Invalid(c.Path()+".name", wire.CodeInvalidValue, "%q is given twice", wire.Clip([]byte(t.Name)))
		}
	}
	r.Tools = append(r.Tools, t)
	return nil
}

func (r *Request) toolField(c *wire.Cursor, t *Tool, key string) (err error) {
	switch key {
	case "type":
		kind := ""
		if kind, err = c.Text(); err == nil && kind != "custom" {
			err = wire.Invalid(c.Path(), wire.CodeUnsupported, "tools of type %q are not supported, only \"custom\"",
				wire.Clip([]byte(kind)))
		}
	case "name":
		t.Name, err = c.Label(maxToolName)
		if err == nil && !toolName(t.Name) {
			err = c.Wrong("expected letters, digits, '_', '-', '.', ':' and '/', found %q", wire.Clip([]byte(t.Name)))
		}
	case "description":
		t.Description, err = c.Text()
	case "input_schema":
		t.Schema, err = schema(c)
	case "strict":
		t.Strict, err = c.Bool()
	case "cache_control":
		err = r.cacheControl(c)
	case "eager_input_streaming": // inputs are always streamed as they come
		_, err = c.Bool()
	case "defer_loading":
		err = c.Inert("false")
	case "allowed_callers":
		err = c.Inert(`["direct"]`)
	default:
		err = c.Unsupported()
	}
	return err
}

func toolName(name string) bool {
	return name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.:/") == ""
}

// read reads {"type": "auto" | "any" | "tool" | "none", "name": …, "disable_parallel_tool_use": …}.
func (t *ToolChoice) read(c *wire.Cursor) error {
	err := c.Object(func(key string) (err error) {
		switch key {
		case "type":
			t.Mode, err = c.Text()
			switch t.Mode {
			case "auto", "any", "tool", "none":
			default:
				if err == nil {
					err = c.Wrong("expected auto, any, tool or none, found %q", wire.Clip([]byte(t.Mode)))
				}
			}
		case "name":
			t.Name, err = c.Label(maxToolName)
		case "disable_parallel_tool_use":
			t.Single, err = c.Bool()
		default:
			err = c.Unsupported()
		}
		return err
	})
	switch {
	case err != nil:
	case t.Mode == "":
		err = wire.Missing(c.Path()+".type", "auto, any, tool or none")
	case t.Mode == "tool" && t.Name == "":
		err = wire.Missing(c.Path()+".name", "the name of a tool")
	case t.Mode != "tool" && t.Name != "":
		err = wire.Invalid(c.Path()+".name", wire.CodeInvalidValue, "only allowed with the type tool")
	}
	return err
}
