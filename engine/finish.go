package engine

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/kvasir-llm/kvasir/sched"
)

// finish sees the oldest step to its end: it waits for it, takes what it chose, commits it, and lets the step after it
// choose, whose masks depend on that.
func (e *Engine) finish() {
	s := &e.steps.ring[e.steps.oldest]
	err := e.await(s)
	if err != nil && skipped(err) && e.dead == nil {
		e.steps.restart(s)
		err = e.await(s)
	}
	done := e.cfg.Now()
	e.tick()
	switch {
	case err == nil:
		for i := range s.entries {
			if q := s.entries[i].seq; q != nil {
				e.touched += q.touch()
			}
		}
		for i := range s.entries {
			s.entries[i].take(s)
		}
	case e.dead != nil: // all have ended
	default:
		if !lost(err) {
			err = e.isolate(s, err)
		}
		if !lost(err) {
			break
		}
		if e.rebuild(s, err) {
			return
		}
		e.lose(err)
	}
	e.counts.Rates = e.tiers.stored(e.sched, s)
	if e.steps.observe(s, done); err == nil {
		e.sched.Took(s.plan, s.report.Duration.Microseconds())
	}
	e.commit(s)
	now := e.cfg.Now()
	s.report.Host = e.spent + now.Sub(e.busy)
	e.worked(s.report.Host)
	e.busy, e.spent = now, 0
	if s.report.Rows > 0 {
		e.observeStep(s)
	}
	e.steps.pop()
	e.steps.release(e.steps.newest())
}

// lose ends everything, since the device is lost.
func (e *Engine) lose(err error) {
	e.cfg.Logger.Error("the device is lost", "error", err)
	e.mu.Lock()
	e.dead, e.ailment = fmt.Errorf("%w: %w", ErrDevice, err), nil
	e.mu.Unlock()
	e.steps.settle()
	for _, q := range e.ordered() {
		e.fail(q, e.dead)
	}
	if e.cfg.Lost != nil {
		e.cfg.Lost(err)
	}
}

// isolate computes a step again, after it failed for all together, for one sequence after the other: those for which it
// fails again end with an error, the others go on. Computing a part of a step twice changes nothing, since each token's
// keys and values have their place; but a recurrent state may have gone on already, so a sequence that has one ends.
//
// The error it returns is not nil, and may be that the device is lost meanwhile.
func (e *Engine) isolate(s *step, err error) error {
	e.cfg.Logger.Error("a step failed, and is computed again for each request alone", "error", err, "requests", s.report.Seqs, "rows", s.report.Rows)
	e.steps.settle()
	if err := e.steps.move(s); lost(err) {
		return err
	}
	for i, w := range s.plan.Seqs {
		x := &s.entries[i]
		if x.seq == nil || x.seq.ended {
			continue
		}
		if w.State >= 0 {
			e.fail(x.seq, err)
			continue
		}
		if err := e.steps.alone(s, i); err == nil {
			x.take(s)
		} else if lost(err) {
			return err
		} else if !x.seq.ended {
			e.cfg.Logger.Error("a request failed", "error", err, "rows", w.N)
			e.fail(x.seq, err)
		}
	}
	return err
}

// commit tells the scheduler what a step yielded, and sees to the tokens that count.
func (e *Engine) commit(s *step) {
	for i := range s.entries {
		x := &s.entries[i]
		if err := s.err(x); err != nil {
			e.fail(x.seq, err) // before Commit, so that none of its blocks can be found
		}
	}
	e.results = slices.Grow(e.results[:0], len(s.entries))[:len(s.entries)]
	for i := range s.entries {
		s.entries[i].result(s, &e.results[i])
	}
	e.sched.Commit(s.plan, e.results)
	now := e.cfg.Now().Sub(e.epoch)
	for i := range s.entries {
		x, r := &s.entries[i], &e.results[i]
		if x.seq == nil || x.seq.ended || len(r.Tokens) == 0 {
			continue
		}
		if !x.seq.plain && x.seq.search != nil {
			e.branchOut(s, x.seq, x.tokens(s)[0].token().Top, now)
			continue
		}
		e.verified(x.seq, x, x.tokens(s)[:len(r.Tokens)])
		e.accept(s, x, r, now)
	}
	e.ask()
}

// accept hands out the tokens of one sequence, and sees to what follows them.
func (e *Engine) accept(s *step, x *entry, r *sched.Result, now time.Duration) {
	q := x.seq
	for i, t := range x.tokens(s)[:len(r.Tokens)] {
		e.observeToken(s, q, now)
		if i == len(r.Tokens)-1 && r.Finished {
			last := t.token()
			last.Finish = cmp.Or(last.Finish, FinishLength)
			e.end(q, last)
			return
		}
		e.out = append(e.out, delivery{q.stream, t})
		if q.plain {
			continue
		}
		if c := q.constraint; c != nil {
			began := e.cfg.Now()
			err := c.Accept(t.id)
			q.asking += e.cfg.Now().Sub(began)
			if err != nil {
				e.fail(q, fmt.Errorf("engine: output token %d: %w", q.generated()-1, err))
				return
			}
			q.forced = q.forced[min(1, len(q.forced)):]
		}
	}
	switch {
	case q.plain:
	case q.constraint != nil:
		began := e.cfg.Now()
		e.force(s, q, now)
		q.asking += e.cfg.Now().Sub(began)
		e.slow(q)
	case q.drafting != nil:
		e.draft(q)
	}
}

// leastJump is how many tokens must be forced to append them without choosing them. It costs the sequence the step
// under way, so that one token gains nothing.
const leastJump = 2

// force asks which tokens must follow, and appends them without computing a choice. Where their log probabilities are
// wanted, and where they cannot be appended, steps choose them one after the other, by masks of that one token. So the
// tokens are the same. Bad words keep it from asking: other tokens may spell the text.
func (e *Engine) force(s *step, q *sequence, now time.Duration) {
	if len(q.req.Sampling.BadWords) > 0 {
		return
	}
	for {
		if len(q.forced) == 0 {
			q.forced = q.constraint.Forced()
		}
		ids := q.forced
		if i := slices.IndexFunc(ids, q.stopsAt); i >= 0 {
			ids = ids[:i] // a step chooses what ends the output
		}
		if q.req.Logprobs >= 0 || len(ids) < leastJump || !e.jump(s, q, ids, now) {
			return
		}
	}
}

// jump appends forced tokens, and reports whether the sequence goes on after all of them.
func (e *Engine) jump(s *step, q *sequence, ids []int32, now time.Duration) bool {
	n, ended, err := e.sched.Force(q.id, ids)
	if err != nil || n == 0 {
		return false
	}
	e.steps.recall(q)
	at := q.generated() - n
	q.forced = q.forced[n:]
	for i, id := range ids[:n] {
		e.observeToken(s, q, now)
		t := Token{ID: id, Origin: originForced}
		if ended && i == n-1 {
			t.Finish = FinishLength
			e.end(q, t)
			return false
		}
		e.out = append(e.out, delivery{q.stream, briefOf(t)})
		if err := q.constraint.Accept(id); err != nil {
			e.fail(q, fmt.Errorf("engine: output token %d: %w", at+i, err))
			return false
		}
	}
	return true
}

// flush hands over the tokens that wait. The counters come first: a reader that has a request's last token finds that
// what it held is free.
func (e *Engine) flush() {
	e.publish()
	e.tell()
	if len(e.out) > 0 {
		e.out = e.outbox.send(e.out)
	}
}
