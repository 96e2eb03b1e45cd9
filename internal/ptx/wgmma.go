package ptx

import (
	"encoding/binary"
	"fmt"
	"math"
)

// product is what a wgmma multiplies: A, 64 by k, and B, k by n.
type product struct {
	n, k           int
	numbers        numbers
	acrossA        bool // A in shared memory has rows of k instead of rows of the output
	acrossB        bool // B in shared memory has rows of k instead of columns of the output
	minusA, minusB bool
}

// numbers is the type of an operand's numbers.
type numbers int

const (
	numbersBF16 numbers = iota
	numbersF16
	numbersE4M3
)

func (x numbers) bytes() int {
	if x == numbersE4M3 {
		return 1
	}
	return 2
}

// e4m3Values are the values of all codes.
var e4m3Values = func() (v [256]float64) {
	for i := range v {
		v[i] = float64(e4m3(uint64(i)))
	}
	return v
}()

// decode makes numbers of bytes, an even number of them.
func (x numbers) decode(to []float64, from []byte) {
	switch x {
	case numbersBF16:
		for ; len(to) >= 2 && len(from) >= 4; to, from = to[2:], from[4:] {
			v := binary.LittleEndian.Uint32(from)
			to[0], to[1] = float64(math.Float32frombits(v<<16)), float64(math.Float32frombits(v&0xffff0000))
		}
	case numbersF16:
		for i := range to {
			to[i] = float64(f16(uint64(binary.LittleEndian.Uint16(from[2*i:]))))
		}
	default:
		for i := range to {
			to[i] = e4m3Values[from[i]]
		}
	}
}

// matrix is an operand in shared memory, as a descriptor describes it.
type matrix struct {
	at, leading, stride uint32 // bytes
	swizzle             int    // as in tensor maps
}

// describedBy reads a descriptor.
func describedBy(d uint64) (matrix, error) {
	o := matrix{at: uint32(d&0x3fff) << 4, leading: uint32(d>>16&0x3fff) << 4, stride: uint32(d>>32&0x3fff) << 4, swizzle: [4]int{0, 3, 2, 1}[d>>62]}
	if d>>49&7 != 0 {
		return o, fmt.Errorf("a matrix descriptor %#x with a base offset is not modelled", d)
	}
	if pattern := uint32(swizzleSpan[o.swizzle]) * 8; pattern != 0 && o.at&(pattern-1)>>7 != 0 {
		return o, fmt.Errorf("a matrix descriptor %#x begins at %#x, within a swizzle pattern of %d bytes", d, o.at, pattern)
	}
	return o, nil
}

// unit is where 16 bytes of a matrix lie: of those along k, number i of row r.
//
// Without swizzle, matrices of 8 rows of 16 bytes are whole: the next one along k comes `leading` bytes later, the
// next 8 rows `stride`. With it, 8 rows have a span of 32, 64 or 128 bytes each, all that is read along k is within a
// span, and the next 8 rows come `stride` bytes later.
func (o *matrix) unit(r, i int) uint32 {
	if o.swizzle == 0 {
		return o.at + uint32(r/8)*o.stride + uint32(r%8)*16 + uint32(i)*o.leading
	}
	return swizzled(o.at+uint32(r/8)*o.stride+uint32(r%8*swizzleSpan[o.swizzle])+uint32(i)*16, o.swizzle)
}

// unitAcross is where 16 bytes lie of a matrix that has rows of k: number i of row k.
//
// Without swizzle, the next 8 k come `leading` bytes later, the next 16 bytes of a row `stride`. With it, 8 rows have a
// span each: the next 8 rows come `stride` bytes later, the next span of a row `leading`.
func (o *matrix) unitAcross(k, i int) uint32 {
	if o.swizzle == 0 {
		return o.at + uint32(k/8)*o.leading + uint32(k%8)*16 + uint32(i)*o.stride
	}
	span := swizzleSpan[o.swizzle]
	units := span / 16
	return swizzled(o.at+uint32(k/8)*o.stride+uint32(k%8*span)+uint32(i/units)*o.leading+uint32(i%units)*16, o.swizzle)
}

