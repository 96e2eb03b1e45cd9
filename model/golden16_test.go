package model_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/kvasir-llm/kvasir/compute/cpu"
	"github.com/kvasir-llm/kvasir/internal/golden"
)

// TestGoldens16 computes the goldens, whose weights are BF16, with activations in bfloat16 too, as products with such
// weights do by default. The other tests of goldens are Wide. A number in bfloat16 is off by up to 2⁻⁹, and through
// some tens of products these errors become 2⁻¹⁰ to 2⁻⁶ of the spread of a position's logits, in the middle of all
// positions. That may not be more; that it is not nothing says that the products were what they are by default.
// Single positions of mixtures are further off, where another expert is chosen.
func TestGoldens16(t *testing.T) {
	off := 0
	for _, name := range golden.Names(t) {
		t.Run(name, func(t *testing.T) {
			g := golden.Open(t, name)
			r := golden.NewRunnerOn(t, g.Ckpt, cpu.Options{Threads: 2})
			median, most := logitErrors(t, g, r)
			t.Logf("error of the logits, relative to their spread: median %.4f, most %.4f", median, most)
			if !(median <= 0x1p-6*1.5) {
				t.Errorf("a median error of %g", median)
			}
			if median > 0x1p-10 {
				off++
			}
		})
	}
	if off < 40 {
		t.Errorf("%d goldens were off by what bfloat16 makes; want most", off)
	}
}

// logitErrors returns the median and the most of the relative errors of a golden's positions.
func logitErrors(t *testing.T, g golden.Golden, r *golden.Runner) (median, most float64) {
	t.Helper()
	var errors []float64
	for i := 0; g.Has(fmt.Sprintf("ids_%d", i)); i++ {
		want := g.Floats(t, fmt.Sprintf("logits_%d", i))
		got := r.Run(t, g.Ints(t, fmt.Sprintf("ids_%d", i)), 0)
		vocab := len(got[0])
		got = got[len(got)-len(want)/vocab:]
		for p := range got {
			errors = append(errors, relativeError(got[p], want[p*vocab:][:vocab]))
		}
	}
	slices.Sort(errors)
	return errors[len(errors)/2], errors[len(errors)-1]
}

// relativeError is the root mean square of the differences over that of what is wanted less its mean.
func relativeError(got, want []float32) float64 {
	mean := 0.0
	for _, w := range want {
		mean += float64(w) / float64(len(want))
	}
	var off, spread float64
	for i, w := range want {
		off += math.Pow(float64(got[i]-w), 2)
		spread += math.Pow(float64(w)-mean, 2)
	}
	return math.Sqrt(off / spread)
}
