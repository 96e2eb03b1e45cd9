package cpu

import (
	"math"

	"github.com/kvasir-llm/kvasir/quant"
)

// portable is the implementation in plain Go that defines what all others compute.
var portable = kernels{
	name:       "portable",
	matF32:     matF32,
	matF16:     matF16,
	matBF16:    matBF16,
	matQ8:      matQ8,
	matQ4:      matQ4,
	matAffine:  matAffine,
	quantize:   quantize,
	sumSquares: sumSquares,
	scaleGain:  scaleGain,
	softmax:    softmax,
	silu:       silu,
	addScaled:  addScaled,
	rotate:     rotate,
}

func matF32(dst []float32, ldd int, x []float32, ldx int, w []float32, stride, panels, m, k int, accumulate bool) {
	for p := range panels {
		panel := w[p*stride:]
		for i := range m {
			row, out := x[i*ldx:], dst[i*ldd+p*lanes:][:lanes]
			var acc [lanes]float32
			if accumulate {
				acc = [lanes]float32(out)
			}
			for kk := range k {
				v := panel[kk*lanes:][:lanes]
				for j := range acc {
					acc[j] = fma(row[kk], v[j], acc[j])
				}
			}
			copy(out, acc[:])
		}
	}
}

func matF16(dst []float32, ldd int, x []float32, ldx int, w []uint16, stride, panels, m, k int) {
	mat16(dst, ldd, x, ldx, w, stride, panels, m, k, quant.F16ToF32)
}

func matBF16(dst []float32, ldd int, x []float32, ldx int, w []uint16, stride, panels, m, k int) {
	mat16(dst, ldd, x, ldx, w, stride, panels, m, k, quant.BF16ToF32)
}

// mat16 widens one column of a panel at a time and uses it for all rows.
func mat16(dst []float32, ldd int, x []float32, ldx int, w []uint16, stride, panels, m, k int, widen func(uint16) float32) {
	for p := range panels {
		for i := range m {
			clear(dst[i*ldd+p*lanes:][:lanes])
		}
		for kk := range k {
			var v [lanes]float32
			for j := range v {
				v[j] = widen(w[p*stride+kk*lanes+j])
			}
			matF32(dst[p*lanes:], ldd, x[kk:], ldx, v[:], lanes, 1, m, 1, true)
		}
	}
}

// A panel of Q8_0 is [blocks][8][16][4] bytes: the 32 values of a block in 8 groups of 4, for each group the 4 bytes of
// each of the 16 outputs, value + 128; then the scales, [blocks][16] float16.
const groupsQ8, blockQ8 = 8, 8 * lanes * 4

func matQ8(dst []float32, ldd int, x rowsQ8, w []byte, stride, panels, m int) {
	for p := range panels {
		panel := w[p*stride:]
		scales := panel[x.blocks*blockQ8:]
		for i := range m {
			var acc [lanes]float32
			for b := range x.blocks {
				q := x.q[i*x.ld+b*32:][:32]
				for j := range acc {
					sum := int32(0)
					for g := range groupsQ8 {
						v := panel[b*blockQ8+g*64+j*4:][:4]
						for t := range v {
							sum += (int32(v[t]) - 128) * int32(q[g*4+t])
						}
					}
					acc[j] = fma(float32(sum), x.d[i*x.blocks+b]*scaleAt(scales, b, j), acc[j])
				}
			}
			copy(dst[i*ldd+p*lanes:][:lanes], acc[:])
		}
	}
}

// A panel of Q4_0 is [blocks][4][16][4] bytes: byte t of group g of an output holds value 4g+t + 8 of the block in its low
// half and value 16+4g+t + 8 in its high half; then the scales, [blocks][16] float16.
const groupsQ4, blockQ4 = 4, 4 * lanes * 4

func matQ4(dst []float32, ldd int, x rowsQ8, w []byte, stride, panels, m int) {
	for p := range panels {
		panel := w[p*stride:]
		scales := panel[x.blocks*blockQ4:]
		for i := range m {
			var acc [lanes]float32
			for b := range x.blocks {
				q := x.q[i*x.ld+b*32:][:32]
				for j := range acc {
					sum := int32(0)
					for g := range groupsQ4 {
						v := panel[b*blockQ4+g*64+j*4:][:4]
						for t := range v {
							sum += (int32(v[t]&15)-8)*int32(q[g*4+t]) + (int32(v[t]>>4)-8)*int32(q[16+g*4+t])
						}
					}
					acc[j] = fma(float32(sum), x.d[i*x.blocks+b]*scaleAt(scales, b, j), acc[j])
				}
			}
			copy(dst[i*ldd+p*lanes:][:lanes], acc[:])
		}
	}
}

// scaleAt returns the scale of block b of output j of a panel.
func scaleAt(scales []byte, b, j int) float32 {
	o := (b*lanes + j) * 2
	return quant.F16ToF32(uint16(scales[o]) | uint16(scales[o+1])<<8)
}

func quantize(q []int8, d []float32, s []int32, x []float32) {
	for b := range d {
		v := x[b*32:][:32]
		most := float32(0)
		for _, f := range v {
			most = max(most, float32(math.Abs(float64(f))))
		}
		d[b] = most / 127
		inv := 127 / most
		if math.IsInf(float64(inv), 0) { // nothing in the block, or nothing that counts
			inv = 0
		}
		sum := int32(0)
		for i, f := range v {
			n := int32(math.RoundToEven(float64(f * inv)))
			q[b*32+i] = int8(n)
			sum += n
		}
		s[b] = sum
	}
}
