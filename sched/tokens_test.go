package sched

import (
	"slices"
	"testing"
	"unsafe"
)

// TestTokens adds tokens one by one and several at once, and asks for all of them at every moment, and at few.
func TestTokens(t *testing.T) {
	for _, c := range []struct{ prompt, add, ask int }{{1, 1, 1}, {5, 1, 7}, {16, 1, 40}, {31, 3, 1}, {17, 20, 2}, {3, 33, 5}} {
		want := make([]int32, 0, 200)
		for i := range c.prompt {
			want = append(want, int32(i))
		}
		all := tokensOf(slices.Clone(want))
		for round := range 100 / c.add {
			for i := range c.add {
				want = append(want, int32(1000*round+i))
			}
			all.add(want[len(want)-c.add:])
			if all.Len() != len(want) {
				t.Fatalf("%+v, round %d: %d tokens; want %d", c, round, all.Len(), len(want))
			}
			if round%c.ask > 0 {
				continue
			}
			if got := all.All(); !slices.Equal(got, want) {
				t.Fatalf("%+v, round %d: %v; want %v", c, round, got, want)
			}
		}
		if got := all.All(); !slices.Equal(got, want) {
			t.Errorf("%+v: %v; want %v", c, got, want)
		}
	}
}

// TestSequenceSize holds what a step touches of each sequence to three cache lines.
func TestSequenceSize(t *testing.T) {
	if size := unsafe.Sizeof(sequence{}); unsafe.Sizeof(uintptr(0)) == 8 && size != 3*64 {
		t.Errorf("a sequence has %d bytes; want 192", size)
	}
}
