package engine

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/fault"
	"github.com/kvasir-llm/kvasir/sched"
)

// ErrQueueFull is returned for a request that found too many waiting, and ends one that waited when a more urgent one
// came.
var ErrQueueFull = sched.ErrQueueFull

// BusyError is an ErrQueueFull that predicts how long the request would have waited.
type BusyError = sched.BusyError

// Request asks for the continuation of a prompt, or for its vector.
type Request struct {
	Prompt []int32
	// Begun is how many tokens at the end of Prompt are the beginning of the answer: another request generated them and
	// did not end. What follows is chosen, counted and limited as if they had been generated here.
	Begun int
	// EOS are the model's own end tokens: like Params.StopTokens, unless Params.IgnoreEOS is set.
	EOS []int32
	// Pool, if not "", asks for the prompt's vector (Stream.Vector) instead: nothing is generated.
	Pool  Pooling
	Types []int32 // of the prompt's tokens, for models that have types; nil is all 0
	// Parent is a request with the same beginning, or nil: another answer to the same prompt. They share what they can
	// of the KV cache; without a prefix cache, what they have of the prompt.
	Parent *Stream
	Params
}

// Stops returns the tokens that end the output.
func (r *Request) Stops() []int32 {
	switch {
	case r.IgnoreEOS || len(r.EOS) == 0:
		return r.StopTokens
	case len(r.StopTokens) == 0:
		return r.EOS
	}
	return slices.Concat(r.EOS, r.StopTokens)
}

// check returns a *fault.Error for the first field that cannot be used by e.
func (r *Request) check(e *Engine) error {
	most := e.maxLen // tokens of a sequence
	room := most - len(r.Prompt)
	switch {
	case r.Pool != "" && !slices.Contains(poolings, r.Pool):
		return fault.New(FieldPooling, "is %q; want one of %v", r.Pool, poolings)
	case r.Types != nil && len(r.Types) != len(r.Prompt):
		return fault.New(FieldPrompt, "has %d tokens and %d token types", len(r.Prompt), len(r.Types))
	case r.Pool != "" && room < 1:
		return fault.New(FieldPrompt, "has %d tokens; want at most %d", len(r.Prompt), most-1)
	case len(r.Prompt) == 0:
		return fault.New(FieldPrompt, "is empty; want at least one token")
	case room < 1:
		return fault.New(FieldPrompt, "has %d tokens; want at most %d, which leaves room for one more in the context of %d",
			len(r.Prompt), most-1, most)
	case r.Begun < 0 || r.Begun >= len(r.Prompt) || r.MaxTokens > 0 && r.Begun >= r.MaxTokens:
		return fault.New(fieldBegun, "are %d; want fewer than the prompt has with them (%d), and than max_tokens",
			r.Begun, len(r.Prompt))
	case r.Begun > 0 && (r.Search != nil || r.Constraint != nil || r.PromptLogprobs >= 0 || r.Pool != "" || r.Sampling.Mirostat):
		return fault.New(fieldBegun, "cannot be with a beam search, a constraint, mirostat, or log probabilities of the prompt")
	}
	for i, id := range r.Prompt {
		if id < 0 || int(id) >= e.cfg.Vocab {
			return fault.New(FieldPrompt, "has token %d at position %d; the vocabulary has %d", id, i, e.cfg.Vocab)
		}
	}
	if err := r.checkTurn(e.retains); err != nil || r.Pool != "" {
		return err
	}
	if r.Search != nil && r.Constraint != nil {
		return fault.New(FieldConstraint, "limits a beam search, which takes none")
	}
	if r.Search != nil {
		if err := r.checkSearch(); err != nil {
			return err
		}
	}
	return r.Params.check(e.cfg.Vocab, room+r.Begun)
}

// Prepared is a request that passed every check of its engine. It may be submitted from several goroutines.
type Prepared struct {
	engine  *Engine
	req     Request
	answers atomic.Uint64
	first   atomic.Pointer[Stream]
}

// Prepare checks a request. A *fault.Error names the first field that cannot be used. The request's slices must not
// change while the Prepared is used.
func (e *Engine) Prepare(r Request) (*Prepared, error) {
	if err := r.check(e); err != nil {
		return nil, err
	}
	return &Prepared{engine: e, req: r}, nil
}

// Submit queues the request, each time for another answer. The first draws with the request's seed and each one after
// it with the next seed; they share what they can of the first one's KV cache. Errors are as for Engine.Submit.
func (p *Prepared) Submit(ctx context.Context) (*Stream, error) {
	r := p.req
	if n := p.answers.Add(1) - 1; n > 0 {
		r.Sampling.Seed += n
		if first := p.first.Load(); r.Parent == nil {
			r.Parent = first
		}
	}
	s, err := p.engine.submit(ctx, r)
	if err == nil {
		p.first.CompareAndSwap(nil, s)
	}
	return s, err
}

