package cpu

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/quant"
)

// affineTypes are the affine types that have panels, with the places of the float16 in their blocks.
var affineTypes = []struct {
	typ    quant.Type
	halves []int
}{
	{quant.Q8_0, []int{0}}, {quant.Q4_0, []int{0}}, {quant.Q4_1, []int{0, 2}}, {quant.Q5_0, []int{0}}, {quant.Q5_1, []int{0, 2}},
	{quant.Q2_K, []int{80, 82}}, {quant.Q3_K, []int{108}}, {quant.Q4_K, []int{0, 2}}, {quant.Q5_K, []int{0, 2}},
	{quant.Q6_K, []int{208}}, {quant.IQ4_NL, []int{0}}, {quant.IQ4_XS, []int{0}}, {quant.MXFP4, nil},
	{quant.U2_32, nil}, {quant.U3_32, nil}, {quant.U4_32, nil}, {quant.U8_32, nil},
	{quant.U2_128, nil}, {quant.U3_128, nil}, {quant.U4_128, nil}, {quant.U8_128, nil},
}

// affineBlocks returns random blocks of a type: any codes, scales and zero points, float16 of the given kind, exponents near 0.
func affineBlocks(r *rand.Rand, t quant.Type, halves []int, blocks int, scale func() uint16) []byte {
	size := t.BlockBytes()
	data := make([]byte, blocks*size)
	for i := range data {
		data[i] = byte(r.Uint32())
		if extremes := [...]byte{0, 255}; r.IntN(8) == 0 {
			data[i] = extremes[i%2]
		}
	}
	for b := range blocks {
		for _, at := range halves {
			binary.LittleEndian.PutUint16(data[b*size+at:], scale())
		}
		if t == quant.MXFP4 {
			data[b*size] = byte(118 + r.IntN(10))
		}
		if a, _ := quant.AffineOf(t); a.Zeros {
			binary.LittleEndian.PutUint32(data[b*size:], math.Float32bits(float32(r.NormFloat64())))
		}
	}
	return data
}

func TestAffineTypes(t *testing.T) {
	tested := map[quant.Type]bool{}
	for _, a := range affineTypes {
		tested[a.typ] = true
	}
	for typ := range quant.Type(255) {
		if got := affinePanels[typ].layout != noScales; got != tested[typ] {
			t.Errorf("%v has affine panels: %v; tested: %v", typ, got, tested[typ])
		}
	}
}

// wholeScales reports whether a type's scales are rounded when it is packed.
func wholeScales(t quant.Type) bool {
	l := affinePanels[t].layout
	return l == uint8s || l == int12s || l == int12Mins || t == quant.MXFP4
}

