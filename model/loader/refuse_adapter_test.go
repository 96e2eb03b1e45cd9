package loader_test

import (
	"bytes"
	"maps"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/internal/golden"
	"github.com/kvasir-llm/kvasir/model/loader"
	"github.com/kvasir-llm/kvasir/quant"
	"github.com/kvasir-llm/kvasir/weights"
)

// TestRefusedPEFT changes one thing of a good adapter at a time.
func TestRefusedPEFT(t *testing.T) {
	g := golden.Open(t, "llama")
	r := adapted(t, g.Ckpt, "")
	const q = "model.layers.0.self_attn.q_proj"
	for _, test := range []struct {
		name   string
		config map[string]any
		lora   func(map[string]matrices)
		want   string
	}{
		{"kind", map[string]any{"peft_type": "IA3"}, nil, `"peft_type" is "IA3"`},
		{"DoRA", map[string]any{"use_dora": true}, nil, `"use_dora" is true, which is not supported`},
		{"bias", map[string]any{"bias": "all"}, nil, `"bias" is "all"`},
		{"bias of B", map[string]any{"lora_bias": true}, nil, `"lora_bias" is true`},
		{"whole modules", map[string]any{"modules_to_save": []string{"lm_head"}}, nil, `"modules_to_save" is [lm_head]`},
		{"activated", map[string]any{"alora_invocation_tokens": []int{1}}, nil, `"alora_invocation_tokens" is [1]`},
		{"layers again", map[string]any{"layer_replication": [][]int{{0, 1}}}, nil, `"layer_replication"`},
		{"PiSSA", map[string]any{"init_lora_weights": "pissa_niter_4"}, nil, `"init_lora_weights" is "pissa_niter_4"`},
		{"unknown", map[string]any{"use_newra": true}, nil, `"use_newra" is true, which is not supported`},
		{"rank", map[string]any{"r": 0}, nil, `"r" is 0; want 1 to`},
		{"rank pattern", map[string]any{"rank_pattern": map[string]any{"q_proj": 1.5}}, nil, "a rank of 1.5"},
		{"expression", map[string]any{"target_modules": "("}, nil, "missing closing )"},
		{"pattern", map[string]any{"alpha_pattern": map[string]any{"[": 1}}, nil, `"alpha_pattern"`},
		{"other rank", map[string]any{"rank_pattern": map[string]any{"q_proj": 9, "o_proj": 3, `.*\.1\..*down_proj`: 17}}, nil, "q_proj the rank 9"},
		{"not a target", map[string]any{"target_modules": []string{"k_proj"}}, nil, "does not target model.layers.0.mlp.down_proj"},
		{"excluded", map[string]any{"exclude_modules": []string{"v_proj"}}, nil, "does not target model.layers.0.self_attn.v_proj"},
		{"layer", map[string]any{"layers_to_transform": 1}, nil, "does not target model.layers.0."},
		{"no counterpart", nil, func(l map[string]matrices) { delete(l, q); l[q+".lora_A.weight"] = matrices{rank: 4, in: 64, out: 64} }, "is neither"},
		{"no such weight", nil, func(l map[string]matrices) { l["model.layers.9.self_attn.q_proj"] = l[q] }, "no weight model.layers.9.self_attn.q_proj"},
		{"embedding", nil, func(l map[string]matrices) { l["model.embed_tokens"] = l[q] }, "no weight model.embed_tokens"},
		{"head", nil, func(l map[string]matrices) { l["lm_head"] = l[q] }, "no weight lm_head"},
		{"input", nil, func(l map[string]matrices) { l[q] = matrices{rank: 4, in: 60, out: 64} }, "has shape [4 60]; the model's " + q + " asks for [rank, 64]"},
		{"output", nil, func(l map[string]matrices) { l[q] = matrices{rank: 4, in: 64, out: 60} }, "has shape [60 4];"},
	} {
		lora, config := peftOf(t, rand.New(rand.NewPCG(1, 1)), g, false)
		maps.Copy(config, test.config)
		if test.lora != nil {
			test.lora(lora)
		}
		for path, m := range lora {
			m.a, m.b = make([]float32, m.rank*m.in), make([]float32, m.rank*m.out)
			lora[path] = m
		}
		if _, err := loader.Adapter(r.Model, writePEFT(t, lora, config)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v; want %q", test.name, err, test.want)
		}
	}
}

// TestAdaptersAreFinite holds that an adapter with a value that is no finite number is refused when it is loaded.
func TestAdaptersAreFinite(t *testing.T) {
	g := golden.Open(t, "llama")
	r := adapted(t, g.Ckpt, "")
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		lora, config := peftOf(t, rand.New(rand.NewPCG(1, 1)), g, false)
		lora["model.layers.0.self_attn.q_proj"].b[5] = float32(bad)
		if _, err := loader.Adapter(r.Model, writePEFT(t, lora, config)); err == nil || !strings.Contains(err.Error(), "q_proj.lora_B.weight\": value 5 is") {
			t.Errorf("%v: error %v", bad, err)
		}
	}
}

