package openai

import (
	"bytes"
	"encoding/json"
)

// ChatRequest asks for the next message of a conversation.
type ChatRequest struct {
	Sampling
	Messages            []Message       `json:"messages"`
	MaxCompletionTokens *int            `json:"max_completion_tokens,omitempty"` // the present name of max_tokens
	Logprobs            bool            `json:"logprobs,omitempty"`
	TopLogprobs         *int            `json:"top_logprobs,omitempty"`
	AddGenerationPrompt *bool           `json:"add_generation_prompt,omitempty"` // default true
	ChatTemplateKwargs  json.RawMessage `json:"chat_template_kwargs,omitempty"`  // an object of variables for the template
}

// Message is one turn of a conversation.
type Message struct {
	Role             string     `json:"role"` // system, developer, user, assistant or tool
	Content          *Content   `json:"content,omitempty"`
	Name             string     `json:"name,omitempty"`
	ToolCalls        []ToolCall `json:"tool_calls,omitempty"`        // of an assistant
	ToolCallID       string     `json:"tool_call_id,omitempty"`      // of a tool
	ReasoningContent string     `json:"reasoning_content,omitempty"` // of an assistant
}

// Content is a text, or the text in parts.
type Content struct {
	Text  string
	Parts []string // not nil if the content came in parts; all of type "text"
}

// ToolCall is a call of a function in an assistant's message.
type ToolCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"` // "function"
	Function FunctionCall `json:"function"`
}

// FunctionCall names a function and gives its arguments, the text of a JSON object.
type FunctionCall struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type textPart struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// MarshalJSON writes the content as it came: a string, or an array of parts.
func (t Content) MarshalJSON() ([]byte, error) {
	if t.Parts == nil {
		return json.Marshal(t.Text)
	}
	parts := make([]textPart, len(t.Parts))
	for i, p := range t.Parts {
		parts[i] = textPart{"text", p}
	}
	return json.Marshal(parts)
}

// DecodeChat reads the body of a chat request. Whatever is not understood is refused with an *Error that names it.
func DecodeChat(body []byte) (*ChatRequest, error) {
	r := &ChatRequest{}
	if err := decode(body, r.field); err != nil {
		return nil, err
	}
	if len(r.Messages) == 0 {
		return nil, missing("messages", "an array with at least one message")
	}
	if r.TopLogprobs != nil && *r.TopLogprobs > 0 && !r.Logprobs {
		return nil, invalid("top_logprobs", CodeInvalidValue, "only allowed when logprobs is true")
	}
	if err := r.check(); err != nil {
		return nil, err
	}
	return r, nil
}

func (r *ChatRequest) field(c *cursor, key string) (err error) {
	switch key {
	case "messages":
		r.Messages, err = c.messages()
	case "max_tokens":
		err = c.intIn(&r.MaxTokens, 1, maxInt32)
	case "max_completion_tokens":
		err = c.intIn(&r.MaxCompletionTokens, 1, maxInt32)
	case "logprobs":
		r.Logprobs, err = c.boolean()
	case "top_logprobs":
		err = c.intIn(&r.TopLogprobs, 0, MaxLogprobs)
	case "add_generation_prompt":
		err = c.optionalBool(&r.AddGenerationPrompt)
	case "chat_template_kwargs":
		r.ChatTemplateKwargs, err = c.kwargs()
	case "echo", "add_special_tokens": // a template writes the special tokens itself
		err = c.inert("false")
	default:
		known, err := r.Sampling.field(c, key)
		if err != nil || known {
			return err
		}
		return c.other(key)
	}
	return err
}

// kwargs reads an object; an empty one is nil.
func (c *cursor) kwargs() (json.RawMessage, error) {
	if c.peek() != '{' {
		return nil, c.mismatch("an object")
	}
	raw, err := c.raw()
	if err != nil || compact(raw) == "{}" {
		return nil, err
	}
	return bytes.Clone(raw), nil
}

func (c *cursor) messages() ([]Message, error) {
	var list []Message
	err := c.array("an array of messages", func(int) error {
		var m Message
		if err := c.object(func(key string) error { return m.field(c, key) }); err != nil {
			return err
		}
		list = append(list, m)
		return m.check(string(c.path))
	})
	return list, err
}

