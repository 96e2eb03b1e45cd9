package golden

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
)

// Types returns the token types of sequence i, nil where the golden has none.
func (g Golden) Types(t testing.TB, i int) []int32 {
	if !g.Has(fmt.Sprintf("types_%d", i)) {
		return nil
	}
	return g.Ints(t, fmt.Sprintf("types_%d", i))
}

// Encode computes a sequence alone and returns the hidden states of all its rows, and the logits of the first, if
// there are classes.
func (r *Runner) Encode(t testing.TB, ids, types []int32) (hidden [][]float32, logits []float32) {
	t.Helper()
	var b compute.Batch
	b.Append(ids, 0, false, r.Tables(OneSequence)...)
	b.Types = types
	return r.ForwardEncoder(t, &b, 0)
}

// ForwardEncoder computes a batch and returns what belongs to one of its sequences.
func (r *Runner) ForwardEncoder(t testing.TB, b *compute.Batch, seq int) (hidden [][]float32, logits []float32) {
	t.Helper()
	s := b.Seqs[seq]
	for row := s.Row; row < s.Row+s.Rows; row++ {
		b.Hidden = append(b.Hidden, row)
	}
	if r.Model.Spec.Classes > 0 {
		b.Logits = append(b.Logits, s.Row)
	}
	if err := r.Forward(b); err != nil {
		t.Fatal(err)
	}
	for i := range b.Hidden {
		hidden = append(hidden, slices.Clone(r.Hidden(i)))
	}
	if r.Model.Spec.Classes > 0 {
		logits = slices.Clone(r.Logits(0))
	}
	return hidden, logits
}

// CheckEncoder compares every sequence of a golden.
func CheckEncoder(t testing.TB, g Golden, r *Runner) {
	t.Helper()
	worst := 0.0
	compare := func(name string, got []float32) {
		want := g.Floats(t, name)
		for i, w := range want {
			worst = max(worst, math.Abs(float64(got[len(got)-len(want)+i]-w)))
		}
	}
	for i := range 4 {
		hidden, logits := r.Encode(t, g.Ints(t, fmt.Sprintf("ids_%d", i)), g.Types(t, i))
		compare(fmt.Sprintf("hidden_%d", i), slices.Concat(hidden...))
		if logits != nil {
			compare(fmt.Sprintf("logits_%d", i), logits)
		}
	}
	t.Logf("max abs error %.2g", worst)
	if !(worst <= MaxLogitError) {
		t.Errorf("max abs error %g; want at most %g", worst, MaxLogitError)
	}
}
