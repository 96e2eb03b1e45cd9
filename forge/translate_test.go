package forge_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/forge"
	"github.com/kvasir-llm/kvasir/internal/golden"
	"github.com/kvasir-llm/kvasir/model"
	"github.com/kvasir-llm/kvasir/model/family"
	"github.com/kvasir-llm/kvasir/quant"
	"github.com/kvasir-llm/kvasir/weights"
)

// TestGoldenGGUF writes the goldens as GGUF, in every float type that holds their weights exactly, and back as
// safetensors, and compares the logits.
func TestGoldenGGUF(t *testing.T) {
	types := map[quant.Type][]quant.Type{
		quant.BF16: {quant.BF16, quant.F16, quant.F32},
		quant.F16:  {quant.F16, quant.F32},
		quant.F32:  {quant.F32},
	}
	for _, name := range golden.Names(t) {
		if notInGGUF[name] != "" {
			continue
		}
		g := golden.Open(t, name)
		embed, _ := g.Ckpt.Tensor(family.LayoutOf(golden.Spec(t, g.Ckpt), g.Ckpt).Slots["embed"] + ".weight")
		for _, typ := range types[embed.Type] {
			t.Run(name+"/"+typ.String(), func(t *testing.T) {
				ckpt := golden.AsGGUF(t, g.Ckpt, typ)
				golden.CheckSame(t, g.Ckpt, ckpt)
				r := golden.NewRunner(t, ckpt, "")
				golden.CheckLogits(t, g, r)
				if ids := g.Ints(t, "ids_0"); typ == embed.Type && family.LayoutOf(golden.Spec(t, ckpt), ckpt).Permuted {
					golden.SameBits(t, "as GGUF", r.Run(t, ids, 0), golden.NewRunner(t, g.Ckpt, "").Run(t, ids, 0))
				}
				if typ == quant.F32 {
					back := golden.AsSafetensors(t, ckpt)
					golden.CheckSame(t, g.Ckpt, back)
					golden.CheckLogits(t, g, golden.NewRunner(t, back, ""))
				}
			})
		}
	}
}

// TestExpertsApart loads experts from a tensor for each, as the first GGUFs with experts had them.
func TestExpertsApart(t *testing.T) {
	g := golden.Open(t, "mixtral")
	stacked := golden.AsGGUF(t, g.Ckpt, quant.F32)
	var meta []weights.KV
	for _, k := range stacked.MetadataKeys() {
		meta = append(meta, weights.KV{Key: k, Value: stacked.Metadata()[k]})
	}
	var tensors []weights.Source
	for _, info := range stacked.Tensors() {
		w, _ := stacked.Tensor(info.Name)
		stem, experts := strings.CutSuffix(info.Name, "_exps.weight")
		if !experts {
			tensors = append(tensors, weights.Source{Name: info.Name, Type: info.Type, Shape: info.Shape, Write: weights.Bytes(w.Data)})
			continue
		}
		size := len(w.Data) / info.Shape[0]
		for e := range info.Shape[0] {
			part := weights.Bytes(w.Data[e*size:][:size])
			tensors = append(tensors, weights.Source{Name: fmt.Sprintf("%s.%d.weight", stem, e), Type: info.Type, Shape: info.Shape[1:], Write: part})
		}
	}
	golden.CheckLogits(t, g, golden.NewRunner(t, golden.GGUF(t, meta, tensors), ""))
}

// TestEncodersGGUF writes the encoders that a GGUF can say, and back.
func TestEncodersGGUF(t *testing.T) {
	for _, name := range []string{"bert", "roberta"} {
		t.Run(name, func(t *testing.T) {
			g := golden.OpenEncoder(t, name)
			ckpt := golden.AsGGUF(t, g.Ckpt, quant.F32)
			golden.CheckSame(t, g.Ckpt, ckpt)
			golden.CheckEncoder(t, g, golden.NewRunner(t, ckpt, ""))
			back := golden.AsSafetensors(t, ckpt)
			golden.CheckSame(t, g.Ckpt, back)
			golden.CheckEncoder(t, g, golden.NewRunner(t, back, ""))
		})
	}
}

// TestQuantizedNotConverted asks for a GGUF of weights whose values no tensor of it would be.
func TestQuantizedNotConverted(t *testing.T) {
	for _, name := range golden.Quantized(t) {
		if _, err := forge.Translate(golden.OpenQuantized(t, name).Ckpt, weights.GGUF); err == nil || !strings.Contains(err.Error(), "cannot be converted") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// notInGGUF are the goldens whose meaning the metadata of these architectures cannot hold.
var notInGGUF = map[string]string{
	"llama_gelu":   "the activation is always SiLU",
	"yarn_mscale":  "mscale and truncate are not kept",
	"qwen2_window": "a window in some layers only",
	"qwen2_layers": "a window in some layers only",
	"qwen3_window": "a window in some layers only",

	"gemma2_old":        "scores are scaled by the size of a head",
	"smollm3_interval":  "every fourth layer has no rope, and none a window",
	"gpt2_layers":       "scores are scaled by the size of a head",
	"gpt_oss_layers":    "which layers have a window",
	"qwen2_moe_steps":   "a window in some layers only",
	"starcoder2_window": "the activation is the approximate GELU",

	"deepseek_v3_halves": "ropes turn neighbours, and mscale is mscale_all_dim",
}

// TestNotInGGUF holds that what a GGUF cannot say is noticed.
func TestNotInGGUF(t *testing.T) {
	for name, why := range notInGGUF {
		g := golden.Open(t, name)
		before, err := family.Read(g.Ckpt)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := forge.Translate(g.Ckpt, weights.GGUF); err != nil {
			continue
		}
		after, err := family.Read(golden.AsGGUF(t, g.Ckpt, quant.F32))
		if err != nil {
			t.Fatal(err)
		}
		if d := model.Differ(before, after); d == "" {
			t.Errorf("%s: the GGUF says the same; want a difference, as %s", name, why)
		}
	}
}

// TestTranslateInOrder holds that a checkpoint is translated to the same tensors in the same order every time.
func TestTranslateInOrder(t *testing.T) {
	g := golden.Open(t, "phi3_longrope")
	var first []string
	for i := range 20 {
		out, err := forge.Translate(g.Ckpt, weights.GGUF)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, tensor := range out.Tensors {
			names = append(names, tensor.Name)
		}
		if i == 0 {
			first = names
		}
		if !slices.Equal(names, first) {
			t.Fatalf("translation %d has %v; the first had %v", i, names, first)
		}
	}
}
