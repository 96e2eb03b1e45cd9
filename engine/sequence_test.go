package engine

import (
	"testing"
	"unsafe"
)

// TestSequenceSize holds what a step touches of each sequence to one cache line, and of the step to 40 bytes.
func TestSequenceSize(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) != 8 {
		t.Skip("pointers have not 8 bytes")
	}
	if size := unsafe.Sizeof(sequence{}); size != 64 {
		t.Errorf("a sequence has %d bytes; want 64", size)
	}
	if size := unsafe.Sizeof(entry{}); size != 40 {
		t.Errorf("an entry has %d bytes; want 40", size)
	}
}

// TestStops knows the stop tokens beyond those that are kept beside a sequence.
func TestStops(t *testing.T) {
	for n := range 5 {
		r := Request{Prompt: []int32{1}}
		for i := range n {
			r.StopTokens = append(r.StopTokens, int32(10+i))
		}
		r.PromptLogprobs, r.Logprobs = -1, -1
		q := newSequence(r, 100)
		for id := range int32(20) {
			if want := id >= 10 && id < int32(10+n); q.stopsAt(id) != want {
				t.Errorf("of %d stop tokens, %d is one: %v", n, id, !want)
			}
		}
	}
}
