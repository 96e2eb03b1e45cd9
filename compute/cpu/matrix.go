package cpu

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/compute/kernel"
	"github.com/kvasir-llm/kvasir/quant"
)

// matrix is a weight repacked into panels of 16 outputs, each in the order in which the kernels read it. Missing
// outputs of the last panel are zero.
type matrix struct {
	typ     quant.Type
	out, in int
	panels  int
	stride  int // bytes of a panel, a multiple of 64
	data    []byte
	raw     *raw    // nil: it is packed
	group   int     // inputs that share a scale, of F8_E4M3
	ahead   *ahead  // what was read after it the last time
	order   []int32 // the input that each value of a row belongs to; nil if they are in order
	rows    rowKind // what products with it take
	pairs   kernel.PairForm
}

// rowKind is a form of a product's rows.
type rowKind uint8

const (
	floatRows rowKind = 1 << iota // as they are
	pairRows                      // in bfloat16 (Rows16)
	blockRows                     // quantised (Rows8)
)

// rowsFor returns what products with a weight take.
func (d *Device) rowsFor(src *compute.Source) rowKind {
	switch {
	case kernel.Quantised(src.Type):
		return blockRows
	case !src.Adapter && !d.wide && (src.Type == quant.F16 || src.Type == quant.BF16):
		return pairRows
	}
	return floatRows
}

func (m *matrix) Dims() (out, in int) { return m.out, m.in }
func (m *matrix) Type() quant.Type    { return m.typ }
func (m *matrix) Bytes() int64        { return int64(m.panels * m.stride) }

// aligned returns n zero bytes that begin at a multiple of 64.
// Large ones are in huge pages where the system has them, so that reading them misses fewer address translations.
func aligned(n int) []byte {
	if n < 2*hugePage {
		return kernel.AlignedTo(n, 64)
	}
	b := kernel.AlignedTo(n, hugePage)
	compute.AdviseHuge(b[:n&^(hugePage-1)])
	return b
}

const hugePage = 2 << 20

// arena is memory of which weights of middle size take parts, one after the other, so that they are in huge pages
// too. It is given back when none of them is left.
type arena struct {
	left  []byte
	nodes []int // that the memory is spread over, page by page; none is as the system likes
}

const (
	arenaBytes = 64 << 20
	arenaPart  = 128 << 10 // the least that is taken of an arena: adapters, which come and go, are less
)

// take is aligned, of the arena.
func (a *arena) take(n int) []byte {
	size := (n + 63) &^ 63
	if size < arenaPart || size > arenaBytes/4 {
		return a.apart(n)
	}
	if size > len(a.left) {
		a.left = a.apart(arenaBytes)
	}
	part := a.left[:n:n]
	a.left = a.left[size:]
	return part
}

// apart is aligned, on the arena's nodes.
func (a *arena) apart(n int) []byte {
	b := aligned(n)
	if len(a.nodes) > 0 && n >= 2*hugePage {
		placeMemory(b[:n&^(hugePage-1)], a.nodes)
	}
	return b
}

// Matrix implements compute.Device. It repacks the weight on all threads, now or later (raw).
func (d *Device) Matrix(src compute.Source) (compute.Matrix, error) {
	d.busy.Lock() // the threads and the arena serve one caller at a time
	defer d.busy.Unlock()
	rowBytes, err := src.Type.RowBytes(src.In)
	if err != nil {
		return nil, fmt.Errorf("cpu: weight %q: %w", src.Name, err)
	}
	if src.Out < 1 || src.In < 1 || (src.Row == nil || src.Type == quant.F8_E4M3) && len(src.Data) != rowBytes*src.Out {
		return nil, fmt.Errorf("cpu: weight %q: [%d, %d] of %v needs %d bytes, got %d", src.Name, src.Out, src.In, src.Type, rowBytes*src.Out, len(src.Data))
	}
	if err := src.Heads.Check(src.Out); err != nil {
		return nil, fmt.Errorf("cpu: weight %q: %w", src.Name, err)
	}
	m := &matrix{typ: src.Type, out: src.Out, in: src.In, panels: (src.Out + kernel.Lanes - 1) / kernel.Lanes, stride: kernel.PanelBytes(src.Type, src.In), group: src.Group, rows: d.rowsFor(&src), pairs: d.k.Pairs}
	if err := checkScales(&src); err != nil {
		return nil, err
	}
	if m.order, err = orderOf(&src); err != nil {
		return nil, err
	}
	if m.typ == quant.F8_E4M3 {
		m.stride = (m.in*kernel.Lanes + m.groups()*kernel.Lanes*4 + 63) &^ 63
	}
	if m.stride == 0 {
		return nil, fmt.Errorf("cpu: weight %q is of type %v, which cannot be computed with; use a checkpoint in one of %s, or GPTQ or AWQ",
			src.Name, src.Type, knownTypes())
	}
	if src.Keep != nil && src.Row == nil && kernel.IsAffine(m.typ) {
		if release := src.Keep(); release != nil {
			return m, d.keep(m, src, release)
		}
	}
	m.data = d.arena.take(m.panels * m.stride)
	return m, d.pool.run(m.panels, func(worker, p int) { d.pack(worker, m.data[p*m.stride:][:m.stride], m, &src, p) })
}

