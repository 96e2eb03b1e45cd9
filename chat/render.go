package chat

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/kvasir-llm/kvasir/chat/jinja"
)

// Message is one turn of a conversation.
type Message struct {
	Role       string
	Content    string     // the text, if Parts is nil
	Parts      []Part     // the text in parts, as some clients send it
	Reasoning  string     // of an assistant: its thinking before the answer
	ToolCalls  []ToolCall // of an assistant
	ToolCallID string     // of a tool: the call that the message answers
	Name       string     // of a tool, or of one of several users
}

// Part is a piece of a content. Templates of text models know only the type "text".
type Part struct {
	Type string
	Text string
}

// ToolCall is an assistant's call of a function. Arguments is the JSON text of an object.
type ToolCall struct {
	ID        string
	Name      string
	Arguments string
}

// Input is the input of RenderChat.
type Input struct {
	Messages []Message
	// Tools are the available functions, each the JSON object {"type": "function", "function": {…}}.
	Tools []json.RawMessage
	// AddGenerationPrompt ends the prompt with the words that begin an assistant's turn.
	AddGenerationPrompt bool
	// Continue ends the prompt with the content of the last message, an assistant's, which the answer continues.
	Continue bool
	// Extra are further variables for the template, such as enable_thinking. It may be nil.
	Extra *Dict
	// MaxValues bounds the JSON values in Tools and the calls' arguments together; 0 is any number.
	MaxValues int
	// BOS and EOS are the texts of the tokens that begin and end a sequence; empty if the model has none.
	BOS, EOS string
	// Now is the clock of strftime_now; nil is time.Now.
	Now func() time.Time
}

// Set sets a variable of the template, unless the request has.
func (in *Input) Set(name string, value any) {
	if in.Extra == nil {
		in.Extra = NewDict()
	}
	if _, given := in.Extra.Get(name); !given {
		in.Extra.Set(name, value)
	}
}

// Think turns thinking on or off, which templates call by two names.
func (in *Input) Think(on bool) {
	in.Set("enable_thinking", on)
	in.Set("thinking", on)
}

// RenderChat renders a conversation to a prompt. The template gets the variables of transformers' apply_chat_template,
// in the form that it was written for: a template that cannot print lists of parts gets text; for one that refuses or
// ignores system messages, the first system message's text moves into the next user message. The error is a
// *RaisedError if the template refuses the conversation, an *Error if the template fails.
//
// It ends with ctx, with its cause.
func (t *Template) RenderChat(ctx context.Context, in Input) (string, error) {
	if in.Continue && len(in.Messages) > 0 {
		in.Messages = append(in.Messages[:len(in.Messages)-1:len(in.Messages)-1], in.Messages[len(in.Messages)-1].marked())
	}
	vars, err := t.variables(in)
	if err != nil {
		return "", err
	}
	prompt, err := t.render(ctx, vars, in.Now)
	if err != nil || !in.Continue {
		return prompt, err
	}
	i := strings.LastIndex(prompt, continued)
	if i < 0 {
		return "", errors.New("chat: the template does not end a prompt with a message to continue")
	}
	return prompt[:i], nil
}

// continued marks the end of the content that an answer continues: private characters, which no text has.
const continued = "\U0010fff0\U0010fff1\U0010fff0"

// marked returns a message whose content ends with a mark.
func (m Message) marked() Message {
	if m.Parts == nil {
		m.Content += continued
		return m
	}
	m.Parts = append([]Part(nil), m.Parts...)
	m.Parts[len(m.Parts)-1].Text += continued
	return m
}

