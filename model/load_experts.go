package model

import (
	"fmt"
	"strings"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/quant"
	"github.com/kvasir-llm/kvasir/weights"
)

// mixture holds the weights of a mixture of experts beside those of the shared one.
type mixture struct {
	router, sharedGate linear
	scoreBias          compute.Vector
	gate, up, down     experts
}

// experts is one weight of each expert, and their biases, nil if they have none.
type experts struct {
	w    []compute.Matrix
	bias []compute.Vector
}

// feedForward takes over the feed-forward of layer i.
func (l *loader) feedForward(out *layer, i int, f FeedForward, hidden int) {
	e, m := f.Experts, &out.mixture
	if e.Count == 0 {
		l.dense(out, "", i, f, f.Width, hidden)
		return
	}
	m.router = l.linear("router", i, e.Count, hidden, e.RouterBias)
	if e.ScoreBias {
		m.scoreBias = l.vector("scores.bias", "", i, e.Count)
	}
	if e.Shared > 0 {
		l.dense(out, "shared.", i, f, e.Shared, hidden)
	}
	if e.SharedGate {
		m.sharedGate = linear{w: l.sharedGate(i, hidden), at: l.adaptable("shared.factor", i, 1, hidden)}
	}
	l.routed(m, i, f, hidden)
}

// routed takes over the experts of a mixture that a router chooses from.
func (l *loader) routed(m *mixture, i int, f FeedForward, hidden int) {
	e := f.Experts
	if l.family.pairedExperts && l.ckpt.Format() != weights.GGUF {
		l.pairedExperts(m, i, f, hidden)
		return
	}
	if f.Gated {
		in := l.expertParts(i, e.Count, hidden, f.Bias, part{"experts.gate", f.Width}, part{"experts.up", f.Width})
		m.gate, m.up = in[0], in[1]
	} else {
		m.up = l.experts("experts.up", i, e.Count, f.Width, hidden, f.Bias)
	}
	m.down = l.experts("experts.down", i, e.Count, hidden, f.Width, f.Bias)
}

// dense takes over a dense feed-forward, or the shared expert of a mixture.
func (l *loader) dense(out *layer, prefix string, i int, f FeedForward, width, hidden int) {
	if f.Gated {
		in := l.linears(prefix+"gate_up", i, hidden, f.Bias, part{prefix + "gate", width}, part{prefix + "up", width})
		out.gate, out.up = in[0], in[1]
	} else {
		out.up = l.linear(prefix+"up", i, width, hidden, f.Bias)
	}
	out.down = l.linear(prefix+"down", i, hidden, width, f.Bias)
}

// sharedGate takes over the one row that says how much the shared expert counts. A GGUF has it as a vector.
func (l *loader) sharedGate(i, hidden int) compute.Matrix {
	name := l.slots.name("shared.factor", i) + ".weight"
	shape := []int{1, hidden}
	if t, ok := l.ckpt.Tensor(name); ok && len(t.Shape) == 1 {
		shape = []int{hidden}
	}
	t, _ := l.tensor(name, shape...)
	return l.take(compute.Source{Name: t.Name, Type: t.Type, Out: 1, In: hidden, Data: t.Data})
}

// experts takes over a weight of every expert: from a tensor for each, or from one that stacks them, [count, out, in].
func (l *loader) experts(slot string, i, count, out, in int, bias bool) experts {
	return l.expertParts(i, count, in, bias, part{slot, out})[0]
}

// expertParts takes over weights of every expert that read the same input: each from tensors of its own or, if there is one
// that stacks the experts and joins the weights, from its rows of that.
func (l *loader) expertParts(i, count, in int, bias bool, parts ...part) []experts {
	all := make([]experts, len(parts))
	if name, ok := l.stackName("experts.gate_up", i); ok && len(parts) > 1 {
		l.stacked(all, name, count, in, bias, parts)
		return all
	}
	for n, p := range parts {
		name, ok := l.stackName(p.slot, i)
		if ok || !l.slots.perExpert(p.slot) {
			l.stacked(all[n:n+1], name, count, in, bias, parts[n:n+1])
			continue
		}
		for e := range count {
			name := l.slots.expert(p.slot, i, e)
			src := l.stored(name, p.out, in)
			all[n].w = append(all[n].w, l.take(src))
			if bias {
				all[n].bias = append(all[n].bias, l.upload(l.named(name+".bias", p.out)))
			}
		}
		l.keep(all[n].mixed(l.slots.expert(p.slot, i, 0)))
	}
	return all
}

// mixed refuses experts whose weights are of different types.
func (e *experts) mixed(name string) error {
	for i, w := range e.w {
		if w != nil && e.w[0] != nil && w.Type() != e.w[0].Type() {
			return fmt.Errorf("model: tensor %q is of type %v, that of expert %d of type %v; want one type", name, e.w[0].Type(), i, w.Type())
		}
	}
	return nil
}

// stackName returns the name of the tensor that stacks a slot's experts, and whether there is one. In safetensors it is that of
// one expert without its number and ".weight".
func (l *loader) stackName(slot string, i int) (string, bool) {
	pattern := strings.Replace(l.slots[slot], ".%d.", ".%[1]d.", 1)
	name := fmt.Sprintf(strings.Replace(pattern, ".%d.", ".", 1), i)
	if _, ok := l.ckpt.Tensor(name); ok || l.slots[slot] == "" {
		return name, ok
	}
	_, ok := l.ckpt.Tensor(name + ".weight")
	return name + ".weight", ok
}

