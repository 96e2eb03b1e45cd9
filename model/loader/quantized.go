package loader

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/model"
	"github.com/kvasir-llm/kvasir/quant"
	"github.com/kvasir-llm/kvasir/weights"
)

// The tensors of a quantised linear weight W [out, in], beside its name, by the published layouts. Words are int32,
// filled from the lowest bit up; a value may continue in the next word.
//
//	GPTQ     qweight [in·bits/32, out] words down each column, qzeros [groups, out·bits/32] words along each row,
//	         scales [groups, out], g_idx [in] the group of each input; qzeros hold the zero point - 1 in the
//	         format "gptq", and the zero point in "gptq_v2"
//	AWQ      qweight [in, out/8], qzeros [groups, out/8], scales [groups, out]; the 8 values of a word are those
//	         of columns 0, 2, 4, 6, 1, 3, 5, 7
//	compressed-tensors
//	         weight_packed [out, ⌈in·bits/32⌉] words along each row, weight_scale [out, groups],
//	         weight_zero_point [⌈out·bits/32⌉, groups] words down each column, weight_g_idx [in]; values and
//	         zero points are 2^(bits-1) above; or
//	         weight [out, in] of I8 or F8_E4M3, weight_scale of one value, [out, 1], [out, groups] or by blocks
//	FP8      weight [out, in] of F8_E4M3, weight_scale_inv by blocks
//
// A value is (code - zero point)·scale, in float32.

// integers is a weight of integers: its codes, their scales and zero points.
type integers struct {
	name    string
	bits    int
	out, in int
	size    int // inputs of a group; 0 is all
	groups  int // of a row
	codes   func(to []uint8, row int)
	// packed fills to with the codes of inputs from on, of bits each; nil: there is no short way.
	packed func(to []byte, row, from int)
	// run returns packed of n rows from row first on, whose codes it brings together; nil: that is no gain.
	run     func(first, n int) func(to []byte, row, from int)
	scales  []float32 // [out, groups] or [groups, out]
	zero    func(row, group int) uint8
	byGroup bool    // the scales are [groups, out]
	groupOf []int32 // of each input; nil if they are in order
}

// Has reports whether the checkpoint has a weight for a slot of layer i.
func (r *Reader) Has(slot string, i int) bool {
	name := r.slots.Name(slot, i)
	_, ok := r.ckpt.Tensor(name + ".weight")
	return ok || r.packed(name)
}

// packed reports whether a module's weight is stored as something else than a tensor called weight.
func (r *Reader) packed(module string) bool {
	_, gptq := r.ckpt.Tensor(module + ".qweight")
	_, compressed := r.ckpt.Tensor(module + ".weight_packed")
	return gptq || compressed
}

// stored finds the weight of a module, out rows of in values, quantised or plain.
func (r *Reader) stored(module string, out, in int) compute.Source {
	q := r.quantized
	t, ok := r.ckpt.Tensor(module + ".weight")
	switch {
	case !ok && r.packed(module) && q.Method == "gptq":
		return r.source(r.gptq(module, out, in))
	case !ok && r.packed(module) && q.Method == "awq":
		return r.source(r.awq(module, out, in))
	case !ok && r.packed(module) && q.Method == "compressed-tensors":
		return r.source(r.compressed(module, out, in))
	case !ok && r.packed(module):
		r.keep(fmt.Errorf("model: %q is packed, but config.json has no quantization_config that says how", module))
	case ok && t.Type == quant.I8:
		return r.source(r.int8s(module, out, in))
	case ok && t.Type == quant.F8_E4M3:
		return r.float8s(module, out, in)
	}
	t, _ = r.tensor(module+".weight", out, in)
	return compute.Source{Name: t.Name, Type: t.Type, Out: out, In: in, Data: t.Data}
}

// words returns a tensor of int32 words by its place.
func (r *Reader) words(name string, shape ...int) func(i int) uint32 {
	t, ok := r.tensor(name, shape...)
	if ok && t.Type != quant.I32 {
		r.keep(fmt.Errorf("model: tensor %q is of type %v; want I32", name, t.Type))
	}
	return func(i int) uint32 { return binary.LittleEndian.Uint32(t.Data[i*4:]) }
}

// stream returns value n of the words first, first+step, first+2·step and so on.
func stream(word func(i int) uint32, first, step, n, bits int) uint8 {
	at, shift := n*bits/32, n*bits%32
	v := word(first+at*step) >> shift
	if shift+bits > 32 {
		v |= word(first+(at+1)*step) << (32 - shift)
	}
	return uint8(v & (1<<bits - 1))
}