func (t *Template) variables(in Input) (*Dict, error) {
	turns := in.Messages
	if t.wants.systemFolded {
		turns = foldSystem(turns)
	}
	left := cmp.Or(in.MaxValues, math.MaxInt)
	messages := make([]any, len(turns))
	for i := range turns {
		var err error
		if messages[i], err = t.wants.message(&turns[i], &left); err != nil {
			return nil, fmt.Errorf("chat: message %d: %w", i, err)
		}
	}
	var tools any // None without tools, as in transformers
	if len(in.Tools) > 0 {
		list := make([]any, len(in.Tools))
		for i, raw := range in.Tools {
			var err error
			if list[i], err = jinja.DecodeJSONWithin(raw, &left); err != nil {
				return nil, fmt.Errorf("tool %d: %w", i, err)
			}
		}
		tools = list
	}
	vars := NewDict()
	vars.Set("messages", messages)
	if tools != nil || !t.wants.toolsOmitted {
		vars.Set("tools", tools)
	}
	vars.Set("documents", nil)
	vars.Set("add_generation_prompt", in.AddGenerationPrompt)
	vars.Set("bos_token", in.BOS)
	vars.Set("eos_token", in.EOS)
	if in.Extra == nil {
		return vars, nil
	}
	for _, key := range in.Extra.Keys() {
		switch key {
		case "messages", "tools", "add_generation_prompt":
			return nil, fmt.Errorf("chat: template variable %q belongs to the request itself and cannot be given again", key)
		}
		v, _ := in.Extra.Get(key)
		vars.Set(key, v)
	}
	return vars, nil
}

// foldSystem puts the text of a system message that begins a conversation before that of the user's message after it.
func foldSystem(messages []Message) []Message {
	if len(messages) == 0 || messages[0].Role != "system" {
		return messages
	}
	first, rest := messages[0], messages[1:]
	first.Role = "user"
	if len(rest) > 0 && rest[0].Role == "user" {
		if first.Parts == nil && rest[0].Parts == nil {
			first.Content += "\n\n" + rest[0].Content
		} else {
			first.Parts = append(first.parts(), rest[0].parts()...)
		}
		rest = rest[1:]
	}
	return append([]Message{first}, rest...)
}

// parts returns the content as new parts.
func (m *Message) parts() []Part {
	if m.Parts == nil {
		return []Part{{Type: "text", Text: m.Content}}
	}
	return append([]Part(nil), m.Parts...)
}

// message converts m to the dict that templates expect. left are the JSON values that may still come.
func (w *wants) message(m *Message, left *int) (*Dict, error) {
	d := NewDict()
	d.Set("role", m.Role)
	d.Set("content", w.content(m))
	if m.Reasoning != "" {
		d.Set(w.reasoningField, m.Reasoning)
	}
	if len(m.ToolCalls) > 0 {
		calls := make([]any, len(m.ToolCalls))
		for i, c := range m.ToolCalls {
			var arguments any = c.Arguments
			if !w.textArguments {
				text := c.Arguments
				if strings.TrimSpace(text) == "" {
					text = "{}"
				}
				var err error
				if arguments, err = jinja.DecodeJSONWithin([]byte(text), left); err != nil {
					return nil, fmt.Errorf("arguments of the call of %q: %w", c.Name, err)
				}
			}
			calls[i] = toolCall(c.ID, c.Name, arguments)
		}
		d.Set("tool_calls", calls)
	}
	if m.ToolCallID != "" {
		d.Set("tool_call_id", m.ToolCallID)
	}
	if m.Name != "" {
		d.Set("name", m.Name)
	}
	return d, nil
}

func toolCall(id, name string, arguments any) *Dict {
	function, call := NewDict(), NewDict()
	function.Set("name", name)
	function.Set("arguments", arguments)
	call.Set("id", id)
	call.Set("type", "function")
	call.Set("function", function)
	return call
}

// content is a string, a list of parts, or nil, as the template expects.
func (w *wants) content(m *Message) any {
	parts, text := m.Parts, m.Content
	if parts != nil && !w.partsAccepted {
		var texts []string
		for _, p := range parts {
			texts = append(texts, p.Text)
		}
		parts, text = nil, strings.Join(texts, "\n")
	}
	if parts == nil && text == "" && len(m.ToolCalls) > 0 && w.nullContent {
		return nil
	}
	if parts == nil {
		if !w.partsRequired {
			return text
		}
		parts = []Part{{Type: "text", Text: text}}
	}
	list := make([]any, len(parts))
	for i, p := range parts {
		d := NewDict()
		d.Set("type", p.Type)
		d.Set("text", p.Text)
		list[i] = d
	}
	return list
}
