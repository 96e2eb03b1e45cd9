package openai

import (
	"bytes"
	"encoding/json"

	"github.com/kvasir-llm/kvasir/api/wire"
)

// ChatRequest asks for the next message of a conversation.
type ChatRequest struct {
	Common
	Messages            []Message       `json:"messages"`
	MaxCompletionTokens *int            `json:"max_completion_tokens,omitempty"` // the present name of max_tokens
	Logprobs            bool            `json:"logprobs,omitempty"`
	TopLogprobs         *int            `json:"top_logprobs,omitempty"`
	ReturnTokenOrigins  bool            `json:"return_token_origins,omitempty"`  // with the log probabilities
	AddGenerationPrompt *bool           `json:"add_generation_prompt,omitempty"` // default true
	ChatTemplateKwargs  json.RawMessage `json:"chat_template_kwargs,omitempty"`  // an object of variables for the template
	ToolFields
	Prediction           *Content `json:"prediction,omitempty"` // what the answer is expected to be like
	ReasoningEffort      string   `json:"reasoning_effort,omitempty"`
	EnableThinking       *bool    `json:"enable_thinking,omitempty"`
	ThinkingTokenBudget  *int     `json:"thinking_token_budget,omitempty"`  // most tokens of reasoning
	IncludeReasoning     *bool    `json:"include_reasoning,omitempty"`      // default true
	ContinueFinalMessage bool     `json:"continue_final_message,omitempty"` // the last message is the beginning of the answer
	Echo                 bool     `json:"echo,omitempty"`                   // the answer begins with the last message, an assistant's
	ChatTemplate         string   `json:"chat_template,omitempty"`          // "" is the model's
	AddSpecialTokens     bool     `json:"add_special_tokens,omitempty"`     // beside those that the template writes

	Ignored []string `json:"-"` // paths of members of messages that say nothing here
}