// pack packs panel p of a weight, which is 0 before.
func (d *Device) pack(worker int, panel []byte, m *matrix, src *compute.Source, p int) {
	rowBytes, _ := src.Type.RowBytes(src.In)
	var of [kernel.Lanes][]byte
	rows := of[:min(kernel.Lanes, m.out-p*kernel.Lanes)]
	for j := range rows {
		if n := src.Heads.Stored(p*kernel.Lanes + j); src.Row != nil {
			rows[j] = make([]byte, rowBytes)
			src.Row(rows[j], n)
		} else {
			rows[j] = src.Data[n*rowBytes:][:rowBytes]
		}
	}
	switch {
	case kernel.IsAffine(m.typ):
		d.scratch[worker].packer.Pack(panel, rows, m.typ)
		return
	case m.rows == pairRows:
		kernel.PackPairs(kernel.View[uint32](panel), rows, m.typ, m.pairs)
		return
	}
	for j, row := range rows {
		switch m.typ {
		case quant.F32:
			for k := range m.in {
				copy(panel[(k*kernel.Lanes+j)*4:][:4], row[k*4:])
			}
		case quant.F8_E4M3:
			m.pack8(panel, src, src.Heads.Stored(p*kernel.Lanes+j), j)
		default: // F16 and BF16
			for k := range m.in {
				copy(panel[(k*kernel.Lanes+j)*2:][:2], row[k*2:])
			}
		}
	}
}

// knownTypes lists the types of weights.
func knownTypes() string {
	known := "F32, F16, BF16, F8_E4M3"
	for _, t := range kernel.AffineTypes() {
		if !strings.HasPrefix(t.String(), "U") { // which checkpoints of GPTQ, AWQ and the like become
			known += ", " + t.String()
		}
	}
	return known
}

// orderOf returns the order of a source's inputs, nil if it is their own.
func orderOf(src *compute.Source) ([]int32, error) {
	if src.Order == nil {
		return nil, nil
	}
	if !kernel.Quantised(src.Type) {
		return nil, fmt.Errorf("cpu: weight %q: inputs of %v cannot be in another order", src.Name, src.Type)
	}
	seen, own := make([]bool, src.In), true
	for k, i := range src.Order {
		if i < 0 || int(i) >= src.In || seen[i] {
			return nil, fmt.Errorf("cpu: weight %q: input %d is no input of %d, or there twice", src.Name, i, src.In)
		}
		seen[i], own = true, own && int(i) == k
	}
	if len(src.Order) != src.In {
		return nil, fmt.Errorf("cpu: weight %q: an order of %d inputs; it has %d", src.Name, len(src.Order), src.In)
	}
	if own {
		return nil, nil
	}
	return slices.Clone(src.Order), nil
}

// row decodes output n of a weight into dst.
func (d *Device) row(worker int, dst []float32, m *matrix, n int) {
	panel, j := d.packed(worker, m, n/kernel.Lanes, 1), n%kernel.Lanes
	switch {
	case m.rows == pairRows:
		kernel.RowPairs(dst, kernel.View[uint32](panel), j, m.pairs)
	case m.typ == quant.F32:
		for k := range dst {
			dst[k] = kernel.View[float32](panel)[k*kernel.Lanes+j]
		}
	case m.typ == quant.F16:
		for k := range dst {
			dst[k] = quant.F16ToF32(kernel.View[uint16](panel)[k*kernel.Lanes+j])
		}
	case m.typ == quant.BF16:
		for k := range dst {
			dst[k] = quant.BF16ToF32(kernel.View[uint16](panel)[k*kernel.Lanes+j])
		}
	case m.typ == quant.F8_E4M3:
		m.row8(dst, panel, j)
	default:
		kernel.AffineRow(m.typ, dst, panel, j)
	}
	if m.order != nil {
		stored := slices.Clone(dst)
		for k, i := range m.order {
			dst[i] = stored[k]
		}
	}
}
