//go:build !linux

package cpu

// sleeper is where a thread sleeps until another one wakes it.
type sleeper struct{ woken chan struct{} }

func newSleeper() *sleeper { return &sleeper{make(chan struct{}, 1)} }

// count returns what sleep wants to know.
func (s *sleeper) count() uint32 { return 0 }

// sleep returns when wake has been called for each sleep before and once more. Only one thread sleeps here.
func (s *sleeper) sleep(uint32) { <-s.woken }

func (s *sleeper) wake() { s.woken <- struct{}{} }
