package engine

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/compute/choose"
	"github.com/kvasir-llm/kvasir/sched"
)

// guesser proposes what follows known answers, and is wrong now and then.
type guesser struct {
	rng     *rand.Rand
	vocab   int
	answers [][]int32 // prompts with what follows them
}

// drafter makes a Drafter of a function.
type drafter func(tokens []int32, most int) sched.Draft

func (d drafter) Draft(asks []Ask) {
	for i := range asks {
		asks[i].Draft = d(asks[i].Tokens, asks[i].Most)
	}
}

func (drafter) Forget(uint64) {}

// always are the Drafts that verify all that a function proposes.
func always(d drafter) Drafts { return Drafts{Drafter: d, Always: true} }

func (g *guesser) draft(tokens []int32, most int) sched.Draft {
	for _, a := range g.answers {
		if n := len(tokens); n < len(a) && slices.Equal(a[:n], tokens) {
			ids := slices.Clone(a[n:min(len(a), n+g.rng.IntN(most+2))]) // more than asked for, at times
			if len(ids) > 0 && g.rng.IntN(2) == 0 {
				ids[g.rng.IntN(len(ids))] = int32(g.rng.IntN(g.vocab))
			}
			return sched.Draft{Tokens: ids}
		}
	}
	return sched.Draft{Tokens: []int32{-5, int32(g.vocab)}} // which are no tokens
}

// tree hides what draft proposes among other tokens: up to three are beside each, and some have others after them.
func (g *guesser) tree(tokens []int32, most int) (d sched.Draft) {
	last := int32(-1)
	for _, id := range g.draft(tokens, most).Tokens {
		best := last
		for _, other := range g.rng.Perm(g.vocab)[:1+g.rng.IntN(3)] {
			if best == last && g.rng.IntN(2) == 0 {
				best = int32(len(d.Tokens))
				d.Tokens, d.Parents = append(d.Tokens, id), append(d.Parents, last)
			}
			if at := int32(len(d.Tokens)); int32(other) != id {
				d.Tokens, d.Parents = append(d.Tokens, int32(other), id), append(d.Parents, last, at)
			}
		}
		if best == last {
			return d
		}
		last = best
	}
	return d
}

// TestDrafts proposes tokens, right ones and wrong ones, to sequences with penalties, stop tokens and too few blocks:
// each gets the tokens that it gets without, in fewer steps.
func TestDrafts(t *testing.T) {
	cfg := smallConfig()
	cfg.Blocks = 40
	requests := make([]Request, 12)
	g := &guesser{rng: rand.New(rand.NewPCG(1, 7)), vocab: fakeVocab}
	for n := range requests {
		r := request(n, 5+n, 40)
		r.Sampling.PresencePenalty = float32(n%3) / 2
		switch {
		case n%4 == 2:
			r.Sampling.Temperature, r.Sampling.Mirostat = 1, true
		case n%4 == 3:
			r.Sampling.DRYMultiplier, r.Sampling.BadWords = 2, [][]int32{{1, 2}, {3}}
		}
		if n%4 == 1 {
			r.StopTokens = expected(r)[20:21]
		}
		requests[n] = r
		g.answers = append(g.answers, append(slices.Clone(r.Prompt), expected(r)...))
	}
	rows, trees := map[string]int{}, map[string]int{}
	for _, drafts := range []string{"none", "lists", "trees", "trees for a Runner of lists"} {
		f, held := newFake(cfg), newGate(t)
		f.forward = func(b *compute.Batch) error {
			rows[drafts] += len(b.Seqs)
			trees[drafts] += len(b.Parents)
			return held.forward(b)
		}
		c := Config{Runner: f, Sched: cfg}
		switch drafts {
		case "lists":
			c.Drafts = always(g.draft)
		case "trees for a Runner of lists":
			f.lists = true
			fallthrough
		case "trees":
			c.Drafts = always(g.tree)
		}
		e := start(t, c)
		var streams []*Stream
		for _, r := range requests {
			streams = append(streams, submit(t, e, t.Context(), r))
		}
		held.open()
		for n, s := range streams {
			if ids, last := read(t, s); !slices.Equal(ids, expected(requests[n])) || last.Err != nil {
				t.Errorf("drafts: %s: request %d got %v, %+v; want %v", drafts, n, ids, last, expected(requests[n]))
			}
		}
		if drafts != "none" && e.Stats().Sched.Preemptions == 0 {
			t.Error("no sequence was preempted; the test wants some")
		}
		if err := e.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		wantIdle(t, e)
	}
	if rows["lists"] > rows["none"]*2/3 || rows["trees"] > rows["none"]*9/10 || trees["trees"] == 0 {
		t.Errorf("sequences were computed %v times, %v rows of them in trees", rows, trees)
	}
}

