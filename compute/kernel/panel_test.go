package kernel

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/kvasir-llm/kvasir/quant"
)

// randomPanel returns a KV panel of n tiles of finite numbers.
func randomPanel(r *rand.Rand, t quant.Type, n int) []byte {
	panel := AlignedTo(KVBytes(t, n), 64)
	put := func(b []byte, one func(*rand.Rand) uint16) {
		for i := 0; i < len(b); i += 2 {
			binary.LittleEndian.PutUint16(b[i:], one(r))
		}
	}
	switch t {
	case quant.F32:
		copy(panel, bytesOf(numbers(r, n*TileValues)))
	case quant.F16:
		put(panel, half)
	case quant.BF16:
		put(panel, func(r *rand.Rand) uint16 { return quant.F32ToBF16(number(r)) })
	default:
		for i := range panel {
			panel[i] = byte(r.Uint32())
		}
		for at := 0; at < len(panel); at += KVBytes(t, 2) {
			put(panel[at:][:scaleBytes], half)
		}
	}
	return panel
}

func TestWiden(t *testing.T) {
	each(t, func(t *testing.T, k *Table, f *fences) {
		r := rand.New(rand.NewPCG(13, 13))
		for _, typ := range KVTypes {
			for n := 2; n <= 36; n += 2 {
				for _, values := range []bool{false, true} {
					src, ldd := randomPanel(r, typ, n), TileValues*(1+n%3)
					want := make([]float32, span(n, TileValues, ldd))
					for i := range want {
						want[i] = guard
					}
					got := place(f.dst, want)
					portable.Widen(typ, want, ldd, src, n, values)
					k.Widen(typ, got, ldd, place(f.w, src), n, values)
					same(t, fmt.Sprintf("%v, %d tiles, values %v", typ, n, values), got, want)
				}
			}
		}
	})
}

func TestTranspose(t *testing.T) {
	each(t, func(t *testing.T, k *Table, f *fences) {
		r := rand.New(rand.NewPCG(14, 14))
		for n := 1; n < 5; n++ {
			src, ldd := numbers(r, n*TileValues), TileValues*n
			want := make([]float32, span(n, TileValues, ldd))
			got := place(f.dst, want)
			portable.Transpose(want, ldd, src, n)
			k.Transpose(got, ldd, place(f.x, src), n)
			same(t, fmt.Sprint(n, " tiles"), got, want)
			for i := range TileValues {
				if v := got[i%Lanes*Lanes+i/Lanes]; math.Float32bits(v) != math.Float32bits(src[i]) {
					t.Fatalf("value %d is not turned", i)
				}
			}
		}
	})
}

// kvError bounds the error of a stored number: relative to itself for floats, to the greatest of its group else.
var kvError = map[quant.Type]float64{quant.F32: 0, quant.F16: 0x1p-11, quant.BF16: 0x1p-8,
	quant.Q8_0: 0.5/127 + 0x1p-11, quant.Q4_0: 1.0/8 + 0x1p-11}

// TestPut stores tokens in panels of every type, in random order, and reads them back.
func TestPut(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 15))
	for _, typ := range KVTypes {
		for _, dims := range []int{1, 16, 31, 32, 40, 80, 128} {
			for _, values := range []bool{false, true} {
				n := KVTiles(typ, dims)
				panel, wide := AlignedTo(KVBytes(typ, n), 64), make([]float32, n*TileValues)
				tokens := make([][]float32, Lanes)
				var row KVRow
				for _, j := range r.Perm(Lanes) {
					tokens[j] = make([]float32, dims)
					for i := range tokens[j] {
						tokens[j][i] = float32(r.NormFloat64()) * []float32{0, 1, 1e-2, 100}[j%4]
					}
					row.Put(&portable, typ, panel, j, tokens[j], values)
				}
				widen(typ, wide, TileValues, panel, n, values)
				for j, x := range tokens {
					for i := range n * Lanes {
						got, want, scale := wide[i*Lanes+j], float32(0), 0.0
						if values {
							got = wide[i/Lanes*TileValues+j*Lanes+i%Lanes]
						}
						if i < dims {
							want, scale = x[i], math.Abs(float64(x[i]))
						}
						if Quantised(typ) {
							for _, v := range x[min(i&^31, dims):min(i&^31+32, dims)] {
								scale = max(scale, math.Abs(float64(v)))
							}
						}
						if err := math.Abs(float64(got - want)); err > scale*kvError[typ]+0x1p-24*8 {
							t.Fatalf("%v, %d dimensions, values %v: token %d, dimension %d is %g, want %g", typ,
								dims, values, j, i, got, want)
						}
					}
				}
			}
		}
	}
}
