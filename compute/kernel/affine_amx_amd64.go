//go:build amd64 && !noasm

package kernel

import (
	"runtime"
	"unsafe"
)

//lint:file-ignore U1000 The assembly uses fields that Go does not.

// Products of affine types with AMX. A job is 16 rows times the 16 outputs of a panel over one span of 256 inputs.
// Each number of either side, a row's V = T·q and a weight's W = S·(level - offset), has 16 bits and stands as two
// digits: 256·high + low, where high is signed and low is not. A tile product takes 16 rows times 64 inputs of one
// digit of each; four times four of them add up to three sums, which are stored and joined by AVX-512: sum = HH·2¹⁶ +
// M·2⁸ + LL in int32, of which M holds both products of unlike digits. It ends as in the other kernels: acc =
// fma(sum, d·D, acc) and, for types with an m, acc = fma(-least, d·M, acc).
//
// A step is two jobs: the same rows times a pair of panels. The products of a job take 256 cycles, and everything
// else is put between them, as the processor does it beside them if it comes little by little and finds its data in
// the first cache: the sums of the job before are stored, those of the step before are scaled and, in a pair's last
// step, the next pair's levels take the places of those that have just been multiplied.
//
//	           LL, M, HH          stores             scales
//	job 0      tiles 0, 1, 2      tiles 3, 4, 2      panel 0 of the step before
//	job 1      tiles 3, 4, 2      tiles 0, 1, 2      panel 1 of the step before
//
//	rows    records of 16 rows and a span (rowTileBytes):
//	            0 [4][2][16][64]         low digits, uint8, and high ones, int8, of 64 inputs of
//	                                         16 rows; 0 where the row has ended
//	         8192 [16] float32           d
//	         8256 [16][8] int16          T·Σq of each row's 8 groups of 32
//	         8512 [16][16] int16         T·Σq of each row's 16 groups of 16
//	levels  [2][4][2][16][16][4]         of a pair of panels: low digits, uint8, and high ones, int8, of 64 inputs
//	                                     of 16 outputs; a line has 4
//	                                     inputs of each output
//	superScales  [3] of a pair (SUPERS_BYTES): of those being multiplied, unpacked and scaled
//	            0 [2][4][2][16][2] int16 m of each output for two groups; every second line only if
//	                                         groups have 16 inputs
//	         1024 [2] D, M               [16] float32
//	sums    [2][3][16][16] int32         LL, M and HH of either job, at BX
//	acc     [pairs][tiles of rows][2][16][16] float32
//
// Registers: SI rows of the step; BX work; CX 64. Of the step that is being scaled: DX rows; R13 acc as it was; R14,
// R8 where it goes and the distance of rows there; Z30 D, Z31 M, Z3-Z7 and Z13-Z15 m. To unpack: R15 codes; R12
// scales; R9 to where in levels, DI in super-block scales; R11 blocks left of the span; R10 from codes to those that
// are fetched meanwhile. Tiles 5 and 6 rows, low and high; 7 levels.

// amx is avx512vnni with the tile products of AMX for many rows.
var amx = func() Table {
	k := avx512vnni
	k.Name, k.MatAffine, k.TileRows, k.Spread = "amx", matAffineAMX, tileRowsAMX, spreadTilesAMX
	k.MatPairs, k.Narrow, k.Pairs, k.PairChunk = matPairsAMX, narrowAVX512, PairTiles, pairChunkAMX
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
	tiles64 = tileConfig{palette: 1, bytes: [16]uint16{64, 64, 64, 64, 64, 64, 64, 64},
		rows: [16]uint8{16, 16, 16, 16, 16, 16, 16, 16}}
	tilesOf = func() (of [Lanes + 1]tileConfig) {
		for rows := range of {
			of[rows] = tiles64
			for tile := range 7 {
				of[rows].rows[tile] = uint8(rows)
			}
		}
		return of
	}()
)

// tileProduct is a product of rows in tiles with panels: drawn above. Distances are in bytes.
type tileProduct struct {
	dst     *float32
	rows, w uintptr // records of the span under way; a panel. What moves past an end is no pointer to the collector
	work    *byte
	config  *tileConfig

	ldd, tileLdd, beside int     // tileLdd is that of 16 rows, beside from the end of those to the second panel's
	rowStride            int     // from one span's records to the next one's
	panels, tiles, whole int     // tiles of rows, of which so many have all their rows
	spans, begun         int     // left; 1 after the first
	panel, tilesLeft     int     // under way
	direct               int     // so many of the tiles left go to dst after the last span
	out                  uintptr // in dst
	acc, toSecond        uintptr // where sums are; from there to the second panel's

	// What is unpacked meanwhile.
	unpack                       uintptr // of unpackersAMX
	superScales, current, scaled uintptr // those of the pair that is unpacked, multiplied and scaled
	at                           uintptr // a section of a panel
	left, chunk, chunks          int     // panels left of the span; under way and all of the pair: 64 inputs of a panel
	layout, blocks               int     // blocks are left from the span on
	stride, section              int     // from one panel's section to the next panel's; to the panel's next one
	codesAt, superScalesAt       int     // in a section
	lastCodes, lastSuperScales   int     // in that after which no block is left
	ahead                        int     // from a panel's last section to the first after all panels
}

