package model

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kvasir-llm/kvasir/quant"
	"github.com/kvasir-llm/kvasir/weights"
)

// Translation is a checkpoint in the words of the other file format: what its configuration becomes, and how each of its
// tensors is called, shaped and laid out there.
type Translation struct {
	Spec    *Spec
	Meta    []weights.KV   // of a GGUF: the architecture and its keys; nil if the checkpoint is one
	Config  map[string]any // of safetensors: config.json; nil if the checkpoint has one
	Tensors []Translated
	Omitted []string // names of tensors that the model has no use for
}

// Translated is one tensor of a Translation.
type Translated struct {
	Name   string
	Slot   string     // what it is in a model, such as "q" or "ffn.norm"
	Layer  int        // whose it is, 0 for those of no layer
	From   []string   // the names of the tensors it is made of
	Type   quant.Type // of the bytes that Read returns
	Shape  []int
	Turned bool // a matrix of [in, out], as some families store them
	// Read returns the tensor's bytes. They may be a view of the checkpoint and must not be written to.
	Read func() ([]byte, error)
}

// Translate says a checkpoint in the given format, whichever it is in. What the format cannot say is not found out here:
// compare the Spec that is read back from the result with Differ.
func Translate(ckpt *weights.Checkpoint, to weights.Format) (*Translation, error) {
	c, spec, err := readConfig(ckpt)
	if err != nil {
		return nil, err
	}
	if q := spec.Quantization; q.Method != "" && q.Method != "mxfp4" {
		return nil, fmt.Errorf("model: weights quantised by %v cannot be converted; convert the checkpoint that they were made of", q)
	}
	f := familyOf(spec)
	out := &Translation{Spec: spec}
	t := &translator{f: f, spec: spec, ckpt: ckpt, from: slotsOf(f, ckpt), to: to, used: map[string]bool{}}
	t.changes, t.names = (ckpt.Format() == weights.GGUF) != (to == weights.GGUF), f.reader().slotsIn(to)
	switch {
	case !t.changes:
		t.names = t.from
	case to == weights.GGUF:
		out.Meta = f.metadata(c, spec)
	default:
		if f, err = f.named(spec); err != nil {
			return nil, err
		}
		t.f, t.names = f, f.slotsIn(to)
		if out.Config, err = f.config(c, spec, ckpt); err != nil {
			return nil, err
		}
	}
	for i := range spec.Layers {
		mixture, err := t.experts(i)
		if err != nil {
			return nil, err
		}
		delta, err := t.delta(i)
		if err != nil {
			return nil, err
		}
		out.Tensors = append(append(out.Tensors, mixture...), delta...)
	}
	for _, info := range ckpt.Tensors() {
		if t.used[info.Name] {
			continue
		}
		one, ok, err := t.tensor(info)
		if err != nil {
			return nil, err
		}
		if !ok {
			out.Omitted = append(out.Omitted, info.Name)
			continue
		}
		out.Tensors = append(out.Tensors, one)
	}
	if to == weights.GGUF && t.changes {
		for name, factors := range c.ropeTensors(spec) {
			values := func() []float32 { return factors }
			out.Tensors = append(out.Tensors, floats(name, "rope", 0, []int{len(factors)}, values))
		}
	}
	return out, c.Err()
}

// The tensors by which GGUF files stretch a rope: in sequences of all lengths, or in short and in long ones.
const (
	ropeFactors = "rope_freqs.weight"
	ropeShort   = "rope_factors_short.weight"
	ropeLong    = "rope_factors_long.weight"
)

// translator renames and rearranges tensors.
type translator struct {
	f           *family
	spec        *Spec
	ckpt        *weights.Checkpoint
	from, names slots
	to          weights.Format
	changes     bool            // the format is another
	used        map[string]bool // names of tensors that are read already
}

