package model

import (
	"math"
	"testing"

	"github.com/kvasir-llm/kvasir/compute/cpu"
	"github.com/kvasir-llm/kvasir/quant"
)

// packedGolden has its experts in MXFP4.
const packedGolden = "gpt_oss_mxfp4"

// TestPackedExperts computes with experts in MXFP4 as they are, with every kernel. What quantising the activations does to the
// logits must stay small, and with the experts' values in float32 the logits must be the reference's.
func TestPackedExperts(t *testing.T) {
	g := openGolden(t, packedGolden)
	ids, want := g.ints(t, "ids_1"), g.floats(t, "logits_1")
	var first, golden [][]float32
	for _, kernels := range cpu.Kernels() {
		r := newRunner(t, g.ckpt, kernels)
		if typ := r.m.layers[0].mixture.down.w[0].Type(); typ != quant.MXFP4 {
			t.Fatalf("experts are of type %v on the device; want MXFP4", typ)
		}
		got := run(t, r, ids, 0)
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
		golden = append(golden, want[p*len(first[0]):][:len(first[0])])
	}
	if e := relative(first, golden); !(e > 0 && e < 0.04) {
		t.Errorf("relative error of the logits is %g; want a little, below 0.04", e)
	}
	checkLogits(t, g, newRunner(t, asGGUF(t, g.ckpt, quant.F32), ""))
}
