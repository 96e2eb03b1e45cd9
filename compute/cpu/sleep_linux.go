package cpu

import (
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sleeper is where a thread sleeps until another one wakes it. The thread itself sleeps, not the goroutine: Go would
// wake a thread to find the goroutine, and where that is bound to its own the system a second time, which often puts
// two on one processor.
type sleeper struct{ wakes atomic.Uint32 }

func newSleeper() *sleeper { return new(sleeper) }

// count returns how often wake was called.
func (s *sleeper) count() uint32 { return s.wakes.Load() }

// sleep returns when wake has been called since the count was n. Only one thread sleeps here.
func (s *sleeper) sleep(n uint32) {
	const wait = 128 // FUTEX_WAIT_PRIVATE
	for s.wakes.Load() == n {
		_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&s.wakes)), wait, uintptr(n), 0, 0, 0)
	}
}

func (s *sleeper) wake() {
	const wake = 129 // FUTEX_WAKE_PRIVATE
	s.wakes.Add(1)
	_, _, _ = unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&s.wakes)), wake, 1, 0, 0, 0)
}
