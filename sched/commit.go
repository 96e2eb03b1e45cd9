package sched

import "fmt"

// Result is what a step yielded for one Work of its plan.
type Result struct {
	Token int32 // the sampled token, if Work.Sample
	// Finished ends the sequence: the caller met a stop token or a stop string. Commit sets it for those that end because
	// they reached Request.MaxTokens or Config.MaxLen, but for those with Request.Hold.
	Finished bool
}

// Commit tells what the oldest outstanding plan yielded; results[i] belongs to p.Seqs[i]. Afterwards the plan is void
// and its memory is reused. Results of sequences that were cancelled meanwhile are ignored. A sequence that ends frees
// its blocks and leaves the other outstanding plan, which may become empty but must be committed all the same.
//
// If a step failed, Cancel the sequences it failed for first: Commit makes what the others computed findable by prefix.
func (s *Scheduler) Commit(p *Plan, results []Result) {
	if s.outstanding == 0 || p != &s.plans[s.oldest] {
		panic("sched: Commit of a plan that is not the oldest outstanding one")
	}
	if len(results) != len(p.Seqs) {
		panic(fmt.Sprintf("sched: Commit of %d results for %d sequences", len(results), len(p.Seqs)))
	}
	ended := false
	for i, w := range p.Seqs {
		q := p.owners[i]
		if q.ended {
			continue
		}
		if w.Sample {
			s.learn(q, results[i].Token)
			s.waiting.charge(q.tenant, weightOut)
		}
		if q.running() { // not if it was preempted meanwhile: its blocks are not its own any more
			q.done = w.Start + w.N
			s.register(q, q.done)
			s.pool.Slide(&q.table, w.Start+w.N)
		}
		if q.known == q.limit && q.hold && !results[i].Finished {
			s.hold(q)
			continue
		}
		if q.known == q.limit {
			results[i].Finished = true
		}
		if results[i].Finished {
			s.lengths.add(q.known - q.prompt)
			s.end(q)
			ended = true
		}
	}
	p.reset()
	s.oldest = 1 - s.oldest
	s.outstanding--
	if ended && s.outstanding == 1 {
		s.plans[s.oldest].dropEnded()
	}
}

// register names the blocks of q that are full now that its first n tokens are computed. Where an equal block has its
// name already, q goes on with that one; the tables in outstanding plans follow, being slices of q's.
func (s *Scheduler) register(q *sequence, n int) {
	if !s.cfg.PrefixCache {
		return
	}
	size := s.cfg.BlockTokens
	for i := q.table.Named; i < n/size; i++ {
		s.pool.Register(&q.table, q.names[:i+1], q.tokens[i*size:(i+1)*size])
	}
}
