package ptx

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// put writes the bytes of a number of an operand.
func (x numbers) put(b []byte, v float32) {
	switch x {
	case numbersBF16:
		binary.LittleEndian.PutUint16(b, uint16(math.Float32bits(v)>>16))
	case numbersF16:
		bits := math.Float32bits(v)
		binary.LittleEndian.PutUint16(b, uint16(bits>>16&0x8000|(bits>>23&255-112)<<10|bits>>13&0x3ff))
	default:
		bits := math.Float32bits(v)
		b[0] = byte(bits>>24&0x80 | (bits>>23&255-120)<<3 | bits>>20&7)
	}
}

// some returns a random number of few digits, which all types have.
func some(r *rand.Rand) float32 {
	return float32(math.Ldexp(float64(8+r.IntN(8))/8, r.IntN(8)-4)) * float32(1-2*r.IntN(2))
}

func TestNumbers(t *testing.T) {
	for _, x := range []struct {
		of    numbers
		bytes uint16
		want  float64
	}{
		{numbersBF16, 0x3fc0, 1.5}, {numbersBF16, 0xff80, math.Inf(-1)}, {numbersBF16, 1, 0x1p-133},
		{numbersF16, 0x3e00, 1.5}, {numbersF16, 0x7bff, 65504}, {numbersF16, 1, 0x1p-24}, {numbersF16, 0x83ff, -0x3ffp-24}, {numbersF16, 0xfc00, math.Inf(-1)},
		{numbersF16, 0x7c01, math.NaN()}, {numbersE4M3, 0x7e, 448}, {numbersE4M3, 0x81, -0x1p-9}, {numbersE4M3, 0x38, 1}, {numbersE4M3, 0x7f, math.NaN()},
	} {
		var got [2]float64
		x.of.decode(got[:], []byte{byte(x.bytes), byte(x.bytes >> 8), 0, 0})
		if got[0] != x.want && !(math.IsNaN(got[0]) && math.IsNaN(x.want)) {
			t.Errorf("%#x of type %d is %g; want %g", x.bytes, x.of, got[0], x.want)
		}
	}
}

// layout is how a test puts a matrix into shared memory: as the tensor maps of kernels do.
type layout struct {
	swizzle int
	across  bool
}

// place writes a matrix of rows of k numbers to shared memory and returns its descriptor. Groups of 8 rows, and spans
// of a row, are at places that are no neighbours.
func (l layout) place(shared []byte, at uint32, x numbers, m []float32, k int) uint64 {
	rows, size, span := len(m)/k, x.bytes(), swizzleSpan[l.swizzle]
	if l.swizzle == 0 {
		span = 16
	}
	per := span / size
	outer, inner := rows, k
	if l.across {
		outer, inner = k, rows
	}
	group, far := uint32(span*8), uint32(span*8*(inner+per-1)/per+1024) // of one span of 8 rows, and of all
	far -= far % group
	for r := range rows {
		for i := range k {
			o, in := r, i
			if l.across {
				o, in = i, r
			}
			if o >= outer {
				panic("beyond")
			}
			to := at + uint32(o/8)*far + uint32(in/per)*group + uint32(o%8*span+in%per*size)
			x.put(within(shared, swizzled(to, l.swizzle), size), m[r*k+i])
		}
	}
	leading, stride := group, far
	if l.swizzle == 0 && l.across {
		leading, stride = far, group
	}
	return uint64(at>>4) | uint64(leading>>4)<<16 | uint64(stride>>4)<<32 | [4]uint64{0, 3, 2, 1}[l.swizzle]<<62
}

