//go:build amd64 && !noasm

package cpu

import "unsafe"

// floatTile adds, for each of rows rows and panels panels, the chain over k of x·w to dst. ldd, ldx and stride are in
// bytes. rows is at least 1 and at most the tile's limit; panels and k are at least 1.
type floatTile func(dst *float32, ldd int, x *float32, ldx int, w unsafe.Pointer, stride, rows, panels, k int)

// quantTile sets, for each of rows rows and panels panels, the chain over blocks blocks of sum·(d·scale) in dst. q, d and
// s are the rows' values, scales and sums (rowsQ8); ldd, ldq, stride and ldb, the distance of rows in d and in s, are in
// bytes. rows is at least 1 and at most the tile's limit; panels and blocks are at least 1.
type quantTile func(dst *float32, ldd int, q *int8, ldq int, d *float32, s *int32, ldb int, w *byte, stride, rows, panels, blocks int)

// blockK is how many k of two panels are used for all rows before the next ones: they stay in the second cache.
const blockK = 512

// tiled runs a matF32, matF16 or matBF16 in tiles of at most limit rows.
func tiled[T float32 | uint16](tile floatTile, limit int, dst []float32, ldd int, x []float32, ldx int, w []T, stride, panels, m, k int, accumulate bool) {
	if m <= 0 || panels <= 0 {
		return
	}
	_ = dst[(m-1)*ldd+panels*lanes-1]
	if !accumulate {
		for i := range m {
			clear(dst[i*ldd:][:panels*lanes])
		}
	}
	if k <= 0 {
		return
	}
	_, _ = x[(m-1)*ldx+k-1], w[(panels-1)*stride+k*lanes-1]
	size := int(unsafe.Sizeof(w[0]))
	if m <= limit {
		tile(&dst[0], ldd*4, &x[0], ldx*4, unsafe.Pointer(&w[0]), stride*size, m, panels, k)
		return
	}
	groups := (m + limit - 1) / limit
	for p := 0; p < panels; p += 2 {
		for at := 0; at < k; at += blockK {
			part := unsafe.Pointer(&w[p*stride+at*lanes])
			for g := range groups { // of about the same size
				i, end := m*g/groups, m*(g+1)/groups
				tile(&dst[i*ldd+p*lanes], ldd*4, &x[i*ldx+at], ldx*4, part, stride*size, end-i, min(2, panels-p), min(blockK, k-at))
			}
		}
	}
}

// tiledQuant runs a matQ8 or matQ4, whose blocks take size bytes of a panel, in tiles of at most limit rows.
func tiledQuant(tile quantTile, size, limit int, dst []float32, ldd int, x rowsQ8, w []byte, stride, panels, m int) {
	if m <= 0 || panels <= 0 {
		return
	}
	_ = dst[(m-1)*ldd+panels*lanes-1]
	if x.blocks <= 0 {
		for i := range m {
			clear(dst[i*ldd:][:panels*lanes])
		}
		return
	}
	last := (m-1)*x.blocks + x.blocks - 1
	_, _, _ = x.q[(m-1)*x.ld+x.blocks*32-1], x.d[last], x.s[last]
	_ = w[(panels-1)*stride+x.blocks*(size+lanes*2)-1]
	if m <= limit {
		tile(&dst[0], ldd*4, &x.q[0], x.ld, &x.d[0], &x.s[0], x.blocks*4, &w[0], stride, m, panels, x.blocks)
		return
	}
	groups := (m + limit - 1) / limit
	for p := 0; p < panels; p += 2 {
		for g := range groups {
			i, end := m*g/groups, m*(g+1)/groups
			b := i * x.blocks
			tile(&dst[i*ldd+p*lanes], ldd*4, &x.q[i*x.ld], x.ld, &x.d[b], &x.s[b], x.blocks*4,
				&w[p*stride], stride, end-i, min(2, panels-p), x.blocks)
		}
	}
}
