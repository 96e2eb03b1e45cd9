package server

import (
	"encoding/json"
	"fmt"
	mathrand "math/rand/v2"

	"github.com/kvasir-llm/kvasir/api/anthropic"
	"github.com/kvasir-llm/kvasir/api/wire"
	"github.com/kvasir-llm/kvasir/chat"
	"github.com/kvasir-llm/kvasir/engine/text"
	"github.com/kvasir-llm/kvasir/fault"
	"github.com/kvasir-llm/kvasir/grammar"
)

// keepPriority is the retention priority of KV blocks with cache_control, above the usual 0.
const keepPriority = 1

func (a *messagesAnswer) prompts(info text.Info) ([]text.Request, error) {
	info.Defaults.Seed = mathrand.Uint64()
	q, r := a.request, a.params.request(info)
	r.MaxTokens, r.Fit = max(value(q.MaxTokens, 1), 1), true
	if q.Keep > 0 && info.Retains {
		r.Keep.Priority, r.Keep.TTL = keepPriority, q.Keep.Milliseconds()
	}
	var err error
	if r.Chat, err = turns(q); err != nil {
		return nil, err
	}
	r.Answer.Parse = true
	if q.Effort != "" {
		r.Chat.Set("reasoning_effort", q.Effort)
	}
	if q.Thinking != nil {
		r.Chat.Think(q.Thinking.On)
		r.Answer.Thought = q.Thinking.Budget
	}
	if q.Schema != nil {
		r.Answer.Form = &text.Form{Field: fault.Field(q.SchemaPath),
			Spec: grammar.Spec{Schema: q.Schema, Compact: true, Ordered: true}}
	}
	if q.ToolChoice.Mode == "none" {
		return []text.Request{r}, nil
	}
	r.Answer.Single = q.ToolChoice.Single
	r.Answer.Choice = text.ToolChoice{Required: q.ToolChoice.Mode == "any", Name: q.ToolChoice.Name}
	for i, t := range q.Tools {
		r.Chat.Tools = append(r.Chat.Tools, functionJSON(&t))
		r.Answer.Tools = append(r.Answer.Tools, text.Tool{Field: fault.Field(fmt.Sprintf("tools[%d].input_schema", i)),
			Tool: chat.Tool{Name: t.Name, Parameters: t.Schema, Strict: t.Strict}})
	}
	return []text.Request{r}, nil
}

// functionJSON returns a tool in the form that chat templates take.
func functionJSON(t *anthropic.Tool) json.RawMessage {
	out := append([]byte(nil), `{"type":"function","function":{"name":`...)
	out = wire.AppendString(out, t.Name)
	if t.Description != "" {
		out = wire.AppendString(append(out, `,"description":`...), t.Description)
	}
	out = append(append(out, `,"parameters":`...), t.Schema...)
	return append(out, "}}"...)
}

// conversing turns blocks of content into the messages of chat templates, in which results of tools are messages of
// their own.
type conversing struct {
	messages []chat.Message
	names    map[string]string // of the tools that were called, by the ids of the calls
}

// turns returns a conversation as chat templates take it. An answer continues a last turn of the assistant.
func turns(q *anthropic.Request) (*chat.Input, error) {
	c := &conversing{names: map[string]string{}}
	for _, s := range q.System {
		say(c.last("system"), s)
	}
	for _, t := range q.Messages {
		for _, b := range t.Content {
			if err := c.add(t.Role, &b); err != nil {
				return nil, err
			}
		}
	}
	last := &q.Messages[len(q.Messages)-1]
	in := &chat.Input{Messages: c.messages, Continue: last.Role == "assistant" && len(last.Content) > 0}
	in.AddGenerationPrompt = !in.Continue
	if n := len(c.messages); n == 0 {
		return nil, wire.Missing("messages[0].content", "at least one content block")
	} else if in.Continue && c.messages[n-1].ToolCalls != nil {
		return nil, wire.Invalid(last.Path, wire.CodeInvalidValue, "ends with a tool_use whose tool_result is missing")
	}
	return in, nil
}

func (c *conversing) add(role string, b *anthropic.Block) error {
	switch {
	case b.Text != nil:
		say(c.last(role), *b.Text)
	case b.Thinking != nil:
		m := c.last(role)
		m.Reasoning += *b.Thinking
	case b.Use != nil:
		c.names[b.Use.ID] = b.Use.Name
		m := c.last(role)
		m.ToolCalls = append(m.ToolCalls, chat.ToolCall{ID: b.Use.ID, Name: b.Use.Name, Arguments: string(b.Use.Input)})
	default:
		name, known := c.names[b.Result.UseID]
		if !known {
			return wire.Invalid(b.Result.Path+".tool_use_id", wire.CodeInvalidValue, "no tool_use before has the id %q",
				wire.Clip([]byte(b.Result.UseID)))
		}
		m := chat.Message{Role: "tool", Name: name, ToolCallID: b.Result.UseID}
		if b.Result.Failed {
			say(&m, "Error:")
		}
		for _, part := range b.Result.Parts {
			say(&m, part)
		}
		c.messages = append(c.messages, m)
	}
	return nil
}

// last returns the message that what a role says belongs to: turns of one role that follow each other are one.
func (c *conversing) last(role string) *chat.Message {
	if n := len(c.messages); n == 0 || c.messages[n-1].Role != role {
		c.messages = append(c.messages, chat.Message{Role: role})
	}
	return &c.messages[len(c.messages)-1]
}

// say adds a text to a message: a second one makes its content one of parts.
func say(m *chat.Message, s string) {
	switch {
	case m.Parts != nil:
		m.Parts = append(m.Parts, chat.Part{Type: "text", Text: s})
	case m.Content == "":
		m.Content = s
	default:
		m.Parts = []chat.Part{{Type: "text", Text: m.Content}, {Type: "text", Text: s}}
		m.Content = ""
	}
}
