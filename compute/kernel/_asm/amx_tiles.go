package main

import "fmt"

// amxTiles writes the products of a kind of minimums with AMX; ../affine_amx_amd64.go draws the layout. group is of
// how many values there is an m, 0 for types without.
type amxTiles struct {
	*asm
	group int
	calls int // of chunk, so far
}

// What is where in work.
const (
	amxSums         = 0
	amxZeros        = 6144
	amxNowhere      = 8192
	amxSuperScales  = 26624
	amxAcc          = 30464
	superScaleBytes = 1280
	tileBytes       = 9024 // of a record of 16 rows and a span
)

// job multiplies in tiles ll, m and 2 with a panel's levels, and scales the sums at BX + sums. Those of the job
// before, in tiles ll0, m0 and 2, go to BX + to. Tile 2 rests for five products between two jobs, so that it is never
// waited for.
func (g *amxTiles) job(panel, ll, m, ll0, m0, sums, to int) {
	g.f("TILE_ZERO(%d); TILE_ZERO(%d)", ll, m)
	g.scaleBegin(panel)
	stores := [3][]string{
		{fmt.Sprintf("TILE_STORE(2, %d)", to+2048), "TILE_ZERO(2)"},
		{fmt.Sprintf("TILE_STORE(%d, %d)", ll0, to)},
		{fmt.Sprintf("TILE_STORE(%d, %d)", m0, to+1024)},
	}
	for k, store := range stores {
		g.f("TILE_LEVELS(%d); TILE_LOW(%d); LOW_LOW(%d)", 8192*panel+2048*k, 2048*k, ll)
		g.scale(4*k, sums)
		g.f("TILE_HIGH(%d); HIGH_LOW(%d)", 2048*k+1024, m)
		g.op(store...)
		g.scale(4*k+1, sums)
		g.f("TILE_LEVELS(%d); HIGH_HIGH(2)", 8192*panel+2048*k+1024)
		g.scale(4*k+2, sums)
		g.f("LOW_HIGH(%d)", m)
		g.scale(4*k+3, sums)
		g.unpack()
	}
	const k = 3
	g.f("TILE_LEVELS(%d); TILE_HIGH(%d); HIGH_HIGH(2)", 8192*panel+2048*k+1024, 2048*k+1024)
	g.scale(4*k, sums)
	g.f("TILE_LOW(%d); LOW_HIGH(%d)", 2048*k, m)
	g.scale(4*k+1, sums)
	g.f("TILE_LEVELS(%d); HIGH_LOW(%d)", 8192*panel+2048*k, m)
	g.scale(4*k+2, sums)
	g.f("LOW_LOW(%d)", ll)
	g.scale(4*k+3, sums)
	g.unpack()
}

// unpack unpacks 64 inputs of the next pair in a pair's last step, where those of this one are in tiles.
func (g *amxTiles) unpack() {
	g.calls++
	skip := fmt.Sprint("unpacked", g.calls)
	g.op("MOVQ p+0(FP), AX", "CMPQ tileProduct_tilesLeft(AX), $1", "JNE "+skip, "CALL chunk<>(SB)")
	g.label(skip)
}

// minsRegisters are where m of the pairs of groups are.
func (g *amxTiles) minsRegisters() []int {
	if g.group == 16 {
		return []int{4, 3, 5, 13, 6, 14, 7, 15}
	}
	return []int{4, 5, 6, 7}
}

func (g *amxTiles) scaleBegin(panel int) {
	g.op("MOVQ p+0(FP), AX", "MOVQ tileProduct_scaled(AX), AX", fmt.Sprintf("VMOVUPS %d(AX), Z30", 1024+128*panel))
	if g.group == 0 {
		return
	}
	g.f("VMOVUPS %d(AX), Z31", 1088+128*panel)
	for i := range 4 {
		g.f("VMOVDQU64 %d(AX), Z%d", 512*panel+128*i, 4+i)
	}
	if g.group == 16 {
		for i, z := range []int{3, 13, 14, 15} {
			g.f("VMOVDQU64 %d(AX), Z%d", 512*panel+128*i+64, z)
		}
	}
}

