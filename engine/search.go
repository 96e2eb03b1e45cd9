package engine

import (
	"fmt"
	"slices"
	"time"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/sampling"
	"github.com/kvasir-llm/kvasir/sched"
)

// search is a request that is answered by a beam search. Each beam is a sequence of the scheduler that yields one
// token, or rather what it may be: the sequence is held, and those that go on from it share its blocks. Who goes on
// is decided when all beams are there.
type search struct {
	root  *sequence // the request, and the first beam: what has the stream
	beams *sampling.Beams
	live  []*sequence           // the beams, in their order
	tops  [][]compute.Candidate // [live] what may follow each; nil: not known yet
}

// newSearch makes q a beam search. Its request passed check.
func newSearch(q *sequence) *search {
	p := *q.req.Search
	p.MaxTokens, p.StopTokens = q.req.MaxTokens, q.stops
	q.req.Logprobs = max(q.req.Logprobs, p.Top())
	return &search{root: q, beams: sampling.NewBeams(p), live: []*sequence{q}, tops: make([][]compute.Candidate, 1)}
}

// pending reports whether it is not known yet what may follow beam q.
func (s *search) pending(q *sequence) bool {
	i := slices.Index(s.live, q)
	return i >= 0 && s.tops[i] == nil
}

// owner returns the sequence that has q's stream.
func (q *sequence) owner() *sequence {
	if q.search != nil {
		return q.search.root
	}
	return q
}

// branchOut takes what may follow beam q. When it is known of all, the search goes a step on.
func (e *Engine) branchOut(st *step, q *sequence, top []compute.Candidate, now time.Duration) {
	s := q.search
	s.tops[slices.Index(s.live, q)] = top
	if slices.ContainsFunc(s.tops, func(t []compute.Candidate) bool { return t == nil }) {
		return
	}
	steps := s.beams.Next(s.tops)
	e.observeToken(st, s.root, now)
	if !s.beams.Over() {
		e.branch(s, steps)
		return
	}
	last := Token{ID: -1, Finish: FinishLength}
	if best := s.beams.Best(); len(best) == 0 {
		last.Finish, last.Err = FinishError, fmt.Errorf("engine: no beam has a token that may follow")
	} else if best[0].Ended {
		last.Finish = FinishStop
	}
	e.end(s.root, last)
}

// branch replaces the beams of a search by those that go on from them.
func (e *Engine) branch(s *search, steps []sampling.Step) {
	old := s.live
	s.live, s.tops = make([]*sequence, len(steps)), make([][]compute.Candidate, len(steps))
	for i, step := range steps {
		from := old[step.From]
		q := &sequence{
			id: sched.SeqID(e.lastID.Add(1)), stream: s.root.stream, long: s.root.long, ran: s.root.ran, prompt: s.root.prompt,
			rest: &rest{
				req: s.root.req, arrived: s.root.arrived, adapter: s.root.adapter, search: s, parent: from.id,
				heir: !slices.ContainsFunc(steps[i+1:], func(o sampling.Step) bool { return o.From == step.From }),
			},
		}
		q.ids = append(append(make([]int32, 0, len(from.ids)+1), from.ids...), step.Token)
		s.live[i], e.seqs[q.id] = q, q
	}
	for i, q := range old {
		if q != s.root { // by which the whole search can be ended
			delete(e.seqs, q.id)
		}
		if !slices.ContainsFunc(steps, func(o sampling.Step) bool { return o.From == i }) {
			e.sched.Cancel(q.id)
		}
	}
	for _, q := range s.live {
		if err := e.add(q); err != nil {
			e.fail(q, err)
			for _, o := range old { // those whose heirs were not added
				e.sched.Cancel(o.id)
			}
			return
		}
	}
}

// forget takes the beams of a search out of the scheduler.
func (e *Engine) forget(s *search) {
	for _, q := range s.live {
		q.ended = true
		delete(e.seqs, q.id)
		e.sched.Cancel(q.id)
	}
}
