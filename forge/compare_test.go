package forge

import (
	"context"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/model"
)

// near reports whether two numbers agree to about nine digits.
func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(1, math.Abs(b)) }

// TestPairOf computes a prediction over four tokens by hand, from float64 probabilities.
func TestPairOf(t *testing.T) {
	p, base := []float64{0.1, 0.2, 0.3, 0.4}, []float64{0.25, 0.25, 0.125, 0.375}
	logits := func(p []float64, shift float64) (out []float32) {
		for _, v := range p {
			out = append(out, float32(math.Log(v)+shift))
		}
		return out
	}
	a, b := logits(p, 3), logits(base, -7) // what is added to all logits changes nothing
	kl, off, norm := 0.0, 0.0, 0.0
	meanA, meanB := 0.0, 0.0
	for i := range p {
		meanA, meanB = meanA+math.Log(p[i])/4, meanB+math.Log(base[i])/4
	}
	for i := range p {
		kl += base[i] * math.Log(base[i]/p[i])
		off += math.Pow(math.Log(p[i])-meanA-math.Log(base[i])+meanB, 2)
		norm += math.Pow(math.Log(base[i])-meanB, 2)
	}
	got := pairOf(a, b, 1)
	for what, v := range map[string][2]float64{
		"loss": {got.loss, -math.Log(0.2)}, "base's loss": {got.baseLoss, -math.Log(0.25)}, "KL": {got.kl, kl}, "off": {got.off, off}, "norm": {got.norm, norm},
	} {
		if math.Abs(v[0]-v[1]) > 1e-5 {
			t.Errorf("%s is %g; want %g", what, v[0], v[1])
		}
	}
	if !got.same {
		t.Error("the likeliest token of both is the last, and they are said to differ")
	}
	if pairOf([]float32{1, 0, 0, 0}, b, 1).same {
		t.Error("the first token and the last are said to be the same")
	}
}

// TestDifferences holds the sums over predictions to their definitions.
func TestDifferences(t *testing.T) {
	var d differences
	rows := [][]float32{{0, 1, 2}, {2, 1, 0}, {0, 3, 0}, {5, 0, 0}}
	base := [][]float32{{0, 1, 2}, {0, 1, 2}, {0, 1, 2}, {0, 1, 2}}
	tokens := []int32{2, 2, 1}
	d.add(rows, base, tokens) // the last row predicts nothing that is known
	var c Comparison
	c.Model.finish(d.losses)
	c.Base.finish(d.baseLosses)
	d.finish(&c)
	if c.Model.Predicted != 3 || c.Base.Predicted != 3 || !near(c.Ratio, c.Model.Value/c.Base.Value) {
		t.Errorf("%d and %d predictions, a ratio of %g of %g and %g", c.Model.Predicted, c.Base.Predicted, c.Ratio, c.Model.Value, c.Base.Value)
	}
	var by, kl []float64
	var off, norm float64
	for i := range tokens {
		p := pairOf(rows[i], base[i], tokens[i])
		by, kl = append(by, p.loss-p.baseLoss), append(kl, p.kl)
		off, norm = off+p.off, norm+p.norm
	}
	mean := (by[0] + by[1] + by[2]) / 3
	variance := (math.Pow(by[0]-mean, 2) + math.Pow(by[1]-mean, 2) + math.Pow(by[2]-mean, 2)) / 2
	if want := c.Ratio * math.Sqrt(variance/3); !near(c.RatioError, want) {
		t.Errorf("the ratio's error is %g; want %g", c.RatioError, want)
	}
	if kl[0] != 0 || c.KL.Max != kl[2] || c.KL.Median != kl[1] || c.KL.P99 != kl[2] || !near(c.KL.Mean, (kl[1]+kl[2])/3) {
		t.Errorf("divergences %v gave %+v", kl, c.KL)
	}
	if !near(c.SameTop, 1.0/3) || !near(c.Logits, math.Sqrt(off/norm)) {
		t.Errorf("%+v; want a third of the tokens the same and an error of %g", c, math.Sqrt(off/norm))
	}
}

// TestCompare compares a model with itself and with its likeness in Q8_0: the perplexities are those of the models
// alone, and that of a pair is known better than either.
func TestCompare(t *testing.T) {
	ckpt := opened(t, goldens, "llama")
	out := filepath.Join(t.TempDir(), "q.gguf")
	if _, err := Quantize(context.Background(), ckpt, out, QuantizeOptions{Recipe: "q8_0"}); err != nil {
		t.Fatal(err)
	}
	ids, _ := expected(t, "llama", 1)
	m, q := loaded(t, ckpt), loaded(t, opened(t, out))
	o := PerplexityOptions{Context: 16, Stride: 5, BOS: -1}
	alone := map[*model.Model]Perplexity{}
	for _, m := range []*model.Model{m, q} {
		p, err := MeasurePerplexity(context.Background(), m, ids, o)
		if err != nil {
			t.Fatal(err)
		}
		alone[m] = p
	}
	same, err := Compare(context.Background(), m, m, ids, o)
	if err != nil {
		t.Fatal(err)
	}
	if want := (Comparison{Model: alone[m], Base: alone[m], Ratio: 1, SameTop: 1}); same != want {
		t.Errorf("a model compared with itself: %+v; want %+v", same, want)
	}
	last := 0
	o.Progress = func(done, total int, soFar Perplexity) {
		if done <= last || done > total || soFar.Computed != done {
			t.Errorf("%d of %d tokens after %d, %+v", done, total, last, soFar)
		}
		last = done
	}
	got, err := Compare(context.Background(), q, m, ids, o)
	if err != nil {
		t.Fatal(err)
	}
	if got.Model != alone[q] || got.Base != alone[m] || last != alone[q].Computed {
		t.Errorf("%+v\nwant %+v and %+v", got, alone[q], alone[m])
	}
	if !near(got.Ratio, got.Model.Value/got.Base.Value) || !(got.RatioError > 0 && got.RatioError < got.Model.Error/got.Base.Value) {
		t.Errorf("a ratio of %g ± %g of %+v and %+v", got.Ratio, got.RatioError, got.Model, got.Base)
	}
	if kl := got.KL; !(0 < kl.Median && kl.Median < kl.P99 && kl.P99 <= kl.Max && 0 < kl.Mean && kl.Mean < kl.Max && kl.Error > 0) {
		t.Errorf("%+v", kl)
	}
	if !(got.SameTop > 0.5 && got.SameTop < 1) || !(got.Logits > 0.01 && got.Logits < 0.5) {
		t.Errorf("the likeliest token is the same for %g, the logits are off by %g; want most, and some percent", got.SameTop, got.Logits)
	}
}

func TestCompareRefused(t *testing.T) {
	m, other := loaded(t, opened(t, goldens, "llama")), loaded(t, opened(t, goldens, "gpt_oss_layers"))
	o := PerplexityOptions{Context: 10, BOS: -1}
	if m.Spec.Vocab == other.Spec.Vocab {
		t.Fatal("both have one vocabulary")
	}
	if _, err := Compare(context.Background(), m, other, make([]int32, 20), o); err == nil || !strings.Contains(err.Error(), "in the base; want the same tokens") {
		t.Errorf("another vocabulary: error %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	o.Progress = func(int, int, Perplexity) { cancel() }
	if _, err := Compare(ctx, m, m, make([]int32, 100), o); err != context.Canceled {
		t.Errorf("error %v; want %v", err, context.Canceled)
	}
}