// Message is one turn of a conversation.
type Message struct {
	Role             string     `json:"role"` // system, developer, user, assistant, tool, or what else a template knows
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

// DecodeChat reads the body of a chat request. Whatever neither it nor extra understands is refused with a *wire.Error
// that names it. extra may be nil.
func DecodeChat(body []byte, extra Extra) (*ChatRequest, error) {
	r := &ChatRequest{}
	if err := wire.Decode(body, func(c *wire.Cursor, key string) error { return r.field(c, key, extra) }); err != nil {
		return nil, err
	}
	if len(r.Messages) == 0 {
		return nil, wire.Missing("messages", "an array with at least one message")
	}
	if err := r.check(); err != nil {
		return nil, err
	}
	return r, nil
}

// DecodeChatBatch reads the body of a request for the next messages of several conversations: messages is an array of
// these, and the answer has a choice for each.
func DecodeChatBatch(body []byte, extra Extra) (*ChatRequest, [][]Message, error) {
	r := &ChatRequest{}
	var all [][]Message
	err := wire.Decode(body, func(c *wire.Cursor, key string) error {
		if key != "messages" {
			return r.field(c, key, extra)
		}
		return c.Array("an array of conversations", func(i int) error {
			if i == MaxPrompts {
				return c.Wrong("at most %d conversations are allowed", MaxPrompts)
			}
			one, err := messages(c)
			if err == nil && len(one) == 0 {
				err = c.Wrong("expected at least one message")
			}
			all, r.Ignored = append(all, one), c.Ignored()
			return err
		})
	})
	made, _ := r.Choices()
	switch {
	case err != nil:
		return nil, nil, err
	case len(all) == 0:
		return nil, nil, wire.Missing("messages", "an array of conversations, each an array of messages")
	case made > 1:
		return nil, nil, wire.Invalid("n", wire.CodeInvalidValue, "must be 1 for several conversations, and best_of, too")
	case r.Stream:
		return nil, nil, wire.Invalid("stream", wire.CodeInvalidValue, "must be false for several conversations")
	case r.Echo || r.UseBeamSearch || r.PromptLogprobs != nil || r.ReturnTokenIDs || len(r.ContinueTokenIDs) > 0:
		return nil, nil, wire.Invalid("messages", wire.CodeInvalidValue,
			"several conversations exclude echo, use_beam_search, prompt_logprobs, return_token_ids and continue_token_ids")
	}
	for _, one := range all {
		r.Messages = one
		if err := r.check(); err != nil {
			return nil, nil, err
		}
	}
	return r, all, nil
}

// check finds what is wrong with members together.
func (r *ChatRequest) check() error {
	if r.TopLogprobs != nil && *r.TopLogprobs != 0 && !r.Logprobs {
		return wire.Invalid("top_logprobs", wire.CodeInvalidValue, "only allowed when logprobs is true")
	}
	if r.LogprobTokenIDs != nil && !r.Logprobs {
		return wire.Invalid("logprob_token_ids", wire.CodeInvalidValue, "only allowed when logprobs is true")
	}
	if r.ReturnTokenOrigins && !r.Logprobs {
		return wire.Invalid("return_token_origins", wire.CodeInvalidValue, "only allowed when logprobs is true")
	}
	if r.ContinueFinalMessage {
		if err := continues(r.Messages, r.AddGenerationPrompt); err != nil {
			return err
		}
	}
	bad := func(param, format string, args ...any) error {
		return wire.Invalid(param, wire.CodeInvalidValue, format, args...)
	}
	switch {
	case r.UseBeamSearch && (len(r.Tools) > 0 || r.ThinkingTokenBudget != nil || r.Echo):
		return bad("use_beam_search", "not available with tools, thinking_token_budget or echo")
	case len(r.ContinueTokenIDs) > 0 && (r.Echo || r.Logprobs || r.ThinkingTokenBudget != nil):
		return bad("continue_token_ids", "not available with echo, logprobs or thinking_token_budget")
	}
	if err := r.ToolFields.check("tool_choice.function.name"); err != nil {
		return err
	}
	return r.Common.check()
}

// continues finds why an answer cannot continue the last message.
func continues(messages []Message, generate *bool) error {
	bad := func(why string) error {
		return wire.Invalid("continue_final_message", wire.CodeInvalidValue, "%s", why)
	}
	if generate != nil && *generate {
		return bad("excludes add_generation_prompt")
	}
	if n := len(messages); n == 0 || messages[n-1].Role != "assistant" || messages[n-1].Content == nil || messages[n-1].ToolCalls != nil {
		return bad("needs a last message of the assistant with content and without tool calls")
	}
	return nil
}

// template reads the text of a chat template.
func template(c *wire.Cursor) (string, error) {
	s, err := c.Text()
	if err == nil && len(s) > maxTemplate {
		err = c.Wrong("has %d bytes; at most %d are allowed", len(s), maxTemplate)
	}
	return s, err
}

func (r *ChatRequest) field(c *wire.Cursor, key string, extra Extra) (err error) {
	switch key {
	case "messages":
		r.Messages, err = messages(c)
		r.Ignored = c.Ignored()
	case "max_tokens":
		r.MaxTokens, err = wire.Optional(c.IntIn(1, maxInt32))
	case "max_completion_tokens":
		r.MaxCompletionTokens, err = wire.Optional(c.IntIn(1, maxInt32))
	case "logprobs":
		r.Logprobs, err = c.Bool()
	case "top_logprobs":
		r.TopLogprobs, err = wire.Optional(c.IntIn(AllLogprobs, MaxLogprobs))
	case "return_token_origins":
		r.ReturnTokenOrigins, err = c.Bool()
	case "add_generation_prompt":
		r.AddGenerationPrompt, err = wire.Optional(c.Bool())
	case "chat_template_kwargs":
		r.ChatTemplateKwargs, err = kwargs(c)
	case "add_special_tokens":
		r.AddSpecialTokens, err = c.Bool()
	case "chat_template":
		r.ChatTemplate, err = template(c)
	case "echo":
		r.Echo, err = c.Bool()
	case "continue_final_message":
		r.ContinueFinalMessage, err = c.Bool()
	case "prediction":
		r.Prediction, err = prediction(c)
	case "reasoning_effort":
		r.ReasoningEffort, err = effort(c)
	case "enable_thinking":
		r.EnableThinking, err = wire.Optional(c.Bool())
	case "thinking_token_budget", "thinking_budget":
		r.ThinkingTokenBudget, err = wire.Optional(c.IntIn(0, maxInt32))
	case "include_reasoning", "separate_reasoning":
		r.IncludeReasoning, err = wire.Optional(c.Bool())
	default:
		if known, err := r.ToolFields.field(c, key); known || err != nil {
			return err
		}
		err = r.Common.field(c, key, extra)
	}
	return err
}

// prediction reads what an answer is expected to be like.
func prediction(c *wire.Cursor) (*Content, error) {
	var kind string
	var body *Content
	err := c.Object(func(key string) (err error) {
		switch key {
		case "type":
			if kind, err = c.Text(); err == nil && kind != "content" {
				err = c.Wrong("expected \"content\", found %q", wire.Clip([]byte(kind)))
			}
		case "content":
			body, err = content(c)
		default:
			err = c.Unsupported()
		}
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case kind == "":
		return nil, wire.Missing("prediction.type", `"content"`)
	case body == nil:
		return nil, wire.Missing("prediction.content", "a string or an array of parts")
	}
	return body, nil
}

// effort reads how much a model is to think.
func effort(c *wire.Cursor) (string, error) {
	s, err := c.Text()
	switch s {
	case "none", "minimal", "low", "medium", "high", "xhigh", "max":
	default:
		if err == nil {
			err = c.Wrong("expected none, minimal, low, medium, high, xhigh or max, found %q", wire.Clip([]byte(s)))
		}
	}
	return s, err
}

// kwargs reads an object; an empty one is nil.
func kwargs(c *wire.Cursor) (json.RawMessage, error) {
	if c.Peek() != '{' {
		return nil, c.Mismatch("an object")
	}
	raw, err := c.Raw()
	if err == nil && len(raw) > maxKwargsBytes {
		err = c.Wrong("at most %d bytes are allowed", maxKwargsBytes)
	}
	if err != nil || wire.Compact(raw) == "{}" {
		return nil, err
	}
	return bytes.Clone(raw), nil
}

func messages(c *wire.Cursor) ([]Message, error) {
	var list []Message
	err := c.Array("an array of messages", func(int) error {
		var m Message
		if err := c.Object(func(key string) error { return m.field(c, key) }); err != nil {
			return err
		}
		list = append(list, m)
		return m.check(c.Path())
	})
	return list, err
}

func (m *Message) field(c *wire.Cursor, key string) (err error) {
	switch key {
	case "role":
		m.Role, err = c.Label(MaxLabel)
	case "content":
		m.Content, err = content(c)
	case "name":
		m.Name, err = c.Label(MaxLabel)
	case "tool_calls":
		m.ToolCalls, err = toolCalls(c)
	case "tool_call_id":
		m.ToolCallID, err = c.Label(MaxLabel)
	case "reasoning_content", "reasoning":
		m.ReasoningContent, err = c.Text()
	case "annotations": // in messages that came as an answer
		err = c.Inert("[]")
	case "parsed": // by clients' helpers, from the content
		err = c.Skip()
	case "refusal":
		err = c.Inert(`""`)
	default: // clients add members of their own to answers that come back
		err = c.Ignore()
	}
	return err
}

// check finds what is missing in a message, or does not belong to its role.
func (m *Message) check(path string) error {
	assistant := m.Role == "assistant"
	switch {
	case m.Role == "":
		return wire.Missing(path+".role", "the role of a message")
	case m.ToolCalls != nil && !assistant:
		return wire.Invalid(path+".tool_calls", wire.CodeInvalidValue, "only allowed in a message of the assistant")
	case m.ReasoningContent != "" && !assistant:
		return wire.Invalid(path+".reasoning_content", wire.CodeInvalidValue, "only allowed in a message of the assistant")
	case m.ToolCallID != "" && m.Role != "tool":
		return wire.Invalid(path+".tool_call_id", wire.CodeInvalidValue, "only allowed in a message of a tool")
	case m.Content == nil && m.ToolCalls == nil && m.ReasoningContent == "":
		return wire.Missing(path+".content", "a string or an array of parts")
	}
	return nil
}

// content reads a string, or an array of parts of type "text".
func content(c *wire.Cursor) (*Content, error) {
	if c.Peek() == '"' {
		s, err := c.Text()
		return &Content{Text: s}, err
	}
	out := &Content{Parts: []string{}}
	err := c.Array("a string or an array of parts", func(int) error {
		s, err := part(c)
		out.Parts = append(out.Parts, s)
		return err
	})
	if err == nil && len(out.Parts) == 0 {
		err = c.Wrong("expected at least one part")
	}
	return out, err
}

func part(c *wire.Cursor) (string, error) {
	var kind string
	var body *string
	err := c.Object(func(key string) (err error) {
		switch key {
		case "type":
			if kind, err = c.Text(); err == nil && kind != "text" {
				err = wire.Invalid(c.Path(), wire.CodeUnsupported, "content of type %q is not supported, only \"text\"",
					wire.Clip([]byte(kind)))
			}
			return err
		case "text":
			s, err := c.Text()
			body = &s
			return err
		}
		return c.Ignore()
	})
	switch {
	case err != nil:
		return "", err
	case kind == "":
		return "", wire.Missing(c.Path()+".type", `"text"`)
	case body == nil:
		return "", wire.Missing(c.Path()+".text", "a string")
	}
	return *body, nil
}

func toolCalls(c *wire.Cursor) ([]ToolCall, error) {
	var list []ToolCall
	err := c.Array("an array of tool calls", func(int) error {
		var t ToolCall
		if err := c.Object(func(key string) error { return t.field(c, key) }); err != nil {
			return err
		}
		list = append(list, t)
		switch path := c.Path(); {
		case t.Type != "function":
			return wire.Missing(path+".type", `"function"`)
		case t.Function.Name == "":
			return wire.Missing(path+".function.name", "the name of a function")
		}
		return nil
	})
	return list, err
}

func (t *ToolCall) field(c *wire.Cursor, key string) (err error) {
	switch key {
	case "id":
		t.ID, err = c.Label(MaxLabel)
	case "type":
		if t.Type, err = c.Text(); err == nil && t.Type != "function" {
			err = wire.Invalid(c.Path(), wire.CodeUnsupported, "calls of type %q are not supported, only \"function\"",
				wire.Clip([]byte(t.Type)))
		}
	case "index": // in calls put together from a stream
		_, err = c.Int()
	case "function":
		err = c.Object(func(key string) (err error) {
			switch key {
			case "name":
				t.Function.Name, err = c.Label(MaxLabel)
			case "arguments":
				t.Function.Arguments, err = c.Text()
			default:
				err = c.Ignore()
			}
			return err
		})
	default:
		err = c.Ignore()
	}
	return err
}
