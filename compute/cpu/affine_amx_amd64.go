//go:build amd64 && !noasm

package cpu

//lint:file-ignore U1000 The assembly uses fields that Go does not.

import "github.com/kvasir-llm/kvasir/quant"

// amx is avx512vnni with the tile products of AMX for many rows.
var amx = func() kernels {
	k := avx512vnni
	k.name, k.matAffine, k.tileRows, k.spread = "amx", matAffineAMX, tileRowsAMX, spreadTilesAMX
	k.matPairs, k.narrow, k.pairs, k.pairChunk = matPairsAMX, narrowAVX512, pairTiles, pairChunkAMX
	return k
}()

// tileRowsAMX is how many rows it takes for tiles to be faster than VNNI.
const tileRowsAMX = 8

// tileConfig is the operand of LDTILECFG.
type tileConfig struct {
	palette, _ uint8 // and the row to start from
	_          [14]uint8
	bytes      [16]uint16 // of a row of each tile
	rows       [16]uint8
}

// tiles64 are tiles of 1 KB. tilesOf are such tiles with fewer rows in all but the last, of levels.
var (
	tiles64 = tileConfig{palette: 1, bytes: [16]uint16{64, 64, 64, 64, 64, 64, 64, 64}, rows: [16]uint8{16, 16, 16, 16, 16, 16, 16, 16}}
	tilesOf = func() (of [lanes + 1]tileConfig) {
		for rows := range of {
			of[rows] = tiles64
			for tile := range 7 {
				of[rows].rows[tile] = uint8(rows)
			}
		}
		return of
	}()
)

// tileProduct is a product of rows in tiles with panels: see affine_amx_amd64.h. Distances are in bytes.
type tileProduct struct {
	dst     *float32
	rows    *byte // records of the span under way
	w, work *byte
	config  *tileConfig

	ldd, tileLdd, beside int // tileLdd is that of 16 rows, beside from the end of those to the second panel's
	rowStride            int // from one span's records to the next one's
	panels, tiles, whole int // tiles of rows, of which so many have all their rows
	spans, begun         int // left; 1 after the first
	panel, tilesLeft     int // under way
	direct               int // so many of the tiles left go to dst after the last span
	out                  *float32
	acc, toSecond        uintptr // where sums are; from there to the second panel's

	// What is unpacked meanwhile.
	unpack                  uintptr // of unpackersAMX
	supers, current, scaled uintptr // those of the pair that is unpacked, multiplied and scaled
	at                      *byte   // a section of a panel
	left, chunk, chunks     int     // panels left of the span; under way and all of the pair: 64 inputs of a panel
	layout, blocks          int     // blocks are left from the span on
	stride, section         int     // from one panel's section to the next panel's; to the panel's next one
	codesAt, supersAt       int     // in a section
	lastCodes, lastSupers   int     // in that after which no block is left
	ahead                   int     // from a panel's last section to the first after all panels
}

// unpackTypes says which of unpackersAMX takes a type, counted from 1; 0 is none.
var unpackTypes = [...]uintptr{
	quant.Q8_0: 1, quant.Q4_0: 2, quant.Q5_0: 3, quant.IQ4_NL: 4, quant.IQ4_XS: 5, quant.MXFP4: 6, quant.Q3_K: 7, quant.Q6_K: 8,
	quant.Q4_1: 9, quant.Q5_1: 10, quant.Q4_K: 11, quant.Q5_K: 12, quant.Q2_K: 13,
}

func matAffineAMX(t quant.Type, dst []float32, ldd int, x rowsQ8, w []byte, stride, panels, m int) {
	if m < tileRowsAMX || x.rowTiles == 0 || panels <= 0 || x.blocks == 0 || int(t) >= len(unpackTypes) || unpackTypes[t] == 0 {
		matAffineVNNI(t, dst, ldd, x, w, stride, panels, m)
		return
	}
	_ = dst[(m-1)*ldd+panels*lanes-1]
	_ = w[(panels-1)*stride+affinePanels[t].bytes(x.blocks)-1]
	for p := 0; p < panels; p += groupPanels {
		for i := 0; i < m; i += maxRowChunk {
			n := min(panels-p, groupPanels)
			matTiles(t, dst[i*ldd+p*lanes:], ldd, x.fromTile(i, x.work), w[p*stride:], stride, n, min(m-i, maxRowChunk))
		}
	}
}

// matTiles multiplies at most maxRowChunk rows with at most groupPanels panels.
func matTiles(t quant.Type, dst []float32, ldd int, x rowsQ8, w []byte, stride, panels, m int) {
	a, spans, tiles := &affinePanels[t], x.spans(), (m+lanes-1)/lanes
	_, scales, _, last := a.section(w, spans-1, x.blocks)
	p := tileProduct{
		dst: &dst[0], rows: &x.tiles[0], w: &w[0], work: &x.work[:workBytes][0], config: &tiles64,
		ldd: ldd * 4, tileLdd: ldd * 4 * lanes, beside: lanes*4 - ldd*4*lanes, rowStride: x.rowTiles * rowTileBytes,
		panels: panels, tiles: tiles, tilesLeft: tiles, whole: m / lanes, spans: spans, out: &dst[0],
		unpack: unpackTypes[t] - 1, at: &w[0], left: panels, chunks: 4 * min(panels, 2), layout: int(a.layout), blocks: x.blocks,
		stride: stride, section: a.sectionBytes(sectionBlocks), codesAt: a.headBytes(sectionBlocks), lastCodes: a.headBytes(last),
	}
	p.supersAt, p.lastSupers = a.pairs(sectionBlocks)*a.scaleBytes(), len(scales)
	p.ahead = panels*stride - (spans-1)*p.section
	if panels > 1 {
		p.direct = p.whole
	}
	if m < lanes {
		p.config = &tilesOf[m]
	}
	_ = x.tiles[((spans-1)*x.rowTiles+tiles)*rowTileBytes-1]
	switch {
	case !a.hasMins():
		tilesAMX(&p)
	case a.Group == 32:
		tilesMins32AMX(&p)
	default:
		tilesMins16AMX(&p)
	}
	acc := view[float32](x.work[tileWork:workBytes])
	for n := range panels {
		first := p.whole * lanes
		if n|1 >= panels {
			first = 0
		}
		for i := first; i < m; i++ {
			job := (n/2*tiles+i/lanes)*2 + n%2
			copy(dst[i*ldd+n*lanes:][:lanes], acc[(job*lanes+i%lanes)*lanes:])
		}
	}
}

// spreadTilesAMX copies row i to its tile.
func spreadTilesAMX(x *rowsQ8, i int) {
	if x.blocks > 0 {
		q, sums := x.q[i*x.ld:][:x.blocks*32], x.sums[i*x.lds:][:x.spans()]
		to := x.tiles[i/lanes*rowTileBytes:]
		_ = to[(len(sums)-1)*x.rowTiles*rowTileBytes+rowTileBytes-1]
		spreadAMX(&to[0], x.rowTiles*rowTileBytes, i%lanes, &q[0], &sums[0], x.blocks)
	}
}

//go:noescape
func tilesAMX(p *tileProduct)

//go:noescape
func tilesMins32AMX(p *tileProduct)

//go:noescape
func tilesMins16AMX(p *tileProduct)

// unpackSpanAMX writes the levels and m of up to 8 blocks, with one of unpackersAMX.
//
//go:noescape
func unpackSpanAMX(levels, mins, codes, scales *byte, blocks, unpack int)

//go:noescape
func spreadAMX(to *byte, distance, lane int, q *int8, sums *spanSums, blocks int)

//go:noescape
func roofTileAMX(n int, config *tileConfig)
