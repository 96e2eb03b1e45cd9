package engine

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"runtime"
	"slices"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/compute/choose"
	"github.com/kvasir-llm/kvasir/compute/cpu"
	"github.com/kvasir-llm/kvasir/fault"
	"github.com/kvasir-llm/kvasir/kv"
	"github.com/kvasir-llm/kvasir/sampling"
	"github.com/kvasir-llm/kvasir/sched"
)

// beamCase is what transformers found: testdata/make_beams.py.
type beamCase struct {
	Model         string             `json:"model"`
	Prompt        []int32            `json:"prompt"`
	Stops         []int32            `json:"stops"`
	Width         int                `json:"width"`
	MaxTokens     int                `json:"max_tokens"`
	LengthPenalty float64            `json:"length_penalty"`
	EarlyStopping sampling.EarlyStop `json:"early_stopping"`
	Answers       [][]int32          `json:"answers"`
	Scores        []float64          `json:"scores"`
}

func (c *beamCase) request() Request {
	r := Request{Prompt: c.Prompt, Params: Params{Sampling: sampling.Defaults(), MaxTokens: c.MaxTokens, StopTokens: c.Stops,
		Logprobs: -1, PromptLogprobs: -1,
		Search: &sampling.BeamParams{Width: c.Width, LengthPenalty: c.LengthPenalty, Early: c.EarlyStopping}}}
	r.Sampling.Temperature = 0
	return r
}

// best waits for the answers of a search.
func best(t *testing.T, s *Stream) []sampling.Hypothesis {
	t.Helper()
	tok, err := s.Next(t.Context())
	if err != nil || tok.Err != nil || tok.Finish == "" {
		t.Fatalf("a search ends with %+v, %v", tok, err)
	}
	return s.Best()
}

func ids(h *sampling.Hypothesis) (out []int32) {
	for _, c := range h.Tokens() {
		out = append(out, c.Token)
	}
	return out
}

