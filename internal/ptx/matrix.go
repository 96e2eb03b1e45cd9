package ptx

import (
	"encoding/binary"
	"math/bits"
)

// loadMatrix compiles ldmatrix.x4 {d0, .., d3}, [a]. Lane 8m+r has the address of row r of matrix m: 8 values of 16
// bits. Of matrix m, lane 4r+c gets the values 2c and 2c+1 of row r into dm; transposed, those of column r.
func loadMatrix(transposed bool) builder {
	return func(c *compiler, _ *statement) action {
		ops := c.operands(2)
		d, at := c.regs(ops[0], 4), c.address(ops[1], shared)
		return func(w *warp, mask uint32) result {
			if !w.together(everyone, mask) {
				return again
			}
			if mask != everyone {
				return w.fail(bits.TrailingZeros32(mask), "only the lanes %#x take part", mask)
			}
			var rows [32][16]byte
			for lane := range rows {
				p := w.at(shared, nil, lane, w.regs[at.base][lane]+at.offset, 16)
				if p == nil {
					return fault
				}
				copy(rows[lane][:], p)
			}
			for m, r := range d {
				to := &w.regs[r]
				for lane := range to {
					row, column := lane/4, lane%4*2
					if !transposed {
						to[lane] = uint64(binary.LittleEndian.Uint32(rows[8*m+row][2*column:]))
						continue
					}
					low := binary.LittleEndian.Uint16(rows[8*m+column][2*row:])
					high := binary.LittleEndian.Uint16(rows[8*m+column+1][2*row:])
					to[lane] = uint64(low) | uint64(high)<<16
				}
			}
			return next
		}
	}
}

// multiply compiles mma.m16n8k16 d, a, b, c: d = a*b + c of matrices whose rows and columns are spread over the lanes.
// With g = lane/4 and t = lane%4, a register of a has the columns 2t and 2t+1 of row g: the second one of row g+8, the
// third one those of columns 8 further, the last one both. A register of b has the rows 2t and 2t+1 of column g, the
// second one those 8 further. c and d have the columns 2t and 2t+1 of row g, then of row g+8.
//
// The products of a row and a column are added in order, in float64, then to c, and the sum is rounded to float32: the
// order in which a GPU adds is not known.
func multiply(unpack func(to *[32][2]float64, from *lanes)) builder {
	return func(co *compiler, _ *statement) action {
		ops := co.operands(4)
		d, a, b, c := co.regs(ops[0], 4), co.regs(ops[1], 4), co.regs(ops[2], 2), co.regs(ops[3], 4)
		return func(w *warp, mask uint32) result {
			if !w.together(everyone, mask) {
				return again
			}
			if mask != everyone {
				return w.fail(bits.TrailingZeros32(mask), "only the lanes %#x take part", mask)
			}
			var rows [16][16]float64
			var columns [16][8]float64 // of b, by rows
			var pairs [32][2]float64
			for i, r := range a {
				unpack(&pairs, &w.regs[r])
				for lane := range pairs {
					row := &rows[lane/4+i%2*8]
					at := lane%4*2 + i/2*8
					row[at], row[at+1] = pairs[lane][0], pairs[lane][1]
				}
			}
			for i, r := range b {
				unpack(&pairs, &w.regs[r])
				for lane := range pairs {
					at := lane%4*2 + i*8
					columns[at][lane/4], columns[at+1][lane/4] = pairs[lane][0], pairs[lane][1]
				}
			}
			var sums [16][8]float64
			for i := range rows {
				var s0, s1, s2, s3, s4, s5, s6, s7 float64 // apart, so that the processor adds several at a time
				for k, v := range &rows[i] {
					of := &columns[k]
					s0 += v * of[0]
					s1 += v * of[1]
					s2 += v * of[2]
					s3 += v * of[3]
					s4 += v * of[4]
					s5 += v * of[5]
					s6 += v * of[6]
					s7 += v * of[7]
				}
				sums[i] = [8]float64{s0, s1, s2, s3, s4, s5, s6, s7}
			}
			for i := range d {
				to, from := &w.regs[d[i]], &w.regs[c[i]]
				for lane := range to {
					to[lane] = bits32(float32(float64(f32(from[lane])) + sums[lane/4+i/2*8][lane%4*2+i%2]))
				}
			}
			return next
		}
	}
}

// unpackBF16 returns the two numbers in each lane of a register.
func unpackBF16(to *[32][2]float64, from *lanes) {
	for i, v := range from {
		to[i][0], to[i][1] = float64(f32(v<<16)), float64(f32(v&0xffff0000))
	}
}

// unpackF16 returns the two numbers in each lane of a register.
func unpackF16(to *[32][2]float64, from *lanes) {
	for i, v := range from {
		to[i][0], to[i][1] = float64(f16(v&0xffff)), float64(f16(v>>16))
	}
}