// rule allows tokens by the sum of those before: none but two that follow, forced, at times.
type rule struct{ sum, n int }

func (r *rule) allowed() (ids []int32) {
	if r.sum%5 == 0 {
		return []int32{int32(r.n*3) % fakeVocab}
	}
	for id := range int32(fakeVocab) {
		if (int(id)+r.sum)%3 != 0 {
			ids = append(ids, id)
		}
	}
	return ids
}

func (r *rule) Close() {}

func (r *rule) Mask(dst []uint32) {
	for _, id := range r.allowed() {
		dst[id/32] |= 1 << (id % 32)
	}
}

func (r *rule) Accept(id int32) error {
	if !slices.Contains(r.allowed(), id) {
		return fmt.Errorf("token %d is not allowed", id)
	}
	r.sum, r.n = r.sum+int(id), r.n+1
	return nil
}

func (r *rule) Forced() (ids []int32) {
	ahead := *r
	for len(ids) < 20 && len(ahead.allowed()) == 1 {
		ids = append(ids, ahead.allowed()[0])
		ahead.Accept(ids[len(ids)-1])
	}
	return ids
}

// constrained is what a request with a rule yields, computed without an engine and with no token forced.
func constrained(r Request) (ids []int32) {
	var s choose.Sampler
	var state choose.State
	state.Reset(r.Sampling.Choosing(r.Prompt, nil, nil))
	c := new(rule)
	for n := range uint64(r.MaxTokens) {
		mask := make([]uint32, compute.MaskWords(fakeVocab))
		c.Mask(mask)
		got := s.Choose(&state, fakeLogits(slices.Concat(r.Prompt, ids)), compute.Choice{N: n, Given: -1, Top: -1}, mask)
		ids = append(ids, got.Token)
		if got.Err != nil || c.Accept(got.Token) != nil {
			panic("no token is allowed")
		}
	}
	return ids
}

