// Package family knows the architectures that kvasir runs: it maps the configuration of a checkpoint, a config.json
// or the metadata of a GGUF, to a model.Spec, and back, and its tensors' names to slots. A family is one small file.
// The package knows nothing of devices or of how weights are stored. Start with family and llama.go.
package family

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/model"
	"github.com/kvasir-llm/kvasir/weights"
)

// family maps checkpoints of one architecture to a Spec.
type family struct {
	types []string // model_type in config.json
	archs []string // general.architecture in a GGUF
	// within is the family that reads its GGUFs, if it has no architecture of its own.
	within *family
	// defaults are the values of keys that a config.json lacks, assumed those of keys that a GGUF lacks.
	defaults, assumed map[string]any
	// keys maps the family's own key names to the usual ones.
	keys map[string]string
	// slots are the tensor names that differ from hfSlots in safetensors; "" removes a slot.
	slots Slots
	// ggufSlots are those that differ from ggufSlots in a GGUF.
	ggufSlots Slots
	// pairedExperts is whether the gates and ups of experts alternate in safetensors.
	pairedExperts bool
	// permuted is whether a GGUF holds the rows of queries and keys in another order: the halves of a head alternate.
	permuted bool
	// transposed is whether safetensors hold the matrices of layers as [in, out].
	transposed bool
	// partial is whether its ropes may rotate only a part of each head.
	partial bool
	// spec reads a configuration. Faults stay in the Config.
	spec func(c *Config) *draft
}

// families are all known architectures.
var families = []*family{
	&llama, &mistral, &qwen2, &qwen3, &phi3, &gemma2, &gemma3, &olmo2, &granite, &smollm3, &glm4, &starcoder2, &gpt2, &cohere,
	&ernie, &hunyuan, &mixtral, &qwen2moe, &qwen3moe, &olmoe, &glm4moe, &gptoss, &deepseek2, &deepseek3, &qwen3next,
	&bert, &roberta,
}

// guide is where to read how to add a family.
const guide = "https://github.com/kvasir-llm/kvasir/blob/main/docs/add-a-model.md says how to add one"

// known returns the model types that config.json may name, and the architectures that a GGUF may.
func known() (types, archs []string) {
	for _, f := range families {
		types, archs = append(types, f.types...), append(archs, f.archs...)
	}
	return types, archs
}

// Read returns the Spec of a checkpoint.
func Read(ckpt *weights.Checkpoint) (*model.Spec, error) {
	_, s, err := readConfig(ckpt)
	if err != nil {
		return nil, err
	}
	if ckpt.Format() != weights.GGUF && !s.Encoder && !s.TiedHead {
		s.NoHead = headless(ckpt, familyOf(&s.Spec).layoutOf(ckpt).Slots)
	}
	return &s.Spec, nil
}

// headless reports whether a checkpoint was saved without the class that adds a head: it has none, and no prefix
// either.
func headless(ckpt *weights.Checkpoint, names Slots) bool {
	_, embed := ckpt.Tensor(names["embed"] + ".weight")
	_, head := ckpt.Tensor(names["head"] + ".weight")
	return embed && !head && bare(names["embed"]) == names["embed"]
}

// readConfig is Read that also returns the configuration, as its family has read it.
func readConfig(ckpt *weights.Checkpoint) (*Config, *draft, error) {
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
func jsonSpec(data []byte) (*Config, *draft, error) {
	c, err := parseConfig(data)
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
	types, _ := known()
	return nil, nil, fmt.Errorf("model: config.json: model_type %q is not supported; known are %s; %s", kind, strings.Join(types, ", "), guide)
}

// read returns the Spec of a configuration, checked.
func (f *family) read(c *Config) (*draft, error) {
	c.setDefaults(f.defaults, f.assumed)
	c.rename(f.keys)
	c.partial = f.partial
	s := f.spec(c)
	if slices.ContainsFunc(s.Ropes, func(r model.Rope) bool { return r.Long != nil }) {
		s.LongFrom = int(c.trained(c.ropeParameters()))
	}
	for _, r := range s.Ropes {
		if r.Limit > 0 {
			s.Context = min(s.Context, r.Limit)
		}
	}
	s.Family, s.Quantization = f.types[0], c.quantized
	c.refuseUnread()
	if c.Err() != nil {
		return nil, c.Err()
	}
	return s, s.Check()
}

// Architectures returns the names that a GGUF may give the architecture of a Spec's family.
func Architectures(s *model.Spec) []string { return familyOf(s).archs }

// familyOf returns the family that made a Spec.
func familyOf(s *model.Spec) *family {
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
	name := c.textOr(key, "silu")
	act, ok := activations[name]
	if !ok {
		c.Fail("%q is %q, which is not supported; known are %v", key, name, slices.Sorted(maps.Keys(activations)))
	}
	return act
}
