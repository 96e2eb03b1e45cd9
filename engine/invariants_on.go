//go:build invariants

package engine

import "github.com/kvasir-llm/kvasir/sched"

// verifying says whether verify does anything.
const verifying = true

// verify panics, and so ends the program, if an invariant of the scheduler or its pool is broken.
func verify(s *sched.Scheduler) {
	if err := s.Check(); err != nil {
		panic("engine: an invariant is broken: " + err.Error())
	}
}
