package cpu

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/kvasir-llm/kvasir/compute/kernel"
)

// canPopulate reports whether populate works: from Linux 5.14 on.
func canPopulate() bool { return populate(kernel.AlignedTo(4096, 4096)) == nil }

// populate has the system give memory to b, as if it were written, whatever is in it. It needs not begin at a page.
func populate(b []byte) error {
	page := unix.Getpagesize()
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) & uintptr(page-1))
	if len(b)-skip < page {
		return nil
	}
	return unix.Madvise(b[skip:], unix.MADV_POPULATE_WRITE)
}

// allowed returns the processors that the process may use, nil if the system does not say.
func allowed() (ids []int) {
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil {
		return nil
	}
	for id, left := 0, set.Count(); left > 0; id++ {
		if set.IsSet(id) {
			ids = append(ids, id)
			left--
		}
	}
	return ids
}

// bindThread binds the calling thread to some processors. Where that is refused the thread stays free, which costs
// speed and nothing else.
func bindThread(ids ...int) {
	var set unix.CPUSet
	for _, id := range ids {
		set.Set(id)
	}
	_ = unix.SchedSetaffinity(0, &set)
}

// placeMemory puts memory that has not been written yet on some nodes, page by page in turns. It begins at a page.
func placeMemory(b []byte, nodes []int) {
	var mask [16]uint64
	for _, n := range nodes {
		if n < 64*len(mask) {
			mask[n/64] |= 1 << (n % 64)
		}
	}
	_, _, _ = unix.Syscall6(unix.SYS_MBIND, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), unix.MPOL_INTERLEAVE,
		uintptr(unsafe.Pointer(&mask)), uintptr(64*len(mask)), 0)
}
