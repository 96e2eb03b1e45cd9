// Package jinja runs the Jinja templates of checkpoints, which render a conversation to a prompt. Its semantics are
// those of Python's jinja2 as Hugging Face configures it: trim_blocks, lstrip_blocks, loop controls, a tojson that
// keeps keys in order and escapes nothing, raise_exception, strftime_now and the generation tag. It knows nothing of
// messages or models. A template is untrusted: it reaches no file, network or environment variable, and its work,
// memory and recursion are bounded. Start with Template.
//
// Deliberate differences from jinja2's sandbox: methods can change lists and dicts (append, pop, update, …), as many
// templates assume; Render copies the values it is given first. tojson takes any sequence. Templates cannot read other
// templates: extends, include, import and block are refused.
package jinja

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Bounds on what one template may cost. They are far above what real templates use.
const (
	maxSource = 1 << 20   // bytes of template source
	maxNest   = 200       // nesting of blocks and parentheses in the source
	maxDepth  = 5000      // nesting of evaluations: expressions, macro calls, recursive loops, values in values
	MaxSteps  = 20 << 20  // evaluated nodes, loop turns, and 64-byte pieces of text read or made
	maxString = 32 << 20  // bytes of one string, so also of the result
	maxRange  = 100_000   // elements of a range, as in jinja2's sandbox
	maxBits   = 14_000    // size of an integer; Python prints at most 4300 digits
	maxItems  = 1_000_000 // elements of one list
)

// Template is a parsed template. It is immutable and may be used by any number of goroutines.
type Template struct {
	name string
	body []stmt
}

// Error says which template failed, on which line, and why. Line is 0 where the failure belongs to no line.
type Error struct {
	Template string
	Line     int
	Msg      string
}

func (e *Error) Error() string {
	where := "template"
	if e.Template != "" {
		where += " " + e.Template
	}
	if e.Line > 0 {
		where += fmt.Sprintf(" line %d", e.Line)
	}
	return where + ": " + e.Msg
}

// RaisedError is the error that a template reports by calling raise_exception: the model was not made for this
// conversation.
type RaisedError struct {
	Template string
	Line     int
	Message  string
}

func (e *RaisedError) Error() string {
	return (&Error{e.Template, e.Line, "refused the input: " + e.Message}).Error()
}

// Parse reads a template. The name appears in errors only.
func Parse(name, source string) (*Template, error) {
	if len(source) > maxSource {
		return nil, &Error{Template: name, Msg: fmt.Sprintf("source has %d bytes, at most %d are allowed", len(source), maxSource)}
	}
	tokens, err := lex(strings.ToValidUTF8(source, "\uFFFD"))
	if err != nil {
		return nil, located(err, name, 0)
	}
	p := &parser{tokens: tokens}
	body, err := p.template()
	if err != nil {
		return nil, located(err, name, p.cur().line)
	}
	return &Template{name: name, body: body}, nil
}

// Render runs the template with the given variables and returns its output. The variables are copied, so a template
// cannot change them. strftime_now formats the time that now returns; nil means time.Now. It ends with ctx, with its
// cause.
func (t *Template) Render(ctx context.Context, vars *Dict, now func() time.Time) (string, error) {
	return t.RenderWithin(ctx, MaxSteps, vars, now)
}

// RenderWithin is Render with another bound than MaxSteps on the template's work.
func (t *Template) RenderWithin(ctx context.Context, steps int, vars *Dict, now func() time.Time) (string, error) {
	if now == nil {
		now = time.Now
	}
	r := &run{ctx: ctx, now: now, steps: steps, polled: steps}
	root := &scope{}
	if vars != nil {
		for i, key := range vars.keys {
			name, ok := key.(string)
			if !ok {
				continue
			}
			v, err := r.copyValue(vars.vals[i], 0)
			if err != nil {
				return "", located(fmt.Errorf("variable %q: %w", name, err), t.name, 0)
			}
			root.set(name, v)
		}
	}
	// A template's own assignments live in a scope of their own, above the variables.
	r.scope = &scope{parent: root}
	if _, err := r.exec(t.body); err != nil {
		return "", located(err, t.name, 0)
	}
	return string(r.out), nil
}

// located gives err the template's name and, where it has none yet, a line.
func located(err error, name string, line int) error {
	var raised *RaisedError
	var e *Error
	var gone *goneError
	switch {
	case errors.As(err, &gone):
		return gone
	case errors.As(err, &raised):
		if raised.Line == 0 {
			raised.Line = line
		}
		raised.Template = name
		return raised
	case errors.As(err, &e):
		if e.Line == 0 {
			e.Line = line
		}
		e.Template = name
		return e
	}
	return &Error{Template: name, Line: line, Msg: err.Error()}
}
