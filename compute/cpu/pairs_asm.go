//go:build (amd64 || arm64) && !noasm

package cpu

import "unsafe"

// pairTile adds, for each of rows rows and panels panels, the products of blocks blocks to dst. ldd, ldx and stride are in bytes. rows is
// at least 1 and at most the tile's limit; panels and blocks are at least 1. A tile may fetch to the second cache what lies ahead
// bytes after the weights, fetch bytes of each panel for a pair.
type pairTile[T float32 | uint16] func(dst *float32, ldd int, x *T, ldx int, w *uint32, stride, rows, panels, blocks, ahead, fetch int)

const (
	pairBlockBytes = blockPairs * lanes * 4
	pairBlocks     = 8 // of two panels that are used for all rows before the next ones: they stay in the first cache
)

// tiledPairs runs a matPairs in tiles of at most limit rows. Row i is at x[i·ldx:].
func tiledPairs[T float32 | uint16](tile pairTile[T], limit int, dst []float32, ldd int, x []T, ldx int, w []uint32, stride, panels, blocks, m int) {
	if m <= 0 || panels <= 0 {
		return
	}
	_ = dst[(m-1)*ldd+panels*lanes-1]
	for i := range m {
		clear(dst[i*ldd:][:panels*lanes])
	}
	if blocks <= 0 {
		return
	}
	_, _ = x[(m-1)*ldx+blocks*32-1], w[(panels-1)*stride+blocks*blockPairs*lanes-1]
	size := int(unsafe.Sizeof(x[0]))
	if m <= limit {
		tile(&dst[0], ldd*4, &x[0], ldx*size, &w[0], stride*4, m, panels, blocks, 4*pairBlockBytes, pairBlockBytes/blockPairs)
		return
	}
	groups := (m + limit - 1) / limit
	fetch := (pairBlockBytes/blockPairs-1)/groups + 1 // each group fetches a part of the next blocks
	for p := 0; p < panels; p += 2 {
		for at := 0; at < blocks; at += pairBlocks {
			part, n := &w[p*stride+at*blockPairs*lanes], min(pairBlocks, blocks-at)
			ahead := n * pairBlockBytes
			if at+n == blocks {
				ahead = 2*stride*4 - at*pairBlockBytes
			}
			for g := range groups { // of about the same size
				i, end := m*g/groups, m*(g+1)/groups
				tile(&dst[i*ldd+p*lanes], ldd*4, &x[i*ldx+at*32], ldx*size, part, stride*4, end-i, min(2, panels-p), n, ahead, fetch)
				ahead += n * blockPairs * fetch
			}
		}
	}
}
