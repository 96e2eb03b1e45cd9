package forge

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/kvasir-llm/kvasir/model"
	"github.com/kvasir-llm/kvasir/quant"
)

// packing is how the weights of a folder are stored: as codes of some bits, value = scale·(code - zero), of which group
// inputs share scale and zero.
type packing struct {
	bits, group int // group 0 is all inputs
	zeros       bool
	least       uint8      // zero; zeros are stored less it
	scales      quant.Type // that they are stored in
}

func (o *MethodOptions) packing() packing {
	switch o.Method {
	case AWQ:
		return packing{o.Bits, o.Group, true, 0, quant.F16}
	case GPTQ:
		if o.ZeroPoints {
			return packing{o.Bits, o.Group, true, 0, quant.F16}
		}
		return packing{o.Bits, o.Group, false, 1, quant.F16}
	}
	return packing{8, 0, false, 0, quant.BF16}
}

// rounder rounds a row of n values, and keeps codes, scales and zeros where there is room for them.
func (p packing) rounder(n int, codes []uint8, scales []float32, zeros []uint8) rounder {
	size := p.group
	if size == 0 {
		size = n
	}
	var scale, inverse float32
	var zero uint8
	at, top := 0, float32(int(1)<<p.bits-1)
	return rounder{size, func(block int, values, importance []float32) error {
		at = block * size
		scale, zero = p.choose(values, importance)
		if inverse = 1 / scale; scale-scale != 0 || math.IsInf(float64(inverse), 0) {
			return fmt.Errorf("forge: a scale of %v", scale)
		}
		return nil
	}, func(i int, v float32) float32 {
		c := uint8(min(max(float32(math.RoundToEven(float64(v*inverse)))+float32(zero), 0), top))
		if codes != nil {
			codes[at+i] = c
		}
		return scale * float32(int(c)-int(zero))
	}, func(block int) {
		if scales != nil {
			scales[block], zeros[block] = scale, zero
		}
	}}
}

// choose returns the scale and zero by which values, rounded, have the least weighted error, of some that span them
// all or clip those far out.
func (p packing) choose(values, importance []float32) (scale float32, zero uint8) {
	lo, hi := min(slices.Min(values), 0), max(slices.Max(values), 0)
	top := float32(int(1)<<p.bits - 1)
	span := (hi - lo) / top
	zero = 1 << (p.bits - 1)
	if !p.zeros {
		span = max(hi, -lo) * 2 / top
	}
	best, scale := math.Inf(1), float32(1)
	const tries = 16
	for t := range tries {
		s, z := p.stored(span*(1-0.5*float32(t)/tries)), zero
		if s == 0 {
			continue
		}
		if p.zeros {
			z = uint8(min(max(float32(math.RoundToEven(float64(-lo/s))), float32(p.least)), top))
		}
		sum := 0.0
		for i, v := range values {
			c := min(max(float32(math.RoundToEven(float64(v/s)))+float32(z), 0), top)
			d := s*(c-float32(z)) - v
			sum += float64(importance[i]) * float64(d*d)
		}
		if sum < best {
			best, scale, zero = sum, s, z
		}
	}
	return scale, zero
}

// stored returns a scale as it is stored.
func (p packing) stored(v float32) float32 {
	if p.scales == quant.BF16 {
		return quant.BF16ToF32(quant.F32ToBF16(v))
	}
	return quant.F16ToF32(quant.F32ToF16(v))
}

// packed is a weight taken to codes.
type packed struct {
	packing
	out, in, groups int
	codes           []uint8   // [out, in]
	scales          []float32 // [out, groups]
	zeros           []uint8   // [out, groups]
	groupOf         []int32   // of each input
}

