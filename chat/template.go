// Package chat turns a conversation into the prompt a model was trained on, by the Jinja template that its checkpoint
// carries. It knows nothing of tokens, models or HTTP. Start with Template.
package chat

import (
	"errors"
	"fmt"
	"time"

	"github.com/kvasir-llm/kvasir/chat/jinja"
)

// Dict is a template variable that maps names to values and keeps their order.
type Dict = jinja.Dict

// NewDict returns an empty Dict.
func NewDict() *Dict { return jinja.NewDict() }

// Error is a template's own fault: its name, the line, and what was expected and found there.
type Error = jinja.Error

// RaisedError is a template's refusal of a conversation, by raise_exception: the fault of whoever sent it.
type RaisedError = jinja.RaisedError

// Template is a parsed chat template. It is immutable and may be used by any number of goroutines.
type Template struct {
	jinja *jinja.Template
	wants wants
}

// Parse reads a template; the name appears in errors. It also tries the template on small conversations, to learn in
// what form it expects contents and tool calls.
func Parse(name, source string) (*Template, error) {
	j, err := jinja.Parse(name, source)
	if err != nil {
		return nil, fmt.Errorf("chat: %w", err)
	}
	t := &Template{jinja: j}
	t.wants = probe(j, source)
	return t, nil
}

// Render runs the template on free-form variables. strftime_now gives the present time. Templates of the Firefunction
// style get the variables functions and datetime if vars lacks them.
func (t *Template) Render(vars *Dict) (string, error) { return t.render(vars, nil) }

func (t *Template) render(vars *Dict, now func() time.Time) (string, error) {
	if now == nil {
		now = time.Now
	}
	vars, err := t.wants.complete(vars, now)
	if err != nil {
		return "", fmt.Errorf("chat: %w", err)
	}
	text, err := t.jinja.Render(vars, now)
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

// DecodeVars reads a JSON object whose members are a template's variables.
func DecodeVars(data []byte) (*Dict, error) {
	v, err := DecodeJSON(data)
	if err != nil {
		return nil, err
	}
	d, ok := v.(*Dict)
	if !ok {
		return nil, errors.New("chat: template variables: expected a JSON object")
	}
	return d, nil
}