// scale scales row i.
func (g *amxTiles) scale(i, sums int) {
	g.op(fmt.Sprintf("VPSLLD $8, %d(BX), Z0", sums+2048+64*i), fmt.Sprintf("VPADDD %d(BX), Z0, Z0", sums+1024+64*i),
		"VPSLLD $8, Z0, Z0",
		fmt.Sprintf("VPADDD %d(BX), Z0, Z0", sums+64*i), "VCVTDQ2PS Z0, Z0",
		fmt.Sprintf("VMULPS.BCST %d(DX), Z30, Z1", 8192+4*i),
		fmt.Sprintf("VFMADD213PS %d(R13), Z1, Z0", 64*i))
	if g.group > 0 { // take least off
		from := 8256 + 16*i
		if g.group == 16 {
			from = 8512 + 32*i
		}
		ops := list("VPXORQ Z2, Z2, Z2")
		for n, z := range g.minsRegisters() {
			ops = append(ops, fmt.Sprintf("VPDPWSSD.BCST %d(DX), Z%d, Z2", from+4*n, z))
		}
		g.op(append(ops, "VCVTDQ2PS Z2, Z2", fmt.Sprintf("VMULPS.BCST %d(DX), Z31, Z1", 8192+4*i),
			"VFNMADD231PS Z2, Z1, Z0")...)
	}
	g.op("VMOVUPS Z0, (R14)", "ADDQ R8, R14")
}

func (g *amxTiles) scale16(sums int) {
	for i := range 16 {
		g.scale(i, sums)
	}
}

// scaleSecond goes on to the second panel's sums.
func (g *amxTiles) scaleSecond() {
	g.op("MOVQ p+0(FP), AX", "ADDQ $1024, R13", "ADDQ tileProduct_toSecond(AX), R14")
}

// The parts of what follows that do not depend on the types.

const tilesTextA = `
	MOVQ p+0(FP), AX
	MOVQ tileProduct_work(AX), BX
	MOVQ tileProduct_rows(AX), SI
	MOVQ tileProduct_config(AX), AX
	TILE_CONFIG
	MOVQ $64, CX

	// The first pair of panels is unpacked before all steps. What is scaled first is no job.
	MOVQ p+0(FP), AX
	MOVQ tileProduct_unpack(AX), R9
	LEAQ ·unpackersAMX(SB), R10
	MOVQ (R10)(R9*8), R9
	MOVQ R9, tileProduct_unpack(AX)
	LEAQ %d(BX), R9
	MOVQ R9, tileProduct_superScales(AX)
	MOVQ R9, tileProduct_scaled(AX)
	MOVQ R9, tileProduct_current(AX)
	LEAQ %d(BX), R13
	MOVQ R13, tileProduct_acc(AX)
	LEAQ %d(BX), R13
	LEAQ %d(BX), R14
	MOVQ CX, R8
	MOVQ SI, DX

unpack:
	CALL chunk<>(SB)
	MOVQ p+0(FP), AX
	MOVQ tileProduct_chunk(AX), R9
	CMPQ R9, tileProduct_chunks(AX)
	JLT  unpack
	CALL next<>(SB)

step:
`

const tilesTextB = `

	// The next step scales this one.
	MOVQ p+0(FP), AX
	MOVQ tileProduct_current(AX), DX
	MOVQ DX, tileProduct_scaled(AX)
	MOVQ SI, DX
	MOVQ tileProduct_acc(AX), R14
	ADDQ $2048, tileProduct_acc(AX)
	MOVQ R14, R13
	MOVQ CX, R8
	MOVQ $0, tileProduct_toSecond(AX)
	CMPQ tileProduct_begun(AX), $0
	JNE  begun
	LEAQ %d(BX), R13

begun:
	CMPQ tileProduct_spans(AX), $1
	JNE  rows
	CMPQ tileProduct_direct(AX), $0
	JLE  rows
	MOVQ tileProduct_out(AX), R14
	MOVQ tileProduct_ldd(AX), R8
	MOVQ tileProduct_beside(AX), SI
	MOVQ SI, tileProduct_toSecond(AX)

	// The lines of dst that the next rows go to are fetched, to be written.
	CMPQ tileProduct_direct(AX), $1
	JEQ  rows
	MOVQ R14, DI
	ADDQ tileProduct_tileLdd(AX), DI
	MOVQ $4, SI

fetch:
`

