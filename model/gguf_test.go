package model_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/compute/cpu"
	"github.com/kvasir-llm/kvasir/internal/golden"
	"github.com/kvasir-llm/kvasir/quant"
)

// TestQuantisedGGUF writes goldens in block types. What quantising the activations does to the logits, against the
// same weights in float32, must stay small, and all kernels must agree to the last bit. An int8 of 256 values with
// one scale is off by about 0.7%, which some fifteen products in a row bring to 3%, and to more where other experts
// are chosen.
func TestQuantisedGGUF(t *testing.T) {
	mixes := [][]quant.Type{{quant.Q8_0}, {quant.Q4_0}, {quant.Q8_0, quant.BF16, quant.Q4_0, quant.F32, quant.F16}}
	for _, name := range []string{"llama", "llama3_rope", "llama3_old", "yarn_old", "mistral_swa", "mistral_wide", "qwen2", "qwen3", "phi3", "gemma3", "olmo2",
		"glm4", "gpt2", "cohere", "mixtral", "qwen2_moe", "glm4_moe"} {
		for _, types := range mixes {
			t.Run(fmt.Sprint(name, types), func(t *testing.T) {
				g := golden.Open(t, name)
				ckpt := golden.AsGGUF(t, g.Ckpt, types...)
				ids := g.Ints(t, "ids_2")
				exact := golden.NewRunner(t, golden.Retyped(t, ckpt, quant.F32), "").Run(t, ids, 0)
				var first [][]float32
				for _, kernels := range cpu.Kernels() {
					got := golden.NewRunner(t, ckpt, kernels).Run(t, ids, 0)
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
				var errors []float64 // of positions: one whose token goes to another expert is off by much
				for p := range first {
					errors = append(errors, golden.Relative(first[p:p+1], exact[p:p+1]))
				}
				slices.Sort(errors)
				e := golden.Relative(first, exact)
				if strings.Contains(name, "moe") || name == "mixtral" {
					e = errors[len(errors)/2]
				}
				t.Logf("relative error %.4f", e)
				if !(e > 0 && e < 0.05) {
					t.Errorf("relative error of the logits is %g; want a little, below 0.05", e)
				}
			})
		}
	}
}
