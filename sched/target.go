package sched

import (
	"fmt"
	"math"
)

// leastChunk is how many tokens of prompts a step may compute, however long it takes, so that prompts go on.
const leastChunk = 16

// Took tells how long a step took, in microseconds, before its Commit. It never changes a token, only how many tokens
// of prompts later steps compute (Config.StepTarget) and who is refused (Config.MaxQueueTime).
func (s *Scheduler) Took(p *Plan, micros int64) {
	var all int64
	rows := 0
	for i := range p.Seqs {
		w := &p.Seqs[i]
		all += pairs(w.Start, w.N)
		if w.N-w.Draft > 1 || !w.Sample {
			rows += w.N + w.Cached
		}
	}
	s.cost.observe(int64(p.Rows), all, float64(micros))
	if s.waiting.n > 0 {
		s.pace.observe(rows, float64(micros))
	}
}

// allow decides how long the prompts in a plan may take: what the target leaves beside those who decode. Without a
// target, and where nobody decodes, it is any time.
func (s *Scheduler) allow(p *Plan) {
	p.left, p.least, p.owed = math.Inf(1), 0, 0
	if s.cfg.StepTarget == 0 || s.cfg.Whole || s.cfg.Batch != Mixed || !s.cost.known {
		return
	}
	s.cost.fit()
	left, decodes := float64(s.cfg.StepTarget)-s.cost.base(), false
	for q := s.running.front; q != nil; q = q.next {
		if q.length-q.computed == 1 && q.prompt < q.length {
			decodes = true
			left -= s.cost.work(q.computed, 1)
		}
	}
	if decodes {
		p.left, p.least, p.owed = left, leastChunk, s.running.n
	}
}

// chunk returns how many of q's next n tokens a plan has the time for; at least one, unless it is to be admitted.
func (s *Scheduler) chunk(p *Plan, q *sequence, n int) int {
	if n <= 1 || math.IsInf(p.left, 1) {
		return n
	}
	return max(1, min(n, max(s.cost.afford(p.left, q.computed, n), min(n, p.least))))
}

// spend takes what a plan does for a prompt off the time for prompts.
func (s *Scheduler) spend(p *Plan, start, n int) {
	p.left -= s.cost.work(start, n)
	p.least = max(0, p.least-n)
}

// BusyError refuses a sequence since too many wait before it. It is ErrQueueFull.
type BusyError struct {
	Wait int64 // predicted milliseconds until those are admitted that wait now
}

func (e *BusyError) Error() string {
	if e.Wait == 0 {
		return ErrQueueFull.Error()
	}
	return fmt.Sprintf("%v: it would wait for about %d ms", ErrQueueFull, e.Wait)
}

// Is reports that e is ErrQueueFull.
func (e *BusyError) Is(target error) bool { return target == ErrQueueFull }

// pace is how fast prompts are computed, or found in the cache, while others wait: a moving average over paceMicros.
type pace struct{ rows, micros float64 }

const paceMicros = 5e6

func (p *pace) observe(rows int, micros float64) {
	p.rows, p.micros = p.rows+float64(rows), p.micros+micros
	if p.micros > paceMicros {
		p.rows, p.micros = p.rows*paceMicros/p.micros, paceMicros
	}
}

// Wait predicts, in milliseconds, when all prompts are computed of those who run and wait now: from the pace at which
// prompts were computed while others waited, or if that is not known, from what steps cost. 0 if neither is known.
func (s *Scheduler) Wait() int64 { return s.waitFor(s.waiting.tokens - s.waiting.behindTokens) }

// waitFor is Wait with so many tokens of those that wait.
func (s *Scheduler) waitFor(tokens int) int64 {
	for q := s.running.front; q != nil; q = q.next {
		if n := q.length - q.computed; n > 1 && !q.background {
			tokens += n
		}
	}
	perToken := 0.0
	switch {
	case s.pace.rows > 0 && s.pace.micros >= paceMicros/5:
		perToken = s.pace.micros / s.pace.rows
	case s.cost.known:
		s.cost.fit()
		perToken = s.cost.coefs[1]
	}
	return int64(min(perToken*float64(tokens)/1000, math.MaxInt32))
}

// patient is how many may wait at least, however long that takes, unless they say by when they want their first token.
const patient = 4

// late returns an error if a request would wait too long for its first token.
func (s *Scheduler) late(r *Request) error {
	most := s.cfg.MaxQueueTime
	switch {
	case r.Parent != 0 || r.Patient || r.Background:
		return nil
	case r.Within > 0:
		most = r.Within
	case most == 0:
		return nil
	}
	count, tokens := s.before(r.Tenant)
	if r.Within == 0 && count < patient {
		return nil
	}
	if wait := s.waitFor(tokens); wait > most {
		return &BusyError{wait}
	}
	return nil
}

// before returns how many sequences wait whose turn is before that of a tenant's next one, and how many tokens they
// have. Under a fair policy those of the tenant itself are, and of each other tenant that waits as many tokens.
func (s *Scheduler) before(name string) (count, tokens int) {
	all := s.waiting.tokens - s.waiting.behindTokens
	if !s.policy.fair {
		return s.waiting.n - s.waiting.behind, all
	}
	if t := s.tenants[name]; t != nil {
		for _, q := range t.waiting.All() {
			if !q.background {
				count, tokens = count+1, tokens+q.counted
			}
		}
	}
	return count, min(tokens*max(1, s.waiting.tenants.Len()), all)
}