// tensor translates one tensor; ok is false for one without a meaning.
func (t *translator) tensor(info weights.Info) (out Translated, ok bool, err error) {
	slot, layer, suffix, ok := t.find(info.Name)
	if !ok || slot == "head" && suffix == ".weight" && t.spec.TiedHead && !t.ownHead() {
		if slices.Contains([]string{ropeFactors, ropeShort, ropeLong}, info.Name) && t.to == weights.GGUF {
			return t.plain(info, "rope"), true, nil
		}
		return out, false, nil
	}
	out = t.plain(info, slot)
	out.Layer = layer
	out.Turned = t.f.transposed && t.to != weights.GGUF && strings.Contains(t.from[slot], "%d") && len(info.Shape) == 2
	if !t.changes {
		return out, true, nil
	}
	out.Name = t.names.name(slot, layer) + suffix
	if t.names[slot] == "" {
		return out, false, fmt.Errorf("model: %s has no name in %s for tensor %q", t.f.types[0], t.to, info.Name)
	}
	inLayer, a := strings.Contains(t.from[slot], "%d"), t.spec.Layers[layer].Attn
	switch {
	case slot == "shared.factor" && t.to == weights.GGUF:
		out.Shape = []int{valuesIn(info.Shape)}
	case slot == "shared.factor":
		out.Shape = []int{1, valuesIn(info.Shape)}
	case slot == "positions" && t.spec.PositionsFrom > 0: // a GGUF has none before the first
		from, rows := t.spec.PositionsFrom, info.Shape[0]
		out.Shape = []int{rows - from, info.Shape[1]}
		out.Read = func() ([]byte, error) {
			data := t.stored(info).Data
			return data[len(data)/rows*from:], nil
		}
	case t.f.permuted && (slot == "q" || slot == "k"):
		out.Read = func() ([]byte, error) { return t.permuted(info, a.HeadDim, a.HeadDim) }
	case a.Latent.Rank > 0 && t.to == weights.GGUF && !t.spec.Ropes[0].Interleaved && (slot == "q" || slot == "q.up"):
		out.Read = func() ([]byte, error) { return t.permuted(info, a.HeadDim, a.Latent.RopeDim) }
	case a.Latent.Rank > 0 && t.to == weights.GGUF && !t.spec.Ropes[0].Interleaved && slot == "kv.latent":
		out.Read = func() ([]byte, error) { return t.permuted(info, info.Shape[0], a.Latent.RopeDim) }
	case t.f.transposed && inLayer && len(info.Shape) == 2:
		out.Shape = []int{info.Shape[1], info.Shape[0]}
		out.Read = func() ([]byte, error) { return transposed(t.stored(info)) }
	case t.spec.Norm.PlusOne && slot != "delta.norm" && len(info.Shape) == 1 && suffix == ".weight":
		out.Type = quant.F32
		out.Read = func() ([]byte, error) { return t.shifted(info) }
	}
	return out, true, nil
}