// packAll puts the tensors of the packed format in the places of the weights that they hold.
func (q *quantiser) packAll() error {
	if s := q.w.spec; s.Recurrent() || s.Layers[len(s.Layers)-1].FFN.Experts.Count > 0 {
		return fmt.Errorf("forge: %s checkpoints of mixtures and recurrent layers are not written; write a GGUF", q.Method)
	}
	var all []tensor
	for i := range q.w.tensors {
		t := &q.w.tensors[i]
		switch m := q.moments(t); {
		case m == nil && slices.Contains(linears, t.Slot) && len(t.Shape) == 2:
			return fmt.Errorf("forge: tensor %q has no place in a %s checkpoint that kvasir writes; write a GGUF", t.Name, q.Method)
		case m == nil:
			all = append(all, *t)
		default:
			out, in, size := t.Shape[0], t.Shape[1], max(q.pack.group, 1)
			if in%size != 0 || q.pack.group > 0 && (in*q.pack.bits%32 != 0 || out*q.pack.bits%32 != 0) {
				return fmt.Errorf("forge: tensor %q: [%d, %d] of %d bits in groups of %d do not fill groups and words of 32 bits", t.Name, out, in, q.pack.bits, q.pack.group)
			}
			all = append(all, q.packedTensors(t, m)...)
		}
	}
	q.w.tensors = all
	config := q.w.config
	scheme := model.Scheme{Bits: q.pack.bits, Group: q.pack.group, Rows: 1}
	what := model.Quantization{Method: q.Method, Schemes: []model.Scheme{scheme}}
	switch q.Method {
	case GPTQ:
		what.Format = "gptq"
		if q.ZeroPoints { // GPTQModel takes "gptq" with them only of itself
			what.Format = "gptq_v2"
		}
		config["quantization_config"] = map[string]any{"quant_method": "gptq", "checkpoint_format": what.Format, "bits": q.Bits, "group_size": q.Group,
			"sym": !q.ZeroPoints, "desc_act": q.ActOrder, "damp_percent": damping, "lm_head": false}
	case AWQ:
		what.Format = "gemm"
		config["quantization_config"] = map[string]any{"quant_method": "awq", "version": "gemm", "bits": q.Bits, "group_size": q.Group,
			"zero_point": true, "modules_to_not_convert": []string{"lm_head"}}
	default:
		what.Method, what.Format = "compressed-tensors", "int-quantized"
		ints := func(strategy string, dynamic bool) map[string]any {
			return map[string]any{"num_bits": 8, "type": "int", "symmetric": true, "strategy": strategy, "dynamic": dynamic}
		}
		config["quantization_config"] = map[string]any{"quant_method": what.Method, "format": what.Format, "quantization_status": "compressed",
			"ignore": []string{"lm_head"}, "config_groups": map[string]any{"group_0": map[string]any{"targets": []string{"Linear"},
				"weights": ints("channel", false), "input_activations": ints("token", true)}}}
	}
	q.w.spec.Quantization = what
	return nil
}

// packedTensors are what a weight becomes.
func (q *quantiser) packedTensors(t *tensor, m *Moments) []tensor {
	module := strings.TrimSuffix(t.Name, ".weight")
	made := sync.OnceValues(func() (*packed, error) { return q.packed(t, m) })
	one := func(name string, to quant.Type, data func(p *packed) []byte, shape ...int) tensor {
		return tensor{Translated: Translated{Name: module + name, Slot: t.Slot, Layer: t.Layer, Type: to, Shape: shape}, to: to,
			values: func(context.Context) ([]byte, error) {
				p, err := made()
				if err != nil {
					return nil, err
				}
				return data(p), nil
			}}
	}
	out, in, bits := t.Shape[0], t.Shape[1], q.pack.bits
	if q.Method == SmoothQuant {
		return []tensor{one(".weight", quant.I8, (*packed).int8s, out, in), one(".weight_scale", q.pack.scales, (*packed).scaleBytes, out, 1)}
	}
	groups := in / q.pack.group
	scales := one(".scales", q.pack.scales, (*packed).scaleBytes, groups, out)
	if q.Method == AWQ {
		return []tensor{one(".qweight", quant.I32, (*packed).awqCodes, in, out/8), one(".qzeros", quant.I32, (*packed).awqZeros, groups, out/8), scales}
	}
	return []tensor{one(".qweight", quant.I32, (*packed).gptqCodes, in*bits/32, out), one(".qzeros", quant.I32, (*packed).gptqZeros, groups, out*bits/32), scales,
		one(".g_idx", quant.I32, (*packed).index, in)}
}

