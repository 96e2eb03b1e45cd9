//go:build unix

package kernel

import (
	"os"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// newFence maps at least size bytes that end where a page without any access begins.
func newFence(t testing.TB, size int) *fence {
	page := os.Getpagesize()
	size = (size + page - 1) / page * page
	mem, err := unix.Mmap(-1, 0, size+page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Mprotect(mem[size:], unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Munmap(mem); err != nil {
			t.Error(err)
		}
	})
	return &fence{mem[:size]}
}

// place copies src to the end of the fence's memory, so that reading or writing past it is a fault.
func place[T any](f *fence, src []T) []T {
	if len(src) == 0 {
		return nil
	}
	size := len(src) * int(unsafe.Sizeof(src[0]))
	dst := unsafe.Slice((*T)(unsafe.Pointer(&f.mem[len(f.mem)-size])), len(src))
	copy(dst, src)
	return dst
}
