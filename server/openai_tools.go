package server

import (
	"github.com/kvasir-llm/kvasir/api/openai"
	"github.com/kvasir-llm/kvasir/chat"
	"github.com/kvasir-llm/kvasir/engine/text"
	"github.com/kvasir-llm/kvasir/fault"
	"github.com/kvasir-llm/kvasir/grammar"
)

// form returns the form that an answer must have, nil if it may have any.
func form(s *openai.Structure) *text.Form {
	if s == nil {
		return nil
	}
	f := &text.Form{Field: fault.Field(s.Path)}
	f.Spec = grammar.Spec{Schema: s.Schema, JSON: s.JSON, Regex: s.Regex, Choice: s.Choice, Grammar: s.Grammar, Compact: true,
		Ordered: true}
	if s.Tags != nil {
		f.Spec.Tags = &grammar.Tags{Triggers: s.Triggers}
		for _, t := range s.Tags {
			f.Spec.Tags.Tags = append(f.Spec.Tags.Tags, grammar.Tag{Begin: t.Begin, End: t.End,
				Content: grammar.Spec{Schema: t.Schema, Compact: true, Ordered: true}})
		}
	}
	return f
}

// tell puts into a request what a chat says of tools and reasoning.
func (a *chatAnswer) tell(r *text.Request) {
	q := a.request
	r.Answer.Parse, r.Answer.Thought = true, q.ThinkingTokenBudget
	openai.Think(r.Chat, q.ReasoningEffort, q.EnableThinking)
	offer(r, &q.ToolFields)
}

// offer puts into a request which tools may be called.
func offer(r *text.Request, q *openai.ToolFields) {
	r.Answer.Single = !value(q.ParallelToolCalls, true)
	if q.ToolChoice != nil && q.ToolChoice.Mode != "none" {
		r.Answer.Choice = text.ToolChoice{Required: q.ToolChoice.Mode == "required", Name: q.ToolChoice.Name}
	}
	for _, t := range q.Offered() {
		r.Chat.Tools = append(r.Chat.Tools, t.JSON)
		r.Answer.Tools = append(r.Answer.Tools, text.Tool{Field: fault.Field(t.Field),
			Tool: chat.Tool{Name: t.Name, Parameters: t.Parameters, Strict: t.Strict}})
	}
}

// thinks reports whether reasoning is told.
func (a *chatAnswer) thinks() bool { return value(a.request.IncludeReasoning, true) }

// echo returns what an answer begins with: nothing, unless the last message is the assistant's too.
func (a *chatAnswer) echo() (all string) {
	last := &a.request.Messages[len(a.request.Messages)-1]
	if !a.request.Echo || last.Role != "assistant" || last.Content == nil {
		return ""
	}
	content := last.Content
	for _, part := range content.Parts {
		all += part
	}
	return all + content.Text
}

// split puts into an event what a piece says beside its text.
func (a *chatAnswer) split(p *openai.Piece, c *choice, d *text.Delta) {
	if a.thinks() {
		p.Thought = d.Reasoning
	}
	for _, e := range d.Calls {
		piece := openai.CallPiece{Arguments: e.Text}
		if e.Kind == chat.Called {
			piece = openai.CallPiece{ID: e.ID, Name: e.Text}
			c.calls++
		}
		piece.Index = c.calls - 1
		p.Calls = append(p.Calls, piece)
	}
}

// message returns a whole answer.
func (a *chatAnswer) message(c *choice) openai.AnswerMessage {
	m := openai.AnswerMessage{Role: "assistant"}
	if a.thinks() {
		m.ReasoningContent = c.reason.String()
		m.Reasoning = m.ReasoningContent
	}
	for _, call := range c.toolCalls() {
		m.ToolCalls = append(m.ToolCalls, openai.ToolCall{ID: call.ID, Type: "function",
			Function: openai.FunctionCall{Name: call.Name, Arguments: call.Arguments}})
	}
	if content := a.echo() + c.text.String(); content != "" || m.ToolCalls == nil {
		m.Content = &content
	}
	return m
}
