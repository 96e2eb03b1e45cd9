package jinja

import (
	"context"
	"errors"
	"testing"
)

// TestRenderEnds holds that a rendering ends with its context within pollSteps of its work, also while it copies what
// it was given, and with the context's cause.
func TestRenderEnds(t *testing.T) {
	left := errors.New("left")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(left)
	tmpl, err := Parse("", "{% for i in range(1000) %}{% for j in range(1000) %}{% endfor %}{% endfor %}")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tmpl.RenderWithin(ctx, MaxSteps, nil, fixedNow); !errors.Is(err, left) {
		t.Errorf("loops: error %v", err)
	}
	vars, many := NewDict(), make([]any, 3*pollSteps)
	vars.Set("a", many)
	if tmpl, err = Parse("", "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := tmpl.RenderWithin(ctx, 2*pollSteps, vars, fixedNow); !errors.Is(err, left) {
		t.Errorf("variables: error %v", err)
	}
	if _, err := tmpl.RenderWithin(t.Context(), pollSteps, vars, fixedNow); err == nil || errors.Is(err, left) {
		t.Errorf("variables of more values than there are steps: error %v", err)
	}
}

func TestJSONOfManyValues(t *testing.T) {
	left := 4
	if _, err := DecodeJSONWithin([]byte(`[1,{"a":2}]`), &left); err != nil || left != 0 {
		t.Errorf("4 values: %v, %d left", err, left)
	}
	if _, err := DecodeJSONWithin([]byte(`1`), &left); err == nil {
		t.Error("a fifth value is taken")
	}
}
