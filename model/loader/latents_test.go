package loader_test

import (
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/internal/golden"
	"github.com/kvasir-llm/kvasir/model"
	"github.com/kvasir-llm/kvasir/model/family"
	"github.com/kvasir-llm/kvasir/model/loader"
	"github.com/kvasir-llm/kvasir/quant"
	"github.com/kvasir-llm/kvasir/weights"
)

// TestLatentsApart loads latent attention as newer GGUFs have it: the weight that makes keys turned over and apart
// from the one that makes values, [heads, out, in], and the sizes of what the cache holds as those of a head.
func TestLatentsApart(t *testing.T) {
	for _, name := range []string{"deepseek_v2_groups", "deepseek_v3"} {
		g := golden.Open(t, name)
		ckpt := golden.AsGGUF(t, g.Ckpt, quant.F32)
		spec, err := family.Read(ckpt)
		if err != nil {
			t.Fatal(err)
		}
		a := spec.Layers[0].Mixer.(model.Latent)
		rank, nope := a.Rank, a.HeadDim-a.RopeDim
		theirs := map[string]any{
			"deepseek2.attention.key_length": uint32(rank + a.RopeDim), "deepseek2.attention.value_length": uint32(rank),
			"deepseek2.attention.head_count_kv": uint32(1),
		}
		meta := []weights.KV{
			{Key: "deepseek2.attention.key_length_mla", Value: uint32(a.HeadDim)}, {Key: "deepseek2.attention.value_length_mla", Value: uint32(a.ValueDim)},
		}
		for _, k := range ckpt.MetadataKeys() {
			v, ok := theirs[k]
			if !ok {
				v = ckpt.Metadata()[k]
			}
			if !strings.HasSuffix(k, "_mla") {
				meta = append(meta, weights.KV{Key: k, Value: v})
			}
		}
		var tensors []weights.Source
		for _, info := range ckpt.Tensors() {
			v := golden.Values(t, ckpt, info.Name)
			stem, joined := strings.CutSuffix(info.Name, "attn_kv_b.weight")
			if !joined {
				tensors = append(tensors, golden.Source(t, info.Name, info.Type, info.Shape, v))
				continue
			}
			var keys []float32
			for h := range a.Heads {
				head := v[h*(nope+a.ValueDim)*rank:]
				for r := range rank {
					for n := range nope {
						keys = append(keys, head[n*rank+r])
					}
				}
			}
			tensors = append(tensors, golden.Source(t, stem+"attn_k_b.weight", quant.F32, []int{a.Heads, rank, nope}, keys),
				golden.Source(t, stem+"attn_v_b.weight", quant.F32, []int{a.Heads, a.ValueDim, rank}, loader.Gather(v, rank, nope+a.ValueDim, loader.Span{nope, nope + a.ValueDim})))
		}
		apart := golden.GGUF(t, meta, tensors)
		golden.CheckSame(t, ckpt, apart)
		golden.CheckLogits(t, g, golden.NewRunner(t, apart, ""))
	}
}
