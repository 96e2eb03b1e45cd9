package guard

import (
	"math"
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

func TestGarbageBounds(t *testing.T) {
	for _, c := range []struct {
		live, stacks  uint64
		percent       int
		garbage, most int64 // MiB
	}{
		{4 << 20, 0, 100, 4, 75},
		{100 << 20, 10 << 20, 100, 100, 283},
		{256 << 20, 0, 50, 128, 462},
		{16 << 30, 0, 1, 163, 17200},
		{100 << 30, 0, 1, 1024, 106700},
		{0, 0, 100, 0, 66},
	} {
		percent, limit := garbageBounds(c.live, c.stacks)
		if garbage := int64(c.live*uint64(percent)/100) >> 20; percent != c.percent || garbage != c.garbage {
			t.Errorf("%d MiB in use: %d%% and %d MiB of garbage; want %d%% and %d MiB", c.live>>20, percent, garbage, c.percent, c.garbage)
		}
		if limit>>20 > c.most || limit < int64(c.live+c.stacks)+c.garbage<<20+spareHeap {
			t.Errorf("%d MiB in use, %d of stacks: Go may hold %d MiB; want at most %d", c.live>>20, c.stacks>>20, limit>>20, c.most)
		}
	}
}

// TestBoundGarbage holds that the bounds follow what is in use, up and down.
func TestBoundGarbage(t *testing.T) {
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	BoundGarbage()
	limit := func() int64 { return debug.SetMemoryLimit(-1) }
	collect := func(done func() bool) {
		for range 1000 { // cleanups run beside
			if runtime.GC(); done() {
				return
			}
			time.Sleep(time.Millisecond)
		}
		t.Errorf("Go may hold %d MiB", limit()>>20)
	}
	collect(func() bool { return limit() < math.MaxInt64 })
	small := limit()
	kept := make([]byte, 256<<20)
	collect(func() bool { return limit() > small+int64(len(kept)) })
	runtime.KeepAlive(kept)
	kept = nil
	collect(func() bool { return limit() < small+100<<20 })
}
