package chart

import (
	"encoding/xml"
	"strings"
	"testing"
)

// TestSVG draws bars and curves with names that XML gives a meaning to.
func TestSVG(t *testing.T) {
	for _, tt := range []struct {
		chart Chart
		want  []string
	}{
		{Chart{Title: "a < b & c", Groups: []string{"<1>", "2"}, Series: []string{"x & y"}, Values: []float64{50, 0}, Line: 100},
			[]string{"a &lt; b &amp; c", "&lt;1&gt;", "x &amp; y", "stroke-dasharray"}},
		{Chart{Title: "rates", Series: []string{"s"}, Curves: []Curve{{Name: "<one>", X: []float64{1, 8}, Y: []float64{3, 24000}}, {Name: "two", Dashes: 1, X: []float64{1}, Y: []float64{5}}}},
			[]string{"&lt;one&gt;", ">two<", ">20000<", `stroke-dasharray="6 4"`}},
	} {
		svg := tt.chart.SVG()
		if err := xml.Unmarshal([]byte(svg), new(struct{})); err != nil {
			t.Errorf("%s: %v", tt.chart.Title, err)
		}
		for _, want := range tt.want {
			if !strings.Contains(svg, want) {
				t.Errorf("%s lacks %q:\n%s", tt.chart.Title, want, svg)
			}
		}
	}
	if got := FileName("vLLM 0.26/é"); got != "vLLM-0.26--" {
		t.Errorf("a file is called %q", got)
	}
}
