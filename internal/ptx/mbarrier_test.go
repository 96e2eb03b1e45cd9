package ptx

import (
	"strings"
	"testing"
)

// fails checks that an error is there and says so.
func fails(t *testing.T, err error, says string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), says) {
		t.Fatalf("the error is %v; want one of %q", err, says)
	}
}

func passes(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newMbarrier(t *testing.T, count int) *mbarrier {
	t.Helper()
	shared := make([]byte, 64)
	var l mbarriers
	passes(t, l.init(shared, sharedBase+16, count))
	b, err := l.find(shared, sharedBase+16)
	passes(t, err)
	return b
}

func TestMbarrierPhases(t *testing.T) {
	b := newMbarrier(t, 2)
	if b.ended(0) || !b.ended(1) {
		t.Fatal("before the first phase ends, the one of parity 1 counts as ended")
	}
	for phase := range 3 {
		passes(t, b.arrive(0))
		if b.phase != phase {
			t.Fatal("one of two arrivals ends a phase")
		}
		passes(t, b.arrive(0))
		if b.phase != phase+1 || b.ended(uint32(phase+1)) || !b.ended(uint32(phase)) {
			t.Fatalf("after both arrivals: %v", b)
		}
	}
}

func TestMbarrierBytes(t *testing.T) {
	b := newMbarrier(t, 1)
	passes(t, b.complete(32)) // before they are announced
	passes(t, b.arrive(96))
	if b.phase != 0 {
		t.Fatal("a phase ends with 64 bytes missing")
	}
	passes(t, b.complete(64))
	if b.phase != 1 || b.pending != 1 || b.bytes != 0 {
		t.Fatalf("after all bytes: %v", b)
	}
}

func TestMbarrierMistakes(t *testing.T) {
	b := newMbarrier(t, 1)
	passes(t, b.arrive(64))
	fails(t, b.arrive(0), "mbarrier at 0x410 gets more arrivals in phase 0 than the 1 that it expects")
	fails(t, b.complete(96), "got 32 bytes more in phase 0")
	fails(t, newMbarrier(t, 1).arrive(1<<20), "is to expect 1048576 bytes")

	var l mbarriers
	shared := make([]byte, 64)
	_, err := l.find(shared, sharedBase+8)
	fails(t, err, "mbarrier at 0x408 is not initialised")
	passes(t, l.init(shared, sharedBase+8, 1))
	fails(t, l.init(shared, sharedBase+8, 1), "mbarrier at 0x408 is initialised again")
	fails(t, l.init(shared, sharedBase+12, 1), "no multiple of 8")
	fails(t, l.init(shared, sharedBase+64, 1), "not in shared memory, which ends at 0x440")
	fails(t, l.init(shared, sharedBase+16, 0), "is to expect 0 arrivals")
	copy(shared[16:], shared[8:16])
	_, err = l.find(shared, sharedBase+16)
	fails(t, err, "mbarrier at 0x410 is not initialised") // a copy is none
	shared[12]++
	_, err = l.find(shared, sharedBase+8)
	fails(t, err, "was overwritten")
}
