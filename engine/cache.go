package engine

import (
	"context"
	"encoding/hex"
	"errors"

	"github.com/kvasir-llm/kvasir/fault"
	"github.com/kvasir-llm/kvasir/kv"
)

// ErrNoCache is returned for questions about the prefix cache of an engine that has none.
var ErrNoCache = errors.New("engine: there is no prefix cache")

// inLoop lets the loop call f, and returns what f does.
func inLoop[T any](ctx context.Context, e *Engine, f func() (T, error)) (T, error) {
	return inTurn(ctx, e, func(call func()) { call() }, f)
}

// inQuiet lets the loop call f when no step is under way and no plan is made, and returns what f does.
func inQuiet[T any](ctx context.Context, e *Engine, f func() (T, error)) (T, error) {
	return inTurn(ctx, e, func(call func()) { e.quiet = append(e.quiet, call) }, f)
}

func inTurn[T any](ctx context.Context, e *Engine, when func(call func()), f func() (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	answers := make(chan answer, 1)
	call := func() {
		a := answer{err: errors.New("engine: the loop panicked")}
		defer func() { answers <- a }()
		a.value, a.err = f()
		e.publish()
	}
	if err := e.inbox.post(message{ask: func() { when(call) }}); err != nil {
		return *new(T), err
	}
	select {
	case a := <-answers:
		return a.value, a.err
	case <-e.stopped:
		return *new(T), ErrClosed
	case <-ctx.Done():
		return *new(T), context.Cause(ctx)
	}
}

// tell hands out what has happened to the contents of the cache.
func (e *Engine) tell() {
	if e.cfg.Events == nil {
		return
	}
	if events := e.sched.Events(); len(events) > 0 {
		defer e.observerPanicked()
		e.cfg.Events(events)
	}
}

// CacheSnapshot returns the events that tell a newcomer what the prefix cache can be searched for. It calls told at a
// moment when Config.Events has heard of all that they include, and of nothing else.
func (e *Engine) CacheSnapshot(ctx context.Context, told func()) ([]kv.Event, error) {
	return inLoop(ctx, e, func() ([]kv.Event, error) {
		e.tell()
		told()
		return e.sched.Snapshot(), nil
	})
}

// ResetCache forgets all cached blocks that no request uses, and returns how many there were.
func (e *Engine) ResetCache(ctx context.Context) (int, error) {
	return inLoop(ctx, e, func() (int, error) { return e.sched.ResetCache(), nil })
}

// Pin keeps what the prefix cache has of the beginning of a prompt from being evicted until Unpin, and returns how
// many tokens that is. adapter and salt are those of the requests that are to find it. A *fault.Error says that so
// many cannot be pinned.
func (e *Engine) Pin(ctx context.Context, prompt []int32, adapter, salt string) (int, error) {
	return e.eachKeys(ctx, adapter, salt, func(k kv.Keys) (int, error) {
		n, err := e.sched.Pin(prompt, k)
		if err != nil {
			return 0, &fault.Error{Field: FieldPrompt, Problem: err.Error()}
		}
		return n, nil
	})
}

// Retains reports whether the eviction policy makes use of Params.Keep; under others a request may not set it.
func (e *Engine) Retains() bool { return e.retains }

// Unpin undoes Pin, and returns how many tokens are not pinned any more.
func (e *Engine) Unpin(ctx context.Context, prompt []int32, adapter, salt string) (int, error) {
	return e.eachKeys(ctx, adapter, salt, func(k kv.Keys) (int, error) { return e.sched.Unpin(prompt, k), nil })
}

// eachKeys lets the loop call f for the keys of sequences with an adapter and a salt, short and long ones, and
// returns the most of what f does.
func (e *Engine) eachKeys(ctx context.Context, adapter, salt string, f func(kv.Keys) (int, error)) (int, error) {
	if !e.cfg.Sched.PrefixCache {
		return 0, ErrNoCache
	}
	a, err := e.adapters.take(adapter)
	if err != nil {
		return 0, err
	}
	if a != nil {
		defer a.live.Add(-1)
	}
	return inLoop(ctx, e, func() (int, error) {
		most, err := f(e.keysOf(a, salt, false))
		if err == nil && e.cfg.Long != nil {
			var n int
			n, err = f(e.keysOf(a, salt, true))
			most = max(most, n)
		}
		return most, err
	})
}

// keysOf returns what names a sequence's KV blocks beside its tokens. Another adapter under the same name never finds
// the first one's blocks.
func (e *Engine) keysOf(a *adapter, salt string, long bool) kv.Keys {
	k := kv.Keys{Model: e.cfg.Model, Long: long, Salt: salt}
	if a != nil {
		k.AdapterName, k.AdapterID = a.Name, hex.EncodeToString(a.Data.ID[:])
	}
	return k
}
