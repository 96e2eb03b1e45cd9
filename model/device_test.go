package model_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
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
	computed, absent := 0, 0
	const folder = "quantized/"
	names := slices.Clone(golden.Names(t))
	for _, name := range golden.Quantized(t) {
		names = append(names, folder+name)
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if t.Skipped() {
					absent++
				}
			}()
			quantized, packed := strings.CutPrefix(name, folder)
			g := golden.Golden{}
			if packed {
				g = golden.OpenQuantized(t, quantized)
			} else {
				g = golden.Open(t, name)
			}
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
			if quantized == "fp8_mixtral_wide" {
				bound = 0.12 // Hopper rounds rows to F8_E4M3, by up to 2⁻⁴: 0.08
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
	if all := len(names) - absent; computed < all {
		t.Errorf("%d of %d goldens were computed", computed, all)
	}
}

// TestGGUFOnDevices computes a random Llama from safetensors and from a GGUF, in which the halves of heads alternate,
// on every device of this machine: a prompt and single rows have the same bits.
func TestGGUFOnDevices(t *testing.T) {
	const hidden, heads, kvHeads, dim, width, vocab = 64, 4, 2, 128, 96, 80
	rng := rand.New(rand.NewPCG(7, 7))
	var tensors []weights.Source
	add := func(name string, shape ...int) {
		v := make([]float32, shape[0])
		if len(shape) == 2 {
			v = make([]float32, shape[0]*shape[1])
		}
		for i := range v {
			v[i] = float32(rng.NormFloat64() / 8)
		}
		tensors = append(tensors, golden.Source(t, name, quant.BF16, shape, v))
	}
	add("model.embed_tokens.weight", vocab, hidden)
	add("model.norm.weight", hidden)
	for i := range 2 {
		layer := fmt.Sprintf("model.layers.%d.", i)
		add(layer+"input_layernorm.weight", hidden)
		add(layer+"post_attention_layernorm.weight", hidden)
		add(layer+"self_attn.q_proj.weight", heads*dim, hidden)
		add(layer+"self_attn.k_proj.weight", kvHeads*dim, hidden)
		add(layer+"self_attn.v_proj.weight", kvHeads*dim, hidden)
		add(layer+"self_attn.o_proj.weight", hidden, heads*dim)
		add(layer+"mlp.gate_proj.weight", width, hidden)
		add(layer+"mlp.up_proj.weight", width, hidden)
		add(layer+"mlp.down_proj.weight", hidden, width)
	}
	config := fmt.Appendf(nil, `{"model_type": "llama", "hidden_size": %d, "num_attention_heads": %d, "num_key_value_heads": %d, "head_dim": %d,
		"intermediate_size": %d, "vocab_size": %d, "num_hidden_layers": 2, "tie_word_embeddings": true}`, hidden, heads, kvHeads, dim, width, vocab)
	plain := golden.Folder(t, "model.safetensors", tensors, "config.json", config)
	ids := make([]int32, 50)
	for i := range ids {
		ids[i] = int32(rng.IntN(vocab))
	}
	devicetest.Each(t, func(t *testing.T, dev compute.Device) {
		var rows [2][][]float32
		for i, ckpt := range []*weights.Checkpoint{plain, golden.AsGGUF(t, plain, quant.BF16)} {
			m, err := loader.Model(ckpt, dev, nil)
			if err != nil {
				t.Fatal(err)
			}
			m.KVType = dev.KVTypes()[0]
			r := golden.RunnerOf(t, m, dev)
			defer r.Close()
			rows[i] = r.Run(t, ids[:40], 0)
			for at := 40; at < len(ids); at++ {
				rows[i] = append(rows[i], r.Run(t, ids[at:at+1], at)...)
			}
		}
		golden.SameBits(t, "GGUF", rows[1], rows[0])
	})
}
