package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/kvasir-llm/kvasir/api/wire"
)

// ResponseRequest asks for a response: the Responses API.
type ResponseRequest struct {
	Model              string
	Input              []Item
	Instructions       string // a system message in front, of this response only
	PreviousResponseID string // whose input and output come before Input
	Store              bool   // keep the response; the default
	Stream             bool
	Background         bool
	MaxOutputTokens    *int
	MaxToolCalls       *int // of tools that the server runs, of which there are none
	TopLogprobs        *int
	Logprobs           bool // include has message.output_text.logprobs
	Sealed             bool // include has reasoning.encrypted_content
	Tools              ToolFields
	ToolsJSON          []json.RawMessage // as they came, for the answer
	ToolChoiceJSON     json.RawMessage   // as it came; nil is "auto"
	Structure          *Structure
	Format             json.RawMessage // of text, as it came; nil is {"type": "text"}
	Effort             string          // of reasoning
	Metadata           map[string]string
	User               string
	SafetyIdentifier   string
	PromptCacheKey     string
	Ignored            []string // paths of members that say nothing here
}

// DecodeResponse reads the body of a request for a response. Whatever neither it nor extra understands is refused with
// a *wire.Error that names it.
func DecodeResponse(body []byte, extra Extra) (*ResponseRequest, error) {
	r, input := &ResponseRequest{Store: true}, false
	err := wire.Decode(body, func(c *wire.Cursor, key string) (err error) {
		switch key {
		case "input":
			input = true
			r.Input, err = items(c)
		case "model":
			r.Model, err = c.Label(MaxLabel)
		case "instructions":
			r.Instructions, err = c.Text()
		case "previous_response_id":
			r.PreviousResponseID, err = c.Label(MaxLabel)
		case "store":
			r.Store, err = c.Bool()
		case "stream":
			r.Stream, err = c.Bool()
		case "background":
			r.Background, err = c.Bool()
		case "max_output_tokens":
			r.MaxOutputTokens, err = wire.Optional(c.IntIn(1, maxInt32))
		case "max_tool_calls":
			r.MaxToolCalls, err = wire.Optional(c.IntIn(1, maxInt32))
		case "top_logprobs":
			r.TopLogprobs, err = wire.Optional(c.IntIn(0, MaxLogprobs))
		default:
			err = r.rest(c, key, extra)
		}
		r.Ignored = c.Ignored()
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case !input && r.PreviousResponseID == "":
		return nil, wire.Missing("input", "a string or an array of items")
	case r.Background && !r.Store:
		return nil, wire.Invalid("background", wire.CodeInvalidValue, "needs store to be true")
	}
	return r, r.Tools.check("tool_choice.name")
}

// rest reads the members that are about the form of the answer, and those that are only noted.
func (r *ResponseRequest) rest(c *wire.Cursor, key string, extra Extra) (err error) {
	switch key {
	case "include":
		err = r.include(c)
	case "tools":
		err = r.tools(c)
	case "tool_choice":
		err = r.toolChoice(c)
	case "parallel_tool_calls":
		r.Tools.ParallelToolCalls, err = wire.Optional(c.Bool())
	case "text":
		err = c.Object(func(key string) error { return r.text(c, key) })
	case "reasoning":
		err = c.Object(func(key string) error { return r.reasoning(c, key) })
	case "metadata":
		r.Metadata, err = metadata(c)
	case "user":
		r.User, err = c.Label(MaxLabel)
	case "safety_identifier":
		r.SafetyIdentifier, err = c.Label(MaxLabel)
	case "prompt_cache_key":
		r.PromptCacheKey, err = c.Label(MaxLabel)
	case "client_metadata":
		err = c.Ignore()
	case "truncation":
		err = c.Inert(`"disabled"`)
	case "stream_options":
		err = c.Object(func(key string) error {
			if key == "include_obfuscation" {
				return c.Inert("false")
			}
			return c.Unsupported()
		})
	case "service_tier", "prompt_cache_retention":
		err = c.Inert(asksNothing[key]...)
	default:
		if extra != nil {
			if known, err := extra(c, key); known || err != nil {
				return err
			}
		}
		err = c.Unsupported()
	}
	return err
}

// include reads what an answer is to have beside what it always has.
func (r *ResponseRequest) include(c *wire.Cursor) error {
	return c.Array("an array of names", func(int) error {
		name, err := c.Text()
		switch {
		case err != nil:
			return err
		case name == "message.output_text.logprobs":
			r.Logprobs = true
		case name == "reasoning.encrypted_content":
			r.Sealed = true
		default:
			return wire.Invalid(c.Path(), wire.CodeUnsupported, "expected message.output_text.logprobs or "+
				"reasoning.encrypted_content, found %q", wire.Clip([]byte(name)))
		}
		return nil
	})
}

// tools reads functions, whose members are not in an object of their own as they are in a chat, and namespaces of them.
func (r *ResponseRequest) tools(c *wire.Cursor) error {
	return c.Array("an array of tools", func(i int) error {
		if i == MaxTools {
			return c.Wrong("at most %d tools are allowed", MaxTools)
		}
		switch c.Kind("type") {
		case "namespace":
			return r.namespace(c)
		case "web_search", "web_search_preview":
			return webSearch(c)
		}
		whole, err := r.function(c, "")
		r.ToolsJSON = append(r.ToolsJSON, whole)
		return err
	})
}

// webSearch reads a tool that clients offer unasked, and that models need not use: here they cannot.
func webSearch(c *wire.Cursor) error {
	c.Unused()
	return c.Object(func(key string) error {
		switch key {
		case "type", "external_web_access", "filters", "return_token_budget", "search_content_types", "search_context_size",
			"user_location":
			return c.Skip()
		}
		return c.Unsupported()
	})
}

// namespace reads functions with a name for all of them.
func (r *ResponseRequest) namespace(c *wire.Cursor) error {
	name, some := c.Kind("name"), 0
	whole := wire.AppendString([]byte(`{"type":"namespace","name":`), name)
	err := c.Object(func(key string) error {
		switch key {
		case "type":
			return c.Skip()
		case "name":
			return toolLabel(c, &name)
		case "description":
			text, err := c.Text()
			whole = appendMember(whole, key, wire.AppendString(nil, text))
			return err
		case "tools":
			whole = append(whole, `,"tools":[`...)
			err := c.Array("an array of functions", func(i int) error {
				if some = i + 1; i > 0 {
					whole = append(whole, ',')
				}
				one, err := r.function(c, name)
				whole = append(whole, one...)
				return err
			})
			whole = append(whole, ']')
			return err
		}
		return c.Unsupported()
	})
	switch {
	case err != nil:
		return err
	case name == "":
		return wire.Missing(c.Path()+".name", "the name of a namespace")
	case some == 0:
		return wire.Missing(c.Path()+".tools", "an array with at least one function")
	}
	r.ToolsJSON = append(r.ToolsJSON, append(whole, '}'))
	return nil
}

// function reads a function and returns it as answers repeat it. The model knows one of a namespace by both names.
func (r *ResponseRequest) function(c *wire.Cursor, namespace string) (whole []byte, err error) {
	if len(r.Tools.Tools) == MaxTools {
		return nil, c.Wrong("at most %d functions are allowed", MaxTools)
	}
	t := Tool{Namespace: namespace, Field: c.Path() + ".parameters"}
	var kind string
	var members, offered []byte
	err = c.Object(func(key string) (err error) {
		if key == "type" {
			if kind, err = c.Text(); err == nil && kind != "function" {
				err = wire.Invalid(c.Path(), wire.CodeUnsupported, "tools of type %q are not supported, only \"function\"",
					wire.Clip([]byte(kind)))
			}
			return err
		}
		raw, err := t.field(c, key)
		if raw == nil {
			return err
		}
		members = appendMember(members, key, raw)
		if key == "name" {
			t.Name = Qualified(namespace, t.Name)
			raw = wire.AppendString(nil, t.Name)
		}
		offered = appendMember(offered, key, raw)
		return err
	})
	path := c.Path()
	switch {
	case err != nil:
		return nil, err
	case kind == "":
		return nil, wire.Missing(path+".type", `"function"`)
	case t.Name == "":
		return nil, wire.Missing(path+".name", "the name of a function")
	case slices.ContainsFunc(r.Tools.Tools, func(other Tool) bool { return other.Name == t.Name }):
		return nil, wire.Invalid(path+".name", wire.CodeInvalidValue, "%q is given twice", wire.Clip([]byte(t.Name)))
	}
	t.JSON = bytes.Join([][]byte{[]byte(`{"type":"function","function":{`), offered, []byte("}}")}, nil)
	whole = append([]byte(`{"type":"function",`), members...)
	if t.Parameters == nil {
		whole = append(whole, `,"parameters":null`...)
	}
	r.Tools.Tools = append(r.Tools.Tools, t)
	return fmt.Appendf(whole, `,"strict":%t}`, t.Strict), nil
}

// Qualified returns the name by which a model knows a function of a namespace, "" being none.
func Qualified(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "." + name
}

// appendMember appends a member to those of an object.
func appendMember(dst []byte, key string, value []byte) []byte {
	if len(dst) > 0 {
		dst = append(dst, ',')
	}
	dst = append(wire.AppendString(dst, key), ':')
	return append(dst, value...)
}

// toolChoice reads "auto", "none", "required", or {"type": "function", "name": …}.
func (r *ResponseRequest) toolChoice(c *wire.Cursor) error {
	if c.Peek() != '{' {
		t, err := toolChoice(c)
		if err == nil {
			r.ToolChoiceJSON, _ = json.Marshal(t.Mode)
		}
		r.Tools.ToolChoice = t
		return err
	}
	t, kind := &ToolChoice{Mode: "function"}, ""
	err := c.Object(func(key string) (err error) {
		switch key {
		case "type":
			if kind, err = c.Text(); err == nil && kind != "function" {
				err = wire.Invalid(c.Path(), wire.CodeUnsupported, "%q is not supported, only \"function\"",
					wire.Clip([]byte(kind)))
			}
		case "name":
			t.Name, err = c.Text()
		default:
			err = c.Unsupported()
		}
		return err
	})
	switch {
	case err != nil:
	case kind == "":
		err = wire.Missing(c.Path()+".type", `"function"`)
	case t.Name == "":
		err = wire.Missing(c.Path()+".name", "the name of a function")
	}
	r.Tools.ToolChoice = t
	r.ToolChoiceJSON, _ = json.Marshal(map[string]string{"type": "function", "name": t.Name})
	return err
}

// text reads a member of {"format": …, "verbosity": …}.
func (r *ResponseRequest) text(c *wire.Cursor, key string) error {
	switch key {
	case "format":
		return r.format(c)
	case "verbosity":
		return c.Inert(asksNothing[key]...)
	}
	return c.Unsupported()
}

// format reads {"type": "text" | "json_object"} or {"type": "json_schema", "name": …, "schema": {…}, …}.
func (r *ResponseRequest) format(c *wire.Cursor) error {
	kind, name, s := "", "", &Structure{Path: c.Path()}
	var members []byte
	note := func(key string, v any) {
		raw, err := wire.Encode(v)
		if err != nil { // strings and booleans always marshal
			panic(err)
		}
		members = appendMember(members, key, bytes.TrimSpace(raw))
	}
	err := c.Object(func(key string) (err error) {
		switch key {
		case "type":
			kind, err = c.Text()
			note(key, kind)
		case "name":
			name, err = c.Label(MaxLabel)
			note(key, name)
		case "description":
			var text string
			text, err = c.Text()
			note(key, text)
		case "strict":
			var on bool
			on, err = c.Bool()
			note(key, on)
		case "schema":
			s.Path = c.Path()
			s.Schema, err = schema(c)
			members = appendMember(members, key, s.Schema)
		default:
			err = c.Unsupported()
		}
		return err
	})
	path := c.Path()
	switch {
	case err != nil:
		return err
	case kind != "text" && kind != "json_object" && kind != "json_schema":
		return wire.Invalid(path+".type", wire.CodeUnsupported, "expected text, json_object or json_schema, found %q",
			wire.Clip([]byte(kind)))
	case kind == "json_schema" && name == "":
		return wire.Missing(path+".name", "a name")
	case kind == "json_schema" && s.Schema == nil:
		return wire.Missing(path+".schema", "a JSON Schema")
	case kind != "json_schema" && (s.Schema != nil || name != ""):
		return wire.Invalid(path, wire.CodeInvalidValue, "name and schema are only allowed with type json_schema")
	}
	r.Format = bytes.Join([][]byte{[]byte("{"), members, []byte("}")}, nil)
	if s.JSON = kind == "json_object"; kind != "text" {
		r.Structure = s
	}
	return nil
}

// reasoning reads a member of {"effort": …, "summary": …}. There are no summaries: reasoning is told as it is.
func (r *ResponseRequest) reasoning(c *wire.Cursor, key string) (err error) {
	switch key {
	case "effort":
		r.Effort, err = effort(c)
	case "summary", "generate_summary":
		err = c.Inert(`"auto"`, `"concise"`, `"detailed"`)
	default:
		err = c.Unsupported()
	}
	return err
}

// metadata reads an object of short strings.
func metadata(c *wire.Cursor) (map[string]string, error) {
	m := map[string]string{}
	err := c.Object(func(key string) (err error) {
		if len(m) == maxMetadata {
			return c.Wrong("at most %d members are allowed", maxMetadata)
		}
		m[key], err = c.Label(MaxLabel)
		return err
	})
	return m, err
}