// TestConstraint runs constrained requests beside others, with and without log probabilities, for which no token is
// forced, and with so few blocks that some are preempted.
func TestConstraint(t *testing.T) {
	for _, logprobs := range []int{-1, 1} {
		cfg := smallConfig()
		cfg.Blocks = 36
		var log bytes.Buffer
		f, held := newFake(cfg), newGate(t)
		f.forward = held.forward
		e := start(t, Config{Runner: f, Sched: cfg, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		var streams []*Stream
		for n := range 10 {
			r := request(n, 5+n, 40)
			r.Logprobs = logprobs
			r.Sampling.FrequencyPenalty = float32(n%2) / 2
			if n%3 > 0 {
				r.Constraint = func() Constraint { return new(rule) }
			}
			streams = append(streams, submit(t, e, t.Context(), r))
		}
		held.open()
		for n, s := range streams {
			r := request(n, 5+n, 40)
			r.Sampling.FrequencyPenalty = float32(n%2) / 2
			want := expected(r)
			if n%3 > 0 {
				want = constrained(r)
			}
			if ids, last := read(t, s); !slices.Equal(ids, want) || last.Err != nil {
				t.Errorf("logprobs %d: request %d got %v, %+v; want %v", logprobs, n, ids, last, want)
			}
		}
		if e.Stats().Sched.Preemptions == 0 {
			t.Error("no sequence was preempted; the test wants some")
		}
		if err := e.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		wantIdle(t, e)
		if log.Len() > 0 {
			t.Error(log.String())
		}
	}
}

// TestOrigins holds that tokens say how they came about: proposed ones that were right, and those that were the only
// ones allowed, with and without log probabilities.
func TestOrigins(t *testing.T) {
	cfg := smallConfig()
	plain, ruled := request(3, 8, 40), request(4, 8, 40)
	want := expected(plain)
	ruled.Constraint = func() Constraint { return new(rule) }
	draft := func(known []int32, most int) (d sched.Draft) {
		for at := len(known) - len(plain.Prompt); at < len(want) && len(d.Tokens) < most; at++ {
			id := want[at]
			if at%3 == 0 {
				id = (id + 1) % fakeVocab
			}
			d.Tokens = append(d.Tokens, id)
		}
		return d
	}
	for _, logprobs := range []int{-1, 2} {
		e := start(t, Config{Runner: newFake(cfg), Sched: cfg, Drafts: always(draft)})
		plain.Logprobs, ruled.Logprobs = logprobs, logprobs
		count := map[Origin]int{}
		for n, tok := range tokensOf(t, submit(t, e, t.Context(), plain)) {
			if count[tok.Origin]++; tok.Origin == originForced || tok.Origin == originGuessed && n%3 == 0 {
				t.Errorf("logprobs %d: token %d was %v", logprobs, n, tok.Origin)
			}
		}
		if count[originGuessed] < len(want)/3 {
			t.Errorf("logprobs %d: of %d tokens %v", logprobs, len(want), count)
		}
		c := new(rule)
		for n, tok := range tokensOf(t, submit(t, e, t.Context(), ruled)) {
			if forced := len(c.allowed()) == 1; (tok.Origin == originForced) != forced || tok.Origin == originGuessed {
				t.Errorf("logprobs %d: token %d, forced %v, was %v", logprobs, n, forced, tok.Origin)
			}
			c.Accept(tok.ID)
		}
	}
}

// tokensOf reads a stream to its end.
func tokensOf(t *testing.T, s *Stream) (all []Token) {
	for {
		tok, err := s.Next(t.Context())
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, tok)
	}
}

// speller allows any token, and yet says at times which ones must follow: one spelling of a text of which masks allow
// all.
type speller struct{ n int }

func (s *speller) Mask(dst []uint32) {
	for i := range dst {
		dst[i] = ^uint32(0)
	}
}

func (s *speller) Accept(int32) error {
	s.n++
	return nil
}

func (s *speller) Close() {}

func (s *speller) Forced() []int32 {
	first := int32(s.n) % fakeVocab
	switch s.n % 7 {
	case 2:
		return []int32{first, 5, 6}
	case 6:
		return []int32{first}
	}
	return nil
}

// spelled is what a request with a speller yields, computed without an engine.
func spelled(r Request) (ids []int32) {
	var s choose.Sampler
	var state choose.State
	p := r.Sampling
	c := new(speller)
	var forced []int32
	by := p.Choosing(r.Prompt, nil, nil)
	for n := range uint64(r.MaxTokens) {
		by.Output = ids
		state.Reset(by)
		got := s.Choose(&state, fakeLogits(slices.Concat(r.Prompt, ids)), compute.Choice{N: n, Given: -1, Top: -1}, nil)
		if len(forced) > 0 {
			got.Token, forced = forced[0], forced[1:]
		}
		ids = append(ids, got.Token)
		if c.Accept(got.Token); len(forced) == 0 {
			forced = c.Forced()
		}
	}
	return ids
}

// TestForcedSpelling holds that log probabilities, for which no token is forced without being computed, change no
// token, and neither does preemption. Bad words keep tokens from being forced.
func TestForcedSpelling(t *testing.T) {
	make := func(n, logprobs int) Request {
		r := request(n, 5+n, 40)
		r.Logprobs = logprobs
		r.Constraint = func() Constraint { return new(speller) }
		switch n % 3 {
		case 1:
			r.Sampling.FrequencyPenalty = 0.5
		case 2:
			r.Sampling.Temperature, r.Sampling.DRYMultiplier = 1, 0.8
		}
		if n == 9 {
			r.Sampling.BadWords = [][]int32{{5}}
		}
		return r
	}
	for _, logprobs := range []int{-1, 0, 2} {
		cfg := smallConfig()
		cfg.Blocks = 36
		f, held := newFake(cfg), newGate(t)
		f.forward = held.forward
		e := start(t, Config{Runner: f, Sched: cfg})
		var streams []*Stream
		for n := range 10 {
			streams = append(streams, submit(t, e, t.Context(), make(n, logprobs)))
		}
		held.open()
		for n, s := range streams {
			ids, last := read(t, s)
			if last.Err != nil {
				t.Errorf("logprobs %d: request %d: %v", logprobs, n, last.Err)
			}
			if bad := slices.Contains(ids, 5); n == 9 && bad {
				t.Errorf("logprobs %d: a bad word is in %v", logprobs, ids)
			}
			if want := spelled(make(n, logprobs)); n != 9 && !slices.Equal(ids, want) {
				t.Errorf("logprobs %d: request %d got %v; want %v", logprobs, n, ids, want)
			}
		}
		if e.Stats().Sched.Preemptions == 0 {
			t.Error("no sequence was preempted; the test wants some")
		}
		wantIdle(t, e)
	}
}

// TestConstrainedAnswers holds that each answer to a prepared request has a constraint of its own.
func TestConstrainedAnswers(t *testing.T) {
	cfg := smallConfig()
	e := start(t, Config{Runner: newFake(cfg), Sched: cfg})
	r := request(4, 11, 20)
	r.Constraint = func() Constraint { return new(rule) }
	p, err := e.Prepare(r)
	if err != nil {
		t.Fatal(err)
	}
	var streams []*Stream
	for range 3 {
		s, err := p.Submit(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		streams = append(streams, s)
	}
	for i, s := range streams {
		alone := r
		alone.Sampling.Seed += uint64(i)
		if ids, last := read(t, s); !slices.Equal(ids, constrained(alone)) || last.Err != nil {
			t.Errorf("answer %d: got %v, %+v; want %v", i, ids, last, constrained(alone))
		}
	}
	wantIdle(t, e)
}

// TestConstrainedStepFails lets the step before one that waits for masks fail.
func TestConstrainedStepFails(t *testing.T) {
	for at := 2; at < 12; at++ {
		synctest.Test(t, func(t *testing.T) {
			cfg := smallConfig()
			f, steps := newFake(cfg), 0
			f.forward = func(*compute.Batch) error {
				if steps++; steps == at {
					return errors.New("the device is on fire")
				}
				return nil
			}
			e := start(t, Config{Runner: f, Sched: cfg})
			r := request(3, 9, 20)
			r.Constraint = func() Constraint { return new(rule) }
			if ids, last := read(t, submit(t, e, t.Context(), r)); !slices.Equal(ids, constrained(r)) || last.Err != nil {
				t.Errorf("step %d fails: got %v, %+v; want %v", at, ids, last, constrained(r))
			}
		})
	}
}

// TestDeviceLost ends all requests, and refuses others, once a fault says that the device is lost.
func TestDeviceLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := smallConfig()
		f, steps := newFake(cfg), 0
		gone := errors.New("fell off the bus")
		f.forward = func(*compute.Batch) error {
			if steps++; steps > 4 {
				return &compute.Fault{Err: gone, Lost: true}
			}
			return nil
		}
		e := start(t, Config{Runner: f, Sched: cfg})
		for n := range 2 {
			s, err := e.Submit(t.Context(), request(n, 4, 30))
			if n > 0 {
				if !errors.Is(err, ErrDevice) || !errors.Is(err, gone) {
					t.Errorf("a request after the loss: %v", err)
				}
				continue
			}
			if _, last := read(t, s); !errors.Is(last.Err, ErrDevice) || !errors.Is(last.Err, gone) {
				t.Errorf("the request ended with %+v", last)
			}
		}
		if err := e.Health(1); !errors.Is(err, ErrDevice) {
			t.Errorf("health: %v", err)
		}
		if steps != 5 {
			t.Errorf("%d steps ran; want none after the fifth", steps)
		}
		wantIdle(t, e)
	})
}
