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
	// defaults are what the architecture assumes of keys that a config.json lacks.
	defaults map[string]any
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
	if ckpt.Format() == weights.GGUF {
		return ggufSpec(ckpt)
	}
	data, err := ckpt.Config("config.json")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("model: %s has no config.json beside its weights", ckpt.Files()[0])
	}
	if err != nil {
		return nil, err
	}
	return jsonSpec(data)
}

// jsonSpec reads a config.json.
func jsonSpec(data []byte) (*Spec, error) {
	c, err := ParseConfig(data)
	if err != nil {
		return nil, err
	}
	kind := c.Text("model_type")
	if c.Err() != nil {
		return nil, c.Err()
	}
	for _, f := range families {
		if slices.Contains(f.types, kind) {
			c.setDefaults(f.defaults)
			return f.read(c)
		}
	}
	types, _ := Families()
	return nil, fmt.Errorf("model: config.json: model_type %q is not supported; known are %s", kind, strings.Join(types, ", "))
}

// read returns the Spec of a configuration, checked.
func (f *family) read(c *Config) (*Spec, error) {
	s := f.spec(c)
	if c.Err() != nil {
		return nil, c.Err()
	}
	return s, s.Check()
}

// slots are the tensors of a model. The patterns' %d is the layer.
type slots map[string]string

// name returns the tensor name of a slot of layer i, without its suffix.
func (s slots) name(slot string, i int) string {
	if pattern := s[slot]; strings.Contains(pattern, "%d") {
		return fmt.Sprintf(pattern, i)
	}
	return s[slot]
}

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

// uniform fills a Spec with equal layers, as many as the configuration says.
func (s *Spec) uniform(c *Config, l Layer) {
	n := c.Int("num_hidden_layers")
	if n < 1 || n > maxLayers {
		c.fail("%q is %d; want 1 to %d", c.key("num_hidden_layers"), n, maxLayers)
		return
	}
	s.Layers = slices.Repeat([]Layer{l}, n)
}

// each calls f for every layer.
func (s *Spec) each(f func(i int, l *Layer)) {
	for i := range s.Layers {
		f(i, &s.Layers[i])
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