// unpack fills to with the values of the words first, first+step, first+2·step and so on.
func unpack(to []uint8, word func(i int) uint32, first, step, bits int) {
	pool, have := uint64(0), 0
	for i := range to {
		if have < bits {
			pool |= uint64(word(first)) << have
			have, first = have+32, first+step
		}
		to[i] = uint8(pool & (1<<bits - 1))
		pool, have = pool>>bits, have-bits
	}
}

// copyWords fills to with the words first, first+step, first+2·step and so on.
func copyWords(to []byte, word func(i int) uint32, first, step int) {
	for ; len(to) > 0; to = to[4:] {
		binary.LittleEndian.PutUint32(to, word(first))
		first += step
	}
}

// groupsOf returns how many groups of size inputs a row of in has; 0 is all.
func groupsOf(in, size int) int {
	if size == 0 {
		return 1
	}
	return (in + size - 1) / size
}

// indexed replaces the groups of inputs by those in a tensor, if there is one. Some writers that keep the order give
// all inputs the same group, which is ignored.
func (r *Reader) indexed(w *integers, name string) {
	if _, ok := r.ckpt.Tensor(name); !ok {
		return
	}
	word := r.words(name, w.in)
	if r.err != nil {
		return
	}
	of := make([]int32, w.in)
	for k := range of {
		if of[k] = int32(word(k)); of[k] < 0 || int(of[k]) >= w.groups {
			r.keep(fmt.Errorf("model: tensor %q: input %d is in group %d of %d", name, k, of[k], w.groups))
			return
		}
	}
	if slices.Min(of) != slices.Max(of) {
		w.groupOf = of
	}
}

func (r *Reader) gptq(module string, out, in int) integers {
	s := r.quantized.Schemes[0]
	w := integers{name: module + ".qweight", bits: s.Bits, out: out, in: in, byGroup: true, size: s.Group, groups: groupsOf(in, s.Group)}
	if in*s.Bits%32 != 0 || out*s.Bits%32 != 0 {
		r.keep(fmt.Errorf("model: tensor %q: [%d, %d] of %d bits do not fill words of 32", w.name, out, in, s.Bits))
		return w
	}
	codes := r.words(w.name, in*s.Bits/32, out)
	w.codes = func(to []uint8, row int) { unpack(to, codes, row, out, s.Bits) }
	w.packed = func(to []byte, row, from int) { copyWords(to, codes, row+from*s.Bits/32*out, out) }
	zeros, more := r.words(module+".qzeros", w.groups, out*s.Bits/32), uint8(1)
	if r.quantized.Format == "gptq_v2" {
		more = 0
	}
	w.zero = func(row, group int) uint8 {
		return (stream(zeros, group*(out*s.Bits/32), 1, row, s.Bits) + more) & uint8(1<<s.Bits-1)
	}
	w.scales = r.named(module+".scales", w.groups, out)
	r.indexed(&w, module+".g_idx")
	return w
}

// awqOrder is the place in a word of the value of each of 8 columns.
var awqOrder = [8]int{0, 4, 1, 5, 2, 6, 3, 7}

func (r *Reader) awq(module string, out, in int) integers {
	s := r.quantized.Schemes[0]
	w := integers{name: module + ".qweight", bits: s.Bits, out: out, in: in, byGroup: true, size: s.Group, groups: groupsOf(in, s.Group)}
	if out%8 != 0 {
		r.keep(fmt.Errorf("model: tensor %q: %d outputs of %d bits do not fill words of 32", w.name, out, s.Bits))
		return w
	}
	codes, zeros := r.words(w.name, in, out/8), r.words(module+".qzeros", w.groups, out/8)
	t, _ := r.ckpt.Tensor(w.name)
	at := func(word func(i int) uint32, line, row int) uint8 {
		return uint8(word(line*(out/8)+row/8) >> (4 * awqOrder[row%8]) & 15)
	}
	w.codes = func(to []uint8, row int) {
		for k := range to {
			to[k] = at(codes, k, row)
		}
	}
	w.packed = func(to []byte, row, from int) {
		column, shift, step := row/8, 4*awqOrder[row%8], out/8
		for i := from*step + column; len(to) > 0; to = to[4:] {
			x := uint32(0)
			for n := range 8 {
				x |= codes(i) >> (shift & 31) & 15 << (4 * n)
				i += step
			}
			binary.LittleEndian.PutUint32(to, x)
		}
	}
	w.run = func(first, n int) func(to []byte, row, from int) { return awqRun(t.Data, out, in, first, n) }
	w.zero = func(row, group int) uint8 { return at(zeros, group, row) }
	w.scales = r.named(module+".scales", w.groups, out)
	return w
}

