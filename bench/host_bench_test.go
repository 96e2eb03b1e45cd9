package bench

import (
	"testing"
	"time"
)

// BenchmarkHost reports the loop's work for a step of 256 sequences with long tables.
func BenchmarkHost(b *testing.B) {
	for b.Loop() {
		r, err := MeasureHost(b.Context(), HostOptions{Seqs: 256, Context: 1 << 10, Step: time.Millisecond, Steps: 4000})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(r.Host, "µs/step")
		b.ReportMetric(r.Allocs, "allocs/step")
	}
}
