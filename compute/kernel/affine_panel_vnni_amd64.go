//go:build amd64 && !noasm

package kernel

// Products with AVX-512 VNNI that take one panel after another, so that weights are read from end to end. For each
// section, row i and panel p they do dst[i][p] = fma(sum, d·D, dst[i][p]) and, for types with an m, dst[i][p] =
// fma(-least, d·M, dst[i][p]), with sum and least as in matAffine.
//
// A Zen 5 core reads one stream of memory, if it is fetched 8 KB ahead, a quarter faster than four in turn. A block
// of 32 inputs is unpacked to eight registers, whose levels are multiplied with four values of a row at a time; the
// instruction spreads these over a register itself, so that rows need none but their sums. Levels keep their offset:
// it is taken off at a section's end like an m, of S times the offset. The frame has
//
//	   0  sums of a section [16 rows][16] int32
//	1024  S [16 groups][16] int32
//	2048  m, or S times the offset [8 pairs][16][2] int16
//	2560  D [16] float32
//	2624  M [16] float32
//
// Registers: BX codes of the block, R10 its section's scales, R12 the frame, R15 what is fetched; SI, R9 and R13 are
// values, shares and sums of a row. Z16 to Z23 levels, Z24 and Z25 S, Z26 the offset, Z29-Z31 masks and tables of the
// codes.

// panelRows is how many rows panelVNNI has at most.
const panelRows = 16

// fewRowsVNNI is up to how many rows panelsVNNI is the faster, by the bits of codes: beyond, tables of S·T pay.
var fewRowsVNNI = [...]int{2: 8, 3: 8, 4: 8, 5: 8, 6: panelRows, 8: panelRows}

// panelVNNI is the argument of a product that takes one panel after another, added to dst: up to panelRows rows.
// rows, panels and blocks are at least 1.
type panelVNNI struct {
	dst  *float32 // [rows][16·panels]
	ldd  int      // bytes from row to row
	q    *int8    // [rows][32·blocks]
	ldq  int
	sums *SpanSums // [rows][spans]
	lds  int       // bytes from row to row

	w              *byte // panels of sections (affinePanel), at multiples of 64
	stride         int   // bytes from panel to panel
	rows, panels   int
	blocks         int // of 32 inputs
	layout, offset int // offset is that of the levels, or 0
}