func TestRefusedGGUFAdapters(t *testing.T) {
	g := golden.Open(t, "llama")
	r := adapted(t, g.Ckpt, "")
	meta := map[string]any{"general.architecture": "llama", "general.type": "adapter", "adapter.type": "lora", "adapter.lora.alpha": float32(1)}
	a := golden.Source(t, "blk.0.attn_q.weight.lora_a", quant.F32, []int{4, 64}, make([]float32, 256))
	b := golden.Source(t, "blk.0.attn_q.weight.lora_b", quant.F32, []int{64, 4}, make([]float32, 256))
	embed := golden.Source(t, "token_embd.weight.lora_a", quant.F32, []int{64, 4}, make([]float32, 256))
	norm := golden.Source(t, "blk.0.attn_norm.weight", quant.F32, []int{64}, make([]float32, 64))
	for _, test := range []struct {
		name    string
		meta    map[string]any
		tensors []weights.Source
		want    string
	}{
		{"model", map[string]any{"general.type": "model"}, []weights.Source{a, b}, `"general.type" is "model"; want "adapter"`},
		{"kind", map[string]any{"adapter.type": "control"}, []weights.Source{a, b}, `"adapter.type" is "control"; want "lora"`},
		{"architecture", map[string]any{"general.architecture": "gpt2"}, []weights.Source{a, b}, `architecture "gpt2"; the model is a llama`},
		{"alpha", map[string]any{"adapter.lora.alpha": "1"}, []weights.Source{a, b}, `"adapter.lora.alpha" is "1"; want a number`},
		{"activated", map[string]any{"adapter.alora.invocation_tokens": []uint32{1}}, []weights.Source{a, b}, "adapter.alora.invocation_tokens"},
		{"empty", nil, nil, "no tensors"},
		{"half", nil, []weights.Source{a}, "no counterpart"},
		{"other half", nil, []weights.Source{b}, "no counterpart"},
		{"embedding", nil, []weights.Source{embed}, "no counterpart"},
		{"norm", nil, []weights.Source{a, b, norm}, `"blk.0.attn_norm.weight" is neither an A nor a B`},
	} {
		all := maps.Clone(meta)
		maps.Copy(all, test.meta)
		var pairs []weights.KV
		for k, v := range all {
			pairs = append(pairs, weights.KV{Key: k, Value: v})
		}
		if _, err := loader.Adapter(r.Model, golden.GGUF(t, pairs, test.tensors)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v; want %q", test.name, err, test.want)
		}
	}
}

func TestEmptySlotsAreRefused(t *testing.T) {
	g := golden.Open(t, "llama")
	lora, config := peftOf(t, rand.New(rand.NewPCG(1, 1)), g, false)
	r := adapted(t, g.Ckpt, "", writePEFT(t, lora, config))
	ids := []int32{1, 2, 3}
	base, changed := r.Run(t, ids, 0), r.RunAs(t, 1, ids, 0)
	if golden.Relative(base, changed) == 0 {
		t.Error("the adapter changes nothing")
	}
	if err := r.PlaceNow(1, nil); err != nil {
		t.Fatal(err)
	}
	for _, slot := range []int32{-1, 1, 2} {
		var b compute.Batch
		b.Append(ids, 0, true, golden.OneSequence)
		b.Seqs[0].Adapter = slot
		if err := r.Forward(&b); err == nil || !strings.Contains(err.Error(), "which is empty") {
			t.Errorf("slot %d: error %v", slot, err)
		}
	}
	for _, slot := range []int{0, 2} {
		if err := r.PlaceNow(slot, nil); err == nil {
			t.Errorf("slot %d can be filled", slot)
		}
	}
}

// FuzzGGUFAdapter reads any GGUF as an adapter of a model. One that is taken can be placed.
func FuzzGGUFAdapter(f *testing.F) {
	r := adapted(f, golden.Open(f, "llama").Ckpt, "")
	r.Model.MakeSlots(1)
	r = golden.RunnerOf(f, r.Model, r.Device)
	for _, slot := range []string{"blk.0.attn_q", "blk.1.ffn_up", "output"} {
		zeros := weights.Bytes(make([]byte, 4*64*4))
		meta := []weights.KV{{Key: "general.architecture", Value: "llama"}, {Key: "general.type", Value: "adapter"},
			{Key: "adapter.type", Value: "lora"}, {Key: "adapter.lora.alpha", Value: float32(2)}}
		var out bytes.Buffer
		if err := weights.WriteGGUF(&out, meta, []weights.Source{
			{Name: slot + ".weight.lora_a", Type: quant.F32, Shape: []int{4, 64}, Write: zeros},
			{Name: slot + ".weight.lora_b", Type: quant.F32, Shape: []int{64, 4}, Write: zeros},
		}); err != nil {
			f.Fatal(err)
		}
		f.Add(out.Bytes())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		ckpt, err := weights.OpenBytes("fuzz.gguf", data)
		if err != nil {
			return
		}
		if a, err := loader.Adapter(r.Model, ckpt); err == nil {
			if err := r.PlaceNow(1, a); err != nil {
				t.Error(err)
			}
		}
	})
}
