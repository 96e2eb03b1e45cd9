//go:build (amd64 || arm64) && !noasm

package kernel

import "unsafe"

// pairTile is the argument of a tile: for each of rows rows and panels panels, the products of blocks blocks are
// added to dst. Distances are in bytes. rows is at least 1 and at most the tile's limit; panels and blocks are at
// least 1. A tile may fetch to the second cache what lies ahead bytes after the weights, fetch bytes of each panel
// for a pair.
type pairTile struct {
	dst          *float32
	ldd          int
	x            unsafe.Pointer // float32, or bfloat16
	ldx          int
	w            *uint32
	stride       int
	rows, panels int
	blocks       int
	ahead, fetch int
}

const (
	pairBlockBytes = blockPairs * Lanes * 4
	pairBlocks     = 8 // of two panels that are used for all rows before the next ones: they stay in the first cache
)

// tiledPairs runs a MatPairs in tiles of at most limit rows. Row i is at x[i·p.X.Ld:].
func tiledPairs[T float32 | uint16](tile func(t pairTile), limit int, x []T, p PairProduct) {
	dst, ldd, rows, w, stride, panels, m := p.Dst, p.Ldd, p.X, p.W, p.Stride, p.Panels, p.M
	blocks, ldx := rows.Blocks, rows.Ld
	if m <= 0 || panels <= 0 {
		return
	}
	_ = dst[(m-1)*ldd+panels*Lanes-1]
	for i := range m {
		clear(dst[i*ldd:][:panels*Lanes])
	}
	if blocks <= 0 {
		return
	}
	_, _ = x[(m-1)*ldx+blocks*32-1], w[(panels-1)*stride+blocks*blockPairs*Lanes-1]
	t := pairTile{ldd: ldd * 4, ldx: ldx * int(unsafe.Sizeof(x[0])), stride: stride * 4}
	if m <= limit {
		t.dst, t.x, t.w, t.rows, t.panels, t.blocks = &dst[0], unsafe.Pointer(&x[0]), &w[0], m, panels, blocks
		t.ahead, t.fetch = 4*pairBlockBytes, pairBlockBytes/blockPairs
		tile(t)
		return
	}
	groups := (m + limit - 1) / limit
	t.fetch = (pairBlockBytes/blockPairs-1)/groups + 1 // each group fetches a part of the next blocks
	for p := 0; p < panels; p += 2 {
		for at := 0; at < blocks; at += pairBlocks {
			t.w, t.panels, t.blocks = &w[p*stride+at*blockPairs*Lanes], min(2, panels-p), min(pairBlocks, blocks-at)
			t.ahead = t.blocks * pairBlockBytes
			if at+t.blocks == blocks {
				t.ahead = 2*stride*4 - at*pairBlockBytes
			}
			for g := range groups { // of about the same size
				i, end := m*g/groups, m*(g+1)/groups
				t.dst, t.x, t.rows = &dst[i*ldd+p*Lanes], unsafe.Pointer(&x[i*ldx+at*32]), end-i
				tile(t)
				t.ahead += t.blocks * blockPairs * t.fetch
			}
		}
	}
}
