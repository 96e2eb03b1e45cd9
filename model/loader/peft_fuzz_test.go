package loader

import "testing"

// FuzzAdapterConfig reads any adapter_config.json: it may be refused, but never panics, and one that is taken says what
// rank and scale every module has.
func FuzzAdapterConfig(f *testing.F) {
	f.Add([]byte(`{"peft_type":"LORA","r":4,"lora_alpha":6.5,"use_rslora":true,"target_modules":"all-linear","alpha_pattern":{"o_proj":2}}`))
	f.Add([]byte(`{"peft_type":"LORA","target_modules":["q_proj"],"layers_to_transform":[0,2],"use_dora":false}`))
	f.Add([]byte(`{"peft_type":"LORA","target_modules":".*(q|k)_proj","rank_pattern":{"(":1}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := parsePEFT(data)
		if err != nil {
			return
		}
		c.targets("model.layers.0.self_attn.q_proj", 0)
		if rank := lookup(c.ranks, "model.layers.0.self_attn.q_proj", float64(c.r)); rank < 1 {
			t.Errorf("rank %v", rank)
		}
	})
}