func TestOperandLayouts(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, x := range []numbers{numbersBF16, numbersF16, numbersE4M3} {
		for swizzle := range 4 {
			for _, across := range []bool{false, true} {
				if across && x == numbersE4M3 {
					continue
				}
				l := layout{swizzle, across}
				t.Run(fmt.Sprint(x, l), func(t *testing.T) {
					k := 32 / x.bytes()
					shared, m := make([]byte, 1<<16), make([]float32, 64*k)
					for i := range m {
						m[i] = some(r)
					}
					o, err := describedBy(l.place(shared, 2048, x, m, k))
					passes(t, err)
					for _, part := range [][2]int{{0, 64}, {16, 16}} {
						got := make([]float64, part[1]*k)
						passes(t, o.read(got, shared, &unfenced{}, x, part[0], k, across))
						for i, v := range got {
							if v != float64(m[part[0]*k+i]) {
								t.Fatalf("rows from %d on: number %d of row %d is %g; want %g", part[0], i%k, i/k, v, m[part[0]*k+i])
							}
						}
					}
				})
			}
		}
	}
}

func TestDescriptorMistakes(t *testing.T) {
	_, err := describedBy(1<<62 | 0x80>>4)
	fails(t, err, "begins at 0x80, within a swizzle pattern of 1024 bytes")
	_, err = describedBy(1<<62 | 1<<49)
	fails(t, err, "base offset")
	o, err := describedBy(1<<62 | 64<<32 | 0x400>>4)
	passes(t, err)
	fails(t, o.read(make([]float64, 64*16), make([]byte, 4096), &unfenced{}, numbersBF16, 0, 16, false), "leads to 0x1400; shared memory ends at 0x1400")
}

func TestMultiply(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, x := range []numbers{numbersBF16, numbersF16, numbersE4M3} {
		for _, n := range []int{8, 24, 64} {
			k, per := 32/x.bytes(), 4/x.bytes()
			a, b := make([]float32, 16*k), make([]float64, n*k)
			for i := range a {
				a[i] = some(r)
			}
			for i := range b {
				b[i] = float64(some(r))
			}
			// As the fragments of mma are defined.
			var regs [4]lanes
			for i := range regs {
				for lane := range regs[i] {
					var word [4]byte
					for j := range per {
						row, col := lane/4+8*(i%2), (lane%4+4*(i/2))*per+j
						x.put(word[j*x.bytes():], a[row*k+col])
					}
					regs[i][lane] = uint64(binary.LittleEndian.Uint32(word[:]))
				}
			}
			rows := make([]float64, 16*k)
			x.readLanes(rows, &regs, k)
			d := make([]float32, 16*n)
			for i := range d {
				d[i] = float32(r.NormFloat64())
			}
			was := append([]float32(nil), d...)
			multiplyRows(d, rows, b, n, k)
			for reg := range n / 2 {
				for lane := range 32 {
					row, col, sum := lane/4+reg%4/2*8, reg/4*8+lane%4*2+reg%2, 0.
					for i := range k {
						sum += float64(a[row*k+i]) * b[col*k+i]
					}
					if want := float32(sum + float64(was[reg*32+lane])); d[reg*32+lane] != want {
						t.Fatalf("type %d, n %d: register %d of lane %d is %g; want %g", x, n, reg, lane, d[reg*32+lane], want)
					}
				}
			}
		}
	}
}

func BenchmarkMultiply(b *testing.B) {
	rows, cols, d := make([]float64, 16*16), make([]float64, 128*16), make([]float32, 16*128)
	for b.Loop() {
		multiplyRows(d, rows, cols, 128, 16)
	}
	b.ReportMetric(float64(b.N)*16*128*16/float64(b.Elapsed().Nanoseconds()), "products/ns")
}

func BenchmarkOperand(b *testing.B) {
	shared, to := make([]byte, 1<<16), make([]float64, 128*16)
	for _, across := range []bool{false, true} {
		b.Run(fmt.Sprint("across=", across), func(b *testing.B) {
			o, err := describedBy(1<<62 | 64<<32 | 512<<16 | 64)
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if err := o.read(to, shared, &unfenced{}, numbersBF16, 0, 16, across); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
