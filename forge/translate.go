package forge

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/kvasir-llm/kvasir/model"
	"github.com/kvasir-llm/kvasir/model/family"
	"github.com/kvasir-llm/kvasir/model/loader"
	"github.com/kvasir-llm/kvasir/quant"
	"github.com/kvasir-llm/kvasir/weights"
)

// Translation is a checkpoint converted to the other file format: its configuration, and the name, shape and layout
// of each of its tensors there.
type Translation struct {
	Spec    *model.Spec
	Meta    []weights.KV   // of a GGUF: the architecture and its keys; nil if the checkpoint is one
	Config  map[string]any // of safetensors: config.json; nil if the checkpoint has one
	Tensors []Translated
	Omitted []string // names of tensors that the model has no use for
}

// Translated is one tensor of a Translation.
type Translated struct {
	Name       string
	Slot       string     // what it is in a model, such as "q" or "ffn.norm"
	Layer      int        // 0 for tensors outside the layers
	From       []string   // the names of the tensors it is made of
	Type       quant.Type // of the bytes that Read returns
	Shape      []int
	Transposed bool // a matrix of [in, out], as some families store them
	// Read returns the tensor's bytes. They may be a view of the checkpoint and must not be written to.
	Read func() ([]byte, error)
}

// Translate converts a checkpoint, of either format, to a format. It does not detect what the format cannot express:
// read the result back and compare the Specs with model.Differ.
func Translate(ckpt *weights.Checkpoint, to weights.Format) (*Translation, error) {
	w, err := family.Write(ckpt, to)
	if err != nil {
		return nil, err
	}
	out := &Translation{Spec: w.Spec, Meta: w.Meta, Config: w.Config}
	t := &translator{Written: w, ckpt: ckpt, to: to, used: map[string]bool{}}
	t.changes = (ckpt.Format() == weights.GGUF) != (to == weights.GGUF)
	for i := range w.Spec.Layers {
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
	for _, r := range w.Ropes {
		out.Tensors = append(out.Tensors, floats(r.Name, "rope", 0, []int{len(r.Factors)}, func() []float32 { return r.Factors }))
	}
	return out, nil
}

// translator renames and rearranges tensors.
type translator struct {
	*family.Written
	ckpt    *weights.Checkpoint
	to      weights.Format
	changes bool            // the format is another
	used    map[string]bool // names of tensors that are read already
}

// reader returns a Reader of the checkpoint's weights as they are stored.
func (t *translator) reader() *loader.Reader {
	layout := t.From
	layout.Transposed = false
	return loader.NewReader(t.ckpt, t.Spec, layout)
}

// tensor translates one tensor; ok is false for one without a meaning.
func (t *translator) tensor(info weights.Info) (out Translated, ok bool, err error) {
	slot, layer, suffix, ok := t.find(info.Name)
	if !ok || slot == "head" && suffix == ".weight" && t.Spec.TiedHead && !t.ownHead() {
		if family.IsRopeFactors(info.Name) && t.to == weights.GGUF {
			return t.plain(info, "rope"), true, nil
		}
		return out, false, nil
	}
	out = t.plain(info, slot)
	out.Layer = layer
	out.Transposed = t.To.Transposed && strings.Contains(t.From.Slots[slot], "%d") && len(info.Shape) == 2
	if !t.changes {
		return out, true, nil
	}
	out.Name = t.To.Slots.Name(slot, layer) + suffix
	if t.To.Slots[slot] == "" {
		return out, false, fmt.Errorf("model: %s has no name in %s for tensor %q", t.Spec.Family, t.to, info.Name)
	}
	inLayer := strings.Contains(t.From.Slots[slot], "%d")
	a, isLatent := t.Spec.Layers[layer].Mixer.(model.Latent)
	rotated := isLatent && t.to == weights.GGUF && !t.Spec.Ropes[0].Interleaved // pairs are halves, but adjacent in a GGUF
	switch {
	case slot == "shared.factor" && t.to == weights.GGUF:
		out.Shape = []int{valuesIn(info.Shape)}
	case slot == "shared.factor":
		out.Shape = []int{1, valuesIn(info.Shape)}
	case slot == "positions" && t.Spec.PositionsFrom > 0: // a GGUF has none before the first
		from, rows := t.Spec.PositionsFrom, info.Shape[0]
		out.Shape = []int{rows - from, info.Shape[1]}
		out.Read = func() ([]byte, error) {
			data := t.stored(info).Data
			return data[len(data)/rows*from:], nil
		}
	case t.From.Permuted != t.To.Permuted && (slot == "q" || slot == "k"):
		dim := t.Spec.Attention().HeadDim
		out.Read = func() ([]byte, error) { return t.permuted(info, dim, dim) }
	case rotated && (slot == "q" || slot == "q.up"):
		out.Read = func() ([]byte, error) { return t.permuted(info, a.HeadDim, a.RopeDim) }
	case rotated && slot == "kv.latent":
		out.Read = func() ([]byte, error) { return t.permuted(info, info.Shape[0], a.RopeDim) }
	case (t.From.Transposed || t.To.Transposed) && inLayer && len(info.Shape) == 2:
		out.Shape = []int{info.Shape[1], info.Shape[0]}
		out.Read = func() ([]byte, error) { return loader.Transposed(t.stored(info)) }
	case t.Spec.Norm.PlusOne && slot != "delta.norm" && len(info.Shape) == 1 && suffix == ".weight":
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

// plain is a tensor as stored in the checkpoint.
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
		for slot, pattern := range t.From.Slots.All() {
			layer, ok := matches(pattern, stem)
			if !ok || layer >= len(t.Spec.Layers) {
				continue
			}
			if slot == "up" || slot == "gate_up" {
				_, alone := t.ckpt.Tensor(t.From.Slots.Name("gate", layer) + ".weight")
				if joined := t.Spec.Layers[layer].FFN.Gated && !alone; joined != (slot == "gate_up") {
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
	head, ok := t.ckpt.Tensor(t.From.Slots["head"] + ".weight")
	embed, _ := t.ckpt.Tensor(t.From.Slots["embed"] + ".weight")
	return ok && !bytes.Equal(head.Data, embed.Data)
}

// permuted reorders the last rows of each head of queries or keys, which a rope rotates: from halves to adjacent
// pairs for a GGUF, and back.
func (t *translator) permuted(info weights.Info, headDim, rotated int) ([]byte, error) {
	data, rows := t.stored(info).Data, info.Shape[0]
	if rows%headDim != 0 || rotated%2 != 0 {
		return nil, fmt.Errorf("model: tensor %q has %d rows; want pairs in heads of %d", info.Name, rows, headDim)
	}
	out, width := bytes.Clone(data), len(data)/rows
	for row := range rows {
		i := row%headDim - (headDim - rotated)
		if i < 0 {
			continue
		}
		neighbour := row - i + i%(rotated/2)*2 + i/(rotated/2) // the place of value i of the halves among adjacent pairs
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
	v, err := t.stored(info).Floats()
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
