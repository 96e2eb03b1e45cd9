package engine

import (
	"fmt"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/kvasir-llm/kvasir/sampling"
	"github.com/kvasir-llm/kvasir/sched"
)

// entry is the part of one sequence in the step in hand.
type entry struct {
	seq    *sequence // nil if it ended before the step was packed
	rows   []int32   // token positions of the prompt whose logits score the token after them
	sample bool      // then the row after those of rows yields a token
	logits int       // index of its first row in Engine.rows
	hidden int       // and in Engine.hidden
	pooled int       // rows there

	token Token // sampled
	err   error
}

// delivery is a token on its way to a stream.
type delivery struct {
	seq   *sequence
	token Token
}

// pack makes the batch of the plan in hand. It returns false if nothing is left to compute.
func (e *Engine) pack() bool {
	e.batch.Reset()
	e.settle()
	e.tiers.prepare(e.sched, e.plan, e.cfg.Now, e.cfg.Logger)
	now := e.cfg.Now()
	e.report = StepDone{Gaps: e.report.Gaps[:0], FirstTokens: e.report.FirstTokens[:0], Preempted: len(e.plan.Preempted)}
	for _, id := range e.plan.Preempted {
		if q := e.seqs[id]; q != nil {
			q.owner().preempted++
		}
	}
	for _, c := range e.plan.Copies {
		e.batch.Copies = append(e.batch.Copies, [2]int32{c.From, c.To})
	}
	for _, w := range e.plan.Seqs {
		q := e.seqs[w.ID]
		e.entries = append(e.entries, entry{seq: q, sample: w.Sample})
		if q == nil {
			continue
		}
		if q.scheduled.IsZero() {
			q.scheduled, q.cached = now, w.Cached
			if q.adapter != nil {
				q.adapter.running.Add(1)
			}
		}
		e.packWork(&e.entries[len(e.entries)-1], w)
		e.report.Seqs++
	}
	e.report.Rows = e.batch.Rows()
	return e.report.Rows > 0
}

// packWork puts the part of one sequence into the batch.
func (e *Engine) packWork(x *entry, w sched.Work) {
	q, row := x.seq, e.batch.Rows()
	x.logits, x.rows = len(e.batch.Logits), x.rows[:0]
	e.batch.Append(q.ids[w.Start:w.Start+w.N], w.Start, false, w.Tables...)
	seq := &e.batch.Seqs[len(e.batch.Seqs)-1]
	seq.State, seq.Long = max(0, w.State), q.long
	if q.adapter != nil {
		seq.Adapter = q.adapter.slot.Load()
	}
	e.packTypes(q, w.Start, w.N)
	if q.req.Pool != "" {
		e.packPool(x, w, row)
		return
	}
	if q.scores != nil {
		// Position p scores token p+1. Those scored before a preemption are not scored again.
		for p := max(w.Start, len(q.scores)-1); p < min(w.Start+w.N, len(q.req.Prompt)-1); p++ {
			x.rows = append(x.rows, int32(p))
			e.batch.Logits = append(e.batch.Logits, int32(row+p-w.Start))
		}
	}
	if w.Sample {
		e.batch.Logits = append(e.batch.Logits, int32(e.batch.Rows()-1))
	}
}

// isolate computes the step in hand again, after it failed for all together, for one sequence after the other: those for
// whom it fails again end with an error, the others go on. Computing a part of a step twice changes nothing, since each
// token's keys and values have their place; but a recurrent state may have gone on already, so who has one ends.
func (e *Engine) isolate(err error) {
	e.cfg.Logger.Error("a step failed, and is computed again for each request alone", "error", err, "requests", e.report.Seqs, "rows", e.report.Rows)
	for i, w := range e.plan.Seqs {
		x := &e.entries[i]
		if x.seq == nil || x.seq.ended {
			continue
		}
		if w.State >= 0 {
			e.fail(x.seq, err)
			continue
		}
		copies := e.batch.Copies // those not made yet
		e.batch.Reset()
		e.batch.Copies = copies
		e.packWork(x, w)
		e.launch()
		if err := e.await(); err == nil {
			e.readLogits()
			e.sampleEntry(&e.samplers[0], x)
		} else if !x.seq.ended {
			e.cfg.Logger.Error("a request failed", "error", err, "rows", w.N)
			e.fail(x.seq, err)
		}
	}
}

// readLogits takes what the batch asked for.
func (e *Engine) readLogits() {
	e.rows = e.rows[:0]
	for i := range e.batch.Logits {
		e.rows = append(e.rows, e.cfg.Runner.Logits(i))
	}
	e.hidden = e.hidden[:0]
	for i := range e.batch.Hidden {
		e.hidden = append(e.hidden, e.cfg.Runner.Hidden(i))
	}
}

// logitsEach is how many logits make another goroutine to sample from them worth its start: of 10 µs if the likeliest tokens are
// taken, and 60 to 100 if they are drawn.
const logitsEach = 1 << 18