func matAffineAMX(p AffineProduct) {
	t, dst, ldd, x, w, stride, panels, m := p.Type, p.Dst, p.Ldd, p.X, p.W, p.Stride, p.Panels, p.M
	if m < tileRowsAMX || x.RowTiles == 0 || panels <= 0 || x.Blocks == 0 ||
		int(t) >= len(unpackTypes) || unpackTypes[t] == 0 {
		matAffineVNNI(p)
		return
	}
	_ = dst[(m-1)*ldd+panels*Lanes-1]
	_ = w[(panels-1)*stride+affinePanels[t].bytes(x.Blocks)-1]
	for p := 0; p < panels; p += GroupPanels {
		for i := 0; i < m; i += MaxRowChunk {
			n := min(panels-p, GroupPanels)
			matTiles(AffineProduct{
				t, dst[i*ldd+p*Lanes:], ldd, x.FromTile(i, x.work), w[p*stride:], stride, n, min(m-i, MaxRowChunk),
			})
		}
	}
}

// matTiles multiplies at most MaxRowChunk rows with at most GroupPanels panels.
func matTiles(q AffineProduct) {
	t, dst, ldd, x, w, stride, panels, m := q.Type, q.Dst, q.Ldd, q.X, q.W, q.Stride, q.Panels, q.M
	a, spans, tiles := &affinePanels[t], x.Spans(), (m+Lanes-1)/Lanes
	_, scales, _, last := a.section(w, spans-1, x.Blocks)
	p := tileProduct{
		dst: &dst[0], work: &x.work[:WorkBytes][0], config: &tiles64,
		ldd: ldd * 4, tileLdd: ldd * 4 * Lanes, beside: Lanes*4 - ldd*4*Lanes, rowStride: x.RowTiles * rowTileBytes,
		panels: panels, tiles: tiles, tilesLeft: tiles, whole: m / Lanes, spans: spans,
		unpack: unpackTypes[t] - 1, left: panels, chunks: 4 * min(panels,
			2), layout: int(a.layout), blocks: x.Blocks,
		stride: stride, section: a.sectionBytes(sectionBlocks),
		codesAt: a.headBytes(sectionBlocks), lastCodes: a.headBytes(last),
	}
	p.superScalesAt, p.lastSuperScales = a.pairs(sectionBlocks)*a.scaleBytes(), len(scales)
	p.ahead = panels*stride - (spans-1)*p.section
	if panels > 1 {
		p.direct = p.whole
	}
	if m < Lanes {
		p.config = &tilesOf[m]
	}
	_ = x.Tiles[((spans-1)*x.RowTiles+tiles)*rowTileBytes-1]
	mins, group := a.hasMins(), a.Group
	p.rows, p.w = uintptr(unsafe.Pointer(&x.Tiles[0])), uintptr(unsafe.Pointer(&w[0]))
	p.at, p.out = p.w, uintptr(unsafe.Pointer(&dst[0]))
	switch {
	case !mins:
		tilesAMX(&p)
	case group == 32:
		tilesMins32AMX(&p)
	default:
		tilesMins16AMX(&p)
	}
	runtime.KeepAlive(x.Tiles)
	runtime.KeepAlive(w)
	acc := View[float32](x.work[tileWork:WorkBytes])
	for n := range panels {
		first := p.whole * Lanes
		if n|1 >= panels {
			first = 0
		}
		for i := first; i < m; i++ {
			job := (n/2*tiles+i/Lanes)*2 + n%2
			copy(dst[i*ldd+n*Lanes:][:Lanes], acc[(job*Lanes+i%Lanes)*Lanes:])
		}
	}
}

// spreadTilesAMX copies row i to its tile.
func spreadTilesAMX(x *Rows8, i int) {
	if x.Blocks > 0 {
		q, sums := x.Q[i*x.Ld:][:x.Blocks*32], x.Sums[i*x.LdSums:][:x.Spans()]
		to := x.Tiles[i/Lanes*rowTileBytes:]
		_ = to[(len(sums)-1)*x.RowTiles*rowTileBytes+rowTileBytes-1]
		spreadAMX(&to[0], x.RowTiles*rowTileBytes, i%Lanes, &q[0], &sums[0], x.Blocks)
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
func spreadAMX(to *byte, distance, lane int, q *int8, sums *SpanSums, blocks int)

//go:noescape
func roofTileAMX(n int, config *tileConfig)