// read makes rows of k numbers each of a matrix in shared memory, from number `first` on.
func (o *matrix) read(to []float64, shared []byte, u *unfenced, x numbers, first, k int, across bool) error {
	per := 16 / x.bytes() // numbers in a unit
	rows := len(to) / k
	if !across {
		for r := range rows {
			for i := range k / per {
				at := o.unit(first+r, i)
				b := within(shared, at, 16)
				if b == nil {
					return beyond(at, shared)
				}
				if err := u.check(at, 16); err != nil {
					return err
				}
				x.decode(to[r*k+i*per:][:per], b)
			}
		}
		return nil
	}
	var some [16]float64
	for kk := range k {
		for i := range rows / per {
			at := o.unitAcross(kk, first/per+i)
			b := within(shared, at, 16)
			if b == nil {
				return beyond(at, shared)
			}
			if err := u.check(at, 16); err != nil {
				return err
			}
			x.decode(some[:per], b)
			for j, v := range some[:per] {
				to[(i*per+j)*k+kk] = v
			}
		}
	}
	return nil
}

func beyond(at uint32, shared []byte) error {
	return fmt.Errorf("a matrix descriptor leads to %#x; shared memory ends at %#x", at, endOf(shared))
}

// readLanes makes a warp's 16 rows of k numbers of A of four registers: lane 4g+t has of rows g and g+8, in turn, the
// four bytes from 4t on, then those from 16+4t on.
func (x numbers) readLanes(to []float64, a *[4]lanes, k int) {
	per := 4 / x.bytes()
	var word [4]byte
	for i := range a {
		for lane, v := range a[i] {
			binary.LittleEndian.PutUint32(word[:], uint32(v))
			at := (lane/4+i%2*8)*k + (i/2*4+lane%4)*per
			x.decode(to[at:at+per], word[:])
		}
	}
}

func negate(x []float64) {
	for i := range x {
		x[i] = -x[i]
	}
}

// multiplyRows adds A·B to d, both as rows of k numbers: 16 of A, n of B. Of d, number 32·(4j+e)+4g+t is that of row
// g+8·(e/2) and column 8j+2t+e%2: what lane 4g+t has in register 4j+e. The products of a number are summed up from the
// first k on, in float64, then added to what is there and rounded once.
func multiplyRows(d []float32, a, b []float64, n, k int) {
	for j := range n / 8 {
		for g := range 8 {
			for t := 0; t < 4; t += 2 {
				var s00, s01, s02, s03, s10, s11, s12, s13 float64
				for h := 0; h < k; h += 16 {
					a0, a1 := (*[16]float64)(a[g*k+h:]), (*[16]float64)(a[(g+8)*k+h:])
					at := (8*j+2*t)*k + h
					b0, b1, b2, b3 := (*[16]float64)(b[at:]), (*[16]float64)(b[at+k:]), (*[16]float64)(b[at+2*k:]), (*[16]float64)(b[at+3*k:])
					for i := range 16 {
						x, y := a0[i], a1[i]
						s00 += float64(x * b0[i])
						s01 += float64(x * b1[i])
						s02 += float64(x * b2[i])
						s03 += float64(x * b3[i])
						s10 += float64(y * b0[i])
						s11 += float64(y * b1[i])
						s12 += float64(y * b2[i])
						s13 += float64(y * b3[i])
					}
				}
				at := 128*j + 4*g + t
				for e, s := range [4][2]float64{{s00, s02}, {s01, s03}, {s10, s12}, {s11, s13}} {
					d[at+32*e] = float32(s[0] + float64(d[at+32*e]))
					d[at+32*e+1] = float32(s[1] + float64(d[at+32*e+1]))
				}
			}
		}
	}
}
