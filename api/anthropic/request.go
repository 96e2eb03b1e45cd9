package anthropic

import (
	"bytes"
	"encoding/json"
	"math"
	"time"

	"github.com/kvasir-llm/kvasir/api/wire"
)

// Limits of a request.
const (
	MaxLabel  = 512     // characters of metadata.user_id, and names of any kind
	maxTools  = 128     // of a request
	maxSchema = 1 << 18 // bytes of a schema
)

// Request asks for the next message of a conversation, or how many tokens the conversation has. Parameters that only
// change how tokens are chosen, and when, are not here: Extra reads them. A pointer is nil where the request says
// nothing.
type Request struct {
	Model      string
	MaxTokens  *int // 0 computes the prompt, so that it is cached, and generates nothing; nil only of DecodeCount
	Messages   []Turn
	System     []string // the system prompt, in parts
	Stream     bool
	Tools      []Tool
	ToolChoice ToolChoice
	Thinking   *Thinking
	Effort     string          // output_config.effort
	Schema     json.RawMessage // of the answer; nil if it is free
	SchemaPath string          // of Schema in the request
	Keep       time.Duration   // the longest of cache_control; 0 is none
	Ignored    []string        // paths of members that say nothing here
}

// Thinking says whether the model thinks before it answers.
type Thinking struct {
	On     bool
	Budget *int // most tokens; nil is any number
	Hidden bool // the thoughts are left out of the answer
}

// Extra reads a member that Request has no field for. known is false if it has no use for it either: then the member is
// refused.
type Extra func(c *wire.Cursor, key string) (known bool, err error)

