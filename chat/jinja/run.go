package jinja

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// run is one rendering: its variables, its output, and what it has spent of its bounds.
type run struct {
	scope *scope
	out   []byte
	now   func() time.Time
	steps int // still allowed
	depth int

	ctx    context.Context // nil never ends
	polled int             // steps that were left when ctx was last looked at
}

// pollSteps are the steps between two looks at the context.
const pollSteps = 4096

// goneError ends a rendering that nobody waits for any more.
type goneError struct{ cause error }

func (g *goneError) Error() string { return g.cause.Error() }
func (g *goneError) Unwrap() error { return g.cause }

// scan accounts for looking at n bytes.
func (r *run) scan(n int) error {
	if r.steps -= 1 + n/64; r.steps < 0 {
		return errors.New("stopped: the template does more work than a chat template may")
	}
	if r.polled-r.steps >= pollSteps && r.ctx != nil {
		r.polled = r.steps
		if r.ctx.Err() != nil {
			return &goneError{context.Cause(r.ctx)}
		}
	}
	return nil
}

// spend accounts for making a string or list of n bytes, to be called before it is made.
func (r *run) spend(n int) error {
	if n > maxString {
		return fmt.Errorf("a text or list of %d bytes is longer than the %d allowed", n, maxString)
	}
	return r.scan(n)
}

// spendTimes accounts for n pieces of size bytes.
func (r *run) spendTimes(size int, n int64) error {
	if size > 0 && n > int64(maxString/size) {
		return fmt.Errorf("%d times %d bytes are more than the %d allowed", n, size, maxString)
	}
	return r.spend(size * int(n))
}

// grown checks a value or text under construction: its size so far and its nesting.
func (r *run) grown(size, depth int) error {
	if depth > maxDepth {
		return errTooDeep
	}
	if size > maxString {
		return fmt.Errorf("a text is longer than the %d bytes allowed", maxString)
	}
	return r.scan(0)
}

var errTooDeep = errors.New("nested or recursive beyond " + fmt.Sprint(maxDepth) + " levels")

// enter begins a nested evaluation, to be ended by r.depth--.
func (r *run) enter() error {
	if r.depth++; r.depth > maxDepth {
		return errTooDeep
	}
	return r.scan(0)
}

// print appends to the output.
func (r *run) print(s string) error {
	if len(r.out)+len(s) > maxString {
		return fmt.Errorf("output is longer than the %d bytes allowed", maxString)
	}
	r.out = append(r.out, s...)
	return r.scan(len(s))
}

// capture runs f and returns what it prints instead of printing it.
func (r *run) capture(f func() error) (string, error) {
	saved := r.out
	r.out = nil
	err := f()
	text := string(r.out)
	r.out = saved
	if err == nil {
		err = r.spend(len(text))
	}
	return text, err
}

// within runs f in a new scope below parent.
func (r *run) within(parent *scope, f func() error) error {
	saved := r.scope
	r.scope = &scope{parent: parent}
	err := f()
	r.scope = saved
	return err
}

// scope holds the variables of a block; what it does not hold is looked up in its parent.
type scope struct {
	parent *scope
	names  []string
	vals   []Value
	index  map[string]int // once there are many names
	held   bool           // a macro made in this scope may outlive it
}

const manyNames = 16

func (s *scope) find(name string) int {
	if s.index != nil {
		if i, ok := s.index[name]; ok {
			return i
		}
		return -1
	}
	for i, n := range s.names {
		if n == name {
			return i
		}
	}
	return -1
}

func (s *scope) set(name string, v Value) {
	if i := s.find(name); i >= 0 {
		s.vals[i] = v
		return
	}
	s.names, s.vals = append(s.names, name), append(s.vals, v)
	switch {
	case s.index != nil:
		s.index[name] = len(s.names) - 1
	case len(s.names) > manyNames:
		s.index = make(map[string]int, 2*manyNames)
		for i, n := range s.names {
			s.index[n] = i
		}
	}
}

// clear forgets the scope's own variables.
func (s *scope) clear() {
	clear(s.vals)
	s.names, s.vals, s.index = s.names[:0], s.vals[:0], nil
}

// lookup returns a variable, a global function, or an undefined value.
func (r *run) lookup(id string) (Value, error) {
	for s := r.scope; s != nil; s = s.parent {
		if i := s.find(id); i >= 0 {
			return s.vals[i], nil
		}
		if err := r.scan(0); err != nil {
			return nil, err
		}
	}
	if f, ok := globals[id]; ok {
		return f, nil
	}
	return undefinedName(id), nil
}
