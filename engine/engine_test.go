package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/compute/choose"
	"github.com/kvasir-llm/kvasir/fault"
)

func TestOneRequest(t *testing.T) {
	cfg := smallConfig()
	e := start(t, Config{Runner: newFake(cfg), Sched: cfg})
	r := request(1, 21, 30)
	ids, last := read(t, submit(t, e, t.Context(), r))
	if !slices.Equal(ids, expected(r)) || last.Finish != FinishLength {
		t.Errorf("got %v, %q; want %v, length", ids, last.Finish, expected(r))
	}
	wantIdle(t, e)
	if s := e.Stats(); s.PromptTokens != 21 || s.GeneratedTokens != 30 || s.Steps != 3+29 {
		t.Errorf("%d prompt tokens, %d generated, %d steps; want 21, 30, 32", s.PromptTokens, s.GeneratedTokens, s.Steps)
	}
}

// TestCompany runs many requests of all kinds at once, on so few blocks that some are preempted. Each gets what it
// would get alone.
func TestCompany(t *testing.T) {
	cfg := smallConfig()
	cfg.Blocks = 30
	f, g := newFake(cfg), newGate(t)
	f.forward = g.forward
	e := start(t, Config{Runner: f, Sched: cfg})
	var streams []*Stream
	var requests []Request
	for n := range 40 {
		r := request(n%10, 1+n%30, 1+n*7%60)
		r.EOS = []int32{int32(n)}
		r.IgnoreEOS = n%3 == 0
		r.Sampling.RepetitionPenalty = 1 + float32(n%2)
		requests = append(requests, r)
		streams = append(streams, submit(t, e, t.Context(), r))
	}
	g.open()
	for n, r := range requests {
		ids, last := read(t, streams[n])
		if !slices.Equal(ids, expected(r)) {
			t.Errorf("request %d: got %v; want %v", n, ids, expected(r))
		}
		stopped := slices.Contains(r.Stops(), ids[len(ids)-1])
		if stopped != (last.Finish == FinishStop) || !stopped && last.Finish != FinishLength {
			t.Errorf("request %d finished for %q", n, last.Finish)
		}
	}
	wantIdle(t, e)
	if s := e.Stats().Sched; s.Preemptions == 0 || s.KV.Hits == 0 {
		t.Errorf("%d preemptions and %d cached tokens; the test wants both", s.Preemptions, s.KV.Hits)
	}
}

func TestMinTokens(t *testing.T) {
	cfg := smallConfig()
	e := start(t, Config{Runner: newFake(cfg), Sched: cfg})
	r := request(1, 3, 20)
	for id := range int32(fakeVocab - 1) {
		r.StopTokens = append(r.StopTokens, id) // all but one
	}
	r.MinTokens = 5
	ids, last := read(t, submit(t, e, t.Context(), r))
	if len(ids) != 6 || last.Finish != FinishStop {
		t.Errorf("%d tokens, %q; want 6, stop", len(ids), last.Finish)
	}
}

func TestLogprobs(t *testing.T) {
	cfg := smallConfig()
	cfg.Blocks = 20 // all three start, and not all can stay
	f, g := newFake(cfg), newGate(t)
	f.forward = g.forward
	e := start(t, Config{Runner: f, Sched: cfg})
	var streams []*Stream
	for n := range 3 {
		r := request(n, 25, 20)
		r.Logprobs, r.PromptLogprobs = 2, 3
		streams = append(streams, submit(t, e, t.Context(), r))
	}
	g.open()
	for n, s := range streams {
		r := request(n, 25, 20)
		var reference choose.Sampler
		describe := func(tokens []int32, id, top int32) compute.Chosen {
			return reference.Choose(nil, fakeLogits(tokens), compute.Choice{Given: id, Rank: true, Top: top}, nil)
		}
		ids := slices.Clone(r.Prompt)
		for range r.MaxTokens {
			tok, err := s.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			want := describe(ids, tok.ID, 2)
			if want.Err != nil || tok.Logprob != want.Logprob || !slices.Equal(tok.Top, want.Top) {
				t.Errorf("token %v; want %v", tok, want)
			}
			ids = append(ids, tok.ID)
		}
		prompt := s.Prompt()
		if len(prompt) != len(r.Prompt) {
			t.Fatalf("%d of %d prompt tokens are scored", len(prompt), len(r.Prompt))
		}
		for p := 1; p < len(prompt); p++ {
			want := describe(r.Prompt[:p], r.Prompt[p], 3)
			if want.Err != nil || prompt[p].ID != r.Prompt[p] || prompt[p].Logprob != want.Logprob || prompt[p].Rank != want.Rank ||
				want.Rank < 1 || !slices.Equal(prompt[p].Top, want.Top) {
				t.Errorf("prompt position %d: %v; want %v", p, prompt[p], want)
			}
		}
	}
	if e.Stats().Sched.Preemptions == 0 {
		t.Error("no sequence was preempted; the test wants some")
	}
}