// Decode reads the body of a request for a message. Whatever neither it nor extra understands is refused with a
// *wire.Error that names it; members of blocks that it does not know are Ignored.
func Decode(body []byte, extra Extra) (*Request, error) {
	r := &Request{}
	err := wire.Decode(body, func(c *wire.Cursor, key string) (err error) {
		switch key {
		case "max_tokens":
			r.MaxTokens, err = wire.Optional(c.IntIn(0, math.MaxInt32))
		case "stream":
			r.Stream, err = c.Bool()
		case "service_tier": // there is one tier
			err = c.Inert(`"auto"`, `"standard_only"`)
		default:
			if known, err := extra(c, key); known || err != nil {
				return err
			}
			err = r.field(c, key)
		}
		r.Ignored = c.Ignored()
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case r.MaxTokens == nil:
		return nil, wire.Missing("max_tokens", "the most tokens to generate")
	case r.Thinking != nil && r.Thinking.Budget != nil && *r.Thinking.Budget >= *r.MaxTokens:
		return nil, wire.Invalid("thinking.budget_tokens", wire.CodeInvalidValue, "is %d; want less than max_tokens, which is %d",
			*r.Thinking.Budget, *r.MaxTokens)
	}
	return r, r.check()
}

// DecodeCount reads the body of a request for the number of a conversation's tokens.
func DecodeCount(body []byte) (*Request, error) {
	r := &Request{}
	err := wire.Decode(body, func(c *wire.Cursor, key string) error {
		err := r.field(c, key)
		r.Ignored = c.Ignored()
		return err
	})
	if err != nil {
		return nil, err
	}
	return r, r.check()
}

// field reads a member that says what the prompt is.
func (r *Request) field(c *wire.Cursor, key string) (err error) {
	switch key {
	case "model":
		r.Model, err = c.Label(MaxLabel)
	case "messages":
		err = c.Array("an array of messages", func(int) error { return r.turn(c) })
	case "system":
		r.System, err = r.texts(c)
	case "tools":
		err = c.Array("an array of tools", func(i int) error { return r.tool(c, i) })
	case "tool_choice":
		err = r.ToolChoice.read(c)
	case "thinking":
		r.Thinking, err = thinking(c)
	case "output_config":
		err = c.Object(func(key string) error { return r.output(c, key) })
	case "output_format": // the former place of output_config.format
		err = r.format(c)
	case "cache_control":
		err = r.cacheControl(c)
	case "context_management":
		err = c.Object(func(key string) error { return edits(c, key) })
	case "speed":
		err = c.Inert(`"standard"`)
	case "mcp_servers":
		err = c.Inert("[]")
	default:
		err = c.Unsupported()
	}
	return err
}

// check finds what is wrong with members together.
func (r *Request) check() error {
	if len(r.Messages) == 0 {
		return wire.Missing("messages", "an array with at least one message")
	}
	if r.ToolChoice.Mode == "" || r.ToolChoice.Mode == "auto" || r.ToolChoice.Mode == "none" {
		return nil
	}
	if len(r.Tools) == 0 {
		return wire.Invalid("tool_choice", wire.CodeInvalidValue, "only allowed with tools")
	}
	for _, t := range r.Tools {
		if r.ToolChoice.Name == "" || t.Name == r.ToolChoice.Name {
			return nil
		}
	}
	return wire.Invalid("tool_choice.name", wire.CodeInvalidValue, "tools has no %q", wire.Clip([]byte(r.ToolChoice.Name)))
}

// thinking reads {"type": "enabled", "budget_tokens": …}, {"type": "adaptive"} or {"type": "disabled"}.
func thinking(c *wire.Cursor) (*Thinking, error) {
	t, kind := &Thinking{}, ""
	err := c.Object(func(key string) (err error) {
		switch key {
		case "type":
			kind, err = c.Text()
			if err == nil && kind != "enabled" && kind != "adaptive" && kind != "disabled" {
				err = wire.Invalid(c.Path(), wire.CodeUnsupported, "%q is not supported; expected enabled, adaptive or disabled",
					wire.Clip([]byte(kind)))
			}
		case "budget_tokens":
			t.Budget, err = wire.Optional(c.IntIn(1, math.MaxInt32))
		case "display":
			how := ""
			if how, err = c.Text(); err == nil && how != "summarized" && how != "omitted" {
				err = c.Wrong("expected summarized or omitted, found %q", wire.Clip([]byte(how)))
			}
			t.Hidden = how == "omitted"
		default:
			err = c.Unsupported()
		}
		return err
	})
	switch {
	case err != nil:
	case kind == "":
		err = wire.Missing(c.Path()+".type", "enabled, adaptive or disabled")
	case kind == "enabled" && t.Budget == nil:
		err = wire.Missing(c.Path()+".budget_tokens", "the most tokens of thinking")
	case kind != "enabled" && t.Budget != nil:
		err = wire.Invalid(c.Path()+".budget_tokens", wire.CodeInvalidValue, "only allowed with the type enabled")
	}
	t.On = kind != "disabled"
	return t, err
}

// output reads a member of output_config.
func (r *Request) output(c *wire.Cursor, key string) (err error) {
	switch key {
	case "effort":
		r.Effort, err = c.Text()
		switch r.Effort {
		case "low", "medium", "high", "xhigh", "max":
		default:
			if err == nil {
				err = c.Wrong("expected low, medium, high, xhigh or max, found %q", wire.Clip([]byte(r.Effort)))
			}
		}
	case "format":
		err = r.format(c)
	default:
		err = c.Unsupported()
	}
	return err
}

// format reads {"type": "json_schema", "schema": {…}}.
func (r *Request) format(c *wire.Cursor) error {
	if r.Schema != nil {
		return c.Wrong("excludes %s, which is given too", r.SchemaPath)
	}
	kind := ""
	err := c.Object(func(key string) (err error) {
		switch key {
		case "type":
			if kind, err = c.Text(); err == nil && kind != "json_schema" {
				err = wire.Invalid(c.Path(), wire.CodeUnsupported, "%q is not supported, only json_schema", wire.Clip([]byte(kind)))
			}
		case "schema":
			r.SchemaPath = c.Path()
			r.Schema, err = schema(c)
		default:
			err = c.Unsupported()
		}
		return err
	})
	switch {
	case err != nil:
	case kind == "":
		err = wire.Missing(c.Path()+".type", "json_schema")
	case r.Schema == nil:
		err = wire.Missing(c.Path()+".schema", "a JSON Schema")
	}
	return err
}

// schema reads a JSON Schema that is an object.
func schema(c *wire.Cursor) (json.RawMessage, error) {
	raw, err := object(c, "a JSON Schema, which is an object")
	if err == nil && len(raw) > maxSchema {
		err = c.Wrong("has %d bytes; at most %d are allowed", len(raw), maxSchema)
	}
	return raw, err
}

// object reads an object as JSON text.
func object(c *wire.Cursor, expected string) (json.RawMessage, error) {
	if c.Peek() != '{' {
		return nil, c.Mismatch(expected)
	}
	raw, err := c.Raw()
	return bytes.Clone(raw), err
}

// edits reads {"edits": […]}, what a server is to take out of a conversation. Only keeping all thoughts is served.
func edits(c *wire.Cursor, key string) error {
	if key != "edits" {
		return c.Unsupported()
	}
	return c.Array("an array of edits", func(int) error {
		return c.Object(func(key string) error {
			switch key {
			case "type":
				return c.Inert(`"clear_thinking_20251015"`)
			case "keep":
				return c.Inert(`"all"`)
			}
			return c.Unsupported()
		})
	})
}

// cacheControl reads {"type": "ephemeral", "ttl": "5m" | "1h"}.
func (r *Request) cacheControl(c *wire.Cursor) error {
	keep := 5 * time.Minute
	err := c.Object(func(key string) error {
		switch key {
		case "type":
			return c.Inert(`"ephemeral"`)
		case "ttl":
			ttl, err := c.Text()
			switch {
			case err != nil:
				return err
			case ttl == "1h":
				keep = time.Hour
			case ttl != "5m":
				return c.Wrong("expected 5m or 1h, found %q", wire.Clip([]byte(ttl)))
			}
			return nil
		}
		return c.Ignore() // newer clients say where the entry is visible
	})
	r.Keep = max(r.Keep, keep)
	return err
}
