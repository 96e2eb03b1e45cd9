package cpu

import (
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/kvasir-llm/kvasir/compute"
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

// TestRunway requires that a large cache has memory for a quarter of its blocks ahead of those that were used, in all slabs, and no
// more, and that what blocks hold stays.
func TestRunway(t *testing.T) {
	if !canPopulate() {
		t.Skip("the system does not give memory on advice")
	}
	d, err := New(Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	spec := compute.CacheSpec{Blocks: 4096, BlockTokens: 16, Layers: []compute.CacheLayer{{KVHeads: 2, KDim: 64, VDim: 64}, {KVHeads: 2, KDim: 64, VDim: 64}}}
	made, err := d.Cache(spec)
	if err != nil {
		t.Fatal(err)
	}
	d.Close() // ends the thread; the test does its work
	c := made.(*cache)
	r := newRunway(c.slabs, spec.Blocks, c.bytes)
	if r == nil {
		t.Fatalf("a cache of %d bytes has no runway", c.bytes)
	}
	for i, used := range []int{0, 1000, 1001, 3000, 4095} {
		if used > 0 {
			c.slabs[0].block(used)[5] = 7
			r.use(int32(used))
			r.use(3)
		}
		for r.extend(func(time.Duration) {}) {
		}
		want := min(spec.Blocks, used+spec.Blocks/4+min(used, 1))
		if r.ready != want {
			t.Fatalf("after block %d, %d blocks are ready, want %d", used, r.ready, want)
		}
		for _, s := range c.slabs {
			if pages, all := resident(t, s.data[:want*s.size]); pages < all {
				t.Errorf("after block %d, %d of %d pages have memory", used, pages, all)
			}
			if rest := s.data[min(want*s.size+hugePage*2, len(s.data)):]; i == 0 {
				if pages, _ := resident(t, rest); pages > len(rest)/4096/2 {
					t.Errorf("%d pages after that have memory", pages)
				}
			}
		}
		if used > 0 && c.slabs[0].block(used)[5] != 7 {
			t.Errorf("block %d lost what it held", used)
		}
	}
	small := spec
	small.Blocks = 64
	if r := newRunway(c.slabs, small.Blocks, d.CacheBytes(small)); r != nil {
		t.Error("a small cache has a runway")
	}
}

func mincore(b []byte, state []byte) error {
	_, _, e := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), uintptr(unsafe.Pointer(&state[0])))
	if e != 0 {
		return e
	}
	return nil
}