// TestAffineRow takes over weights of every affine type and expects their rows as quant decodes them: bit for bit, or, where
// scales become whole numbers, within what rounding the scale of a group to a share of the greatest of its span explains.
func TestAffineRow(t *testing.T) {
	d, err := New(Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	r := rand.New(rand.NewPCG(21, 21))
	for _, a := range affineTypes {
		for _, in := range []int{a.typ.BlockValues(), 3 * a.typ.BlockValues()} {
			const out = 19
			data := affineBlocks(r, a.typ, a.halves, out*in/a.typ.BlockValues(), func() uint16 { return half(r) })
			w, err := d.Matrix(compute.Source{Name: "w", Type: a.typ, Out: out, In: in, Data: data})
			if err != nil {
				t.Fatal(err)
			}
			want, got := make([]float32, out*in), make([]float32, in)
			if err := quant.Decode(want, data, a.typ); err != nil {
				t.Fatal(err)
			}
			for n := range out {
				w.(*matrix).row(got, n)
				what, panel := fmt.Sprintf("%v [%d, %d]: row %d", a.typ, out, in, n), w.(*matrix).data[n/lanes*w.(*matrix).stride:]
				if !wholeScales(a.typ) {
					same(t, what, got, want[n*in:][:in])
					continue
				}
				p := &affinePanels[a.typ]
				for k, v := range want[n*in:][:in] {
					_, _, supers, _ := p.section(panel, k/spanValues, in/32)
					d, least, _ := p.super(supers, 0, n%lanes)
					most := 64.5*float64(d) + 0.5*float64(least)
					if p.hasMins() { // the middle level is kept
						most = 0.5001*(float64(p.middle()*d)+float64(least)) + 1e-6*math.Abs(float64(v))
					}
					if at := (n*in + k) / 32 * 34; p.layout == uint8s && data[at+1]&0x80 != 0 && data[at+2+k%32] == 0x80 {
						most += 255 * float64(d) // 128 where a scale is negative is held as 127
					}
					if !(math.Abs(float64(got[k]-v)) <= most) {
						t.Fatalf("%s: value %d is %g, want %g ± %g", what, k, got[k], v, most)
					}
				}
			}
		}
	}
}

// TestAffineSums packs rows whose levels are the largest there are, beside others, and expects that no sum of weights can make one of a product leave
// 32 bits.
func TestAffineSums(t *testing.T) {
	r := rand.New(rand.NewPCG(27, 27))
	for _, a := range affineTypes {
		p := &affinePanels[a.typ]
		if p.layout == zeroPoints {
			continue
		}
		blocks := 2 * spanValues / 32
		for n := range 64 {
			row := affineBlocks(r, a.typ, a.halves, blocks*32/a.typ.BlockValues(), func() uint16 { return quant.F32ToF16(1 + float32(n%4)*r.Float32()) })
			for i := range row {
				if at := i % a.typ.BlockBytes(); at > 1 && wholeScales(a.typ) && n < 16 {
					row[i] = [...]byte{0, 128, 255, 127}[n/4]
				}
			}
			panel := make([]byte, p.bytes(blocks))
			new(packer).pack(p, panel, [][]byte{row}, a.typ)
			for span := range 2 {
				codes, scales, supers, _ := p.section(panel, span, blocks)
				sum := 0
				for b := range 8 {
					var levels [32]uint8
					p.levels(&levels, codes[b*p.codeBytes():], 0)
					_, _, offset := p.super(supers, 0, 0)
					for k, level := range levels {
						s, _ := p.scales(scales, (b*32+k)/p.Group, 0)
						weight := int(s) * (int(level) - int(offset))
						if weight < -mostOfWeight || weight > mostOfWeight-1 {
							t.Fatalf("%v: row %d: a weight is %d, no two digits", a.typ, n, weight)
						}
						sum += max(weight, -weight)
					}
				}
				if sum > mostOfWeights {
					t.Errorf("%v: row %d, span %d: weights add up to %d, more than %d", a.typ, n, span, sum, mostOfWeights)
				}
			}
		}
	}
}

// TestAffineProduct compares products with every affine type with sums in float64 over what rows decode to and what the
// quantised rows stand for. The difference may be that of some tens of roundings.
func TestAffineProduct(t *testing.T) {
	r := rand.New(rand.NewPCG(22, 22))
	scale := func() uint16 { return quant.F32ToF16(float32(r.NormFloat64())) }
	for _, k := range implementations() {
		d, err := New(Options{Threads: 2, Kernels: k.name})
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range affineTypes {
			const out, in, m = 83, 768, 9
			data := affineBlocks(r, a.typ, a.halves, out*in/a.typ.BlockValues(), scale)
			w, err := d.Matrix(compute.Source{Name: "w", Type: a.typ, Out: out, In: in, Data: data})
			if err != nil {
				t.Fatal(err)
			}
			values := make([]float32, out*in)
			for n := range out {
				w.(*matrix).row(values[n*in:][:in], n)
			}
			x, dst := compute.Tensor{Rows: m, Cols: in, Host: make([]float32, m*in)}, compute.Tensor{Rows: m, Cols: out, Host: make([]float32, m*out)}
			for i := range x.Host {
				x.Host[i] = float32(r.NormFloat64())
			}
			d.matmul(m, x, []compute.Product{{Dst: dst, W: w}})
			for i := range m * out {
				row, weights := i/out, values[i%out*in:][:in]
				sum, size, most := 0.0, 0.0, 0.0
				for k, v := range weights {
					span := &d.xq.sums[row*d.xq.lds+k/spanValues]
					x := float64(d.xq.q[row*d.xq.ld+k]) * float64(span.d) * float64(span.shares[k%spanValues/32])
					sum += x * float64(v)
					size += math.Abs(x)
					most = max(most, math.Abs(float64(v)))
				}
				if err := math.Abs(float64(dst.Host[i]) - sum); !(err <= 2e-6*size*most) {
					t.Fatalf("%s: %v: row %d, output %d is %g, want %g ± %g", k.name, a.typ, row, i%out, dst.Host[i], sum, 2e-6*size*most)
				}
			}
		}
		d.Close()
	}
}

// TestBlockSizes compares the sums of levels, which are added up several at a time, with sums one by one: of blocks of one code, and of any.
func TestBlockSizes(t *testing.T) {
	r := rand.New(rand.NewPCG(26, 26))
	for _, a := range affineTypes {
		p := &affinePanels[a.typ]
		if a.typ.BlockValues() != 32 || p.Zeros {
			continue
		}
		for n := range 2 << p.Bits {
			var codes, negated [32]uint8
			want := 0
			for i := range codes {
				if codes[i] = uint8(n); n >= 1<<p.Bits {
					codes[i] = uint8(r.IntN(1 << p.Bits))
				}
				level := int(codes[i])
				if p.Levels != nil {
					level = int(p.Levels[level])
				}
				want += max(level-p.Offset, p.Offset-level)
				negated[i] = uint8(min(256-int(codes[i]), 255))
			}
			if got := p.size(&codes); got != want {
				t.Errorf("%v: the size of %v is %d, want %d", a.typ, codes, got, want)
			}
			if negate(&codes); codes != negated {
				t.Errorf("negated: %v, want %v", codes, negated)
			}
		}
	}
}

// affineWeights returns random panels of a type.
func affineWeights(r *rand.Rand, t quant.Type, halves []int, panels, blocks, stride int) []byte {
	a := &affinePanels[t]
	w := make([]byte, span(panels, a.bytes(blocks), stride))
	perRow := blocks * 32 / t.BlockValues()
	for p := range panels {
		var rows [lanes][]byte
		for j := range rows {
			rows[j] = affineBlocks(r, t, halves, perRow, func() uint16 { return half(r) })
		}
		new(packer).pack(a, w[p*stride:][:a.bytes(blocks)], rows[:], t)
	}
	return w
}

func TestMatAffine(t *testing.T) {
	each(t, func(t *testing.T, k *kernels, f *fences) {
		r := rand.New(rand.NewPCG(23, 23))
		for _, a := range affineTypes {
			perBlock, n := a.typ.BlockValues()/32, 0 // blocks of 32
			for _, m := range []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 17, 48, 50, 65} {
				for panels := 1; panels <= 9; panels += 2 {
					s := matShape{m: m, k: (1 + n%(1+20/perBlock)) * perBlock, panels: panels, gap: n % 3}
					n++
					x := quantRows(r, s.m, s.k, s.gap)
					stride := affinePanels[a.typ].bytes(s.k) + s.gap*64
					dst, w := s.dst(r), affineWeights(r, a.typ, a.halves, s.panels, s.k, stride)
					got := place(f.dst, dst)
					fenced := x
					fenced.q, fenced.sums = place(f.x, x.q), place(f.d, x.sums)
					k.matAffine(a.typ, got[lead:], s.ldd(), fenced, place(f.w, w), stride, s.panels, s.m)
					portable.matAffine(a.typ, dst[lead:], s.ldd(), x, w, stride, s.panels, s.m)
					same(t, fmt.Sprint(a.typ, " ", s), got, dst)
				}
			}
		}
	})
}

