package cpu

import (
	"errors"
	"testing"
)

// TestMeter runs the loops of every implementation; how fast they are is not a test's business.
func TestMeter(t *testing.T) {
	for _, name := range Kernels() {
		m, err := newMeter(Options{Threads: 2, Kernels: name})
		if err != nil {
			t.Fatal(err)
		}
		p, err := m.Peaks()
		if err := errors.Join(err, m.Close()); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %.1f GB/s, %.1f GFLOP/s, %.1f of bfloat16, %.1f Gop/s", name, p.Read/1e9, p.Floats/1e9, p.Pairs/1e9, p.Bytes/1e9)
		if p.Read <= 0 || p.Floats <= 0 || p.Pairs <= 0 || p.Bytes <= 0 {
			t.Errorf("%s: %+v has a peak that is not positive", name, p)
		}
	}
	if _, err := newMeter(Options{Kernels: "none such"}); err == nil {
		t.Error("unknown kernels have peaks")
	}
}
