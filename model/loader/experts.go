package loader

import (
	"fmt"
	"strings"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/model"
	"github.com/kvasir-llm/kvasir/quant"
)

// expertFunc is called with one weight of one expert; those of a slot come in the order of the experts. bias is nil
// if they have none.
type expertFunc func(slot string, w compute.Source, bias []float32)

// Experts calls each with every weight of the experts of layer i, whose feed-forward is f: of the slots experts.gate,
// if it is gated, experts.up and experts.down. It stops at the first fault.
func (r *Reader) Experts(i int, f model.FeedForward, hidden int, each expertFunc) {
	gate, up, down := undivided("experts.gate", f.Width), undivided("experts.up", f.Width), undivided("experts.down", hidden)
	in := []part{gate, up}
	if !f.Gated {
		in = in[1:]
	}
	if r.layout.PairedExperts {
		r.pairedExperts(i, f, hidden, each)
		return
	}
	r.expertParts(i, f.Experts.Count, hidden, f.Bias, in, each)
	r.expertParts(i, f.Experts.Count, f.Width, f.Bias, []part{down}, each)
}

// expertParts reads weights of every expert that have the same input: each from tensors of its own or, if there is
// one that stacks the experts and joins the weights, [count, rows of all parts, in], from its rows of that.
func (r *Reader) expertParts(i, count, in int, bias bool, parts []part, each expertFunc) {
	if name, ok := r.stackName("experts.gate_up", i); ok && len(parts) > 1 {
		r.stacked(name, count, in, bias, parts, each)
		return
	}
	for n, p := range parts {
		name, ok := r.stackName(p.slot, i)
		if ok || !r.slots.PerExpert(p.slot) {
			r.stacked(name, count, in, bias, parts[n:n+1], each)
			continue
		}
		var first compute.Source
		for e := range count {
			name := r.slots.Expert(p.slot, i, e)
			src, biases := r.stored(name, p.out, in), []float32(nil)
			if bias {
				biases = r.named(name+".bias", p.out)
			}
			if e == 0 {
				first = src
			}
			if src.Type != first.Type {
				r.keep(fmt.Errorf("model: tensor %q is of type %v, that of expert %d of type %v; want one type", first.Name, first.Type, e, src.Type))
			}
			if r.err != nil {
				return
			}
			each(p.slot, src, biases)
		}
	}
}

// stackName returns the name of the tensor that stacks a slot's experts, and whether there is one. In safetensors it
// is that of one expert without its number and ".weight".
func (r *Reader) stackName(slot string, i int) (string, bool) {
	pattern := strings.Replace(r.slots[slot], ".%d.", ".%[1]d.", 1)
	name := fmt.Sprintf(strings.Replace(pattern, ".%d.", ".", 1), i)
	if _, ok := r.ckpt.Tensor(name); ok || r.slots[slot] == "" {
		return name, ok
	}
	_, ok := r.ckpt.Tensor(name + ".weight")
	return name + ".weight", ok
}

// stacked reads the rows of each part from a tensor [count, rows of all parts, in], and biases from one of [count,
// rows].
func (r *Reader) stacked(name string, count, in int, bias bool, parts []part, each expertFunc) {
	rows := 0
	for _, p := range parts {
		rows += p.out
	}
	t, _ := r.tensor(name, count, rows, in)
	var biases []float32
	if bias {
		biases = r.named(biasOf(name), count, rows)
	}
	if r.err != nil {
		return
	}
	stack := compute.Source{Name: t.Name, Type: t.Type, Out: count * rows, In: in, Data: t.Data}
	for from := 0; from < count*rows; {
		for _, p := range parts {
			var own []float32
			if bias {
				own = biases[from:][:p.out]
			}
			each(p.slot, stack.Rows(from, p.out), own)
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

// pairedExperts reads experts whose gates and ups alternate: row 2n of a block of MXFP4 is gate n and row 2n+1 up n,
// or, of other types, column 2n and 2n+1 of [in, out] (gpt-oss).
func (r *Reader) pairedExperts(i int, f model.FeedForward, hidden int, each expertFunc) {
	count := f.Experts.Count
	for _, p := range []struct {
		slot, stored        string
		out, in, step, from int
	}{
		{"experts.gate", "experts.gate_up", f.Width, hidden, 2, 0},
		{"experts.up", "experts.gate_up", f.Width, hidden, 2, 1},
		{"experts.down", "experts.down", hidden, f.Width, 1, 0},
	} {
		name := r.slots.Name(p.stored, i)
		var biases []float32
		r.everyNth(name, count, p.out, p.in, p.step, p.from, func(e int, w compute.Source) {
			if e == 0 {
				biases = r.named(name+"_bias", count, p.out*p.step)
			}
			if r.err != nil {
				return
			}
			own := make([]float32, p.out)
			for n := range own {
				own[n] = biases[(e*p.out+n)*p.step+p.from]
			}
			each(p.slot, w, own)
		})
	}
}

// everyNth reads every step-th output, from output first on, of each expert of a stack: out of them, with in inputs.
func (r *Reader) everyNth(name string, count, out, in, step, first int, each func(e int, w compute.Source)) {
	if _, ok := r.ckpt.Tensor(name + "_blocks"); ok {
		blocks, _ := r.tensor(name+"_blocks", count, out*step, in/32, 16)
		scales, _ := r.tensor(name+"_scales", count, out*step, in/32)
		for e := 0; e < count && r.err == nil; e++ {
			src := compute.Source{Name: blocks.Name, Type: quant.MXFP4, Out: out, In: in}
			for o := range out {
				at := ((e*out+o)*step + first) * (in / 32)
				src.Data = appendMXFP4(src.Data, blocks.Data[at*16:][:in/2], scales.Data[at:][:in/32])
			}
			each(e, src)
		}
		return
	}
	t, _ := r.tensor(name, count, in, out*step)
	for e := 0; e < count && r.err == nil; e++ {
		size := t.Type.BlockBytes()
		if t.Type.BlockValues() != 1 {
			r.keep(fmt.Errorf("model: tensor %q: values in blocks of type %v cannot be transposed", name, t.Type))
			return
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
		each(e, src)
	}
}

// appendMXFP4 appends blocks of MXFP4 as GGUF orders them. Values 2n and 2n+1 of a block share byte n here, values n
// and n+16 there, where the scale comes first.
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
