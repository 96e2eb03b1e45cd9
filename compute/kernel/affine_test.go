package kernel

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kvasir-llm/kvasir/quant"
)

// affineType is a type that has panels, with the places of the scales in its blocks.
type affineType struct {
	typ               quant.Type
	halves, exponents []int // float16, and bytes that are the exponent of a power of two
}

var affineTypes = func() (types []affineType) {
	for _, t := range AffineTypes() {
		halves, exponents := scalesIn(t)
		types = append(types, affineType{t, halves, exponents})
	}
	return types
}()

// scalesIn finds the scales in a type's blocks: where the number 1 makes the scale or the minimum of a block of zeros
// 1.
func scalesIn(t quant.Type) (halves, exponents []int) {
	a, ok := quant.AffineOf(t)
	if !ok {
		return nil, nil
	}
	isOne := func(block []byte) bool {
		var p quant.Parts
		a.Split(&p, block)
		return p.Scale == 1 || p.Min == 1 || p.Min == -1 || p.Scale == 0.5
	}
	for at := range t.BlockBytes() - 1 {
		block := make([]byte, t.BlockBytes())
		block[at] = 127
		if isOne(block) {
			exponents = append(exponents, at)
		}
		binary.LittleEndian.PutUint16(block[at:], quant.F32ToF16(1))
		if isOne(block) {
			halves = append(halves, at)
		}
	}
	return halves, exponents
}

// affineBlocks returns random blocks of a type: any codes, scales and zero points, float16 of the given kind,
// exponents near 0.
func affineBlocks(r *rand.Rand, a affineType, blocks int, scale func() uint16) []byte {
	t := a.typ
	size := t.BlockBytes()
	data := make([]byte, blocks*size)
	for i := range data {
		data[i] = byte(r.Uint32())
		if extremes := [...]byte{0, 255}; r.IntN(8) == 0 {
			data[i] = extremes[i%2]
		}
	}
	for b := range blocks {
		for _, at := range a.halves {
			binary.LittleEndian.PutUint16(data[b*size+at:], scale())
		}
		for _, at := range a.exponents {
			data[b*size+at] = byte(118 + r.IntN(10))
		}
		if a, _ := quant.AffineOf(t); a.Zeros {
			binary.LittleEndian.PutUint32(data[b*size:], math.Float32bits(float32(r.NormFloat64())))
		}
	}
	return data
}

// TestAffineTypes requires panels for every affine type of quant, and scales that the tests can set.
func TestAffineTypes(t *testing.T) {
	for typ := range quant.Type(255) {
		if a, ok := quant.AffineOf(typ); ok != IsAffine(typ) {
			t.Errorf("%v comes apart into whole numbers: %v; has panels: %v", typ, ok, !ok)
		} else if halves, exponents := scalesIn(typ); ok && !a.Zeros && len(halves)+len(exponents) == 0 {
			t.Errorf("%v: no scales found in its blocks", typ)
		}
	}
	for typ, want := range map[quant.Type][]int{quant.Q8_0: {0}, quant.Q5_1: {0, 2}, quant.Q2_K: {80, 82},
		quant.Q3_K: {108}, quant.Q6_K: {208}} {
		if halves, exponents := scalesIn(typ); !slices.Equal(halves, want) || len(exponents) > 0 {
			t.Errorf("%v: scales at %v and exponents at %v, want %v and none", typ, halves, exponents, want)
		}
	}
}

// wholeScales reports whether a type's scales are rounded when it is packed.
func wholeScales(t quant.Type) bool {
	l := affinePanels[t].layout
	return l == uint8s || l == int12s || l == int12Mins || t == quant.MXFP4
}

