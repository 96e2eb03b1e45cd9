package model_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/internal/devicetest"
	"github.com/kvasir-llm/kvasir/internal/golden"
	"github.com/kvasir-llm/kvasir/model/loader"
	"github.com/kvasir-llm/kvasir/quant"
	"github.com/kvasir-llm/kvasir/weights"
)

// TestGoldensOnDevices computes the goldens on every device of this machine, within what bfloat16 makes of them
// (TestGoldens16), and with the same bits however a sequence is cut and whatever is beside it. What a device does not
// compute, it has to refuse by name.
func TestGoldensOnDevices(t *testing.T) { devicetest.Each(t, goldensOn) }

func goldensOn(t *testing.T, dev compute.Device) {
	t.Helper()
	computed := 0
	for _, name := range golden.Names(t) {
		t.Run(name, func(t *testing.T) {
			g := golden.Open(t, name)
			m, err := loader.Model(g.Ckpt, dev, nil)
			var r *golden.Runner
			if err == nil {
				m.KVType = dev.KVTypes()[0]
				r, err = golden.TryRunner(m, dev)
			}
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			computed++
			median, most := logitErrors(t, g, r)
			t.Logf("error of the logits, relative to their spread: median %.4f, most %.4f", median, most)
			bound := 0x1p-6 * 1.5
			if slices.ContainsFunc(g.Ckpt.Tensors(), func(i weights.Info) bool { return i.Type == quant.F32 && len(i.Shape) == 2 }) {
				bound *= 2 // its weights are rounded, too
			}
			if !(median <= bound) {
				t.Errorf("a median error of %g; want at most %g", median, bound)
			}
			rng := rand.New(rand.NewPCG(1, 2))
			ids := make([]int32, min(60, m.Spec.Context))
			for i := range ids {
				ids[i] = int32(rng.IntN(m.Spec.Vocab))
			}
			if !m.Spec.Encoder {
				scatter(t, r, rng, ids, r.Run(t, ids, 0))
			}
			if r.Trees() {
				runTrees(t, r, rng)
			}
		})
	}
	if all := len(golden.Names(t)); computed < all {
		t.Errorf("%d of %d goldens were computed", computed, all)
	}
}