func (m *Message) field(c *cursor, key string) (err error) {
	switch key {
	case "role":
		m.Role, err = c.text()
	case "content":
		m.Content, err = c.content()
	case "name":
		m.Name, err = c.text()
	case "tool_calls":
		m.ToolCalls, err = c.toolCalls()
	case "tool_call_id":
		m.ToolCallID, err = c.text()
	case "reasoning_content", "reasoning":
		m.ReasoningContent, err = c.text()
	case "annotations": // in messages that came as an answer
		err = c.inert("[]")
	case "refusal":
		err = c.inert(`""`)
	default:
		err = c.unsupported()
	}
	return err
}

// check finds what is missing in a message, or does not belong to its role.
func (m *Message) check(path string) error {
	switch m.Role {
	case "system", "developer", "user", "assistant", "tool":
	case "":
		return missing(path+".role", "the role of a message")
	default:
		return invalid(path+".role", CodeInvalidValue,
			"expected system, developer, user, assistant or tool, found %q", clip([]byte(m.Role)))
	}
	assistant := m.Role == "assistant"
	switch {
	case m.ToolCalls != nil && !assistant:
		return invalid(path+".tool_calls", CodeInvalidValue, "only allowed in a message of the assistant")
	case m.ReasoningContent != "" && !assistant:
		return invalid(path+".reasoning_content", CodeInvalidValue, "only allowed in a message of the assistant")
	case m.ToolCallID != "" && m.Role != "tool":
		return invalid(path+".tool_call_id", CodeInvalidValue, "only allowed in a message of a tool")
	case m.Content == nil && m.ToolCalls == nil && m.ReasoningContent == "":
		return missing(path+".content", "a string or an array of parts")
	}
	return nil
}

// content reads a string, or an array of parts of type "text".
func (c *cursor) content() (*Content, error) {
	if c.peek() == '"' {
		s, err := c.text()
		return &Content{Text: s}, err
	}
	out := &Content{Parts: []string{}}
	err := c.array("a string or an array of parts", func(int) error {
		s, err := c.part()
		out.Parts = append(out.Parts, s)
		return err
	})
	if err == nil && len(out.Parts) == 0 {
		err = c.wrong("expected at least one part")
	}
	return out, err
}

func (c *cursor) part() (string, error) {
	var kind string
	var body *string
	err := c.object(func(key string) (err error) {
		switch key {
		case "type":
			if kind, err = c.text(); err == nil && kind != "text" {
				err = invalid(string(c.path), CodeUnsupported, "content of type %q is not supported, only \"text\"", clip([]byte(kind)))
			}
			return err
		case "text":
			s, err := c.text()
			body = &s
			return err
		}
		return c.unsupported()
	})
	switch {
	case err != nil:
		return "", err
	case kind == "":
		return "", missing(string(c.path)+".type", `"text"`)
	case body == nil:
		return "", missing(string(c.path)+".text", "a string")
	}
	return *body, nil
}

func (c *cursor) toolCalls() ([]ToolCall, error) {
	var list []ToolCall
	err := c.array("an array of tool calls", func(int) error {
		var t ToolCall
		if err := c.object(func(key string) error { return t.field(c, key) }); err != nil {
			return err
		}
		list = append(list, t)
		switch path := string(c.path); {
		case t.Type != "function":
			return missing(path+".type", `"function"`)
		case t.Function.Name == "":
			return missing(path+".function.name", "the name of a function")
		}
		return nil
	})
	return list, err
}

func (t *ToolCall) field(c *cursor, key string) (err error) {
	switch key {
	case "id":
		t.ID, err = c.text()
	case "type":
		if t.Type, err = c.text(); err == nil && t.Type != "function" {
			err = invalid(string(c.path), CodeUnsupported, "calls of type %q are not supported, only \"function\"", clip([]byte(t.Type)))
		}
	case "index": // in calls put together from a stream
		_, err = c.integer()
	case "function":
		err = c.object(func(key string) (err error) {
			switch key {
			case "name":
				t.Function.Name, err = c.text()
			case "arguments":
				t.Function.Arguments, err = c.text()
			default:
				err = c.unsupported()
			}
			return err
		})
	default:
		err = c.unsupported()
	}
	return err
}
