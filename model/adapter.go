package model

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/quant"
	"github.com/kvasir-llm/kvasir/weights"
)

// Adapter is a LoRA adapter (arXiv:2106.09685) in host memory, checked against the model it was read for. It is immutable.
type Adapter struct {
	// ID is SHA-256 of all that the adapter changes: adapters with equal IDs compute the same.
	ID    [sha256.Size]byte
	Rank  int   // the largest of its matrices
	Bytes int64 // of its matrices in host memory

	changes []change
}

// change is what an adapter adds to one weight: scale · b·(a·x).
type change struct {
	to    *target
	a, b  compute.Source // [rank, in], [out, rank]
	scale float32
}

// target is a weight that adapters may change.
type target struct {
	slot     string
	layer    int
	out, in  int
	adapters []compute.LowRank // by Seq.Adapter, made by MakeSlots
}

// module is what an adapter names: a weight, or several that one tensor of a checkpoint may join.
type module struct {
	slot    string
	layer   int
	targets []*target
}

func (m *module) out() int {
	n := 0
	for _, t := range m.targets {
		n += t.out
	}
	return n
}

// adaptable makes a weight a target of adapters.
func (l *loader) adaptable(slot string, i, out, in int) *target {
	t := &target{slot: slot, layer: i, out: out, in: in}
	l.modules = append(l.modules, module{slot, i, []*target{t}})
	return t
}

// MakeSlots makes room for n adapters on the device. It comes before NewRunner.
func (m *Model) MakeSlots(n int) {
	m.placed = make([]bool, n+1)
	for _, mod := range m.modules {
		for _, t := range mod.targets {
			t.adapters = make([]compute.LowRank, n+1)
		}
	}
}

// Place puts an adapter in a slot, from 1 to those made, in place of the one before; nil leaves it empty. Sequences of a
// batch name their adapter by its slot. It is not called while a Runner of the model computes.
func (m *Model) Place(slot int, a *Adapter) error {
	if slot < 1 || slot >= len(m.placed) {
		return fmt.Errorf("model: adapter slot %d; there are slots 1 to %d", slot, len(m.placed)-1)
	}
	m.placed[slot] = false
	for _, mod := range m.modules {
		for _, t := range mod.targets {
			t.adapters[slot] = compute.LowRank{}
		}
	}
	if a == nil {
		return nil
	}
	for i := range a.changes {
		c := &a.changes[i]
		low := &c.to.adapters[slot]
		var err error
		if low.A, err = m.dev.Matrix(c.a); err != nil {
			return err
		}
		if low.B, err = m.dev.Matrix(c.b); err != nil {
			return err
		}
		low.Scale = c.scale
	}
	m.placed[slot] = true
	return nil
}

// checkAdapters reports a sequence whose adapter is in no slot.
func (m *Model) checkAdapters(b *compute.Batch) error {
	for i := range b.Seqs {
		if a := b.Seqs[i].Adapter; a != 0 && (a < 0 || int(a) >= len(m.placed) || !m.placed[a]) {
			return fmt.Errorf("model: sequence %d wants the adapter in slot %d, which is empty", i, a)
		}
	}
	return nil
}

// adapterReader collects an adapter's matrices and keeps the first fault.
type adapterReader struct {
	m     *Model
	ckpt  *weights.Checkpoint
	names map[string][]*module // by their names in files of the adapter's format
	out   Adapter
}

// ReadAdapter reads an adapter for the model: a folder that PEFT wrote, or a GGUF. What it refuses it names. The
// checkpoint may be closed afterwards.
func (m *Model) ReadAdapter(ckpt *weights.Checkpoint) (*Adapter, error) {
	r := &adapterReader{m: m, ckpt: ckpt, names: map[string][]*module{}}
	var err error
	if ckpt.Format() == weights.GGUF {
		err = r.readGGUF()
	} else {
		err = r.readPEFT()
	}
	if err != nil {
		return nil, fmt.Errorf("model: adapter %s: %w", ckpt.Files()[0], err)
	}
	r.finish()
	return &r.out, nil
}

// finish orders the changes and names their sum.
func (r *adapterReader) finish() {
	a := &r.out
	slices.SortFunc(a.changes, func(x, y change) int {
		return cmp.Or(cmp.Compare(x.to.layer, y.to.layer), cmp.Compare(x.to.slot, y.to.slot))
	})
	h := sha256.New()
	for _, c := range a.changes {
		fmt.Fprintf(h, "%s %d %d %d %d %v %v\n", c.to.slot, c.to.layer, c.to.out, c.to.in, c.a.Out, c.a.Type, c.b.Type)
		h.Write(binary.LittleEndian.AppendUint32(nil, math.Float32bits(c.scale)))
		h.Write(c.a.Data)
		h.Write(c.b.Data)
		a.Rank = max(a.Rank, c.a.Out)
		a.Bytes += int64(len(c.a.Data) + len(c.b.Data))
	}
	h.Sum(a.ID[:0])
}

// pair is the two matrices of a module as they stand in a file.
type pair struct{ a, b weights.Tensor }

// pairs groups an adapter's tensors by module. name tells a tensor's module, and whether it is an A or a B.
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
	for _, c := range candidates { // names may stand for a weight or for what joins several
		if c.out() == p.b.Shape[0] {
			mod = c
		}
	}
	rank, in, out := p.a.Shape[0], mod.targets[0].in, mod.out()
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
	for _, t := range mod.targets {
		part := compute.Source{Name: b.Name, Adapter: true, Type: b.Type, Out: t.out, In: rank, Data: b.Data[from*stride:][:t.out*stride]}
		part.Data = r.reordered(t, part.Data, stride)
		r.out.changes = append(r.out.changes, change{t, a, part, float32(scale)})
		from += t.out
	}
	return nil
}

// plain copies a matrix. One of a type that products with adapters do not take is decoded.
func plain(t weights.Tensor) (compute.Source, error) {
	src := compute.Source{Name: t.Name, Adapter: true, Type: t.Type, Out: t.Shape[0], In: t.Shape[1], Data: slices.Clone(t.Data)}
	switch t.Type {
	case quant.F32, quant.F16, quant.BF16:
		return src, nil
	}
	v, err := decode(t)
	if err != nil {
		return src, err
	}
	src.Type, src.Data = quant.F32, make([]byte, 0, 4*len(v))
	for _, f := range v {
		src.Data = binary.LittleEndian.AppendUint32(src.Data, math.Float32bits(f))
	}
	return src, nil
}

// reordered returns the rows of a B for queries or keys in the order in which the model has them, if adapter and model
// are of formats that order them differently (family.permuted).
func (r *adapterReader) reordered(t *target, rows []byte, stride int) []byte {
	theirs, ours := r.ckpt.Format() == weights.GGUF, r.m.format == weights.GGUF
	if theirs == ours || !familyOf(r.m.Spec).permuted || t.slot != "q" && t.slot != "k" {
		return rows
	}
	dim := r.m.Spec.Layers[t.layer].Attn.HeadDim
	out := make([]byte, len(rows))
	for i := range t.out {
		head, at := i/dim*dim, i%dim
		from := head + at%2*dim/2 + at/2 // halves to neighbours
		if theirs {
			from = head + at%(dim/2)*2 + at/(dim/2)
		}
		copy(out[i*stride:][:stride], rows[from*stride:])
	}
	return out
}
