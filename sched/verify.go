package sched

import "github.com/kvasir-llm/kvasir/kv"

// often is how many calls are verified, all of them, before only one of seldom is.
const often, seldom = 1000, 64

// verify panics if an invariant is broken. It does nothing without the build tag invariants.
func (s *Scheduler) verify() {
	if !invariants {
		return
	}
	if s.calls++; s.calls > often && s.calls%seldom > 0 {
		return
	}
	if err := s.Check(); err != nil {
		panic("sched: an invariant is broken: " + err.Error())
	}
}

// mangle overwrites the memory of a plan that is committed, with the build tag invariants.
func (p *Plan) mangle() {
	if !invariants {
		return
	}
	fill(p.Seqs, Work{ID: 1<<64 - 1, Slot: -1 << 31, Start: -1 << 31, N: -1, From: 1<<31 - 1, State: 1<<31 - 1})
	fill(p.Preempted, 1<<64-1)
	fill(p.Edits, kv.Edit{Slot: -1 << 31, Group: -1 << 31, At: -1 << 31, Block: -1 << 31})
	fill(p.Shifts, kv.Shift{Group: -1 << 31})
	fill(p.Copies, kv.Copy{From: -1 << 31, To: -1 << 31})
	fill(p.Moves, kv.Move{From: kv.Place{At: -1 << 31}, To: kv.Place{At: -1 << 31}})
}

// fill overwrites all of a list's memory.
func fill[T any](list []T, with T) {
	for i := range list[:cap(list)] {
		list[:cap(list)][i] = with
	}
}

// CheckClosed names what was not given back, once no sequence is left and no plan is outstanding: blocks, tables, slots
// or pins. It is meant for tests.
func (s *Scheduler) CheckClosed() error { return s.pool.CheckClosed() }