const tilesTextC = `
	DECQ SI
	JNZ  fetch

// The next rows, the next pair of panels, or the next span.
rows:
	MOVQ tileProduct_tileLdd(AX), SI
	ADDQ SI, tileProduct_out(AX)
	LEAQ %d(DX), SI
	DECQ tileProduct_direct(AX)
	DECQ tileProduct_tilesLeft(AX)
	JGT  step

	MOVQ tileProduct_superScales(AX), R9
	MOVQ R9, tileProduct_current(AX)
	MOVQ tileProduct_panel(AX), R9
	ADDQ $2, R9
	CMPQ R9, tileProduct_panels(AX)
	JLT  pair
	MOVQ tileProduct_rowStride(AX), R9
	ADDQ R9, tileProduct_rows(AX)
	LEAQ %d(BX), R9
	MOVQ R9, tileProduct_acc(AX)
	MOVQ $1, tileProduct_begun(AX)
	XORQ R9, R9
	DECQ tileProduct_spans(AX)
	JLE  ended

pair:
	MOVQ    R9, tileProduct_panel(AX)
	MOVQ    tileProduct_rows(AX), SI
	MOVQ    tileProduct_tiles(AX), R10
	MOVQ    R10, tileProduct_tilesLeft(AX)
	LEAQ    2(R9), R10
	XORQ    R11, R11
	CMPQ    R10, tileProduct_panels(AX)
	CMOVQLE tileProduct_whole(AX), R11
	MOVQ    R11, tileProduct_direct(AX)
	SHLQ    $6, R9
	ADDQ    tileProduct_dst(AX), R9
	MOVQ    R9, tileProduct_out(AX)
	CALL    next<>(SB)
	JMP     step

`

func (g *amxTiles) function() {
	name := "tilesAMX"
	if g.group > 0 {
		name = fmt.Sprintf("tilesMins%dAMX", g.group)
	}
	g.comment("func %s(p *tileProduct)", name)
	g.text("·"+name, "NOSPLIT", 0, 8)
	g.block(fmt.Sprintf(tilesTextA, amxSuperScales, amxAcc, amxZeros, amxNowhere))
	g.job(0, 0, 1, 3, 4, amxSums, amxSums+3072)
	g.scaleSecond()
	g.job(1, 3, 4, 0, 1, amxSums+3072, amxSums)
	g.block(fmt.Sprintf(tilesTextB, amxZeros))
	for range 4 { // two lines to be written (PREFETCHW), and on to the next row
		g.op("BYTE $0x0f", "BYTE $0x0d", "BYTE $0x0f", "LONG $0x404f0d0f", "ADDQ R8, DI")
	}
	g.block(fmt.Sprintf(tilesTextC, tileBytes, amxAcc))
	g.label("ended")
	g.scaleBegin(0)
	g.f("TILE_STORE(3, %d); TILE_STORE(4, %d); TILE_STORE(2, %d)", amxSums+3072, amxSums+4096, amxSums+5120)
	g.scale16(amxSums)
	g.scaleSecond()
	g.scaleBegin(1)
	g.scale16(amxSums + 3072)
	g.op("TILE_RELEASE", "VZEROUPPER", "RET")
	g.end()
}

