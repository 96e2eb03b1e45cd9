package loader

import "encoding/binary"

// awqRun is integers.run of AWQ, whose words are of 8 outputs: each cache line is read once for a run of 128 outputs.
// in is a multiple of 8.
func awqRun(stored []byte, out, in, first, n int) func(to []byte, row, from int) {
	const most = 128
	var codes []byte // of some rows, [rows, in/2 bytes]
	begin, end := 0, 0
	return func(to []byte, row, from int) {
		if row < begin || row >= end {
			begin = row / 8 * 8
			end = min(begin+most, (first+n+7)/8*8)
			codes = awqRows(stored, out, in, begin, end, codes)
		}
		copy(to, codes[((row-begin)*in+from)/2:])
	}
}

// awqRows brings the codes of rows from begin on, up to but not including end, to rows. Both are multiples of 8.
func awqRows(stored []byte, out, in, begin, end int, codes []byte) []byte {
	line := in / 2
	if need := (end - begin) * line; len(codes) < need {
		codes = make([]byte, need)
	}
	for k := 0; k < in; k += 8 {
		var from [8][]byte // of 8 inputs
		for i := range from {
			from[i] = stored[((k+i)*out+begin)/2:][:(end-begin)/2]
		}
		for at := 0; at < (end-begin)/2; at += 4 {
			var x [8]uint32
			for i := range x {
				x[i] = binary.LittleEndian.Uint32(from[i][at:])
			}
			transpose4(&x)
			to := codes[at*2*line+k/2:]
			for row, place := range awqOrder {
				binary.LittleEndian.PutUint32(to[row*line:], x[place])
			}
		}
	}
	return codes
}

// transpose4 swaps code j of word i, of four bits, and code i of word j.
func transpose4(x *[8]uint32) {
	for i := range 4 {
		t := (x[i]>>16 ^ x[i+4]) & 0x0000ffff
		x[i], x[i+4] = x[i]^t<<16, x[i+4]^t
	}
	for _, i := range [4]int{0, 1, 4, 5} {
		t := (x[i]>>8 ^ x[i+2]) & 0x00ff00ff
		x[i], x[i+2] = x[i]^t<<8, x[i+2]^t
	}
	for i := 0; i < 8; i += 2 {
		t := (x[i]>>4 ^ x[i+1]) & 0x0f0f0f0f
		x[i], x[i+1] = x[i]^t<<4, x[i+1]^t
	}
}