// TestBeamSearch finds what transformers does, and with the same scores to the last bit in whatever company,
// preempted, in chunks, with prefix cache and without.
func TestBeamSearch(t *testing.T) {
	data, err := os.ReadFile("testdata/beams.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []beamCase
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	first := map[int][]float64{}
	for _, sc := range []struct {
		name     string
		cfg      sched.Config
		alone    bool
		preempts bool
	}{
		{"alone", sched.Config{Blocks: 300, MaxSeqs: 16, PrefixCache: true}, true, false},
		{"alone, no cache", sched.Config{Blocks: 300, MaxSeqs: 16}, true, false},
		{"alone, one sequence at a time", sched.Config{Blocks: 300, MaxSeqs: 1}, true, false},
		{"in company, chunks of 7", sched.Config{Blocks: 600, MaxSeqs: 40, MaxChunk: 7}, false, false},
		{"in company, few blocks", sched.Config{Blocks: 10, MaxSeqs: 40, PrefixCache: true, Policy: "priority"}, false, true},
		{"in company, fewer blocks, chunks of 7", sched.Config{Blocks: 8, MaxSeqs: 40, MaxChunk: 7, MaxPassed: 3, Policy: "priority"}, false, true},
		{"static, interval", sched.Config{Blocks: 300, MaxSeqs: 12, Batch: sched.Static, Interval: 2, Policy: "vtc"}, false, false},
		{"prefill first, preallocated", sched.Config{Blocks: 20, MaxSeqs: 12, Batch: sched.PrefillFirst, Allocation: sched.Preallocate}, false, false},
	} {
		t.Run(sc.name, func(t *testing.T) {
			for _, name := range []string{"llama", "qwen3"} {
				m := loadGolden(t, name, cpu.Options{Threads: 2, Wide: true})
				cfg := sc.cfg
				cfg.BlockTokens, cfg.TokenBudget, cfg.MaxLen = 16, 64, 80
				cfg.Groups = []kv.Group{{}}
				runner, err := m.NewRunner(cfg.TokenBudget, cfg.Blocks, cfg.BlockTokens, 64)
				if err != nil {
					t.Fatal(err)
				}
				begin := make(chan struct{})
				e := start(t, Config{Runner: &late{Runner: runner, begin: begin}, Vocab: m.Spec.Vocab, Sched: cfg})
				if sc.alone {
					close(begin)
				}
				found := map[int]*Stream{}
				var company []*Stream
				for i := range all {
					if all[i].Model != name {
						continue
					}
					found[i] = submit(t, e, t.Context(), all[i].request())
					if sc.alone {
						best(t, found[i])
						continue
					}
					r := all[i].request()
					r.Search, r.MaxTokens, r.Priority = nil, 40, 1-i%2
					company = append(company, submit(t, e, t.Context(), r))
				}
				if !sc.alone {
					close(begin) // all are there
				}
				for _, s := range company {
					read(t, s)
				}
				for i, s := range found {
					var got []sampling.Hypothesis
					if sc.alone {
						got = s.Best()
					} else {
						got = best(t, s)
					}
					verifyBeams(t, &all[i], got, i, first)
				}
				stats := e.Stats().Sched
				if sc.preempts != (stats.Preemptions > 0) {
					t.Errorf("%d preemptions are not what the scenario is for", stats.Preemptions)
				}
				wantIdle(t, e)
			}
		})
	}
}

// late is a Runner whose first step waits until begin is closed, and the others behind it.
type late struct {
	Runner
	begin <-chan struct{}
	last  *lateStep
}

// lateStep is a step that starts when the one before has started.
type lateStep struct {
	compute.Step
	ready chan struct{} // closed when Step or err is there
	over  chan struct{} // closed when the step is done
	done  chan struct{} // [1]
	err   error
}

func (l *late) Start(b *compute.Batch) (compute.Step, error) {
	s, before := &lateStep{ready: make(chan struct{}), over: make(chan struct{}), done: make(chan struct{}, 1)}, l.last
	l.last = s
	go func() {
		if <-l.begin; before != nil {
			<-before.ready
		}
		s.Step, s.err = l.Runner.Start(b)
		close(s.ready)
		if s.err == nil {
			s.err = s.Step.Wait() // here alone: steps are used again
		}
		close(s.over)
		s.done <- struct{}{}
	}()
	return s, nil
}

func (s *lateStep) Done() <-chan struct{} { return s.done }

func (s *lateStep) Wait() error {
	<-s.over
	return s.err
}

func (s *lateStep) Choose() {
	go func() {
		<-s.ready
		s.Step.Choose()
	}()
}

func verifyBeams(t *testing.T, c *beamCase, got []sampling.Hypothesis, i int, first map[int][]float64) {
	t.Helper()
	if len(got) != len(c.Answers) {
		t.Fatalf("case %d: %d answers; want %d", i, len(got), len(c.Answers))
	}
	var scores []float64
	for k := range got {
		scores = append(scores, got[k].Score)
		if !slices.Equal(ids(&got[k]), c.Answers[k]) || math.Abs(got[k].Score-c.Scores[k]) > 1e-3*max(1, math.Abs(c.Scores[k])) {
			t.Errorf("case %d, answer %d: %v, score %v\nwant %v, score %v", i, k, ids(&got[k]), got[k].Score, c.Answers[k], c.Scores[k])
		}
	}
	if first[i] == nil {
		first[i] = scores
	}
	if !slices.Equal(scores, first[i]) {
		t.Errorf("case %d: scores %v; alone they are %v", i, scores, first[i])
	}
}

func beamRequest(width, prompt, most int) Request {
	r := request(1, prompt, most)
	r.Sampling = sampling.Defaults()
	r.Sampling.Temperature, r.StopTokens = 0, nil
	r.Search = &sampling.BeamParams{Width: width, LengthPenalty: 1, Early: sampling.EarlyHeuristic}
	return r
}

// TestBeamsComputeOneToken counts what a search computes: the prompt once, and one token for each beam and step. What
// is copied is at most one block for each beam.
func TestBeamsComputeOneToken(t *testing.T) {
	for _, cache := range []bool{true, false} {
		const width, prompt, most = 4, 22, 30
		cfg := smallConfig()
		cfg.PrefixCache = cache
		f := newFake(cfg)
		rows, copies := 0, 0
		f.forward = func(b *compute.Batch) error {
			rows += b.Rows()
			copies += len(b.Copies)
			if len(b.Copies) > width {
				t.Errorf("%d copies in a step of %d rows", len(b.Copies), b.Rows())
			}
			return nil
		}
		e := start(t, Config{Runner: f, Vocab: fakeVocab, Sched: cfg})
		best(t, submit(t, e, t.Context(), beamRequest(width, prompt, most)))
		if want := prompt + width*(most-1); rows != want || copies == 0 || copies > (width-1)*(most-1) {
			t.Errorf("cache %v: %d rows and %d copies; want %d rows", cache, rows, copies, want)
		}
		wantIdle(t, e)
	}
}

// TestBeamSearchEnds ends searches before their time: nothing of them is left. Each has an engine of its own, as a step
// planned ahead may run on when its search is over.
func TestBeamSearchEnds(t *testing.T) {
	cfg, gone := smallConfig(), errors.New("gone")
	plain := start(t, Config{Runner: newFake(cfg), Vocab: fakeVocab, Sched: cfg})
	want := best(t, submit(t, plain, t.Context(), beamRequest(3, 9, 20)))
	for name, c := range map[string]struct {
		act  func(e *Engine, cancel context.CancelCauseFunc) error // in the sixth step
		nan  bool                                                  // a beam has no logits
		fail error
	}{
		"cancelled": {func(e *Engine, cancel context.CancelCauseFunc) error {
			cancel(gone)
			for e.Stats().Sched.Running > 0 {
				runtime.Gosched() // until the loop has heard of it
			}
			return nil
		}, false, gone},
		"failed once": {func(*Engine, context.CancelCauseFunc) error { return gone }, false, nil}, // and computed again
		"panicked":    {func(*Engine, context.CancelCauseFunc) error { panic(gone) }, false, nil},
		"no logits":   {nil, true, choose.ErrNaN},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			f, step := newFake(cfg), 0
			var e *Engine
			f.forward = func(*compute.Batch) error {
				if step++; step == 6 && c.act != nil {
					return c.act(e, cancel)
				}
				return nil
			}
			f.after = func(tokens []int32, logits []float32) {
				if c.nan && len(tokens) == 15 {
					logits[3] = float32(math.NaN())
				}
			}
			e = start(t, Config{Runner: f, Vocab: fakeVocab, Sched: cfg})
			s := submit(t, e, ctx, beamRequest(3, 9, 20))
			tok, err := s.Next(t.Context())
			if err != nil || !errors.Is(tok.Err, c.fail) {
				t.Errorf("ends with %+v, %v; want %v", tok, err, c.fail)
			}
			if got := s.Best(); c.fail == nil && (len(got) != 3 || !slices.Equal(ids(&got[0]), ids(&want[0]))) {
				t.Errorf("finds %v; want %v", ids(&got[0]), ids(&want[0]))
			}
			wantIdle(t, e)
		})
	}
}