// sample chooses the tokens of the step in hand. It begins at once, and those that help join when they wake.
func (e *Engine) sample() {
	e.readLogits()
	e.sampled.Store(0)
	helpers := min(len(e.samplers), len(e.rows), len(e.rows)*e.cfg.Vocab/logitsEach) - 1
	if helpers < 1 {
		e.sampleEntries(&e.samplers[0])
		return
	}
	var all sync.WaitGroup
	for i := range helpers {
		all.Go(func() { e.sampleEntries(&e.samplers[i+1]) })
	}
	e.sampleEntries(&e.samplers[0])
	all.Wait()
}

// sampleEntries samples entries, one after the other, that no one else has taken.
func (e *Engine) sampleEntries(s *sampling.Sampler) {
	for i := e.sampled.Add(1); int(i) <= len(e.entries); i = e.sampled.Add(1) {
		e.sampleEntry(s, &e.entries[i-1])
	}
}

// sampleEntry scores the prompt tokens of one entry and chooses its token. It touches nothing but the entry, its sequence
// and its logits. A fault is the entry's.
func (e *Engine) sampleEntry(s *sampling.Sampler, x *entry) {
	q := x.seq
	if q == nil || q.ended {
		return
	}
	defer func() {
		if v := recover(); v != nil {
			e.cfg.Logger.Error("sampling panicked", "panic", v, "stack", string(debug.Stack()))
			x.err = fmt.Errorf("engine: sampling panicked: %v", v)
		}
	}()
	if q.req.Pool != "" {
		e.pool(x)
		return
	}
	for i, p := range x.rows {
		c, err := s.Logprobs(e.rows[x.logits+i], q.ids[p+1], q.req.PromptLogprobs)
		if err != nil {
			x.err = fmt.Errorf("engine: prompt position %d: %w", p, err)
			return
		}
		q.scores = append(q.scores, tokenOf(c))
	}
	if !x.sample {
		return
	}
	if q.search != nil {
		c, err := s.Logprobs(e.rows[x.logits], 0, q.req.Logprobs)
		if x.err = err; err == nil {
			x.token = tokenOf(c)
		}
		return
	}
	q.sampling.Banned = nil
	if q.generated() < q.req.MinTokens {
		q.sampling.Banned = q.req.StopTokens
	}
	c, err := s.Sample(q.sampling, e.rows[x.logits+len(x.rows)], q.req.Logprobs)
	if err != nil {
		x.err = fmt.Errorf("engine: output token %d: %w", q.generated(), err)
		return
	}
	x.token = tokenOf(c)
	q.sampling.Accept(c.Token)
	q.ids = append(q.ids, c.Token)
	if slices.Contains(q.req.StopTokens, c.Token) {
		x.token.Finish = FinishStop
	}
}

// tokenOf copies a choice out of the sampler's memory.
func tokenOf(c sampling.Choice) Token {
	t := Token{ID: c.Token, Logprob: c.Logprob}
	if len(c.Top) > 0 {
		t.Top = slices.Clone(c.Top)
	}
	return t
}

// commit tells the scheduler what the step in hand yielded, and sees to the tokens.
func (e *Engine) commit() {
	for i := range e.entries {
		if x := &e.entries[i]; x.err != nil {
			e.fail(x.seq, x.err) // before Commit, so that none of its blocks can be found
		}
	}
	e.results = e.results[:0]
	for i := range e.entries {
		x := &e.entries[i]
		e.results = append(e.results, sched.Result{Token: x.token.ID, Finished: x.token.Finish != ""})
	}
	e.sched.Commit(e.plan, e.results)
	now := e.cfg.Now()
	for i := range e.entries {
		x := &e.entries[i]
		if x.seq == nil || x.seq.ended || !x.sample {
			continue
		}
		if x.seq.search != nil {
			e.arrive(x.seq, x.token.Top, now)
			continue
		}
		if e.results[i].Finished && x.token.Finish == "" {
			x.token.Finish = FinishLength
		}
		e.observeToken(x.seq, now)
		if x.token.Finish != "" {
			e.end(x.seq, x.token)
		} else {
			e.outbox = append(e.outbox, delivery{x.seq, x.token})
		}
	}
	e.plan, e.next = e.next, nil
	if e.report.Rows > 0 {
		e.observeStep(now.Sub(e.started))
	}
	clear(e.entries)
	e.entries = e.entries[:0]
}

// flush hands out the tokens that wait in the outbox. The counters come first: who has a request's last token finds that
// what it held is free.
func (e *Engine) flush() {
	e.publish()
	e.tell()
	over := 0
	for i := range e.outbox {
		q, t := e.outbox[i].seq, e.outbox[i].token
		q.stream.push(t, q.cached, q.scores, q.vector)
		if t.Finish != "" {
			over++
		}
	}
	clear(e.outbox)
	e.outbox = e.outbox[:0]
	if over > 0 {
		e.mu.Lock()
		e.left(over)
		e.mu.Unlock()
	}
}
