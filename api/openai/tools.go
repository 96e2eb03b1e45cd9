package openai

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/kvasir-llm/kvasir/api/wire"
)

// Tool is a function that the model may call.
type Tool struct {
	Name       string
	Parameters json.RawMessage // the JSON Schema of its arguments; nil if it takes any
	Strict     bool            // calls must match the schema
	JSON       json.RawMessage // {"type": "function", "function": {…}}, as it came but for strict
	Namespace  string          // of the Responses API: what Name begins with, before a dot
	Field      string          // where the schema is in the request
}

// MarshalJSON writes the tool as it came.
func (t Tool) MarshalJSON() ([]byte, error) {
	if t.Strict {
		return slices.Concat(t.JSON[:len(t.JSON)-2], []byte(`,"strict":true}}`)), nil
	}
	return t.JSON, nil
}

// ToolChoice says whether tools are called: on the wire "auto", "none", "required", or
// {"type": "function", "function": {"name": …}}.
type ToolChoice struct {
	Mode string // "" is auto
	Name string // of the function to call
}

// MarshalJSON writes the choice as it came.
func (t ToolChoice) MarshalJSON() ([]byte, error) {
	if t.Name == "" {
		return json.Marshal(t.Mode)
	}
	return json.Marshal(map[string]any{"type": "function", "function": map[string]string{"name": t.Name}})
}

// Limits of tools. A server may have lower ones.
const (
	MaxTools    = 1024    // of a request
	MaxToolName = 128     // characters of a name
	MaxSchema   = 1 << 20 // bytes of a schema, a regular expression or a grammar
)

// ToolFields are the parameters of chats that are about tools.
type ToolFields struct {
	Tools             []Tool      `json:"tools,omitempty"`
	ToolChoice        *ToolChoice `json:"tool_choice,omitempty"`
	ParallelToolCalls *bool       `json:"parallel_tool_calls,omitempty"` // default true
}

func (t *ToolFields) field(c *wire.Cursor, key string) (known bool, err error) {
	switch key {
	case "tools":
		t.Tools, err = tools(c)
	case "tool_choice":
		t.ToolChoice, err = toolChoice(c)
	case "parallel_tool_calls":
		t.ParallelToolCalls, err = wire.Optional(c.Bool())
	default:
		return false, nil
	}
	return true, err
}

// check finds what is wrong with the parameters together. name is where the name of the tool to call is.
func (t *ToolFields) check(name string) error {
	if t.ToolChoice == nil || t.ToolChoice.Mode == "auto" || t.ToolChoice.Mode == "none" {
		return nil
	}
	if len(t.Tools) == 0 {
		return wire.Invalid("tool_choice", wire.CodeInvalidValue, "only allowed with tools")
	}
	for _, tool := range t.Tools {
		if t.ToolChoice.Name == "" || tool.Name == t.ToolChoice.Name {
			return nil
		}
	}
	return wire.Invalid(name, wire.CodeInvalidValue, "tools has no function %q",
		wire.Clip([]byte(t.ToolChoice.Name)))
}

func tools(c *wire.Cursor) ([]Tool, error) {
	var list []Tool
	seen := map[string]bool{}
	err := c.Array("an array of tools", func(i int) error {
		if i == MaxTools {
			return c.Wrong("at most %d tools are allowed", MaxTools)
		}
		t, err := tool(c)
		if err != nil {
			return err
		}
		if seen[t.Name] {
			return wire.Invalid(c.Path()+".function.name", wire.CodeInvalidValue, "%q is given twice", wire.Clip([]byte(t.Name)))
		}
		seen[t.Name] = true
		list = append(list, t)
		return nil
	})
	return list, err
}

