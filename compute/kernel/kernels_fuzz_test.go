package kernel

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"testing"
)

// source deals out the bytes of a fuzz input, from the start again when they end.
type source struct {
	data []byte
	at   int
}

func (s *source) byte() byte {
	if len(s.data) == 0 {
		return 0
	}
	s.at++
	return s.data[(s.at-1)%len(s.data)]
}

func (s *source) bytes(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = s.byte()
	}
	return b
}

// floats returns n finite float32 of any bits.
func (s *source) floats(n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		bits := binary.LittleEndian.Uint32(s.bytes(4))
		if bits&0x7f800000 == 0x7f800000 {
			bits &^= 1 << 30
		}
		v[i] = math.Float32frombits(bits)
	}
	return v
}

// seed adds inputs that reach every size of tile, from constant to wild values.
func seed(f *testing.F) {
	for _, size := range []byte{0, 1, 2, 5, 9, 17} {
		f.Add([]byte("\x00\x00\x80\x3f\xcd\xcc\x4c\xbe\x00"), size, size*3, size/2)
		f.Add([]byte("\xff\x80\x7f\x00\x01\xfe\x81\x10\x33\x42\xc0"), size, size*3+1, size)
	}
}

func FuzzMatF32(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, data []byte, m, k, panels byte) {
		src := &source{data: data}
		s := matShape{int(m) % 20, int(k), int(panels) % 10, int(src.byte()) % 4, src.byte()%2 == 0}
		if s.m == 0 || s.panels == 0 {
			return
		}
		fences := newFences(t)
		x, w := src.floats(span(s.m, s.k, s.ldx())), src.floats(span(s.panels, s.k*Lanes, s.stride()))
		dst := src.floats(span(s.m, s.panels*Lanes, s.ldd()))
		want := slices.Clone(dst)
		portable.MatF32(Product[float32]{want, s.ldd(), x, s.ldx(), w, s.stride(), s.panels, s.m, s.k, s.accumulate})
		x, w = place(fences.x, x), place(fences.w, w)
		for _, k := range nativeKernels() {
			got := place(fences.dst, dst)
			k.MatF32(Product[float32]{got, s.ldd(), x, s.ldx(), w, s.stride(), s.panels, s.m, s.k, s.accumulate})
			same(t, fmt.Sprint(k.Name, " ", s), got, want)
		}
	})
}

func FuzzQuantize(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, data []byte, blocks, _, _ byte) {
		src, n := &source{data: data}, int(blocks)%16
		fences := newFences(t)
		x := src.floats(n * 32)
		span := []int{32, SpanValues}[len(data)%2]
		q, sums := make([]int8, n*32), make([]SpanSums, (n*32+span-1)/span)
		portable.Quantize(q, sums, x, span)
		for _, k := range nativeKernels() {
			gotQ, gotSums := place(fences.dst, q), place(fences.d, sums)
			clear(gotQ)
			clear(gotSums)
			k.Quantize(gotQ, gotSums, place(fences.x, x), span)
			if !slices.Equal(gotQ, q) || !slices.Equal(gotSums, sums) {
				t.Fatalf("%s: values %v, sums %v; portable gives %v, %v", k.Name, gotQ, gotSums, q, sums)
			}
		}
	})
}

func FuzzWeigh(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, data []byte, groups, masked, _ byte) {
		src, n := &source{data: data}, (1+int(groups)%16)*Lanes
		fences := newFences(t)
		s := src.floats(n)
		for i := range n * int(masked) / 256 {
			s[(i*7+1)%n] = minusInf
		}
		want, sums := slices.Clone(s), make([]float32, 2)
		portable.Weigh(sums[:1], sums[1:], want, 0, n)
		for _, k := range nativeKernels() {
			got, gotSums := place(fences.x, s), make([]float32, 2)
			k.Weigh(gotSums[:1], gotSums[1:], got, 0, n)
			same(t, k.Name+": greatest and sum", gotSums, sums)
			same(t, k.Name, got, want)
		}
	})
}
