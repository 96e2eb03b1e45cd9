package text

import (
	"cmp"
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

// strict reports whether calls of a tool must match its schema wherever the model makes them.
func (a *Answer) strict() bool {
	return slices.ContainsFunc(a.Tools, func(t Tool) bool { return t.Strict })
}

// GuideLimits bounds what requests may ask of their answers. A field that is 0 has its default.
type GuideLimits struct {
	Tools   int            // of a request
	Found   int64          // bytes of what all answers under way may find of their grammars
	Grammar grammar.Limits // of what an answer must be; Bytes holds for schemas of tools that need not be obeyed, too
}

// guideDefaults are the limits of a server open to strangers.
var guideDefaults = GuideLimits{Tools: 128, Found: 128 << 20, Grammar: grammar.Limits{Bytes: 256 << 10, Compile: grammar.DefaultLimits.Compile,
	Depth: grammar.DefaultLimits.Depth, States: grammar.DefaultLimits.States, Work: grammar.DefaultLimits.Work}}

// or returns l with the values of others where it has none.
func (l GuideLimits) or(d GuideLimits) GuideLimits {
	g := l.Grammar
	return GuideLimits{Tools: cmp.Or(l.Tools, d.Tools), Found: cmp.Or(l.Found, d.Found), Grammar: grammar.Limits{
		Bytes: cmp.Or(g.Bytes, d.Grammar.Bytes), Compile: cmp.Or(g.Compile, d.Grammar.Compile), Depth: cmp.Or(g.Depth, d.Grammar.Depth),
		States: cmp.Or(g.States, d.Grammar.States), Work: cmp.Or(g.Work, d.Grammar.Work)}}
}

// checkTools refuses more or larger tools than the limits allow.
func (m *Model) checkTools(a *Answer) error {
	if n := len(a.Tools); n > m.guides.limits.Tools {
		return fault.New(FieldTools, "has %d; at most %d are allowed", n, m.guides.limits.Tools)
	}
	for i := range a.Tools {
		if t := &a.Tools[i]; len(t.Parameters) > m.guides.limits.Grammar.Bytes {
			return fault.New(t.Field, "has %d bytes; at most %d are allowed", len(t.Parameters), m.guides.limits.Grammar.Bytes)
		}
	}
	return nil
}

// openFormats decides how answers are written.
func (m *Model) openFormats(o *Options) (err error) {
	m.guides.limits = o.Guide.or(guideDefaults)
	m.guides.found.most = m.guides.limits.Found
	tools, reasoning := o.ToolFormat, o.ReasoningFormat
	if m.tools, m.reasoning, err = m.Template.Formats(tools, reasoning); err != nil {
		return fmt.Errorf("text: %w", err)
	}
	if m.reasoning != nil {
		m.end = m.Tokenizer.Encode(m.reasoning.End(false), tokenizer.EncodeOptions{ParseSpecial: true})
		m.guidedEnd = m.Tokenizer.Encode(m.reasoning.End(true), tokenizer.EncodeOptions{ParseSpecial: true})
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
