package bench

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestPercentile holds interpolation against its definition: of n values, k lie below the percentile k/(n-1).
func TestPercentile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(-1e6, 1e6), 1, 50).Draw(t, "values")
		slices.Sort(values)
		p := rapid.Float64Range(0, 100).Draw(t, "p")
		got := percentile(values, p)
		for k, v := range values { // each value is a percentile of its own
			if len(values) > 1 && math.Abs(percentile(values, 100*float64(k)/float64(len(values)-1))-v) > 1e-6 {
				t.Fatalf("value %d of %v is not its percentile", k, values)
			}
		}
		below := 0
		for _, v := range values {
			if v <= got+1e-9*math.Abs(got) {
				below++
			}
		}
		if want := int(p/100*float64(len(values)-1)) + 1; below < want {
			t.Fatalf("%d of %v are at most %v; want %d", below, values, got, want)
		}
		if got < values[0] || got > values[len(values)-1] {
			t.Fatalf("%v is outside %v", got, values)
		}
	})
	if got := percentile([]float64{10, 20, 40}, 75); got != 30 {
		t.Errorf("p75 of 10 20 40 is %v; want 30", got)
	}
	if percentile(nil, 50) != 0 || summarize(nil) != (Summary{}) {
		t.Error("of nothing, something")
	}
	if got, want := summarize([]float64{4, 1, 3, 2, 5}), (Summary{3, 3, 4.6, 4.8, 4.96}); cmp.Diff(want, got, nearly) != "" {
		t.Errorf("%+v; want %+v", got, want)
	}
}

var nearly = cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-9 })

const tick = time.Millisecond

func TestSummarize(t *testing.T) {
	results := []Result{
		{Due: 0, Sent: 1 * tick, First: 101 * tick, Last: 201 * tick, End: 202 * tick, Gaps: []time.Duration{60 * tick, 40 * tick},
			Prompt: 30, Cached: 10, Generated: 3},
		{Due: 100 * tick, Sent: 100 * tick, First: 400 * tick, Last: 400 * tick, End: 500 * tick, Prompt: 10, Generated: 1},
		{Due: 0, Sent: 0, End: 50 * tick, Err: errors.New("refused")},
	}
	got := Summarize(results, SLO{TTFT: 200 * tick, TPOT: 50 * tick, E2E: time.Second})
	got.Results = nil
	want := Report{
		Requests: 3, Failed: 1,
		TTFT: summarize([]float64{101, 300}), TPOT: summarize([]float64{50}), ITL: summarize([]float64{60, 40}), E2E: summarize([]float64{202, 400}),
		Output: 8, Total: 88, Goodput: 2, HitRate: 0.25,
		Normalized: summarize([]float64{202.0 / 3, 400}), Late: summarize([]float64{1, 0, 0}),
		Elapsed: 500 * tick, Prompt: 40, Generated: 4, Good: 1, Errors: map[string]int{"refused": 1},
	}
	if diff := cmp.Diff(want, got, nearly); diff != "" {
		t.Error(diff)
	}
	for _, s := range []SLO{{TTFT: 100 * tick, TPOT: 0}, {TTFT: 200 * tick, TPOT: 49 * tick}, {TTFT: 200 * tick, E2E: 201 * tick}} {
		if rep := Summarize(results, s); rep.Goodput != 0 {
			t.Errorf("%+v is met: %v", s, rep.Goodput)
		}
	}
	if rep := Summarize(results, SLO{}); rep.Goodput != 4 {
		t.Errorf("goodput without an SLO is %v; want all that succeeded, 4 a second", rep.Goodput)
	}
}

func TestReportJSON(t *testing.T) {
	got, err := json.Marshal(Summarize(nil, SLO{}))
	const zero = `{"mean":0,"p50":0,"p90":0,"p95":0,"p99":0}`
	want := `{"requests":0,"failed":0,"ttft_ms":` + zero + `,"tpot_ms":` + zero + `,"itl_ms":` + zero + `,"e2e_ms":` + zero +
		`,"output_tokens_per_second":0,"total_tokens_per_second":0,"goodput_rps":0,"cache_hit_rate":0}`
	if string(got) != want || err != nil {
		t.Errorf("%s, %v; want %s", got, err, want)
	}
}