// TestBeamSearchRefuses names what a search has no use for.
func TestBeamSearchRefuses(t *testing.T) {
	cfg := smallConfig()
	e := start(t, Config{Runner: newFake(cfg), Vocab: fakeVocab, Sched: cfg})
	for field, spoil := range map[string]func(*Request){
		"temperature":        func(r *Request) { r.Sampling.Temperature = 1 },
		"repetition_penalty": func(r *Request) { r.Sampling.RepetitionPenalty = 1.1 },
		"presence_penalty":   func(r *Request) { r.Sampling.PresencePenalty = 1 },
		"frequency_penalty":  func(r *Request) { r.Sampling.FrequencyPenalty = 1 },
		"logit_bias":         func(r *Request) { r.Sampling.LogitBias = map[int32]float32{1: 1} },
		"min_tokens":         func(r *Request) { r.MinTokens = 1 },
		"mirostat":           func(r *Request) { r.Sampling.Mirostat = true },
		"xtc_probability":    func(r *Request) { r.Sampling.XTCProbability = 0.5 },
		"dry_multiplier":     func(r *Request) { r.Sampling.DRYMultiplier = 1 },
		"samplers":           func(r *Request) { r.Sampling.Samplers = []sampling.Stage{} },
		"bad_words":          func(r *Request) { r.Sampling.BadWords = [][]int32{{1}} },
		"prompt_logprobs":    func(r *Request) { r.PromptLogprobs = 0 },
		"beams":              func(r *Request) { r.Search.Width = sampling.MaxBeams + 1 },
		"length_penalty":     func(r *Request) { r.Search.LengthPenalty = math.NaN() },
		"early_stop":         func(r *Request) { r.Search.Early = "later" },
	} {
		r := beamRequest(2, 3, 4)
		spoil(&r)
		var p *fault.Error
		if _, err := e.Submit(t.Context(), r); !errors.As(err, &p) || string(p.Field) != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	r := beamRequest(2, 3, 4)
	r.Constraint = func() Constraint { return new(rule) }
	var p *fault.Error
	if _, err := e.Submit(t.Context(), r); !errors.As(err, &p) || p.Field != FieldConstraint {
		t.Errorf("a constraint: %v", err)
	}
}