// TestMatAffineExtremes multiplies rows of 127 and -127, with the greatest shares, with codes that are all the least or all the greatest.
func TestMatAffineExtremes(t *testing.T) {
	each(t, func(t *testing.T, k *kernels, f *fences) {
		r := rand.New(rand.NewPCG(25, 25))
		const m, blocks, panels = 13, 24, 5
		x := quantRows(r, m, blocks, 1)
		for i := range m {
			row := x.from(i)
			for n := range x.spans() {
				q := row.q[n*spanValues : min((n+1)*spanValues, blocks*32)]
				for v := range q {
					q[v] = int8(127 - 254*((i+n)%2))
				}
				for g := range row.sums[n].shares {
					row.sums[n].shares[g] = greatestShare
				}
				row.sums[n].sumUp(q)
			}
		}
		x.spread(m)
		for _, a := range affineTypes {
			panel := &affinePanels[a.typ]
			stride := panel.bytes(blocks)
			w := affineWeights(r, a.typ, a.halves, panels, blocks, stride)
			for p := range panels {
				for n := range blocks / sectionBlocks {
					codes, _, _, _ := panel.section(w[p*stride:], n, blocks)
					for i := range codes {
						codes[i] = byte(255 * (p % 2))
					}
				}
			}
			dst := make([]float32, m*panels*lanes)
			got := place(f.dst, dst)
			k.matAffine(a.typ, got, panels*lanes, x, w, stride, panels, m)
			portable.matAffine(a.typ, dst, panels*lanes, x, w, stride, panels, m)
			same(t, a.typ.String(), got, dst)
		}
	})
}

