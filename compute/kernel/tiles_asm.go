//go:build (amd64 || arm64) && !noasm

package kernel

import "unsafe"

// floatTile is the argument of a tile: for each of rows rows and panels panels, the chain over k of x·w in dst, from
// dst's own value if accumulate is set and from 0 otherwise, and the same for the rows that follow, in groups groups
// in all. Distances are in bytes. rows is at least 1 and at most the tile's limit; panels and k are at least 1.
type floatTile struct {
	dst          *float32
	ldd          int
	x            *float32
	ldx          int
	w            unsafe.Pointer
	stride       int
	rows, panels int
	k, groups    int
	accumulate   bool
}

// blockK is how many k of two panels are used for all rows before the next ones: they stay in the second cache.
const blockK = 512

// tiled runs a MatF32, MatF16 or MatBF16 in tiles of at most limit rows.
func tiled[T float32 | uint16](tile func(t floatTile), limit int, a Product[T]) {
	if a.M <= 0 || a.Panels <= 0 {
		return
	}
	_ = a.Dst[(a.M-1)*a.Ldd+a.Panels*Lanes-1]
	if a.K <= 0 {
		for i := range a.M {
			if out := a.Dst[i*a.Ldd:][:a.Panels*Lanes]; !a.Accumulate {
				clear(out)
			}
		}
		return
	}
	_, _ = a.X[(a.M-1)*a.Ldx+a.K-1], a.W[(a.Panels-1)*a.Stride+a.K*Lanes-1]
	size := int(unsafe.Sizeof(a.W[0]))
	t := floatTile{ldd: a.Ldd * 4, ldx: a.Ldx * 4, stride: a.Stride * size}
	if a.M <= limit {
		t.dst, t.x, t.w = &a.Dst[0], &a.X[0], unsafe.Pointer(&a.W[0])
		t.rows, t.panels, t.k, t.groups, t.accumulate = a.M, a.Panels, a.K, 1, a.Accumulate
		tile(t)
		return
	}
	groups := (a.M + limit - 1) / limit
	rows, more := a.M/groups, a.M%groups // the first more groups have a row more
	for p := 0; p < a.Panels; p += 2 {
		for at := 0; at < a.K; at += blockK {
			t.w, t.panels = unsafe.Pointer(&a.W[p*a.Stride+at*Lanes]), min(2, a.Panels-p)
			t.k, t.accumulate = min(blockK, a.K-at), a.Accumulate || at > 0
			if more > 0 {
				t.dst, t.x, t.rows, t.groups = &a.Dst[p*Lanes], &a.X[at], rows+1, more
				tile(t)
			}
			i := more * (rows + 1)
			t.dst, t.x, t.rows, t.groups = &a.Dst[i*a.Ldd+p*Lanes], &a.X[i*a.Ldx+at], rows, groups-more
			tile(t)
		}
	}
}
