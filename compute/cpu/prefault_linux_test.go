package cpu

import (
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// resident returns how many pages of b have memory.
func resident(t *testing.T, b []byte) (pages, all int) {
	t.Helper()
	state := make([]byte, (len(b)+4095)/4096)
	if err := mincore(b, state); err != nil {
		t.Fatal(err)
	}
	for _, s := range state {
		pages += int(s & 1)
	}
	return pages, len(state)
}

// TestPrefault requires that a large cache has memory for a quarter of its blocks ahead of those that were used, in
// all slabs, and no more, and that what blocks hold stays.
func TestPrefault(t *testing.T) {
	if !canPopulate() {
		t.Skip("the system does not give memory on advice")
	}
	const blocks, size = 4096, 16 << 10
	var slabs []slab
	for range 2 {
		data, err := unix.Mmap(-1, 0, blocks*size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Munmap(data)
		slabs = append(slabs, slab{data, size})
	}
	r := newPrefault(slabs, blocks, 2*blocks*size)
	if r == nil {
		t.Fatal("a large cache has no prefault")
	}
	for _, used := range []int{0, 1000, 1001, 3000, 4095} {
		if used > 0 {
			slabs[0].block(used)[5] = 7
			r.use(int32(used))
			r.use(3)
		}
		for r.extend(func(time.Duration) {}) {
		}
		want := min(blocks, used+blocks/4+min(used, 1))
		if r.ready != want {
			t.Fatalf("after block %d, %d blocks are ready, want %d", used, r.ready, want)
		}
		for _, s := range slabs {
			if pages, all := resident(t, s.data[:want*s.size]); pages < all {
				t.Errorf("after block %d, %d of %d pages have memory", used, pages, all)
			}
			if rest := s.data[max(want, used+1)*size:]; len(rest) > 0 {
				if pages, _ := resident(t, rest); pages > 0 {
					t.Errorf("after block %d, %d pages have memory that nobody will need soon", used, pages)
				}
			}
		}
		if used > 0 && slabs[0].block(used)[5] != 7 {
			t.Errorf("block %d lost what it held", used)
		}
	}
	if r := newPrefault(slabs, 64, 2*64*size); r != nil {
		t.Error("a small cache has a prefault")
	}
}

func mincore(b []byte, state []byte) error {
	_, _, e := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), uintptr(unsafe.Pointer(&state[0])))
	if e != 0 {
		return e
	}
	return nil
}