// compressed finds which scheme of the configuration the shape of a packed weight fits.
func (r *Reader) compressed(module string, out, in int) integers {
	name := module + ".weight_packed"
	w := integers{name: name, out: out, in: in}
	t, _ := r.ckpt.Tensor(name)
	scale, _ := r.ckpt.Tensor(module + ".weight_scale")
	var asked []string
	for _, s := range r.quantized.Schemes {
		if !s.Float {
			groups := groupsOf(in, s.Group)
			shape, scales := []int{out, (in*s.Bits + 31) / 32}, []int{out, groups}
			if s.Rows == 0 {
				scales = []int{1}
			}
			if slices.Equal(t.Shape, shape) && slices.Equal(scale.Shape, scales) {
				w.bits, w.size, w.groups = s.Bits, s.Group, groups
			}
			asked = append(asked, fmt.Sprintf("%v with scales %v (%v)", shape, scales, s))
		}
	}
	if w.bits == 0 {
		r.keep(fmt.Errorf("model: tensor %q has shape %v and scales %v; the configuration asks for %v", name, t.Shape, scale.Shape, asked))
		return w
	}
	line, middle := (in*w.bits+31)/32, uint8(1<<(w.bits-1))
	codes := r.words(name, out, line)
	w.codes = func(to []uint8, row int) { unpack(to, codes, row*line, 1, w.bits) }
	w.packed = func(to []byte, row, from int) { copyWords(to, codes, row*line+from*w.bits/32, 1) }
	w.zero = func(int, int) uint8 { return middle }
	if zero := module + ".weight_zero_point"; r.there(zero) {
		zeros := r.words(zero, (out*w.bits+31)/32, w.groups)
		w.zero = func(row, group int) uint8 { return stream(zeros, group, w.groups, row, w.bits) }
	}
	w.scales = r.spread(module+".weight_scale", out, w.groups)
	r.indexed(&w, module+".weight_g_idx")
	return w
}

func (r *Reader) there(name string) bool {
	_, ok := r.ckpt.Tensor(name)
	return ok
}

// int8s finds a weight whose integers are not packed.
func (r *Reader) int8s(module string, out, in int) integers {
	w := integers{name: module + ".weight", bits: 8, out: out, in: in}
	t, _ := r.tensor(w.name, out, in)
	scale, _ := r.ckpt.Tensor(module + ".weight_scale")
	if len(scale.Shape) == 2 && scale.Shape[1] > 0 && in%scale.Shape[1] == 0 {
		w.size = in / scale.Shape[1]
	}
	w.groups = groupsOf(in, w.size)
	w.codes = func(to []uint8, row int) {
		for k, b := range t.Data[row*in:][:in] {
			to[k] = b ^ 0x80
		}
	}
	w.packed = func(to []byte, row, from int) {
		src := t.Data[row*in+from:]
		for i := 0; i < len(to); i += 8 {
			binary.LittleEndian.PutUint64(to[i:], binary.LittleEndian.Uint64(src[i:])^0x8080808080808080)
		}
	}
	w.zero = func(int, int) uint8 { return 0x80 }
	if name := module + ".weight_zero_point"; r.there(name) {
		zeros, _ := r.tensor(name, scale.Shape...)
		of := func(row, group int) int { return (row*w.groups + group) % zeros.Values() }
		if zeros.Type != quant.I8 {
			r.keep(fmt.Errorf("model: tensor %q is of type %v; want I8", name, zeros.Type))
		}
		w.zero = func(row, group int) uint8 { return zeros.Data[of(row, group)] ^ 0x80 }
	}
	w.scales = r.spread(module+".weight_scale", out, w.groups)
	return w
}

// spread returns the scales [out, groups] of a tensor that has them, or one for each output, or one for all.
func (r *Reader) spread(name string, out, groups int) []float32 {
	t, ok := r.ckpt.Tensor(name)
	shape := []int{out, groups}
	if ok && t.Values() == 1 || groups == 1 && slices.Equal(t.Shape, []int{out}) {
		shape = t.Shape
	}
	v := r.named(name, shape...)
	if r.err != nil {
		return nil
	}
	all := make([]float32, 0, out*groups)
	for len(v) > 0 && len(all) < out*groups {
		all = append(all, v...)
	}
	return all
}

// float8s finds a weight of F8_E4M3 with scales for the tensor, for each output or for blocks.
func (r *Reader) float8s(module string, out, in int) compute.Source {
	t, _ := r.tensor(module+".weight", out, in)
	src := compute.Source{Name: t.Name, Type: t.Type, Out: out, In: in, Data: t.Data, Group: in}
	name := module + ".weight_scale"
	if !r.there(name) && r.there(name+"_inv") {
		name += "_inv"
	}
	scale, _ := r.ckpt.Tensor(name)
	i := slices.IndexFunc(r.quantized.Schemes, func(s model.Scheme) bool { return s.Float && s.Group > 0 })
	if i < 0 || scale.Values() == 1 || slices.Equal(scale.Shape, []int{out, 1}) {
		src.Scales = r.spread(name, out, 1)
		return src
	}
	s := r.quantized.Schemes[i]
	src.Group = s.Group
	groups := (in + s.Group - 1) / s.Group
	v := r.named(name, (out+s.Rows-1)/s.Rows, groups)
	for row := 0; row < out && r.err == nil; row++ {
		src.Scales = append(src.Scales, v[row/s.Rows*groups:][:groups]...)
	}
	return src
}

