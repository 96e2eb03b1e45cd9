// Package chat renders conversations to prompts with the Jinja template of the model's checkpoint. It knows nothing of
// tokens, models or HTTP. Start with Template.
package chat

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kvasir-llm/kvasir/chat/jinja"
)

// Dict is a template variable that maps names to values and keeps their order.
type Dict = jinja.Dict

// NewDict returns an empty Dict.
func NewDict() *Dict { return jinja.NewDict() }

// Error is a fault in a template: its name, the line, and what was expected and found there.
type Error = jinja.Error

// RaisedError is a template's refusal of a conversation, by raise_exception: the conversation is at fault.
type RaisedError = jinja.RaisedError

// Template is a parsed chat template. It is immutable and may be used by any number of goroutines.
type Template struct {
	jinja  *jinja.Template
	wants  wants
	source string
	call   string // how it renders one of a tool named probe; "" if it does not
	steps  int    // of a rendering, as jinja counts them
}

// guestSteps is how much work a template of ParseGuest may do, a sixteenth of a model's own.
const guestSteps = jinja.MaxSteps / 16

// Parse reads a template; the name appears in errors. It also renders small conversations to detect the form in which
// the template expects contents and tool calls.
func Parse(name, source string) (*Template, error) {
	j, err := jinja.Parse(name, source)
	if err != nil {
		return nil, fmt.Errorf("chat: %w", err)
	}
	t := &Template{jinja: j, source: source, steps: jinja.MaxSteps}
	t.wants, t.call = probe(j, source)
	return t, nil
}

// ParseGuest reads a template that comes with a request, and may do less work than a model's.
func ParseGuest(name, source string) (*Template, error) {
	t, err := Parse(name, source)
	if err == nil {
		t.steps = guestSteps
	}
	return t, err
}

// Render runs the template on free-form variables. strftime_now gives the present time. Templates in Firefunction's
// style get the variables functions and datetime if vars lacks them.
func (t *Template) Render(ctx context.Context, vars *Dict) (string, error) {
	return t.render(ctx, vars, nil)
}

func (t *Template) render(ctx context.Context, vars *Dict, now func() time.Time) (string, error) {
	if now == nil {
		now = time.Now
	}
	vars, err := t.wants.complete(vars, now)
	if err != nil {
		return "", fmt.Errorf("chat: %w", err)
	}
	text, err := t.jinja.RenderWithin(ctx, t.steps, vars, now)
	if err != nil {
		return "", fmt.Errorf("chat: %w", err)
	}
	return text, nil
}

// DecodeJSON reads one JSON value as a template variable: objects become *Dict with their keys in order, arrays
// *jinja.List, integers int64 or *big.Int, other numbers float64.
func DecodeJSON(data []byte) (any, error) {
	v, err := jinja.DecodeJSON(data)
	if err != nil {
		return nil, fmt.Errorf("chat: %w", err)
	}
	return v, nil
}

// maxVars is how many values the variables that DecodeVars reads may have, the elements of lists and dicts included.
const maxVars = 4096

// DecodeVars reads a JSON object whose members are a template's variables.
func DecodeVars(data []byte) (*Dict, error) {
	left := maxVars + 1 // with the object itself
	v, err := jinja.DecodeJSONWithin(data, &left)
	if err != nil {
		return nil, fmt.Errorf("chat: %w", err)
	}
	d, ok := v.(*Dict)
	if !ok {
		return nil, errors.New("chat: template variables: expected a JSON object")
	}
	return d, nil
}
