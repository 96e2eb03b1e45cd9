package loader

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/model"
	"github.com/kvasir-llm/kvasir/model/family"
	"github.com/kvasir-llm/kvasir/weights"
)

// Reader finds the weights of a checkpoint by slot and layer, checks their shapes, and decodes how they are stored.
// It keeps the first fault: what it returns after one is of no use.
type Reader struct {
	ckpt      *weights.Checkpoint
	layout    family.Layout
	slots     family.Slots       // of layout
	quantized model.Quantization // how linear weights may be stored
	used      map[string]bool    // names of tensors that were read
	err       error

	progress    func(done, total int64) // or nil
	done, total int64                   // bytes of the checkpoint
}

// NewReader returns a Reader of the weights of a Spec.
func NewReader(ckpt *weights.Checkpoint, spec *model.Spec, layout family.Layout) *Reader {
	r := &Reader{ckpt: ckpt, layout: layout, slots: layout.Slots, quantized: spec.Quantization, used: map[string]bool{}}
	for _, t := range ckpt.Tensors() {
		r.total += t.Size
	}
	return r
}

// Err returns the first fault.
func (r *Reader) Err() error { return r.err }

// Used reports whether the tensor of that name was read.
func (r *Reader) Used(name string) bool { return r.used[name] }

func (r *Reader) keep(err error) {
	if r.err == nil {
		r.err = err
	}
}

// hasOwnHead reports whether the checkpoint has a head that differs from the embedding table. Such a head is used
// even if the configuration says that the two are tied.
func (r *Reader) hasOwnHead() bool {
	if r.packed(r.slots["head"]) {
		return true
	}
	head, ok := r.ckpt.Tensor(r.slots["head"] + ".weight")
	embed, _ := r.ckpt.Tensor(r.slots["embed"] + ".weight")
	return ok && !bytes.Equal(head.Data, embed.Data)
}

// Values decodes the tensor of a slot of layer i, whose name ends in suffix.
func (r *Reader) Values(slot, suffix string, i int, shape ...int) []float32 {
	return r.named(r.slots.Name(slot, i)+suffix, shape...)
}

// named decodes the tensor of that name.
func (r *Reader) named(name string, shape ...int) []float32 {
	t, ok := r.tensor(name, shape...)
	if !ok {
		return nil
	}
	v, err := t.Floats()
	r.keep(err)
	return v
}

// Weight finds a weight of out rows of in values.
func (r *Reader) Weight(slot string, i, out, in int) compute.Source {
	name := r.slots.Name(slot, i)
	if !r.layout.Transposed || !strings.Contains(r.slots[slot], "%d") || r.packed(name) {
		return r.stored(name, out, in)
	}
	t, ok := r.tensor(name+".weight", in, out)
	if !ok {
		return compute.Source{}
	}
	data, err := Transposed(t)
	r.keep(err)
	return compute.Source{Name: t.Name, Type: t.Type, Out: out, In: in, Data: data}
}

// Transposed returns the values of a tensor column by column.
func Transposed(t weights.Tensor) ([]byte, error) {
	if t.Type.BlockValues() != 1 {
		return nil, fmt.Errorf("model: tensor %q: values in blocks of type %v cannot be transposed", t.Name, t.Type)
	}
	size, rows, cols := t.Type.BlockBytes(), t.Shape[0], t.Shape[1]
	out := make([]byte, 0, len(t.Data))
	for c := range cols {
		for r := range rows {
			out = append(out, t.Data[(r*cols+c)*size:][:size]...)
		}
	}
	return out, nil
}

// refuseUnused refuses a checkpoint with a tensor in a known slot that its configuration does not use.
func (r *Reader) refuseUnused(layers int) {
	for slot, pattern := range r.slots.All() {
		if slot == "head" || slot == "pooler" { // a copy of the embedding table; used in training only
			continue
		}
		for i := range layers {
			for _, name := range r.slots.Tensors(slot, i) {
				if t, ok := r.ckpt.Tensor(name); ok && !r.used[name] && !(r.quantized.Method != "" && allZero(t)) {
					r.keep(fmt.Errorf("model: the configuration has no use for tensor %q", name))
				}
			}
			if !strings.Contains(pattern, "%d") {
				break
			}
		}
		r.refuseFurther(slot, pattern, layers)
	}
}

// refuseFurther refuses a layer after the last, unless it is one that predicts further tokens, which has a weight of
// its own.
func (r *Reader) refuseFurther(slot, pattern string, layers int) {
	before, _, inLayer := strings.Cut(pattern, "%d")
	if !inLayer {
		return
	}
	for _, own := range []string{".eh_proj.weight", ".nextn.eh_proj.weight"} {
		if _, ok := r.ckpt.Tensor(before + strconv.Itoa(layers) + own); ok {
			return
		}
	}
	for _, name := range r.slots.Tensors(slot, layers) {
		if _, ok := r.ckpt.Tensor(name); ok {
			r.keep(fmt.Errorf("model: tensor %q is of a layer after the last; the configuration asks for %d layers", name, layers))
		}
	}
}

// tensor finds a tensor and checks its shape.
func (r *Reader) tensor(name string, shape ...int) (weights.Tensor, bool) {
	if r.err != nil {
		return weights.Tensor{}, false
	}
	t, ok := r.ckpt.Tensor(name)
	if !ok {
		r.keep(fmt.Errorf("model: tensor %q of shape %v is missing", name, shape))
		return t, false
	}
	if !slices.Equal(t.Shape, shape) {
		r.keep(fmt.Errorf("model: tensor %q has shape %v; the configuration asks for %v", name, t.Shape, shape))
		return t, false
	}
	if r.used[name] {
		return t, true
	}
	r.used[name] = true
	r.ckpt.Ahead(t.Data)
	r.done += t.Size
	if r.progress != nil {
		r.progress(r.done, r.total)
	}
	return t, true
}