func valuesIn(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// plain is a tensor as it stands in the checkpoint.
func (t *translator) plain(info weights.Info, slot string) Translated {
	return Translated{Name: info.Name, Slot: slot, From: []string{info.Name}, Type: info.Type, Shape: info.Shape,
		Read: func() ([]byte, error) { return t.stored(info).Data, nil }}
}

func (t *translator) stored(info weights.Info) weights.Tensor {
	tensor, _ := t.ckpt.Tensor(info.Name)
	return tensor
}

// find returns what a tensor is. A GGUF calls "gate_up" what it calls "up", of twice the height.
func (t *translator) find(name string) (slot string, layer int, suffix string, ok bool) {
	for _, suffix := range []string{".weight", ".bias", ""} {
		stem, ok := strings.CutSuffix(name, suffix)
		if !ok {
			continue
		}
		for slot, pattern := range t.from {
			layer, ok := matches(pattern, stem)
			if !ok || layer >= len(t.spec.Layers) {
				continue
			}
			if slot == "up" || slot == "gate_up" {
				_, alone := t.ckpt.Tensor(t.from.name("gate", layer) + ".weight")
				if joined := t.spec.Layers[layer].FFN.Gated && !alone; joined != (slot == "gate_up") {
					continue
				}
			}
			return slot, layer, suffix, true
		}
	}
	return "", 0, "", false
}

// matches reports whether a name is a pattern's, and the layer in it.
func matches(pattern, name string) (layer int, ok bool) {
	before, after, inLayer := strings.Cut(pattern, "%d")
	if !inLayer {
		return 0, pattern == name && name != ""
	}
	numbers, ok := strings.CutPrefix(name, before)
	if middle, end, perExpert := strings.Cut(after, "%d"); ok && perExpert {
		var expert string
		numbers, expert, ok = strings.Cut(numbers, middle)
		expert, whole := strings.CutSuffix(expert, end)
		if _, isNumber := counted(expert); !whole || !isNumber {
			return 0, false
		}
	} else if ok {
		numbers, ok = strings.CutSuffix(numbers, after)
	}
	layer, isNumber := counted(numbers)
	return layer, ok && isNumber
}

// counted reads a number as names spell it.
func counted(s string) (n int, ok bool) {
	n, err := strconv.Atoi(s)
	return n, err == nil && strconv.Itoa(n) == s
}

// ownHead reports whether the checkpoint has a head that is not the embedding table.
func (t *translator) ownHead() bool {
	head, ok := t.ckpt.Tensor(t.from["head"] + ".weight")
	embed, _ := t.ckpt.Tensor(t.from["embed"] + ".weight")
	return ok && !bytes.Equal(head.Data, embed.Data)
}

// permuted reorders the last rows of each head of queries or keys, those that a rope turns: from halves to neighbours for a
// GGUF, and back.
func (t *translator) permuted(info weights.Info, headDim, turned int) ([]byte, error) {
	data, rows := t.stored(info).Data, info.Shape[0]
	if rows%headDim != 0 || turned%2 != 0 {
		return nil, fmt.Errorf("model: tensor %q has %d rows; want pairs in heads of %d", info.Name, rows, headDim)
	}
	out, width := bytes.Clone(data), len(data)/rows
	for row := range rows {
		i := row%headDim - (headDim - turned)
		if i < 0 {
			continue
		}
		neighbour := row - i + i%(turned/2)*2 + i/(turned/2) // where value i of halves stands among neighbours
		from, to := row, neighbour
		if t.to != weights.GGUF {
			from, to = neighbour, row
		}
		copy(out[to*width:][:width], data[from*width:])
	}
	return out, nil
}

// shifted adds 1 to the gains of a norm for a GGUF, or takes it away.
func (t *translator) shifted(info weights.Info) ([]byte, error) {
	v, err := decode(t.stored(info))
	if err != nil {
		return nil, err
	}
	by := float32(1)
	if t.to != weights.GGUF {
		by = -1
	}
	for i := range v {
		v[i] += by
	}
	out := make([]byte, 4*len(v))
	return out, quant.Encode(out, v, quant.F32)
}

// reader returns the family that reads the family's GGUFs.
func (f *family) reader() *family {
	if f.within != nil {
		return f.within
	}
	return f
}

// named returns the family whose checkpoints in safetensors a GGUF's are: the GGUF architecture of Llama stands for others
// too.
func (f *family) named(s *Spec) (*family, error) {
	windows := slices.ContainsFunc(s.Layers, func(l Layer) bool { return l.Attn.Window > 0 })
	switch {
	case f == &llama && s.Layers[0].FFN.Experts.Count > 0:
		return &mixtral, nil
	case f == &deepseek2 && s.lastLayer().FFN.Experts.Router.Sigmoid:
		return &deepseek3, nil
	case f != &llama || !windows:
		return f, nil
	case s.Layers[0].Attn.QKVBias || s.Layers[0].Attn.OBias || s.Layers[0].FFN.Bias:
		return nil, fmt.Errorf("model: a llama with a sliding window and biases has no model_type")
	}
	return &mistral, nil
}
