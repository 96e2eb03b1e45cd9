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
	// within is the family that reads its GGUFs, if it has no architecture of its own.
	within *family
	// defaults are what the architecture assumes of keys that a config.json lacks, assumed the same for a GGUF.
	defaults, assumed map[string]any
	// keys are its own names of what most families call otherwise.
	keys map[string]string
	// slots are the tensors whose names in safetensors are not those of hfSlots; "" is none.
	slots slots
	// ggufSlots are those whose names in a GGUF are not those of ggufSlots.
	ggufSlots slots
	// pairedExperts is whether safetensors hold the gates and ups of experts by turns.
	pairedExperts bool
	// permuted is whether a GGUF holds the rows of queries and keys in another order: the halves of a head, of which values
	// turn in pairs, alternate, so that pairs are neighbours.
	permuted bool
	// transposed is whether safetensors hold the matrices of layers as [in, out].
	transposed bool
	// partial is whether its ropes may turn a part of each head.
	partial bool
	// spec reads a configuration. It leaves faults in the Config.
	spec func(c *Config) *Spec
}

// families are all known architectures.
var families = []*family{
	&llama, &mistral, &qwen2, &qwen3, &phi3, &gemma2, &gemma3, &olmo2, &granite, &smollm3, &glm4, &starcoder2, &gpt2, &cohere,
	&ernie, &hunyuan, &mixtral, &qwen2moe, &qwen3moe, &olmoe, &glm4moe, &gptoss, &deepseek2, &deepseek3, &qwen3next,
	&bert, &roberta,
}

// guide is where to read how to add a family.
const guide = "https://github.com/kvasir-llm/kvasir/blob/main/docs/add-a-model.md says how to add one"

// Families returns the model types that config.json may name, and the architectures that a GGUF may.
func Families() (types, archs []string) {
	for _, f := range families {
		types, archs = append(types, f.types...), append(archs, f.archs...)
	}
	return types, archs
}

// ReadSpec reads what a checkpoint says of its model.
func ReadSpec(ckpt *weights.Checkpoint) (*Spec, error) {
	_, s, err := readConfig(ckpt)
	return s, err
}

// readConfig is ReadSpec that also returns the configuration, as its family has read it.
func readConfig(ckpt *weights.Checkpoint) (*Config, *Spec, error) {
	if ckpt.Format() == weights.GGUF {
		return ggufSpec(ckpt)
	}
	data, err := ckpt.Config("config.json")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("model: %s has no config.json beside its weights", ckpt.Files()[0])
	}
	if err != nil {
		return nil, nil, err
	}
	return jsonSpec(data)
}

// jsonSpec reads a config.json.
func jsonSpec(data []byte) (*Config, *Spec, error) {
	c, err := ParseConfig(data)
	if err != nil {
		return nil, nil, err
	}
	kind := c.Text("model_type")
	if c.Err() != nil {
		return nil, nil, c.Err()
	}
	for _, f := range families {
		if slices.Contains(f.types, kind) {
			s, err := f.read(c)
			return c, s, err
		}
	}
	types, _ := Families()
	return nil, nil, fmt.Errorf("model: config.json: model_type %q is not supported; known are %s; %s", kind, strings.Join(types, ", "), guide)
}

// read returns the Spec of a configuration, checked.
func (f *family) read(c *Config) (*Spec, error) {
	c.setDefaults(f.defaults, f.assumed)
	c.rename(f.keys)
	c.partial = f.partial
	s := f.spec(c)
	if slices.ContainsFunc(s.Ropes, func(r Rope) bool { return r.Long != nil }) {
		s.LongFrom = int(c.trained(c.ropeParameters()))
	}
	s.Family, s.Quantization = f.types[0], c.quantized
	if f.permuted && c.gguf() {
		s.pairNeighbours(true)
	}
	c.refuseUnread()
	if c.Err() != nil {
		return nil, c.Err()
	}
	return s, s.Check()
}

// familyOf returns the family that made a Spec.
func familyOf(s *Spec) *family {
	i := slices.IndexFunc(families, func(f *family) bool { return f.types[0] == s.Family })
	return families[i]
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
