// Package guard starts goroutines whose panics are errors, where they would otherwise end the process; no room starts
// others. It also bounds what strangers take: their connections (Door), the time in which they accept answers (Answer),
// memory (Budget, BoundGarbage) and the processors that a model computes on (Budget, Computing).
package guard

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"
)

// Go runs f on a goroutine and then calls ended there with its error, which is a *Panic if f panicked. ended must not
// panic.
func Go(f func() error, ended func(error)) {
	go func() { ended(Try(f)) }()
}

// After does what Go does once d has passed, unless the timer is stopped before. A reset of the timer does it again.
func After(d time.Duration, f func() error, ended func(error)) *time.Timer {
	return time.AfterFunc(d, func() { ended(Try(f)) })
}

// OnDone does what Go does once ctx is done, unless stop is called before. stop is that of context.AfterFunc.
func OnDone(ctx context.Context, f func() error, ended func(error)) (stop func() bool) {
	return context.AfterFunc(ctx, func() { ended(Try(f)) })
}

// Try runs f and returns its error, which is a *Panic if f panicked.
func Try(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &Panic{v, debug.Stack()}
		}
	}()
	return f()
}

// Panic is what a goroutine panicked with, and where.
type Panic struct {
	Value any
	Stack []byte
}

func (p *Panic) Error() string { return fmt.Sprintf("panic: %v\n%s", p.Value, p.Stack) }

// Group is some goroutines that are waited for together. The zero Group has none.
type Group struct {
	running sync.WaitGroup
	mu      sync.Mutex
	err     error
}

// Start runs f on a goroutine of the group.
func (g *Group) Start(f func() error) {
	g.running.Add(1)
	Go(f, func(err error) {
		defer g.running.Done()
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.err == nil {
			g.err = err
		}
	})
}

// Wait waits for all goroutines of the group and returns the first error of one.
func (g *Group) Wait() error {
	g.running.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}
