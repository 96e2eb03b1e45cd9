//go:build amd64 && !noasm

package kernel

import "unsafe"

// Tiles of affine types with AVX-512 VNNI take four panels at a time, span by span. For each span, row i and panel p
// they do dst[i][p] = fma(sum, d·D, dst[i][p]) and, for types with an m, dst[i][p] = fma(-least, d·M, dst[i][p]),
// where sum = Σ T·S·Σ q·(level - offset) over the groups and least = Σ m·T·Σq, in whole numbers (matAffine).
//
// The scales of four panels are first brought to one form in the frame, with the panels side by side:
//
//	    0  S times 1 to 8 [8][16 groups][4 panels][16] int16; of few rows only times 1
//	16384  m [8 pairs][4 panels][16][2] int16, with the offsets as m if each span has its own
//	18432  D [4 panels][16] float32
//	18688  M [4 panels][16] float32
//	18944  levels [8 blocks][8][4 panels][64] bytes, of types that keep them
//
// Then rows are taken by threes, or by twos and one at the end. Their integer sums stay in registers for a span,
// while the codes are in the first cache, and each block fetches a part of the next section to it, one panel after
// another. If fewer than four panels are left, the last one is computed again in place of the others and not stored.
//
// Registers: SI q, R9 sums and BX codes of the block; CX, R12 and R13 offsets of panels 1 to 3, K2 to K4 whether
// there are such; K5 whether there is an offset; R10 the frame's scales. Z0-Z11 sums of a group, Z12-Z23 of a span,
// by rows; Z24-Z26 q; Z27-Z28 levels; Z29-Z31 masks and tables of the codes.

// tileVNNI is the argument of a tile: products of rows with panels, written to dst. rows, panels and blocks are at
// least 1.
type tileVNNI struct {
	dst  *float32 // [rows][16·panels]
	ldd  int      // bytes from row to row
	q    *int8    // [rows][32·blocks]
	ldq  int
	sums *SpanSums // [rows][spans]
	lds  int       // bytes from row to row

	w              *byte // panels of sections (affinePanel)
	stride         int   // bytes from panel to panel
	rows, panels   int
	blocks         int // of 32 inputs
	span           int // blocks that share a super-block scale
	section        int // bytes of a section of 8 blocks
	layout, offset int // offset is that of the levels, or 0
	head, lastHead int // bytes before the codes of a section of 8 blocks, and of a shorter one at the end
}

func matAffineVNNI(p AffineProduct) {
	t, dst, ldd, x, w, stride, panels, m := p.Type, p.Dst, p.Ldd, p.X, p.W, p.Stride, p.Panels, p.M
	if m <= 0 || panels <= 0 {
		return
	}
	_ = dst[(m-1)*ldd+panels*Lanes-1]
	a := &affinePanels[t]
	few := m <= fewRowsVNNI[a.Bits] && a.layout != zeroPoints
	if x.Blocks <= 0 || few { // tiles need no zeros to begin with
		for i := range m {
			clear(dst[i*ldd:][:panels*Lanes])
		}
	}
	if x.Blocks <= 0 {
		return
	}
	_, _ = x.Q[(m-1)*x.Ld+x.Blocks*32-1], x.Sums[(m-1)*x.LdSums+x.Spans()-1]
	_ = w[(panels-1)*stride+a.bytes(x.Blocks)-1]
	lds := x.LdSums * int(unsafe.Sizeof(x.Sums[0]))
	if few {
		panelsVNNI[t](panelVNNI{
			dst: &dst[0], ldd: ldd * 4, q: &x.Q[0], ldq: x.Ld, sums: &x.Sums[0], lds: lds,
			w: &w[0], stride: stride, rows: m, panels: panels,
			blocks: x.Blocks, layout: int(a.layout), offset: a.Offset,
		})
		return
	}
	tile := tileVNNI{
		dst: &dst[0], ldd: ldd * 4, q: &x.Q[0], ldq: x.Ld, sums: &x.Sums[0], lds: lds,
		w: &w[0], stride: stride, rows: m, panels: panels, blocks: x.Blocks, span: a.span / 32,
		section: a.sectionBytes(sectionBlocks), layout: int(a.layout), offset: a.Offset,
		head: a.headBytes(sectionBlocks), lastHead: a.headBytes(x.Blocks % sectionBlocks),
	}
	if a.layout == zeroPoints {
		tile.offset = 0
	}
	tilesVNNI[t](tile)
}
