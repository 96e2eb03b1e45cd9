package model_test

import (
	"math"
	"testing"

	"github.com/kvasir-llm/kvasir/compute/cpu"
	"github.com/kvasir-llm/kvasir/internal/golden"
	"github.com/kvasir-llm/kvasir/quant"
)

// TestPackedExperts computes with experts in MXFP4 as they are, with every kernel. What quantising the activations
// does to the logits must stay small, and with the experts' values in float32 the logits must be the reference's.
func TestPackedExperts(t *testing.T) {
	g := golden.Open(t, golden.Packed)
	ids, want := g.Ints(t, "ids_1"), g.Floats(t, "logits_1")
	var first, exact [][]float32
	for _, kernels := range cpu.Kernels() {
		r := golden.NewRunner(t, g.Ckpt, kernels)
		if typ := r.Model.Weights().Layers[0].Mixture.Down.W[0].Type(); typ != quant.MXFP4 {
			t.Fatalf("experts are of type %v on the device; want MXFP4", typ)
		}
		got := r.Run(t, ids, 0)
		if first == nil {
			first = got
		}
		for p := range got {
			for j, v := range got[p] {
				if math.Float32bits(v) != math.Float32bits(first[p][j]) {
					t.Fatalf("%s: position %d: logit %d is %g; %s has %g", kernels, p, j, v, cpu.Kernels()[0], first[p][j])
				}
			}
		}
	}
	for p := range first {
		exact = append(exact, want[p*len(first[0]):][:len(first[0])])
	}
	if e := golden.Relative(first, exact); !(e > 0 && e < 0.04) {
		t.Errorf("relative error of the logits is %g; want a little, below 0.04", e)
	}
	golden.CheckLogits(t, g, golden.NewRunner(t, golden.AsGGUF(t, g.Ckpt, quant.F32), ""))
}