// source returns integers as a weight whose rows are written when a device asks for them, in blocks that do not cross
// groups. Where the groups are mixed, its inputs are in the order of the groups.
func (r *Reader) source(w integers) compute.Source {
	if r.err != nil {
		return compute.Source{}
	}
	order, size := make([]int32, w.in), w.size
	if size == 0 {
		size = w.in
	}
	for k := range order {
		order[k] = int32(k)
	}
	if w.groupOf == nil {
		w.groupOf = make([]int32, w.in)
		for k := range w.groupOf {
			w.groupOf[k] = int32(k / size)
		}
	}
	slices.SortStableFunc(order, func(a, b int32) int { return int(w.groupOf[a]) - int(w.groupOf[b]) })
	block := 0
	for _, size := range []int{128, 32} {
		if block == 0 && w.whole(order, size) {
			block = size
		}
	}
	if block == 0 {
		r.keep(fmt.Errorf("model: tensor %q: %d inputs in %d groups; want groups of whole 32", w.name, w.in, w.groups))
		return compute.Source{}
	}
	kept := w.bits
	for quant.ZeroTypes[kept] == nil {
		kept++
	}
	typ := quant.ZeroTypes[kept][block]
	inOrder := slices.IsSorted(order)
	short := inOrder && kept == w.bits && w.packed != nil
	line := func(dst []byte, n int, packed func(to []byte, row, from int)) {
		var sorted []uint8
		if !short {
			codes := make([]uint8, w.in)
			sorted = make([]uint8, w.in)
			w.codes(codes, n)
			for k, i := range order {
				sorted[k] = codes[i]
			}
		}
		for at := 0; at < w.in; at += block {
			g := int(w.groupOf[order[at]])
			scale := n*w.groups + g
			if w.byGroup {
				scale = g*w.out + n
			}
			to := dst[at/block*typ.BlockBytes():][:typ.BlockBytes()]
			if short {
				packed(quant.PutZeroHeader(to, w.scales[scale], w.zero(n, g)), n, at)
			} else {
				quant.PutZeroBlock(to, w.scales[scale], w.zero(n, g), sorted[at:][:block], kept)
			}
		}
	}
	src := compute.Source{Name: w.name, Type: typ, Out: w.out, In: w.in, Row: func(dst []byte, n int) { line(dst, n, w.packed) }}
	if !inOrder {
		src.Order = order
	}
	if short && w.run != nil {
		size := w.in / block * typ.BlockBytes()
		src.Run = func(dst []byte, from, n int) {
			packed := w.run(from, n)
			for i := range n {
				line(dst[i*size:][:size], from+i, packed)
			}
		}
	}
	return src
}

// whole reports whether blocks of size inputs, in an order, lie inside groups.
func (w *integers) whole(order []int32, size int) bool {
	for at := 0; at < w.in; at += size {
		if at+size > w.in || w.groupOf[order[at]] != w.groupOf[order[at+size-1]] {
			return false
		}
	}
	return true
}

// expanded returns the values of a weight, [out, in].
func expanded(src compute.Source) ([]float32, error) {
	v, row, order := make([]float32, src.Out*src.In), src.Data, src.Order
	size, err := src.Type.RowBytes(src.In)
	if err != nil {
		return nil, fmt.Errorf("model: tensor %q: %w", src.Name, err)
	}
	if src.Row != nil {
		row = make([]byte, size)
	}
	line := make([]float32, src.In)
	for n := range src.Out {
		if src.Row != nil {
			src.Row(row, n)
		} else {
			row = src.Data[n*size:][:size]
		}
		if err := quant.Decode(line, row, src.Type); err != nil {
			return nil, fmt.Errorf("model: tensor %q: %w", src.Name, err)
		}
		to := v[n*src.In:][:src.In]
		for k, f := range line {
			if src.Scales != nil {
				groups := len(src.Scales) / src.Out
				f *= src.Scales[n*groups+k/src.Group]
			}
			if order != nil {
				k = int(order[k])
			}
			to[k] = f
		}
	}
	return v, nil
}

// allZero reports whether a tensor is all zeros: GPTQ checkpoints have such biases where the model has none.
func allZero(t weights.Tensor) bool {
	return !slices.ContainsFunc(t.Data, func(b byte) bool { return b != 0 })
}
