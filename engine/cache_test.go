package engine

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/kvasir-llm/kvasir/fault"
	"github.com/kvasir-llm/kvasir/kv"
)

// ear knows what the cache holds from events alone.
type ear struct {
	mu    sync.Mutex
	known map[kv.Hash]string // tokens
	heard int
}

func (h *ear) hear(events []kv.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range events {
		h.heard++
		switch e.Kind {
		case kv.Stored:
			tokens := ""
			for _, t := range e.Tokens {
				tokens += string(rune(t))
			}
			h.known[e.Name] = tokens
		case kv.Removed:
			delete(h.known, e.Name)
		case kv.Cleared:
			clear(h.known)
		}
	}
}

// copy is called while nothing else is told.
func (h *ear) copy() *ear {
	h.mu.Lock()
	defer h.mu.Unlock()
	return &ear{known: maps.Clone(h.known), heard: h.heard}
}

// TestEvents holds that who hears all events knows what a snapshot tells, at any time: while requests run and blocks
// are evicted, and after the loop panicked.
func TestEvents(t *testing.T) {
	cfg := smallConfig()
	cfg.Blocks = 24
	f, h := newFake(cfg), &ear{known: map[kv.Hash]string{}}
	e := start(t, Config{Runner: f, Sched: cfg, Events: h.hear})
	agree := func() {
		t.Helper()
		var then *ear
		events, err := e.CacheSnapshot(t.Context(), func() { then = h.copy() })
		if err != nil {
			t.Fatal(err)
		}
		told := &ear{known: map[kv.Hash]string{}}
		told.hear(events)
		if !maps.Equal(told.known, then.known) {
			t.Fatalf("a snapshot tells of %d blocks, %d events of %d", len(told.known), then.heard, len(then.known))
		}
	}
	var streams []*Stream
	for n := range 40 {
		streams = append(streams, submit(t, e, t.Context(), request(n, 5+n%13, 6)))
		agree()
	}
	for _, s := range streams {
		read(t, s)
		agree()
	}
	if s := e.Stats().Sched.KV; s.Evictions == 0 || h.copy().heard < 40 {
		t.Errorf("%v after %d events: too little to learn from", s, h.copy().heard)
	}
	if n, err := e.ResetCache(t.Context()); n == 0 || err != nil {
		t.Error(n, err)
	}
	agree()
	if len(h.copy().known) > 0 {
		t.Errorf("%v is known after a reset", h.copy().known)
	}
	read(t, submit(t, e, t.Context(), request(1, 20, 3)))
	_, err := inLoop(t.Context(), e, func() (int, error) { panic("a bug") })
	if err == nil {
		t.Error("no error tells of the panic")
	}
	agree()
	if got := h.copy().known; len(got) > 0 {
		t.Errorf("the scheduler is a new one; known is %v", got)
	}
}

// TestPinKeepsAPrefix pins a prompt, lets others take all blocks, and wants to find it again.
func TestPinKeepsAPrefix(t *testing.T) {
	cfg := smallConfig()
	cfg.Blocks, cfg.MaxLen = 24, 32
	e := start(t, Config{Runner: newFake(cfg), Sched: cfg})
	flood := func() {
		for n := range 20 {
			read(t, submit(t, e, t.Context(), request(n+50, 20, 4)))
		}
	}
	precious := request(1, 18, 2)
	cached := func() int {
		s := submit(t, e, t.Context(), precious)
		read(t, s)
		return s.Cached()
	}
	cached()
	flood()
	if n := cached(); n != 0 {
		t.Fatalf("%d tokens survived without a pin: nothing can be learned", n)
	}
	if n, err := e.Pin(t.Context(), precious.Prompt, "", ""); n != 16 || err != nil {
		t.Fatalf("pinned %d tokens, %v; want the 16 of full blocks", n, err)
	}
	flood()
	if n := cached(); n != 16 {
		t.Errorf("%d of 16 pinned tokens were found", n)
	}
	contents, err := e.CachedBlocks(t.Context())
	if held := slices.ContainsFunc(contents, func(c CachedBlock) bool { return c.Refs == 1 }); err != nil || !held {
		t.Errorf("%v, %v: nothing is held", contents, err)
	}
	if n, err := e.Unpin(t.Context(), precious.Prompt, "", "another"); n != 0 || err != nil {
		t.Errorf("unpinned %d tokens under another salt, %v", n, err)
	}
	if n, err := e.Unpin(t.Context(), precious.Prompt, "", ""); n != 16 || err != nil {
		t.Errorf("unpinned %d tokens, %v; want 16", n, err)
	}
	wantIdle(t, e)
	var bad *fault.Error
	if _, err := e.Pin(t.Context(), precious.Prompt, "nobody", ""); !errors.As(err, &bad) || bad.Field != FieldAdapter {
		t.Errorf("a pin for an adapter that is not there: %v", err)
	}
}

// TestRetention holds that a request's wish counts under the policy priority, and is refused under others.
func TestRetention(t *testing.T) {
	cfg := smallConfig()
	cfg.Blocks, cfg.MaxLen, cfg.Evict = 24, 32, "priority"
	precious := request(1, 18, 2)
	precious.Keep = kv.Retention{Priority: 5}
	e := start(t, Config{Runner: newFake(cfg), Sched: cfg})
	read(t, submit(t, e, t.Context(), precious))
	for n := range 20 {
		read(t, submit(t, e, t.Context(), request(n+50, 20, 4)))
	}
	s := submit(t, e, t.Context(), request(1, 18, 2))
	if read(t, s); s.Cached() != 16 {
		t.Errorf("%d of 16 tokens of a high priority were found", s.Cached())
	}
	vain := request(1, 18, 2)
	vain.Keep.TTL = 5
	var bad *fault.Error
	if _, err := e.Submit(t.Context(), vain); !errors.As(err, &bad) || bad.Field != FieldKeepTime {
		t.Errorf("a time without a priority: %v", err)
	}
	lru := start(t, Config{Runner: newFake(cfg), Sched: smallConfig()})
	if _, err := lru.Submit(t.Context(), precious); !errors.As(err, &bad) || bad.Field != FieldKeepPriority {
		t.Errorf("a priority that counts for nothing: %v", err)
	}
}
