//go:build amd64 && !noasm

package cpu

//lint:file-ignore U1000 The assembly uses fields that Go does not.

import "github.com/kvasir-llm/kvasir/quant"

// amx is avx512vnni with the tile products of AMX for many rows.
var amx = func() kernels {
	k := avx512vnni
	k.name, k.matAffine, k.rowChunk, k.tileRows, k.spread = "amx", matAffineAMX, maxRowChunk, tileRowsAMX, spreadTilesAMX
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

// tiles64 are tiles of 1 KB. tilesOf are such tiles with fewer rows in those of sums and of rows.
var (
	tiles64 = tileConfig{palette: 1, bytes: [16]uint16{64, 64, 64, 64, 64, 64, 64, 64}, rows: [16]uint8{16, 16, 16, 16, 16, 16, 16, 16}}
	tilesOf = func() (of [lanes + 1]tileConfig) {
		for rows := range of {
			of[rows] = tiles64
			for tile := range 6 {
				of[rows].rows[tile] = uint8(rows)
			}
		}
		return of
	}()
)

// tileProduct is a product of rows in tiles with panels: see affine_amx_amd64.h. Distances are in bytes.
type tileProduct struct {
	dst                               *float32
	rows                              *byte // records of the first span
	w, work                           *byte
	config                            *tileConfig
	unpack                            int // of unpackersAMX
	ldd, rowStride                    int // rowStride is from one span's records to the next one's
	stride, panels, blocks            int
	codeBytes, scaleBytes, superBytes int     // of a span of a panel
	codesAt, scalesAt, supersAt       int     // from the beginning of a panel
	aheadCodes                        int     // from those of a panel's last span to the first after all panels
	aheadScales, aheadSupers          int     // likewise
	fetchLines                        int     // cache lines to fetch for 64 inputs, where there are more jobs than one
	pairs, whole                      int     // jobs of 32 rows, 0 if there is one of 16; how many have all their rows
	pairLdd                           int     // ldd of such a job
	panel, pair                       int     // under way
	rowsAt, at, out                   uintptr // of the span's rows, the panel, and the job's place in dst
}

// Kinds of m: none, of 8 bits, of 16.
const (
	noMin = iota
	byteMin
	shortMin
)

// tileTypes says how tiles handle a type: with which m, and by which of unpackersAMX, counted from 1; 0 is not at all.
var tileTypes = [...]struct{ mins, unpack int }{
	quant.Q8_0:   {noMin, 1},
	quant.Q4_0:   {noMin, 2},
	quant.Q5_0:   {noMin, 3},
	quant.IQ4_NL: {noMin, 4},
	quant.IQ4_XS: {noMin, 4},
	quant.MXFP4:  {noMin, 5},
	quant.Q3_K:   {noMin, 6},
	quant.Q6_K:   {noMin, 7},
	quant.Q4_1:   {shortMin, 8},
	quant.Q5_1:   {shortMin, 9},
	quant.Q4_K:   {byteMin, 10},
	quant.Q5_K:   {byteMin, 11},
	quant.Q2_K:   {byteMin, 12},
}

func matAffineAMX(t quant.Type, dst []float32, ldd int, x rowsQ8, w []byte, stride, panels, m int) {
	if m < tileRowsAMX || x.rowTiles == 0 || panels <= 0 || x.blocks == 0 || int(t) >= len(tileTypes) || tileTypes[t].unpack == 0 {
		matAffineVNNI(t, dst, ldd, x, w, stride, panels, m)
		return
	}
	_ = dst[(m-1)*ldd+panels*lanes-1]
	_ = w[(panels-1)*stride+affinePanels[t].bytes(x.blocks)-1]
	group := groupPanels
	if m <= 2*lanes {
		group = 2
	}
	for p := 0; p < panels; p += group {
		for i := 0; i < m; i += maxRowChunk {
			n := min(panels-p, group)
			matTiles(t, dst[i*ldd+p*lanes:], ldd, x.fromTile(i, x.work), w[p*stride:], stride, n, min(m-i, maxRowChunk))
		}
	}
}

// matTiles multiplies at most maxRowChunk rows with at most groupPanels panels.
func matTiles(t quant.Type, dst []float32, ldd int, x rowsQ8, w []byte, stride, panels, m int) {
	a, spans := &affinePanels[t], x.spans()
	rowTiles, perJob := (m+lanes-1)/lanes, lanes
	p := tileProduct{
		dst: &dst[0], ldd: ldd * 4, rows: &x.tiles[0], rowStride: x.rowTiles * rowTileBytes, work: &x.work[:workBytes][0],
		w: &w[0], stride: stride, panels: panels, blocks: x.blocks, unpack: tileTypes[t].unpack - 1, config: &tiles64,
		codeBytes: 8 * a.codeBytes(), scaleBytes: a.pairs(8) * a.scaleBytes(), superBytes: a.superBytes(),
		scalesAt: x.blocks * a.codeBytes(), supersAt: x.blocks*a.codeBytes() + a.pairs(x.blocks)*a.scaleBytes(),
	}
	p.aheadCodes = panels*stride - (spans-1)*p.codeBytes
	p.aheadScales = panels*stride - (spans-1)*p.scaleBytes
	p.aheadSupers = panels*stride - (spans-1)*p.superBytes
	if rowTiles > 1 {
		perJob = 2 * lanes
		p.pairs = (rowTiles + 1) / 2
		rowTiles = 2 * p.pairs
		perStep := 4 * 64 * max(p.pairs-1, 1)
		p.fetchLines = (p.codeBytes + perStep - 1) / perStep
	} else {
		p.config = &tilesOf[m]
	}
	_ = x.tiles[((spans-1)*x.rowTiles+rowTiles)*rowTileBytes-1]
	p.whole, p.pairLdd = m/perJob, perJob*p.ldd
	switch tileTypes[t].mins {
	case byteMin:
		tilesByteMinAMX(&p)
	case shortMin:
		tilesShortMinAMX(&p)
	default:
		tilesAMX(&p)
	}
	acc, jobs := view[float32](x.work[tileWork:workBytes]), max(p.pairs, 1)
	for n := range panels {
		pair := n &^ 1
		job := pair*jobs + p.whole*min(2, panels-pair) + n%2
		for i := p.whole * perJob; i < m; i++ {
			copy(dst[i*ldd+n*lanes:][:lanes], acc[job*2*lanes*lanes+i%perJob*lanes:])
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
func tilesShortMinAMX(p *tileProduct)

//go:noescape
func tilesByteMinAMX(p *tileProduct)

// unpackSpanAMX writes the levels of up to 8 blocks, with one of unpackersAMX.
//
//go:noescape
func unpackSpanAMX(levels, codes, scales *byte, blocks, unpack int)

//go:noescape
func spreadAMX(to *byte, distance, lane int, q *int8, sums *spanSums, blocks int)

//go:noescape
func roofTileAMX(n int, config *tileConfig)