const amxChunkText = `
// chunk unpacks the next 64 inputs of the pair of panels that is multiplied after this one, if there are
// any left. AX is the tileProduct.
TEXT chunk<>(SB), NOSPLIT|NOFRAME, $0-0
	MOVQ  tileProduct_chunk(AX), R9
	CMPQ  R9, tileProduct_chunks(AX)
	JGE   none
	TESTQ $3, R9
	JNE   inputs

	// A panel begins.
	MOVQ    tileProduct_at(AX), R12
	MOVQ    tileProduct_codesAt(AX), R15
	MOVQ    tileProduct_superScalesAt(AX), DI
	MOVQ    tileProduct_section(AX), R10
	MOVQ    $8, R11
	CMPQ    tileProduct_blocks(AX), R11
	JGT     parts
	MOVQ    tileProduct_lastCodes(AX), R15
	MOVQ    tileProduct_lastSuperScales(AX), DI
	MOVQ    tileProduct_ahead(AX), R10
	MOVQ    tileProduct_blocks(AX), R11

parts:
	ADDQ R12, R15
	ADDQ R12, DI
	DECQ tileProduct_left(AX)
	MOVQ tileProduct_stride(AX), R9
	ADDQ R9, tileProduct_at(AX)

	// D and M.
	MOVQ       tileProduct_chunk(AX), R9
	SHLQ       $5, R9
	ADDQ       tileProduct_superScales(AX), R9
	PREFETCHT1 (DI)(R10*1)
	CMPQ       tileProduct_layout(AX), $const_byteMins
	JEQ        halves
	VMOVUPS    (DI), Z0
	VMOVUPS    Z0, 1024(R9)
	CMPQ       tileProduct_layout(AX), $const_int12Mins
	JNE        inputs
	PREFETCHT1 64(DI)(R10*1)
	VMOVUPS    64(DI), Z0
	VMOVUPS    Z0, 1088(R9)
	JMP        inputs

halves:
	VCVTPH2PS (DI), Z0
	VCVTPH2PS 32(DI), Z1
	VMOVUPS   Z0, 1024(R9)
	VMOVUPS   Z1, 1088(R9)

inputs:
	MOVQ tileProduct_chunk(AX), R9
	INCQ tileProduct_chunk(AX)
	MOVQ R9, DI
	SHLQ $7, DI
	ADDQ tileProduct_superScales(AX), DI
	SHLQ $11, R9
	LEAQ 10240(BX)(R9*1), R9
	MOVQ tileProduct_unpack(AX), AX
	JMP  AX

none:
	RET

// next lets chunk unpack the pair of panels after the one that it has done, if there is one. AX is the tileProduct.
TEXT next<>(SB), NOSPLIT|NOFRAME, $0-0
	MOVQ tileProduct_superScales(AX), R9
	ADDQ $%d, R9
	LEAQ %d(BX), R10
	CMPQ R9, R10
	JLT  place
	LEAQ %d(BX), R9

place:
	MOVQ R9, tileProduct_superScales(AX)
	MOVQ $0, tileProduct_chunk(AX)
	MOVQ $0, tileProduct_chunks(AX)
	CMPQ tileProduct_left(AX), $0
	JGT  panels
	SUBQ $8, tileProduct_blocks(AX)
	JLE  none
	MOVQ tileProduct_section(AX), R10
	ADDQ tileProduct_w(AX), R10
	MOVQ R10, tileProduct_w(AX)
	MOVQ R10, tileProduct_at(AX)
	MOVQ tileProduct_panels(AX), R10
	MOVQ R10, tileProduct_left(AX)

panels:
	MOVQ $8, tileProduct_chunks(AX)
	CMPQ tileProduct_left(AX), $1
	JNE  none
	MOVQ $4, tileProduct_chunks(AX)

none:
	RET

`

// amxProducts is the file of the products with AMX.
func amxProducts() *asm {
	a := newAsm("amd64", "go_asm.h", "textflag.h", "amx_amd64.h")
	a.end()
	a.comment("Products of affine types with AMX: without an m, and with one for groups of 32 or of 16; affine_amx_amd64.go draws the layout.")
	a.end()
	a.block(fmt.Sprintf(amxChunkText, superScaleBytes, amxSuperScales+3*superScaleBytes, amxSuperScales))
	for _, group := range []int{0, 32, 16} {
		(&amxTiles{asm: a, group: group}).function()
	}
	return a
}