// sequence is the loop's side of a request. What a step reads and writes of each sequence that decodes is here, in one
// cache line; the rest is apart.
type sequence struct {
	*rest
	id        sched.SeqID
	stream    *Stream
	last      time.Duration // when the newest token came, since the engine's start
	prompt    int           // tokens of the prompt
	minTokens int32         // of req
	choice    int32         // in Batch.Choose of the step packed last: its next token
	stop      [2]int32      // the first of stops; -1: there are fewer
	logprobs  int16         // of req
	moreStops bool          // there are more
	plain     bool          // it has none of what rest lists as odd
	long      bool          // compute.Seq.Long
	ran       bool          // it was in a step
	began     bool          // it has a token
	ended     bool
}

// rest is what a step reads of a sequence only if more happens to it than a token.
type rest struct {
	tokens *sched.Tokens // the prompt and what was generated; nil: it was never queued
	stops  []int32       // Request.Stops

	// Odd:
	search       *search    // nil: it is not a beam
	constraint   Constraint // nil is none
	adapter      *adapter   // nil is none
	scores       []Token    // of the prompt's tokens so far, if wanted
	pools, typed bool       // req has Pool, and Types
	wide         bool       // Params.wide
	drafting     *drafting  // nil: no tokens are proposed to it

	forced   []int32       // tokens that must come next, as the constraint last said
	asking   time.Duration // that the constraint took of the loop since the last token
	paused   time.Time     // until when it sits steps out
	req      Request
	ids      []int32    // what it begins with: the prompt, or the tokens of a beam
	answer   chan error // [1] whether the request was taken
	unhook   func()
	parent   sched.SeqID // of a beam: the one that it goes on from
	heir     bool        // of a beam: the last that does
	cause    error       // of a cancellation that came before the arrival
	choosing *compute.Choosing
	pooled   pooled
	vector   []float32 // of Request.Pool, once all rows are there

	within            time.Duration // Params.FirstToken, if it was given
	cached, preempted int
	faults            int           // steps with it that took the device
	arrived           time.Time     // when the request came
	scheduled, first  time.Duration // when it was first in a step, and when its first token came, as last
}

// newSequence makes the sequence of a request that passed check.
func newSequence(r Request, most int) *sequence {
	if r.Pool != "" {
		r.MaxTokens, r.PromptLogprobs, r.Search, r.Constraint = 1, -1, nil, nil // the token is never computed
	}
	if r.MaxTokens == 0 {
		r.MaxTokens = most - (len(r.Prompt) - r.Begun)
	}
	q := &sequence{
		prompt: len(r.Prompt) - r.Begun, minTokens: int32(r.MinTokens), logprobs: int16(r.Logprobs),
		rest: &rest{
			req: r, ids: r.Prompt, answer: make(chan error, 1), stops: r.Stops(), pools: r.Pool != "", typed: r.Types != nil,
			wide: r.Pool == "" && r.wide(),
		},
	}
	if q.wide {
		q.logprobs = 0
	}
	for i := range q.stop {
		if q.stop[i] = -1; i < len(q.stops) {
			q.stop[i] = q.stops[i]
		}
	}
	q.moreStops = len(q.stops) > len(q.stop)
	q.choosing = r.Sampling.Choosing(r.Prompt[:q.prompt], nil, q.stops)
	q.within, q.req.FirstToken = r.FirstToken, cmp.Or(r.FirstToken, time.Second)
	q.req.PerToken = cmp.Or(r.PerToken, 100*time.Millisecond)
	if r.Constraint != nil {
		q.constraint = r.Constraint()
	}
	if r.Search != nil {
		q.search = newSearch(q)
	}
	if r.PromptLogprobs >= 0 {
		q.scores = append(make([]Token, 0, len(r.Prompt)), Token{ID: r.Prompt[0]})
	}
	return q
}

// settle notes whether it is plain, now that all of it is known.
func (q *sequence) settle() {
	q.plain = q.search == nil && q.constraint == nil && q.adapter == nil && q.scores == nil && !q.pools && !q.typed && !q.wide && q.drafting == nil
}

// stopsAt reports whether a token ends the output.
func (q *sequence) stopsAt(id int32) bool {
	return id == q.stop[0] || id == q.stop[1] || q.moreStops && slices.Contains(q.stops, id)
}

// touch is like that of the scheduler's sequences: it reads the cache line that a step needs.
func (q *sequence) touch() int { return q.prompt }

// known returns the prompt and what was generated.
func (q *sequence) known() []int32 {
	if q.tokens == nil {
		return q.ids
	}
	return q.tokens.All()
}

// generated returns the number of output tokens.
func (q *sequence) generated() int {
	if q.tokens == nil {
		return len(q.ids) - q.prompt
	}
	return q.tokens.Len() - q.prompt
}

// reply tells Submit whether the request was taken, once.
func (q *sequence) reply(err error) {
	select {
	case q.answer <- err:
	default:
	}
}
