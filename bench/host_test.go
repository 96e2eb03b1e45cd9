package bench

import (
	"testing"
	"time"
)

// TestMeasureHost wants a report in which every number can be right; how fast the machine is does not count.
func TestMeasureHost(t *testing.T) {
	r, err := MeasureHost(t.Context(), HostOptions{Seqs: 4, Context: 256, Step: time.Millisecond, Steps: 20})
	if err != nil {
		t.Fatal(err)
	}
	if r.Host <= 0 || r.Idle < 0 || r.Idle > 1 || r.Allocs < 0 || r.Steps != 20 || r.Seqs != 4 {
		t.Errorf("%+v", r)
	}
	if _, err := MeasureHost(t.Context(), HostOptions{Seqs: 4, Context: 1, Steps: 20}); err == nil {
		t.Error("a context of 1 token was taken")
	}
}
