package cpu

import "testing"

// TestMeasurePeaks runs the loops of every implementation; how fast they are is not a test's business.
func TestMeasurePeaks(t *testing.T) {
	for _, name := range Kernels() {
		p, err := MeasurePeaks(Options{Threads: 2, Kernels: name})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %.1f GB/s, %.1f GFLOP/s, %.1f Gop/s", name, p.Read/1e9, p.Floats/1e9, p.Bytes/1e9)
		if p.Read <= 0 || p.Floats <= 0 || p.Bytes <= 0 {
			t.Errorf("%s: %+v has a peak that is not positive", name, p)
		}
	}
	if _, err := MeasurePeaks(Options{Kernels: "none such"}); err == nil {
		t.Error("unknown kernels have peaks")
	}
}
