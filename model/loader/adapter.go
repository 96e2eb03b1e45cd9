package loader

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/model"
	"github.com/kvasir-llm/kvasir/model/family"
	"github.com/kvasir-llm/kvasir/quant"
	"github.com/kvasir-llm/kvasir/weights"
)

// adapterReader collects an adapter's matrices.
type adapterReader struct {
	m       *model.Model
	ckpt    *weights.Checkpoint
	layout  family.Layout
	names   map[string][]*model.Module // by their names in files of the adapter's format
	changes []model.Change
}

// Adapter reads an adapter for a model: a folder that PEFT wrote, or a GGUF. Errors name what is not supported. The
// checkpoint may be closed afterwards.
func Adapter(m *model.Model, ckpt *weights.Checkpoint) (*model.Adapter, error) {
	if p := m.Spec.Part; p.Of > 1 {
		return nil, fmt.Errorf("model: adapter %s: the model is part %d of %d; adapters of divided models are not supported", ckpt.Files()[0], p.Rank, p.Of)
	}
	r := &adapterReader{m: m, ckpt: ckpt, layout: family.LayoutIn(m.Spec, ckpt.Format()), names: map[string][]*model.Module{}}
	var err error
	if ckpt.Format() == weights.GGUF {
		err = r.readGGUF()
	} else {
		err = r.readPEFT()
	}
	if err != nil {
		return nil, fmt.Errorf("model: adapter %s: %w", ckpt.Files()[0], err)
	}
	return model.NewAdapter(r.changes), nil
}

// pair is the two matrices of a module as stored.
type pair struct{ a, b weights.Tensor }

// pairs groups an adapter's tensors by module. name returns a tensor's module and whether it is an A or a B.
func (r *adapterReader) pairs(name func(string) (module string, isB, ok bool)) (map[string]*pair, error) {
	out := map[string]*pair{}
	for _, info := range r.ckpt.Tensors() {
		path, isB, ok := name(info.Name)
		if !ok {
			return nil, fmt.Errorf("tensor %q is neither an A nor a B of a linear weight; adapters of embeddings, heads, norms and whole modules are not supported", info.Name)
		}
		t, _ := r.ckpt.Tensor(info.Name)
		if len(t.Shape) != 2 {
			return nil, fmt.Errorf("tensor %q has shape %v; want two dimensions", t.Name, t.Shape)
		}
		p := out[path]
		if p == nil {
			p = &pair{}
			out[path] = p
		}
		of := &p.a
		if isB {
			of = &p.b
		}
		if of.Name != "" {
			return nil, fmt.Errorf("tensors %q and %q are the same matrix of %s", of.Name, t.Name, path)
		}
		*of = t
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("it has no tensors")
	}
	return out, nil
}

// add checks a module's matrices against the model and adds what they change.
func (r *adapterReader) add(path string, p *pair, scale float64) error {
	for _, half := range []struct{ have, lack *weights.Tensor }{{&p.a, &p.b}, {&p.b, &p.a}} {
		if half.lack.Name == "" {
			return fmt.Errorf("tensor %q has no counterpart", half.have.Name)
		}
	}
	candidates := r.names[path]
	if len(candidates) == 0 {
		return fmt.Errorf("tensor %q: this model has no weight %s that takes adapters", p.a.Name, path)
	}
	mod := candidates[0]
	for _, c := range candidates { // a name may mean a weight or the tensor that joins several
		if c.Out() == p.b.Shape[0] {
			mod = c
		}
	}
	rank, in, out := p.a.Shape[0], mod.Targets[0].In, mod.Out()
	switch {
	case p.a.Shape[1] != in || rank < 1:
		return fmt.Errorf("tensor %q has shape %v; the model's %s asks for [rank, %d]", p.a.Name, p.a.Shape, path, in)
	case p.b.Shape[0] != out || p.b.Shape[1] != rank:
		return fmt.Errorf("tensor %q has shape %v; %q, of shape %v, and the model's %s ask for [%d, %d]",
			p.b.Name, p.b.Shape, p.a.Name, p.a.Shape, path, out, rank)
	case math.IsNaN(scale) || math.Abs(scale) > math.MaxFloat32:
		return fmt.Errorf("the scale of %s is %v; want a finite number", path, scale)
	}
	a, err := plain(p.a)
	if err != nil {
		return err
	}
	b, err := plain(p.b)
	if err != nil {
		return err
	}
	stride, from := len(b.Data)/out, 0
	for _, t := range mod.Targets {
		part := compute.Source{Name: b.Name, Adapter: true, Type: b.Type, Out: t.Out, In: rank, Data: b.Data[from*stride:][:t.Out*stride]}
		part.Heads = storedHeads(r.layout, r.m.Spec, t.Slot, t.Layer)
		r.changes = append(r.changes, model.Change{To: t, A: a, B: part, Scale: float32(scale)})
		from += t.Out
	}
	return nil
}

// plain copies a matrix, of which all values must be finite: others would fail each request that asks for the adapter.
// One of a type that products with adapters do not take is decoded.
func plain(t weights.Tensor) (compute.Source, error) {
	src := compute.Source{Name: t.Name, Adapter: true, Type: t.Type, Out: t.Shape[0], In: t.Shape[1], Data: slices.Clone(t.Data)}
	v, err := t.Floats()
	if err != nil {
		return src, err
	}
	for i, f := range v {
		if f-f != 0 {
			return src, fmt.Errorf("tensor %q: value %d is %v; want a finite number", t.Name, i, f)
		}
	}
	switch t.Type {
	case quant.F32, quant.F16, quant.BF16:
		return src, nil
	}
	src.Type, src.Data = quant.F32, make([]byte, 0, 4*len(v))
	for _, f := range v {
		src.Data = binary.LittleEndian.AppendUint32(src.Data, math.Float32bits(f))
	}
	return src, nil
}
