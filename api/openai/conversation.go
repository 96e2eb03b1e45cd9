package openai

import (
	"encoding/json"

	"github.com/kvasir-llm/kvasir/api/wire"
	"github.com/kvasir-llm/kvasir/chat"
)

// Conversation returns messages as the chat template takes them.
func Conversation(messages []Message, generate bool, kwargs json.RawMessage) (*chat.Input, error) {
	in := &chat.Input{AddGenerationPrompt: generate, Messages: make([]chat.Message, 0, len(messages))}
	for _, m := range messages {
		out := chat.Message{Role: m.Role, Name: m.Name, ToolCallID: m.ToolCallID, Reasoning: m.ReasoningContent}
		if m.Role == "developer" { // OpenAI's new name of the role that templates call system
			out.Role = "system"
		}
		if m.Content != nil {
			out.Content = m.Content.Text
			for _, part := range m.Content.Parts {
				out.Parts = append(out.Parts, chat.Part{Type: "text", Text: part})
			}
		}
		for _, c := range m.ToolCalls {
			out.ToolCalls = append(out.ToolCalls, chat.ToolCall{ID: c.ID, Name: c.Function.Name,
				Arguments: c.Function.Arguments})
		}
		in.Messages = append(in.Messages, out)
	}
	if kwargs == nil {
		return in, nil
	}
	var err error
	if in.Extra, err = chat.DecodeVars(kwargs); err != nil {
		return nil, badKwargs("%v", err)
	}
	for _, key := range in.Extra.Keys() {
		switch key {
		case "messages", "tools", "add_generation_prompt":
			return nil, badKwargs("%q belongs to the request itself and cannot be given again", key)
		}
	}
	return in, nil
}

func badKwargs(format string, args ...any) error {
	return wire.Invalid("chat_template_kwargs", wire.CodeInvalidValue, format, args...)
}

// Think tells a template how much the model is to think: by a word, which may be "", or whether at all.
func Think(in *chat.Input, effort string, on *bool) {
	if effort != "" {
		in.Set("reasoning_effort", effort)
	}
	if on == nil && effort != "" {
		thinks := effort != "none"
		on = &thinks
	}
	if on != nil {
		in.Think(*on)
	}
}

// Offered returns the tools that may be called.
func (t *ToolFields) Offered() []Tool {
	if t.ToolChoice != nil && t.ToolChoice.Mode == "none" {
		return nil
	}
	return t.Tools
}

// Conversation returns what the chat template renders for the request.
func (r *ChatRequest) Conversation() (*chat.Input, error) {
	generate := !r.ContinueFinalMessage
	if r.AddGenerationPrompt != nil {
		generate = *r.AddGenerationPrompt
	}
	in, err := Conversation(r.Messages, generate, r.ChatTemplateKwargs)
	if err != nil {
		return nil, err
	}
	in.Continue = r.ContinueFinalMessage
	Think(in, r.ReasoningEffort, r.EnableThinking)
	for _, t := range r.Offered() {
		in.Tools = append(in.Tools, t.JSON)
	}
	return in, nil
}
