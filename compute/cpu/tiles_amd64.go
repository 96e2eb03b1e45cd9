//go:build amd64 && !noasm

package cpu

import "unsafe"

// floatTile adds, for each of rows rows and panels panels, the chain over k of x·w to dst. ldd, ldx and stride are in
// bytes. rows is at least 1 and at most the tile's limit; panels and k are at least 1.
type floatTile func(dst *float32, ldd int, x *float32, ldx int, w unsafe.Pointer, stride, rows, panels, k int)

// quantTile sets, for each of rows rows and one panel, the chain over blocks blocks of sum·(d·scale) in dst. q, d and s
// are the rows' values, scales and sums (rowsQ8); ldq and ldb, the distances of rows in q and in d and s, and ldd are in
// bytes. scales are the panel's, rows is at least 1 and at most the tile's limit, blocks is at least 1.
type quantTile func(dst *float32, ldd int, q *int8, ldq int, d *float32, s *int32, ldb int, w, scales *byte, rows, blocks int)

// blockK is how many k of two panels are used for all rows before the next ones: they stay in the second cache.
const blockK = 512

// groupRows returns the most rows of a group when m rows are cut into as few groups as possible, at most limit each, of
// about the same size.
func groupRows(m, limit int) int {
	groups := (m + limit - 1) / limit
	return (m + groups - 1) / groups
}

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
	rows := groupRows(m, limit)
	for p := 0; p < panels; p += 2 {
		for at := 0; at < k; at += blockK {
			part := unsafe.Pointer(&w[p*stride+at*lanes])
			for i := 0; i < m; i += rows {
				tile(&dst[i*ldd+p*lanes], ldd*4, &x[i*ldx+at], ldx*4, part, stride*size, min(rows, m-i), min(2, panels-p), min(blockK, k-at))
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
	rows := groupRows(m, limit)
	for p := range panels {
		panel := w[p*stride:]
		for i := 0; i < m; i += rows {
			b := i * x.blocks
			tile(&dst[i*ldd+p*lanes], ldd*4, &x.q[i*x.ld], x.ld, &x.d[b], &x.s[b], x.blocks*4,
				&panel[0], &panel[x.blocks*size], min(rows, m-i), x.blocks)
		}
	}
}