// stacked takes over the rows of each part from a tensor [count, rows of all parts, in], and biases from one of
// [count, rows].
func (l *loader) stacked(to []experts, name string, count, in int, bias bool, parts []part) {
	rows := 0
	for _, p := range parts {
		rows += p.out
	}
	t, ok := l.tensor(name, count, rows, in)
	var biases []float32
	if bias {
		biases = l.named(biasOf(name), count, rows)
	}
	if !ok || l.err != nil {
		return
	}
	stride := len(t.Data) / (count * rows)
	for e := range count {
		from := e * rows
		for n, p := range parts {
			src := compute.Source{Name: t.Name, Type: t.Type, Out: p.out, In: in, Data: t.Data[from*stride:][:p.out*stride]}
			to[n].w = append(to[n].w, l.take(src))
			if bias {
				to[n].bias = append(to[n].bias, l.upload(biases[from:][:p.out]))
			}
			from += p.out
		}
	}
}

// biasOf returns the name of the biases of a tensor that stacks experts.
func biasOf(name string) string {
	if stem, ok := strings.CutSuffix(name, ".weight"); ok {
		return stem + ".bias"
	}
	return name + "_bias"
}

// pairedExperts takes over experts whose gates and ups stand by turns: row 2n of a block of MXFP4 is gate n and row 2n+1 up n,
// or, of other types, column 2n and 2n+1 of [in, out] (gpt-oss).
func (l *loader) pairedExperts(m *mixture, i int, f FeedForward, hidden int) {
	name := l.slots.name("experts.gate_up", i)
	m.gate.w, m.up.w = l.turns(name, f.Experts.Count, f.Width, hidden, 2, 0), l.turns(name, f.Experts.Count, f.Width, hidden, 2, 1)
	biases := l.named(name+"_bias", f.Experts.Count, 2*f.Width)
	for e := range f.Experts.Count {
		gate, up := make([]float32, f.Width), make([]float32, f.Width)
		for n := range len(biases) / 2 / f.Experts.Count {
			gate[n], up[n] = biases[2*(e*f.Width+n)], biases[2*(e*f.Width+n)+1]
		}
		m.gate.bias, m.up.bias = append(m.gate.bias, l.upload(gate)), append(m.up.bias, l.upload(up))
	}
	name = l.slots.name("experts.down", i)
	m.down.w = l.turns(name, f.Experts.Count, hidden, f.Width, 1, 0)
	biases = l.named(name+"_bias", f.Experts.Count, hidden)
	for e := range f.Experts.Count {
		if l.err == nil {
			m.down.bias = append(m.down.bias, l.upload(biases[e*hidden:][:hidden]))
		}
	}
}

// turns takes over every step-th output, from output first on, of each expert of a stack: out of them, with in inputs.
func (l *loader) turns(name string, count, out, in, step, first int) []compute.Matrix {
	var all []compute.Matrix
	if _, ok := l.ckpt.Tensor(name + "_blocks"); ok {
		blocks, _ := l.tensor(name+"_blocks", count, out*step, in/32, 16)
		scales, ok := l.tensor(name+"_scales", count, out*step, in/32)
		for e := 0; e < count && ok; e++ {
			src := compute.Source{Name: blocks.Name, Type: quant.MXFP4, Out: out, In: in}
			for o := range out {
				at := ((e*out+o)*step + first) * (in / 32)
				src.Data = appendMXFP4(src.Data, blocks.Data[at*16:][:in/2], scales.Data[at:][:in/32])
			}
			all = append(all, l.take(src))
		}
		return all
	}
	t, ok := l.tensor(name, count, in, out*step)
	for e := 0; e < count && ok; e++ {
		size := t.Type.BlockBytes()
		if t.Type.BlockValues() != 1 {
			l.keep(fmt.Errorf("model: tensor %q: values in blocks of type %v cannot be transposed", name, t.Type))
			return all
		}
		src := compute.Source{Name: name, Type: t.Type, Out: out, In: in, Data: make([]byte, out*in*size)}
		const tile = 32 // outputs whose values of one input share cache lines
		for from := 0; from < out; from += tile {
			for k := range in {
				row := t.Data[((e*in+k)*out*step+first)*size:]
				for o := from; o < min(from+tile, out); o++ {
					copy(src.Data[(o*in+k)*size:][:size], row[o*step*size:])
				}
			}
		}
		all = append(all, l.take(src))
	}
	return all
}

// appendMXFP4 appends blocks of MXFP4 as GGUF orders them. Values 2n and 2n+1 of a block share byte n here, values n and
// n+16 there, where the scale comes first.
func appendMXFP4(to, blocks, scales []byte) []byte {
	for b, scale := range scales {
		from := blocks[b*16:][:16]
		to = append(to, scale)
		for n := range 16 {
			low, high := from[n/2], from[8+n/2]
			if n%2 == 0 {
				to = append(to, low&15|high<<4)
			} else {
				to = append(to, low>>4|high&0xf0)
			}
		}
	}
	return to
}
