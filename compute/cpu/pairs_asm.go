//go:build (amd64 || arm64) && !noasm

package cpu

// pairTile adds, for each of rows rows and panels panels, the products of blocks blocks to dst. ldd, ldx and stride are in bytes. rows is
// at least 1 and at most the tile's limit; panels and blocks are at least 1.
type pairTile func(dst *float32, ldd int, x *float32, ldx int, w *uint32, stride, rows, panels, blocks int)

// pairBlocks is how many blocks of two panels are used for all rows before the next ones: they stay in the first cache.
const pairBlocks = 16

// tiledPairs runs a matPairs in tiles of at most limit rows.
func tiledPairs(tile pairTile, limit int, dst []float32, ldd int, x rows16, w []uint32, stride, panels, m int) {
	if m <= 0 || panels <= 0 {
		return
	}
	_ = dst[(m-1)*ldd+panels*lanes-1]
	for i := range m {
		clear(dst[i*ldd:][:panels*lanes])
	}
	if x.blocks <= 0 {
		return
	}
	_, _ = x.x[(m-1)*x.ld+x.blocks*32-1], w[(panels-1)*stride+x.blocks*blockPairs*lanes-1]
	if m <= limit {
		tile(&dst[0], ldd*4, &x.x[0], x.ld*4, &w[0], stride*4, m, panels, x.blocks)
		return
	}
	groups := (m + limit - 1) / limit
	for p := 0; p < panels; p += 2 {
		for at := 0; at < x.blocks; at += pairBlocks {
			part := &w[p*stride+at*blockPairs*lanes]
			for g := range groups { // of about the same size
				i, end := m*g/groups, m*(g+1)/groups
				tile(&dst[i*ldd+p*lanes], ldd*4, &x.x[i*x.ld+at*32], x.ld*4, part, stride*4, end-i, min(2, panels-p), min(pairBlocks, x.blocks-at))
			}
		}
	}
}