// TestMatAffineNoNumbers multiplies rows of which every second one has infinities and NaN. They must do no harm to the others, and their
// shares are shares, by which kernels find what they multiply with.
func TestMatAffineNoNumbers(t *testing.T) {
	each(t, func(t *testing.T, k *kernels, f *fences) {
		r := rand.New(rand.NewPCG(26, 26))
		const m, blocks, panels = 17, 24, 5
		x := emptyRows(m, blocks, 0)
		for i := range m {
			values, row := numbers(r, blocks*32), x.from(i)
			for n := range 20 * (i % 2) {
				values[r.IntN(len(values))] = float32([]float64{math.Inf(1), math.Inf(-1), math.NaN()}[n%3])
			}
			k.quantize(row.q[:blocks*32], row.sums[:x.spans()], values, spanValues)
			for g := range blocks {
				if share := row.sums[g/8].shares[g%8]; share < 1 || share > greatestShare {
					t.Errorf("row %d: group %d has a share of %d, want 1 to %d", i, g, share, greatestShare)
				}
			}
		}
		x.spread(m)
		for _, a := range affineTypes {
			stride := affinePanels[a.typ].bytes(blocks)
			dst, w := make([]float32, m*panels*lanes), affineWeights(r, a.typ, a.halves, panels, blocks, stride)
			got := place(f.dst, dst)
			k.matAffine(a.typ, got, panels*lanes, x, w, stride, panels, m)
			portable.matAffine(a.typ, dst, panels*lanes, x, w, stride, panels, m)
			for i := 0; i < m; i += 2 {
				same(t, fmt.Sprint(a.typ, " row ", i), got[i*panels*lanes:][:panels*lanes], dst[i*panels*lanes:][:panels*lanes])
			}
		}
	})
}

func FuzzMatAffine(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, data []byte, m, blocks, panels byte) {
		src := &source{data: data}
		a := &affineTypes[int(src.byte())%len(affineTypes)]
		rows, n, cols := int(m)%56, int(blocks)%(1+9*32/a.typ.BlockValues())*a.typ.BlockValues()/32, int(panels)%6
		if rows == 0 || cols == 0 {
			return
		}
		fences := newFences(t)
		x := emptyRows(rows, n, 0)
		for i, values := 0, src.floats(rows*n*32); i < rows && n > 0; i++ {
			row := x.from(i)
			portable.quantize(row.q[:n*32], row.sums[:x.spans()], values[i*n*32:][:n*32], spanValues)
		}
		x.spread(rows)
		stride := affinePanels[a.typ].bytes(n)
		w := src.bytes(cols * stride) // of any bits: a scale may be no number
		panel := &affinePanels[a.typ]
		for p := range cols { // but m has 6 bits in all files, and S times a level less the offset 16
			for section := range (n + sectionBlocks - 1) / sectionBlocks {
				_, scales, _, _ := panel.section(w[p*stride:], section, n)
				for i := range scales {
					switch {
					case panel.layout == byteMins && i%64 >= 32:
						scales[i] &= 63
					case a.typ == quant.IQ4_NL && i%48 < 32:
						scales[i] = byte(int8(scales[i]) >> 3)
					}
				}
			}
		}
		dst := make([]float32, rows*cols*lanes)
		want := append([]float32(nil), dst...)
		portable.matAffine(a.typ, want, cols*lanes, x, w, stride, cols, rows)
		x.q, x.sums, w = place(fences.x, x.q), place(fences.d, x.sums), place(fences.w, w)
		for _, k := range nativeKernels() {
			got := place(fences.dst, dst)
			k.matAffine(a.typ, got, cols*lanes, x, w, stride, cols, rows)
			same(t, fmt.Sprintf("%s: %v: %d rows, %d blocks, %d panels", k.name, a.typ, rows, n, cols), got, want)
		}
	})
}

// BenchmarkPack takes over a weight of each affine type with one thread and decodes its rows, in bytes of the file.
func BenchmarkPack(b *testing.B) {
	d, err := New(Options{Threads: 1})
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	const out, in = 256, 4096
	row := make([]float32, in)
	for _, a := range affineTypes {
		data := affineBlocks(rand.New(rand.NewPCG(24, 24)), a.typ, nil, out*in/a.typ.BlockValues(), nil)
		src := compute.Source{Name: "w", Type: a.typ, Out: out, In: in, Data: data}
		b.Run(a.typ.String(), func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				if _, err := d.Matrix(src); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(a.typ.String()+"/row", func(b *testing.B) {
			w, err := d.Matrix(src)
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(data) / out))
			for b.Loop() {
				w.(*matrix).row(row, 5)
			}
		})
	}
}