// packed takes a weight to codes.
func (q *quantiser) packed(t *tensor, m *Moments) (*packed, error) {
	v, err := t.decoded()
	if err != nil {
		return nil, err
	}
	p := &packed{packing: q.pack, out: t.Shape[0], in: t.Shape[1], groups: 1}
	if p.group > 0 {
		p.groups = p.in / p.group
	}
	p.codes, p.scales, p.zeros = make([]uint8, len(v)), make([]float32, p.out*p.groups), make([]uint8, p.out*p.groups)
	gram, importance := m.Gram, m.importances(t.cols)
	order := make([]int32, p.in)
	for k := range order {
		order[k] = int32(k)
	}
	if q.ActOrder && q.Method == GPTQ {
		slices.SortStableFunc(order, func(a, b int32) int {
			return int(math.Copysign(1, float64(importance[b]-importance[a])))
		})
		gram, importance = ordered(ordered(gram, order, true), order, false), ordered(importance, order, false)
	}
	var u []float32
	if q.Method == GPTQ {
		if u, err = q.factor(m, gram); err != nil {
			return nil, fmt.Errorf("%w: tensor %q", err, t.Name)
		}
	}
	rows := ordered(v, order, false)
	err = compensate(rows, p.in, u, importance, func(r int) rounder {
		return q.pack.rounder(p.in, p.codes[r*p.in:][:p.in], p.scales[r*p.groups:][:p.groups], p.zeros[r*p.groups:][:p.groups])
	})
	if err != nil {
		return nil, fmt.Errorf("%w: tensor %q", err, t.Name)
	}
	p.groupOf = make([]int32, p.in)
	codes, back := slices.Clone(p.codes), slices.Clone(rows)
	for at, k := range order {
		p.groupOf[k] = int32(at / max(p.group, 1))
		for r := range p.out {
			p.codes[r*p.in+int(k)], back[r*p.in+int(k)] = codes[r*p.in+at], rows[r*p.in+at]
		}
	}
	return p, q.report(t, back, v)
}

// ordered returns the columns of rows of len(order) values, or the rows, in an order.
func ordered(v []float32, order []int32, rows bool) []float32 {
	n, out := len(order), make([]float32, 0, len(v))
	for r := range len(v) / n {
		if rows {
			out = append(out, v[int(order[r])*n:][:n]...)
			continue
		}
		for _, k := range order {
			out = append(out, v[r*n+int(k)])
		}
	}
	return out
}

func (p *packed) int8s() []byte {
	out := make([]byte, len(p.codes))
	for i, c := range p.codes {
		out[i] = c ^ 0x80
	}
	return out
}

// scaleBytes are the scales, [groups, out].
func (p *packed) scaleBytes() []byte {
	var out []byte
	for g := range p.groups {
		for r := range p.out {
			h := quant.F32ToF16(p.scales[r*p.groups+g])
			if p.packing.scales == quant.BF16 {
				h = quant.F32ToBF16(p.scales[r*p.groups+g])
			}
			out = binary.LittleEndian.AppendUint16(out, h)
		}
	}
	return out
}

// words packs codes, of which each word has 32/bits.
func words(n, bits int, code func(word, i int) uint8) []byte {
	var out []byte
	for w := range n {
		word := uint32(0)
		for i := range 32 / bits {
			word |= uint32(code(w, i)) << (i * bits)
		}
		out = binary.LittleEndian.AppendUint32(out, word)
	}
	return out
}

// The layouts are those that package model reads.

func (p *packed) gptqCodes() []byte {
	per := 32 / p.bits
	return words(p.in/per*p.out, p.bits, func(w, i int) uint8 { return p.codes[w%p.out*p.in+w/p.out*per+i] })
}

func (p *packed) gptqZeros() []byte {
	per := 32 / p.bits
	line := p.out / per
	return words(p.groups*line, p.bits, func(w, i int) uint8 { return p.zeros[(w%line*per+i)*p.groups+w/line] - p.least })
}

func (p *packed) index() []byte {
	var out []byte
	for _, g := range p.groupOf {
		out = binary.LittleEndian.AppendUint32(out, uint32(g))
	}
	return out
}

// awqOrder is which of 8 columns stands at each place in a word.
var awqOrder = [8]int{0, 2, 4, 6, 1, 3, 5, 7}

func (p *packed) awqCodes() []byte {
	line := p.out / 8
	return words(p.in*line, 4, func(w, i int) uint8 { return p.codes[(w%line*8+awqOrder[i])*p.in+w/line] })
}

func (p *packed) awqZeros() []byte {
	line := p.out / 8
	return words(p.groups*line, 4, func(w, i int) uint8 { return p.zeros[(w%line*8+awqOrder[i])*p.groups+w/line] })
}
