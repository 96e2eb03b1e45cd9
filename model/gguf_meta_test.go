package model

import (
	"testing"

	"github.com/kvasir-llm/kvasir/quant"
	"github.com/kvasir-llm/kvasir/weights"
)

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
		g := openGolden(t, name)
		before, err := ReadSpec(g.ckpt)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Translate(g.ckpt, weights.GGUF); err != nil {
			continue
		}
		after, err := ReadSpec(asGGUF(t, g.ckpt, quant.F32))
		if err != nil {
			t.Fatal(err)
		}
		if d := Differ(before, after); d == "" {
			t.Errorf("%s: the GGUF says the same; want a difference, as %s", name, why)
		}
	}
}
