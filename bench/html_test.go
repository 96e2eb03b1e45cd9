package bench

import (
	"bytes"
	"encoding/xml"
	"errors"
	"math"
	"strings"
	"testing"
	"time"
)

func TestTimeline(t *testing.T) {
	rep := Summarize([]Result{
		{Due: 0, First: 100 * tick, End: 1000 * tick, Gaps: []time.Duration{400 * tick, 500 * tick}, Generated: 6},
		{Due: 500 * tick, First: 600 * tick, End: 600 * tick, Generated: 1},
		{Due: 500 * tick, End: 520 * tick, Err: errors.New("x")},
	}, SLO{})
	tokens, open := rep.timeline()
	sum := 0.0
	for _, v := range tokens.y {
		sum += v * 0.01 // seconds of an interval
	}
	if math.Abs(sum-7) > 1e-9 || tokens.y[10] != 200 || tokens.y[99] != 200 || open.y[0] != 1 || open.y[51] != 3 || open.y[55] != 2 || open.y[99] != 1 {
		t.Errorf("%v tokens\n%v\n%v", sum, tokens.y, open.y)
	}
}

// TestHTML reads the page's plots as XML, with results and with none.
func TestHTML(t *testing.T) {
	for _, results := range [][]Result{
		nil,
		{{First: 10 * tick, Last: 30 * tick, End: 30 * tick, Gaps: []time.Duration{20 * tick}, Generated: 2, Prompt: 5}},
		{{End: time.Second, Err: errors.New("<b>refused</b>")}},
	} {
		var b bytes.Buffer
		if err := Summarize(results, SLO{}).WriteHTML(&b, "a <load>"); err != nil {
			t.Fatal(err)
		}
		page := b.String()
		if strings.Contains(page, "<b>") || strings.Contains(page, "<load>") || strings.Contains(page, "NaN") || strings.Contains(page, "Inf") || strings.Contains(page, "://") {
			t.Errorf("the page has something that is not escaped, no number, or elsewhere:\n%s", page)
		}
		plots := strings.Split(page, "<svg")[1:]
		if len(plots) != 4 {
			t.Errorf("%d plots", len(plots))
		}
		for _, p := range plots {
			svg := "<svg" + p[:strings.Index(p, "</svg>")] + "</svg>"
			if err := xml.Unmarshal([]byte(svg), new(struct{})); err != nil {
				t.Errorf("%v in %s", err, svg)
			}
		}
	}
}

func TestTicks(t *testing.T) {
	for _, tt := range []struct {
		a    axis
		want []float64
	}{
		{axis{low: 0, high: 10}, []float64{0, 2, 4, 6, 8, 10}},
		{axis{low: 0, high: 0.7}, []float64{0, 0.2, 0.4, 0.6}},
		{axis{low: 0, high: 12345}, []float64{0, 5000, 10000}},
		{axis{low: 3, high: 60, log: true}, []float64{5, 10, 20, 50}},
		{axis{low: 0.5, high: 90000, log: true}, []float64{1, 10, 100, 1000, 10000}},
	} {
		got := tt.a.ticks()
		if len(got) != len(tt.want) {
			t.Errorf("%+v: %v; want %v", tt.a, got, tt.want)
			continue
		}
		for i := range got {
			if math.Abs(got[i]-tt.want[i]) > 1e-9*tt.want[i] {
				t.Errorf("%+v: %v; want %v", tt.a, got, tt.want)
			}
		}
	}
	d := distribution("x", []float64{3, 1, 2})
	if len(d.x) != 3 || d.x[0] != 1 || d.x[2] != 3 || d.y[1] != 50 || d.y[2] != 100 {
		t.Errorf("%+v", d)
	}
}