func tool(c *wire.Cursor) (t Tool, err error) {
	var kind string
	var function map[string]json.RawMessage
	var order []string
	err = c.Object(func(key string) (err error) {
		switch key {
		case "type":
			if kind, err = c.Text(); err == nil && kind != "function" {
				err = wire.Invalid(c.Path(), wire.CodeUnsupported, "tools of type %q are not supported, only \"function\"",
					wire.Clip([]byte(kind)))
			}
		case "function":
			function = map[string]json.RawMessage{}
			err = c.Object(func(key string) error {
				raw, err := t.field(c, key)
				if raw != nil {
					function[key] = raw
					order = append(order, key)
				}
				return err
			})
		default:
			err = c.Unsupported()
		}
		return err
	})
	switch {
	case err != nil:
		return t, err
	case kind == "":
		return t, wire.Missing(c.Path()+".type", `"function"`)
	case function == nil:
		return t, wire.Missing(c.Path()+".function", "an object")
	case t.Name == "":
		return t, wire.Missing(c.Path()+".function.name", "the name of a function")
	}
	t.Field = c.Path() + ".function.parameters"
	t.JSON = []byte(`{"type":"function","function":{`)
	for i, key := range order {
		if i > 0 {
			t.JSON = append(t.JSON, ',')
		}
		t.JSON = append(append(append(t.JSON, '"'), key...), `":`...)
		t.JSON = append(t.JSON, function[key]...)
	}
	t.JSON = append(t.JSON, "}}"...)
	return t, nil
}

// field reads a member of a function and returns its text, nil if templates need not know it.
func (t *Tool) field(c *wire.Cursor, key string) (json.RawMessage, error) {
	switch key {
	case "name":
		err := toolLabel(c, &t.Name)
		return wire.AppendString(nil, t.Name), err
	case "description":
		text, err := c.Text()
		return wire.AppendString(nil, text), err
	case "parameters":
		raw, err := schema(c)
		t.Parameters = raw
		return raw, err
	case "strict":
		var err error
		t.Strict, err = c.Bool()
		return nil, err
	}
	return nil, c.Unsupported()
}

// toolLabel reads a name.
func toolLabel(c *wire.Cursor, name *string) (err error) {
	if *name, err = c.Label(MaxToolName); err == nil && !toolName(*name) {
		err = c.Wrong("expected letters, digits, '_', '-', '.', ':' and '/', found %q", wire.Clip([]byte(*name)))
	}
	return err
}

func toolName(name string) bool {
	return name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.:/") == ""
}

// schema reads a JSON Schema that is an object.
func schema(c *wire.Cursor) (json.RawMessage, error) {
	if c.Peek() != '{' {
		return nil, c.Mismatch("a JSON Schema, which is an object")
	}
	raw, err := c.Raw()
	if err == nil && len(raw) > MaxSchema {
		err = c.Wrong("has %d bytes; at most %d are allowed", len(raw), MaxSchema)
	}
	return bytes.Clone(raw), err
}

func toolChoice(c *wire.Cursor) (*ToolChoice, error) {
	const expected = `"auto", "none", "required" or {"type": "function", "function": {"name": …}}`
	if c.Peek() == '"' {
		mode, err := c.Text()
		if err == nil && mode != "auto" && mode != "none" && mode != "required" {
			err = c.Wrong("expected %s, found %q", expected, wire.Clip([]byte(mode)))
		}
		return &ToolChoice{Mode: mode}, err
	}
	if c.Peek() != '{' {
		return nil, c.Mismatch(expected)
	}
	t := &ToolChoice{Mode: "function"}
	err := c.Object(func(key string) error {
		switch key {
		case "type":
			kind, err := c.Text()
			if err == nil && kind != "function" {
				err = wire.Invalid(c.Path(), wire.CodeUnsupported, "%q is not supported, only \"function\"", wire.Clip([]byte(kind)))
			}
			return err
		case "function":
			return c.Object(func(key string) (err error) {
				if key != "name" {
					return c.Unsupported()
				}
				t.Name, err = c.Text()
				return err
			})
		}
		return c.Unsupported()
	})
	if err == nil && t.Name == "" {
		err = wire.Missing(c.Path()+".function.name", "the name of a function")
	}
	return t, err
}
