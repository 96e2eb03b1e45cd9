package model

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/weights"
)

// family maps checkpoints of one architecture to a Spec.
type family struct {
	types []string // model_type in config.json
	archs []string // general.architecture in a GGUF
	// spec reads a configuration. It leaves faults in the Config.
	spec func(c *Config) *Spec
}

// families are all known architectures.
var families = []*family{&llama, &mistral, &qwen2, &qwen3}

// Families returns the model types that config.json may name, and the architectures that a GGUF may.
func Families() (types, archs []string) {
	for _, f := range families {
		types, archs = append(types, f.types...), append(archs, f.archs...)
	}
	return types, archs
}

// ReadSpec reads what a checkpoint says of its model.
func ReadSpec(ckpt *weights.Checkpoint) (*Spec, error) {
	c, f, err := identify(ckpt)
	if err != nil {
		return nil, err
	}
	s := f.spec(c)
	if c.Err() != nil {
		return nil, c.Err()
	}
	if c.gguf {
		_, head := ckpt.Tensor("output.weight")
		s.TiedHead = !head
	}
	if t, ok := ckpt.Tensor("rope_freqs.weight"); ok && c.gguf {
		if err := stretch(s, t); err != nil {
			return nil, err
		}
	}
	return s, s.Check()
}

// identify returns the configuration of a checkpoint and its family.
func identify(ckpt *weights.Checkpoint) (*Config, *family, error) {
	if ckpt.Format() == weights.GGUF {
		c, arch, err := GGUFConfig(ckpt.Metadata())
		if err != nil {
			return nil, nil, err
		}
		for _, f := range families {
			if slices.Contains(f.archs, arch) {
				return c, f, nil
			}
		}
		_, archs := Families()
		return nil, nil, fmt.Errorf("model: GGUF architecture %q is not supported; known are %s", arch, strings.Join(archs, ", "))
	}
	data, err := ckpt.Config("config.json")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("model: %s has no config.json beside its weights", ckpt.Dir())
	}
	if err != nil {
		return nil, nil, err
	}
	c, err := ParseConfig(data)
	if err != nil {
		return nil, nil, err
	}
	kind := c.TextOr("model_type", "")
	for _, f := range families {
		if slices.Contains(f.types, kind) {
			return c, f, c.Err()
		}
	}
	types, _ := Families()
	return nil, nil, fmt.Errorf("model: config.json: model_type %q is not supported; known are %s", kind, strings.Join(types, ", "))
}

// stretch divides the frequencies of every rope by the factors that a GGUF stores for them (Llama 3.1 and later).
func stretch(s *Spec, t weights.Tensor) error {
	factors, err := decode(t)
	if err != nil {
		return err
	}
	for i := range s.Ropes {
		freqs := s.Ropes[i].Freqs
		if len(factors) != len(freqs) {
			return fmt.Errorf("model: tensor %q has %d factors; the rope has %d frequencies", t.Name, len(factors), len(freqs))
		}
		for j, f := range factors {
			freqs[j] /= f
		}
	}
	return nil
}

// slots are the tensors of a model. The patterns' %d is the layer.
type slots map[string]string

// hfSlots are the names in most safetensors checkpoints.
var hfSlots = slots{
	"embed":     "model.embed_tokens",
	"norm":      "model.norm",
	"head":      "lm_head",
	"attn.norm": "model.layers.%d.input_layernorm",
	"q":         "model.layers.%d.self_attn.q_proj",
	"k":         "model.layers.%d.self_attn.k_proj",
	"v":         "model.layers.%d.self_attn.v_proj",
	"o":         "model.layers.%d.self_attn.o_proj",
	"q.norm":    "model.layers.%d.self_attn.q_norm",
	"k.norm":    "model.layers.%d.self_attn.k_norm",
	"ffn.norm":  "model.layers.%d.post_attention_layernorm",
	"gate":      "model.layers.%d.mlp.gate_proj",
	"up":        "model.layers.%d.mlp.up_proj",
	"down":      "model.layers.%d.mlp.down_proj",
}

// ggufSlots are the names in GGUF files.
var ggufSlots = slots{
	"embed":     "token_embd",
	"norm":      "output_norm",
	"head":      "output",
	"attn.norm": "blk.%d.attn_norm",
	"q":         "blk.%d.attn_q",
	"k":         "blk.%d.attn_k",
	"v":         "blk.%d.attn_v",
	"o":         "blk.%d.attn_output",
	"q.norm":    "blk.%d.attn_q_norm",
	"k.norm":    "blk.%d.attn_k_norm",
	"ffn.norm":  "blk.%d.ffn_norm",
	"gate":      "blk.%d.ffn_gate",
	"up":        "blk.%d.ffn_up",
	"down":      "blk.%d.ffn_down",
}

// uniform fills a Spec with n equal layers.
func (s *Spec) uniform(n int, l Layer) {
	if n > 0 && n < 1<<16 {
		s.Layers = slices.Repeat([]Layer{l}, n)
	}
}

// activations are the names of nonlinearities in config.json.
var activations = map[string]compute.Activation{
	"silu": compute.SiLU, "swish": compute.SiLU, "gelu": compute.GELU, "relu": compute.ReLU,
	"gelu_new": compute.GELUTanh, "gelu_pytorch_tanh": compute.GELUTanh,
}

// activation reads the feed-forward's nonlinearity.
func (c *Config) activation(key string) compute.Activation {
	name := c.TextOr(key, "silu")
	act, ok := activations[name]
	if !ok {
		c.fail("%q is %q, which is not supported; known are %v", key, name, slices.Sorted(maps.Keys(activations)))
	}
	return act
}
