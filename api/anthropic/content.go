package anthropic

import (
	"encoding/json"

	"github.com/kvasir-llm/kvasir/api/wire"
)

// Turn is a message of a conversation.
type Turn struct {
	Role    string // user, assistant or system
	Content []Block
	Path    string // of it in the request
}

// Block is a piece of a turn's content: exactly one of its fields is set.
type Block struct {
	Text     *string
	Thinking *string
	Use      *ToolUse
	Result   *ToolResult
}

// ToolUse is a call of a tool, in a turn of the assistant.
type ToolUse struct {
	ID, Name string
	Input    json.RawMessage // an object
}

// ToolResult is what a tool returned, in a turn of the user.
type ToolResult struct {
	UseID  string   // of the ToolUse
	Parts  []string // its text
	Failed bool     // is_error: the text says why
	Path   string   // of it in the request
}

// turn reads a message.
func (r *Request) turn(c *wire.Cursor) error {
	t, given := Turn{Path: c.Path()}, false
	role := c.Kind("role") // which says what the content may be
	err := c.Object(func(key string) (err error) {
		switch key {
		case "role":
			if t.Role, err = c.Text(); err == nil && t.Role != "user" && t.Role != "assistant" && t.Role != "system" {
				err = c.Wrong("expected user, assistant or system, found %q", wire.Clip([]byte(t.Role)))
			}
		case "content":
			given = true
			t.Content, err = r.content(c, role)
		default:
			err = c.Ignore()
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case t.Role == "":
		return wire.Missing(c.Path()+".role", "user, assistant or system")
	case !given:
		return wire.Missing(c.Path()+".content", "a string or an array of content blocks")
	}
	r.Messages = append(r.Messages, t)
	return nil
}

const contentWanted = "a string or an array of content blocks"

// content reads a string, or the blocks that a role's content may have.
func (r *Request) content(c *wire.Cursor, role string) (list []Block, err error) {
	if c.Peek() == '"' {
		s, err := c.Text()
		return []Block{{Text: &s}}, err
	}
	err = c.Array(contentWanted, func(int) (err error) {
		var b Block
		switch kind := c.Kind("type"); {
		case kind == "text":
			b.Text, err = r.text(c, "text", "text")
		case kind == "thinking" && role == "assistant":
			b.Thinking, err = r.text(c, "thinking", "thinking")
		case kind == "tool_use" && role == "assistant":
			b.Use, err = r.toolUse(c)
		case kind == "tool_result" && role == "user":
			b.Result, err = r.toolResult(c)
		default:
			err = refuseBlock(c, kind, role)
		}
		list = append(list, b)
		return err
	})
	return list, err
}

// refuseBlock says why a block cannot be used.
func refuseBlock(c *wire.Cursor, kind, role string) error {
	if c.Peek() != '{' {
		return c.Mismatch("a content block, which is an object")
	}
	if err := c.Skip(); err != nil {
		return err
	}
	path := c.Path() + ".type"
	switch kind {
	case "":
		return wire.Missing(path, "the type of a content block")
	case "thinking", "tool_use", "tool_result":
		return wire.Invalid(path, wire.CodeInvalidValue, "%s does not belong to a message of the role %q", kind,
			wire.Clip([]byte(role)))
	case "redacted_thinking":
		return wire.Invalid(path, wire.CodeUnsupported, "redacted_thinking is not supported: only its maker can read it")
	}
	return wire.Invalid(path, wire.CodeUnsupported, "content of type %q is not supported; this server takes text, thinking, "+
		"tool_use and tool_result", wire.Clip([]byte(kind)))
}

// texts reads a string, or blocks of text.
func (r *Request) texts(c *wire.Cursor) (list []string, err error) {
	if c.Peek() == '"' {
		s, err := c.Text()
		return []string{s}, err
	}
	err = c.Array("a string or an array of blocks of text", func(int) error {
		if kind := c.Kind("type"); kind != "text" {
			return refuseBlock(c, kind, "system")
		}
		s, err := r.text(c, "text", "text")
		if err == nil {
			list = append(list, *s)
		}
		return err
	})
	return list, err
}

// text reads a block whose text is a member of a name.
func (r *Request) text(c *wire.Cursor, kind, name string) (text *string, err error) {
	err = c.Object(func(key string) (err error) {
		switch key {
		case name:
			text, err = wire.Optional(c.Text())
		case "type":
			err = c.Skip()
		case "signature": // of thoughts: whoever made them
			_, err = c.Text()
		case "cache_control":
			err = r.cacheControl(c)
		case "citations":
			err = c.Inert("[]")
		default:
			err = c.Ignore()
		}
		return err
	})
	if err == nil && text == nil {
		err = wire.Missing(c.Path()+"."+name, "a string")
	}
	return text, err
}

func (r *Request) toolUse(c *wire.Cursor) (*ToolUse, error) {
	u := &ToolUse{}
	err := c.Object(func(key string) (err error) {
		switch key {
		case "type":
			err = c.Skip()
		case "id":
			u.ID, err = c.Label(MaxLabel)
		case "name":
			u.Name, err = c.Label(MaxLabel)
		case "input":
			u.Input, err = object(c, "an object")
		case "caller":
			err = c.Inert(`{"type":"direct"}`)
		case "cache_control":
			err = r.cacheControl(c)
		default:
			err = c.Ignore()
		}
		return err
	})
	switch {
	case err != nil:
	case u.ID == "":
		err = wire.Missing(c.Path()+".id", "the id of a call")
	case u.Name == "":
		err = wire.Missing(c.Path()+".name", "the name of a tool")
	case u.Input == nil:
		err = wire.Missing(c.Path()+".input", "an object")
	}
	return u, err
}

func (r *Request) toolResult(c *wire.Cursor) (*ToolResult, error) {
	t := &ToolResult{Path: c.Path()}
	err := c.Object(func(key string) (err error) {
		switch key {
		case "type":
			err = c.Skip()
		case "tool_use_id":
			t.UseID, err = c.Label(MaxLabel)
		case "content":
			t.Parts, err = r.texts(c)
		case "is_error":
			t.Failed, err = c.Bool()
		case "cache_control":
			err = r.cacheControl(c)
		default:
			err = c.Ignore()
		}
		return err
	})
	if err == nil && t.UseID == "" {
		err = wire.Missing(c.Path()+".tool_use_id", "the id of a call")
	}
	return t, err
}