func TestSubmitRefuses(t *testing.T) {
	cfg := smallConfig() // 256 slots
	e := start(t, Config{Runner: newFake(cfg), Sched: cfg})
	tests := []struct {
		field string
		edit  func(*Request)
	}{
		{"prompt", func(r *Request) { r.Prompt = nil }},
		{"prompt", func(r *Request) { r.Prompt = make([]int32, 256) }},
		{"prompt", func(r *Request) { r.Prompt = []int32{1, fakeVocab} }},
		{"prompt", func(r *Request) { r.Prompt = []int32{-1} }},
		{"max_tokens", func(r *Request) { r.MaxTokens = -1 }},
		{"max_tokens", func(r *Request) { r.MaxTokens = 254 }},
		{"min_tokens", func(r *Request) { r.MinTokens = 5 }},
		{"min_tokens", func(r *Request) { r.MinTokens = -1 }},
		{"logprobs", func(r *Request) { r.Logprobs = -2 }},
		{"logprobs", func(r *Request) { r.Logprobs = compute.MaxTop + 1 }},
		{"logprob_token_ids", func(r *Request) { r.LogprobTokens = []int32{0} }},
		{"logprob_token_ids", func(r *Request) { r.Logprobs, r.LogprobTokens = 0, []int32{-1} }},
		{"prompt_logprobs", func(r *Request) { r.PromptLogprobs = compute.MaxTop + 1 }},
		{"stop_tokens", func(r *Request) { r.StopTokens = []int32{fakeVocab} }},
		{"temperature", func(r *Request) { r.Sampling.Temperature = -1 }},
		{"top_p", func(r *Request) { r.Sampling.TopP = 0 }},
	}
	for _, tt := range tests {
		r := request(1, 3, 4)
		tt.edit(&r)
		_, err := e.Submit(t.Context(), r)
		var pe *fault.Error
		if !errors.As(err, &pe) || string(pe.Field) != tt.field {
			t.Errorf("%+v: error %v; want one about %s", r, err, tt.field)
		}
	}
	r := request(1, 3, 0) // as long as it can be
	if ids, last := read(t, submit(t, e, t.Context(), r)); len(ids) != 253 || last.Finish != FinishLength {
		t.Errorf("%d tokens, %q; want 253, length", len(ids), last.Finish)
	}
	wantIdle(t, e)
}

func TestQueueFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := smallConfig()
		cfg.MaxWaiting = 2
		f, g := newFake(cfg), newGate(t)
		f.forward = g.forward
		e := start(t, Config{Runner: f, Sched: cfg})
		first := submit(t, e, t.Context(), request(0, 4, 2))
		synctest.Wait() // it is being computed
		submit(t, e, t.Context(), request(1, 4, 2))
		submit(t, e, t.Context(), request(2, 4, 2))
		if _, err := e.Submit(t.Context(), request(3, 4, 2)); !errors.Is(err, ErrQueueFull) {
			t.Errorf("error %v; want %v", err, ErrQueueFull)
		}
		g.open()
		if ids, _ := read(t, first); len(ids) != 2 {
			t.Errorf("%d tokens; want 2", len(ids))
		}
		if err := e.Drain(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestSlowReader makes sure that a stream nobody reads holds up nobody.
func TestSlowReader(t *testing.T) {
	cfg := smallConfig()
	e := start(t, Config{Runner: newFake(cfg), Sched: cfg})
	slow := submit(t, e, t.Context(), request(1, 5, 100))
	read(t, submit(t, e, t.Context(), request(2, 5, 200)))
	if s := e.Stats().Sched; s.Running != 0 {
		t.Errorf("%d still run", s.Running)
	}
	if ids, _ := read(t, slow); !slices.Equal(ids, expected(request(1, 5, 100))) {
		t.Errorf("the slow reader got %v", ids)
	}
}

func TestNextContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := smallConfig()
		f, g := newFake(cfg), newGate(t)
		f.forward = g.forward
		e := start(t, Config{Runner: f, Sched: cfg})
		s := submit(t, e, t.Context(), request(1, 5, 3))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.Next(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v; want %v", err, context.Canceled)
		}
		g.open()
		if ids, last := read(t, s); len(ids) != 3 || last.Finish != FinishLength { // the request went on
			t.Errorf("%d tokens, %q; want 3, length", len(ids), last.Finish)
		}
	})
}

// TestPrepared holds that the answers to a prepared request draw with seeds of their own, each as if it had been
// asked for alone, and that what cannot be served is refused before anything is submitted.
func TestPrepared(t *testing.T) {
	cfg := smallConfig()
	cfg.PrefixCache = false
	e := start(t, Config{Runner: newFake(cfg), Sched: cfg})
	r := request(3, 20, 12)
	p, err := e.Prepare(r)
	if err != nil {
		t.Fatal(err)
	}
	var streams []*Stream
	for range 4 {
		s, err := p.Submit(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		streams = append(streams, s)
	}
	seen := map[string]bool{}
	for i, s := range streams {
		alone := r
		alone.Sampling.Seed += uint64(i)
		ids, _ := read(t, s)
		if want := expected(alone); !slices.Equal(ids, want) {
			t.Errorf("answer %d is %v; want %v", i, ids, want)
		}
		seen[fmt.Sprint(ids)] = true
	}
	if len(seen) != len(streams) {
		t.Errorf("%d different answers of %d", len(seen), len(streams))
	}
	r.MaxTokens = -1
	var bad *fault.Error
	if _, err := e.Prepare(r); !errors.As(err, &bad) || bad.Field != FieldMaxTokens {
		t.Errorf("error %v; want one about %s", err, FieldMaxTokens)
	}
	wantIdle(t, e)
}
