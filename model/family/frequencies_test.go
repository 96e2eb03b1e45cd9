package family_test

import (
	"math"
	"testing"

	"github.com/kvasir-llm/kvasir/internal/golden"
	"github.com/kvasir-llm/kvasir/model/family"
)

// TestGoldenFrequencies compares the frequencies of the rotary embedding, of which far positions multiply every
// difference. Powers differ by a unit in the last place between libraries.
func TestGoldenFrequencies(t *testing.T) {
	compared := 0
	for _, name := range golden.Committed(t) {
		g := golden.Open(t, name)
		if _, ok := g.Data.Tensor("inv_freq"); !ok {
			continue
		}
		compared++
		spec, err := family.Read(g.Ckpt)
		if err != nil {
			t.Fatal(err)
		}
		want, got := g.Floats(t, "inv_freq"), spec.Ropes[0].Freqs
		if spec.Long(len(g.Ints(t, "ids_1")) + len(g.Ints(t, "greedy_1"))) { // the last that was computed
			got = spec.Ropes[0].Long
		}
		if len(got) != len(want) {
			t.Fatalf("%s: %d frequencies; want %d", name, len(got), len(want))
		}
		for i, w := range want {
			if d := math.Abs(float64(got[i])/float64(w) - 1); !(d <= 4*0x1p-23) {
				t.Errorf("%s: frequency %d is %g; want %g", name, i, got[i], w)
			}
		}
	}
	if compared < 15 {
		t.Errorf("only %d goldens give frequencies", compared)
	}
}
