package sched

import "github.com/kvasir-llm/kvasir/named"

// Batch says how prompts and decoding sequences share steps.
type Batch string

const (
	// Mixed steps serve both. Each running sequence gets at least one row in every step, so that no prompt makes
	// decoding sequences wait. It is the default.
	Mixed Batch = "mixed"
	// PrefillFirst computes only prompts in a step, as long as any can be computed or admitted: first tokens come
	// sooner and steps are larger, but no sequence decodes meanwhile.
	PrefillFirst Batch = "prefill-first"
	// DecodeFirst admits no sequence into a step that yields tokens: no new prompt slows decoding sequences, since it
	// waits until all of them have ended.
	DecodeFirst Batch = "decode-first"
	// Static takes a batch from the queue when no sequence runs, as many as may run and fit, and admits no other until
	// all of these have ended. With Config.Window it waits that long for the batch to become full (windowed dynamic
	// batching). It is a baseline to compare continuous batching with.
	Static Batch = "static"
)

// batches are all there are.
var batches = named.Plain(
	named.Value[Batch]{Is: Mixed}, named.Value[Batch]{Is: PrefillFirst}, named.Value[Batch]{Is: DecodeFirst},
	named.Value[Batch]{Is: Static},
)

// Batches returns the names that Config.Batch takes, the default first.
func Batches() []string { return batches.Names() }

// BatchHelp says what they mean, as part of a sentence.
func BatchHelp() string { return batches.Help() }

// fill plans the rows of a step.
func (s *Scheduler) fill(p *Plan) {
	prompts := s.promptsTurn()
	if s.fillTurn(p, prompts); !prompts && len(p.Seqs) == 0 && len(p.Preempted) == 0 {
		s.fillTurn(p, true) // no decoding sequence has a block for its next token
	}
}

// fillTurn is fill for a step that computes prompts, or does not.
func (s *Scheduler) fillTurn(p *Plan, prompts bool) {
	switch s.cfg.Batch {
	case PrefillFirst, Static:
		if prompts {
			s.planPrompts(p)
		}
		if prompts && s.open() && len(p.Preempted) == 0 {
			s.admitOrYield(p)
			s.closed = s.room(p) > 0 || s.running.n == s.cfg.MaxSeqs || s.waiting.n == 0
		}
		if p.Rows == 0 {
			s.planRunning(p, prompts)
		}
	case DecodeFirst:
		if s.planRunning(p, prompts); prompts && !p.samples() && len(p.Preempted) == 0 {
			s.admitOrYield(p)
		}
	default:
		s.mix(p, prompts)
	}
}

// mix plans a Mixed step. The sequences in the background come after all others, also after those that it admits.
func (s *Scheduler) mix(p *Plan, prompts bool) {
	if s.lone = p.lone && prompts; s.lone {
		if s.planLone(p) {
			return
		}
		s.allow(p) // for all prompts, as none that leads can run
	}
	s.prepare(p, prompts)
	before := s.running.n
	s.mixClass(p, prompts, false)
	if s.background == 0 {
		return
	}
	if prompts && len(p.Preempted) == 0 && s.running.n == before {
		s.yield(p)
	}
	s.mixClass(p, prompts, true)
}

// mixClass plans the sequences that are in the background, or those that are not, and admits others like them. Where a
// crowd takes turns, it is the first one that some sequence has.
func (s *Scheduler) mixClass(p *Plan, prompts, background bool) {
	for range crowdTurns {
		s.planClass(p, prompts, background)
		if prompts && len(p.Preempted) == 0 && (!background || s.waiting.n == s.waiting.behind) {
			s.admit(p, background)
		}
		if !p.turns || len(p.Seqs) > 0 {
			return
		}
		s.takeTurn(p)
	}
}

// admitOrYield admits sequences of both kinds or, if it finds none to admit, makes room for one that is not in the
// background.
func (s *Scheduler) admitOrYield(p *Plan) {
	before := s.running.n
	if s.admit(p, true); s.background > 0 && s.running.n == before {
		s.yield(p)
	}
}

// yield preempts the last of the running sequences in the background if it has what keeps another one waiting.
func (s *Scheduler) yield(p *Plan) {
	if s.running.n == 0 || s.waiting.n == s.waiting.behind || s.room(p) <= 0 {
		return
	}
	q, last := s.waiting.front(), s.lastRunning(p)
	if !last.background || q.awaits.Pending() {
		return
	}
	if s.running.n >= s.cfg.MaxSeqs || s.pool.Available() <= s.promised || s.pool.AvailableStates() == 0 ||
		!s.adapterFits(q) || !s.fits(q, &q.offer) {
		s.swapOut(p, last)
		s.preempt(p, last)
	}
}

// promptsTurn reports whether the step computes prompts, by Config.Interval.
func (s *Scheduler) promptsTurn() bool {
	if s.sincePrompts++; s.sincePrompts >= s.cfg.Interval {
		return true
	}
	for q := s.running.front; q != nil; q = q.next {
		if q.length-q.computed == 1 && q.length < q.limit {
			return false
		}
	}
	return true
}

// open reports whether sequences may join the batch.
func (s *Scheduler) open() bool {
	if s.cfg.Batch != Static {
		return true
	}
	if s.running.n == 0 && s.waiting.n > 0 {
		s.closed = s.waiting.n < s.cfg.MaxSeqs && s.now < s.waiting.front().since+s.cfg.Window
	}
	return !s.closed
}
