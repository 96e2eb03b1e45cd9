package model_test

import (
	"testing"

	"github.com/kvasir-llm/kvasir/compute/cpu"
	"github.com/kvasir-llm/kvasir/internal/golden"
)

func TestGoldenLogits(t *testing.T) {
	for _, name := range golden.Names(t) {
		for _, kernels := range cpu.Kernels() {
			t.Run(name+"/"+kernels, func(t *testing.T) {
				g := golden.Open(t, name)
				golden.CheckLogits(t, g, golden.NewRunner(t, g.Ckpt, kernels))
			})
		}
	}
}

func TestGoldenGreedy(t *testing.T) {
	for _, name := range golden.Names(t) {
		t.Run(name, func(t *testing.T) {
			g := golden.Open(t, name)
			checkGreedy(t, g, golden.NewRunner(t, g.Ckpt, ""))
		})
	}
}

// checkGreedy continues ids_1 token by token and compares each token whose margin exceeds the allowed error. It goes on
// from the golden's tokens, so that each is judged by itself.
func checkGreedy(t *testing.T, g golden.Golden, r *golden.Runner) {
	t.Helper()
	ids, want, margins := g.Ints(t, "ids_1"), g.Ints(t, "greedy_1"), g.Floats(t, "greedy_margin_1")
	all := r.Run(t, ids, 0)
	logits, checked := all[len(all)-1], 0
	for i, token := range want {
		best := 0
		for j, v := range logits {
			if v > logits[best] {
				best = j
			}
		}
		if margins[i] > 2*golden.MaxLogitError {
			checked++
			if int32(best) != token {
				t.Errorf("token %d is %d; want %d", i, best, token)
			}
		}
		logits = r.Run(t, []int32{token}, len(ids)+i)[0]
	}
	if checked < len(want)/2 {
		t.Errorf("only %d of %d tokens had a margin to be checked by", checked, len(want))
	}
}