// TestAffineRow packs weights of every affine type and expects their rows as quant decodes them: bit for bit, or,
// where scales become whole numbers, within what rounding the scale of a group to a share of the greatest of its span
// explains.
func TestAffineRow(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 21))
	for _, a := range affineTypes {
		for _, in := range []int{a.typ.BlockValues(), 3 * a.typ.BlockValues()} {
			const out = 19
			data := affineBlocks(r, a, out*in/a.typ.BlockValues(), func() uint16 { return half(r) })
			stride := PanelBytes(a.typ, in)
			panels, rows := make([]byte, (out+Lanes-1)/Lanes*stride), len(data)/out
			for p := 0; p < out; p += Lanes {
				var of [][]byte
				for n := p; n < min(p+Lanes, out); n++ {
					of = append(of, data[n*rows:][:rows])
				}
				new(Packer).Pack(panels[p/Lanes*stride:][:stride], of, a.typ)
			}
			want, got := make([]float32, out*in), make([]float32, in)
			if err := quant.Decode(want, data, a.typ); err != nil {
				t.Fatal(err)
			}
			for n := range out {
				what, panel := fmt.Sprintf("%v [%d, %d]: row %d", a.typ, out, in, n), panels[n/Lanes*stride:][:stride]
				AffineRow(a.typ, got, panel, n%Lanes)
				if !wholeScales(a.typ) {
					same(t, what, got, want[n*in:][:in])
					continue
				}
				p := &affinePanels[a.typ]
				for k, v := range want[n*in:][:in] {
					_, _, superScales, _ := p.section(panel, k/SpanValues, in/32)
					d, least, _ := p.superScale(superScales, 0, n%Lanes)
					most := 64.5*float64(d) + 0.5*float64(least)
					if p.hasMins() { // the middle level is kept
						most = 0.5001*(float64(p.middle()*d)+float64(least)) + 1e-6*math.Abs(float64(v))
					}
					if at := (n*in + k) / 32 * 34; p.layout == uint8s &&
						data[at+1]&0x80 != 0 && data[at+2+k%32] == 0x80 {
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

// TestAffineSums packs rows whose levels are the largest there are, beside others, and expects that no sum of weights
// can make one of a product leave 32 bits.
func TestAffineSums(t *testing.T) {
	r := rand.New(rand.NewPCG(27, 27))
	for _, a := range affineTypes {
		p := &affinePanels[a.typ]
		if p.layout == zeroPoints {
			continue
		}
		blocks := 2 * SpanValues / 32
		for n := range 64 {
			row := affineBlocks(r, a, blocks*32/a.typ.BlockValues(),
				func() uint16 { return quant.F32ToF16(1 + float32(n%4)*r.Float32()) })
			for i := range row {
				if at := i % a.typ.BlockBytes(); at > 1 && wholeScales(a.typ) && n < 16 {
					row[i] = [...]byte{0, 128, 255, 127}[n/4]
				}
			}
			panel := make([]byte, p.bytes(blocks))
			new(Packer).Pack(panel, [][]byte{row}, a.typ)
			for span := range 2 {
				codes, scales, superScales, _ := p.section(panel, span, blocks)
				sum := 0
				for b := range 8 {
					var levels [32]uint8
					p.levels(&levels, codes[b*p.codeBytes():], 0)
					_, _, offset := p.superScale(superScales, 0, 0)
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
					t.Errorf("%v: row %d, span %d: weights add up to %d, more than %d", a.typ, n, span, sum,
						mostOfWeights)
				}
			}
		}
	}
}

// TestBlockSizes compares the sums of levels, which are added up several at a time, with sums one by one: of blocks
// of one code, and of any.
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
func affineWeights(r *rand.Rand, typ affineType, panels, blocks, stride int) []byte {
	a := &affinePanels[typ.typ]
	w := make([]byte, span(panels, a.bytes(blocks), stride))
	perRow := blocks * 32 / typ.typ.BlockValues()
	for p := range panels {
		var rows [Lanes][]byte
		for j := range rows {
			rows[j] = affineBlocks(r, typ, perRow, func() uint16 { return half(r) })
		}
		new(Packer).Pack(w[p*stride:][:a.bytes(blocks)], rows[:], typ.typ)
	}
	return w
}

func TestMatAffine(t *testing.T) {
	each(t, func(t *testing.T, k *Table, f *fences) {
		r := rand.New(rand.NewPCG(23, 23))
		for _, a := range affineTypes {
			perBlock, n := a.typ.BlockValues()/32, 0 // blocks of 32
			for _, m := range []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 17, 48, 50, 65} {
				for panels := 1; panels <= 9; panels += 2 {
					s := matShape{m: m, k: (1 + n%(1+20/perBlock)) * perBlock, panels: panels, gap: n % 3}
					n++
					x := quantRows(r, s.m, s.k, s.gap)
					stride := affinePanels[a.typ].bytes(s.k) + s.gap*64
					dst, w := s.dst(r), affineWeights(r, a, s.panels, s.k, stride)
					got := place(f.dst, dst)
					fenced := x
					fenced.Q, fenced.Sums = place(f.x, x.Q), place(f.d, x.Sums)
					k.MatAffine(AffineProduct{a.typ, got[lead:], s.ldd(), fenced, place(f.w, w), stride, s.panels, s.m})
					portable.MatAffine(AffineProduct{a.typ, dst[lead:], s.ldd(), x, w, stride, s.panels, s.m})
					same(t, fmt.Sprint(a.typ, " ", s), got, dst)
				}
			}
		}
	})
}

// TestMatAffineExtremes multiplies rows of 127 and -127, with the greatest shares, with codes that are all the least
// or all the greatest.
func TestMatAffineExtremes(t *testing.T) {
	each(t, func(t *testing.T, k *Table, f *fences) {
		r := rand.New(rand.NewPCG(25, 25))
		const m, blocks, panels = 13, 24, 5
		x := quantRows(r, m, blocks, 1)
		for i := range m {
			row := x.From(i)
			for n := range x.Spans() {
				q := row.Q[n*SpanValues : min((n+1)*SpanValues, blocks*32)]
				for v := range q {
					q[v] = int8(127 - 254*((i+n)%2))
				}
				for g := range row.Sums[n].Shares {
					row.Sums[n].Shares[g] = greatestShare
				}
				row.Sums[n].sumUp(q)
			}
		}
		x.spread(m)
		for _, a := range affineTypes {
			panel := &affinePanels[a.typ]
			stride := panel.bytes(blocks)
			w := affineWeights(r, a, panels, blocks, stride)
			for p := range panels {
				for n := range blocks / sectionBlocks {
					codes, _, _, _ := panel.section(w[p*stride:], n, blocks)
					for i := range codes {
						codes[i] = byte(255 * (p % 2))
					}
				}
			}
			dst := make([]float32, m*panels*Lanes)
			got := place(f.dst, dst)
			k.MatAffine(AffineProduct{a.typ, got, panels * Lanes, x, w, stride, panels, m})
			portable.MatAffine(AffineProduct{a.typ, dst, panels * Lanes, x, w, stride, panels, m})
			same(t, a.typ.String(), got, dst)
		}
	})
}

// TestMatAffineNoNumbers multiplies rows of which every second one has infinities and NaN. They must do no harm to
// the others, and their shares are shares, by which kernels find what they multiply with.
func TestMatAffineNoNumbers(t *testing.T) {
	each(t, func(t *testing.T, k *Table, f *fences) {
		r := rand.New(rand.NewPCG(26, 26))
		const m, blocks, panels = 17, 24, 5
		x := emptyRows(m, blocks, 0)
		for i := range m {
			values, row := numbers(r, blocks*32), x.From(i)
			for n := range 20 * (i % 2) {
				values[r.IntN(len(values))] = float32([]float64{math.Inf(1), math.Inf(-1), math.NaN()}[n%3])
			}
			k.Quantize(row.Q[:blocks*32], row.Sums[:x.Spans()], values, SpanValues)
			for g := range blocks {
				if share := row.Sums[g/8].Shares[g%8]; share < 1 || share > greatestShare {
					t.Errorf("row %d: group %d has a share of %d, want 1 to %d", i, g, share, greatestShare)
				}
			}
		}
		x.spread(m)
		for _, a := range affineTypes {
			stride := affinePanels[a.typ].bytes(blocks)
			dst, w := make([]float32, m*panels*Lanes), affineWeights(r, a, panels, blocks, stride)
			got := place(f.dst, dst)
			k.MatAffine(AffineProduct{a.typ, got, panels * Lanes, x, w, stride, panels, m})
			portable.MatAffine(AffineProduct{a.typ, dst, panels * Lanes, x, w, stride, panels, m})
			for i := 0; i < m; i += 2 {
				same(t, fmt.Sprint(a.typ, " row ", i), got[i*panels*Lanes:][:panels*Lanes],
					dst[i*panels*Lanes:][:panels*Lanes])
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
			row := x.From(i)
			portable.Quantize(row.Q[:n*32], row.Sums[:x.Spans()], values[i*n*32:][:n*32], SpanValues)
		}
		x.spread(rows)
		stride := affinePanels[a.typ].bytes(n)
		w := src.bytes(cols * stride) // of any bits: a scale may be no number
		panel := &affinePanels[a.typ]
		most := int8(panel.mostS / 16) // of the upper 8 bits of S
		for p := range cols {          // but m has 6 bits in all files, and S times a level less the offset 16
			for section := range (n + sectionBlocks - 1) / sectionBlocks {
				_, scales, _, _ := panel.section(w[p*stride:], section, n)
				for i := range scales {
					switch {
					case panel.layout == byteMins && i%64 >= 32:
						scales[i] &= 63
					case (panel.layout == int12s || panel.layout == int12Mins) && i%panel.scaleBytes() < 32:
						scales[i] = byte(int8(scales[i]) % most)
					}
				}
			}
		}
		dst := make([]float32, rows*cols*Lanes)
		want := append([]float32(nil), dst...)
		portable.MatAffine(AffineProduct{a.typ, want, cols * Lanes, x, w, stride, cols, rows})
		x.Q, x.Sums, w = place(fences.x, x.Q), place(fences.d, x.Sums), place(fences.w, w)
		for _, k := range nativeKernels() {
			got := place(fences.dst, dst)
			k.MatAffine(AffineProduct{a.typ, got, cols * Lanes, x, w, stride, cols, rows})
			same(t, fmt.Sprintf("%s: %v: %d rows, %d blocks, %d panels", k.Name, a.typ, rows, n, cols), got, want)
		}
	})
}
