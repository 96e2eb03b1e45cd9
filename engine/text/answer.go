package text

import (
	"fmt"
	"slices"

	"github.com/kvasir-llm/kvasir/chat"
	"github.com/kvasir-llm/kvasir/fault"
	"github.com/kvasir-llm/kvasir/grammar"
	"github.com/kvasir-llm/kvasir/tokenizer"
)

// Answer says what an answer is made of. The zero value is text as the model writes it.
type Answer struct {
	Parse   bool       // split reasoning and calls of tools from the text
	Tools   []Tool     // that may be called
	Choice  ToolChoice // how much they must be
	Single  bool       // at most one call
	Form    *Form      // what the text must be; nil is anything
	Thought *int       // most tokens of reasoning; nil is any number
}

// Tool is a function that may be called.
type Tool struct {
	chat.Tool
	Field fault.Field // of its schema, in errors
}

// Form is what a text must be.
type Form struct {
	Spec  grammar.Spec
	Field fault.Field // of the schema, expression or grammar, in errors
}

// ToolChoice says whether tools are called.
type ToolChoice struct {
	Required bool   // there is a call
	Name     string // of the tool that is called; "" is any
}

// guided reports whether a choice leaves the model no other answer than calls.
func (c ToolChoice) guided() bool { return c.Required || c.Name != "" }

// openFormats decides how answers are written.
func (m *Model) openFormats(o *Options) (err error) {
	tools, reasoning := o.ToolFormat, o.ReasoningFormat
	if m.tools, m.reasoning, err = m.Template.Formats(tools, reasoning); err != nil {
		return fmt.Errorf("text: %w", err)
	}
	m.think = -1
	if m.reasoning != nil {
		if open, _ := m.reasoning.Around(""); open != "" {
			if ids := m.Tokenizer.Encode(open, tokenizer.EncodeOptions{ParseSpecial: true}); len(ids) == 1 {
				m.think = ids[0]
			}
		}
		m.end = m.Tokenizer.Encode(m.reasoning.End(), tokenizer.EncodeOptions{ParseSpecial: true})
	}
	marks, stops := chat.Marks(m.tools, m.reasoning), m.tools.Stops()
	m.shown = map[int32]bool{}
	for id := range int32(m.Tokenizer.VocabSize()) {
		if !m.Tokenizer.IsSpecial(id) {
			continue
		}
		switch spelled := string(m.Tokenizer.Bytes(id)); {
		case slices.Contains(stops, spelled):
			if !slices.Contains(m.stops, id) {
				m.stops = append(m.stops, id)
			}
		case slices.Contains(marks, spelled):
			m.shown[id] = true
		}
	}
	return nil
}

// parser returns what splits the answer to a request, nil if that is text.
func (m *Model) parser(r *Request, prompt string) (*chat.ParserOptions, error) {
	a := &r.Answer
	if len(a.Tools) > 0 && m.tools == nil {
		return nil, fault.New(FieldTools, "cannot be called: how %s writes calls is not told by its chat template; "+
			"--tool-format says it", m.Name)
	}
	if !a.Parse || m.reasoning == nil && len(a.Tools) == 0 {
		return nil, nil
	}
	o := &chat.ParserOptions{Reasoning: m.reasoning, Prompt: prompt, Single: a.Single || a.Choice.Name != ""}
	if len(a.Tools) > 0 {
		o.Tools = m.tools
	}
	for _, t := range a.Tools {
		o.Known = append(o.Known, t.Tool)
	}
	if a.Choice.Name != "" && !slices.ContainsFunc(a.Tools, func(t Tool) bool { return t.Name == a.Choice.Name }) {
		return nil, fault.New(FieldTools, "has no %q, which is to be called", a.Choice.Name)
	}
	return o, nil
}
