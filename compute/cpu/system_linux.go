package cpu

import "golang.org/x/sys/unix"

// adviseHuge asks for huge pages for memory that has not been written yet.
func adviseHuge(b []byte) { _ = unix.Madvise(b, unix.MADV_HUGEPAGE) }

// pinThread binds the calling thread to the n-th processor that the process may use. Where that is refused the thread
// stays free, which costs speed and nothing else.
func pinThread(n int) {
	var allowed unix.CPUSet
	if unix.SchedGetaffinity(0, &allowed) != nil || allowed.Count() == 0 {
		return
	}
	n %= allowed.Count()
	for cpu := 0; ; cpu++ {
		if !allowed.IsSet(cpu) {
			continue
		}
		if n == 0 {
			var one unix.CPUSet
			one.Set(cpu)
			_ = unix.SchedSetaffinity(0, &one)
			return
		}
		n--
	}
}
