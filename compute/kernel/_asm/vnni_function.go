package main

import "fmt"

// function writes the tile function of a kind.
func (g *vnni) function() {
	frame := 19200
	if g.keepLevels {
		frame += 16384
	}
	g.comment("func tileCodes%sVNNI(t tileVNNI)", g.name)
	g.text("·tileCodes"+g.name+"VNNI", "0", frame, 136)
	g.op("NO_LOCAL_POINTERS")
	g.op("MOVQ t_ldd+8(FP), R14", "MOVQ t_ldq+24(FP), DX", "MOVQ t_lds+40(FP), R8")
	g.op(fmt.Sprintf("LEAQ scratch-%d(SP), AX", frame), "ADDQ $63, AX", "ANDQ $~63, AX", "MOVQ AX, frame-8(SP)")
	g.op(g.masks()...)
	g.beginPanels()
	g.beginSpan()
	g.beginRows()
	g.tilesMany()
	g.end()
	g.label("few")
	g.op("CMPQ AX, $4", "JEQ two", "CMPQ AX, $2", "JGT three", "JEQ two")
	g.tile(tileNamed("one", 1, fromCodes, false))
	g.tile(tileNamed("two", 2, fromCodes, false))
	g.tile(tileNamed("three", 3, fromCodes, false))
	g.nextRows()
}

// The parts of what follows that do not depend on the types.

const vnniPanelsTextA = `
	KXORW K5, K5, K5
	CMPQ  t_offset+112(FP), $0
	JEQ   offsetSet
	KXNORW K5, K5, K5

offsetSet:

	// How many eighths of a panel's next section are fetched with each block.
	MOVQ t_rows+64(FP), R15
	MOVQ $4, AX
	CMPQ R15, $3
	JLE  fetchesSet
	MOVQ $2, AX
	CMPQ R15, $12
	JLE  fetchesSet
	MOVQ $1, AX

fetchesSet:
	MOVQ AX, fetches-136(SP)

nextPanels:
	XORL  CX, CX
	XORL  R12, R12
	XORL  R13, R13
	KXORW K2, K2, K2
	KXORW K3, K3, K3
	KXORW K4, K4, K4
	MOVQ  t_panels+72(FP), AX
	CMPQ  AX, $2
	JLT   panelsSet
	MOVQ  t_stride+56(FP), CX
	MOVQ  CX, R12
	MOVQ  CX, R13
	KXNORW K2, K2, K2
	CMPQ  AX, $3
	JLT   panelsSet
	ADDQ  CX, R12
	MOVQ  R12, R13
	KXNORW K3, K3, K3
	CMPQ  AX, $4
	JLT   panelsSet
	ADDQ  CX, R13
	KXNORW K4, K4, K4

panelsSet:
	MOVQ t_w+48(FP), AX
	MOVQ AX, codes-16(SP)
	MOVQ $0, done-72(SP)

nextSection:
	MOVQ t_blocks+80(FP), R11
	SUBQ done-72(SP), R11
	MOVQ codes-16(SP), SI
	MOVQ SI, DI
	ADDQ t_section+96(FP), DI
	MOVQ DI, nextSection-24(SP)
	XORL BX, BX
	CMPQ R11, $8
	JGT  fetchSet

	// What comes next are the next panels.
	MOVQ t_stride+56(FP), DI
	SHLQ $2, DI
	ADDQ t_w+48(FP), DI
	CMPQ t_panels+72(FP), $4
	JGT  fetchSet
	MOVQ $32, BX

fetchSet:
`

const vnniPanelsTextB = `

fetchedSet:
	MOVQ    DI, fetch-128(SP)
	MOVQ    BX, fetched-112(SP)
	MOVQ    SI, scales-32(SP)
	MOVQ    t_lastHead+128(FP), DI
	CMPQ    R11, $8
	CMOVQGE t_head+120(FP), DI
	ADDQ    DI, codes-16(SP)

nextSpan:
	MOVQ    t_blocks+80(FP), R11
	SUBQ    done-72(SP), R11
	MOVQ    t_span+88(FP), AX
	CMPQ    R11, AX
	CMOVQGT AX, R11
	MOVQ    R11, now-80(SP)
`

// beginPanels sets what four panels, and then what each section of them, begin with.
func (g *vnni) beginPanels() {
	g.block(vnniPanelsTextA)
	g.op(fmt.Sprintf("CMPQ t_rows+64(FP), $%d", g.fetchRows), "JGE fetchedSet", "MOVQ $32, BX")
	g.block(vnniPanelsTextB)
}

// beginSpan brings the scales of a span to their form in the frame, and finds its sums.
func (g *vnni) beginSpan() {
	if !g.halves() {
		g.op("CMPQ t_layout+104(FP), $const_zeroPoints", "JEQ pairsSet", "INCQ R11", "SHRQ $1, R11")
		g.end()
		g.label("pairsSet")
	}
	g.block(`
	MOVQ R11, pairs-40(SP)
	MOVQ R11, R9
	MOVQ frame-8(SP), R10
	MOVQ scales-32(SP), SI
	MOVQ t_layout+104(FP), AX
	CALL scalesVNNI<>(SB)
`)
	g.op(fmt.Sprintf("CMPQ t_rows+64(FP), $%d", g.manyRows), "JLT scalesSet", "MOVQ pairs-40(SP), R9",
		"CALL timesVNNI<>(SB)")
	g.block(`

scalesSet:
	MOVQ SI, scales-32(SP)
	MOVQ done-72(SP), AX
	MOVQ AX, R9
	SHRQ $3, R9
	IMULQ $SpanSums__size, R9
	ADDQ t_sums+32(FP), R9
	MOVQ R9, spanSums-64(SP)
	MOVQ AX, SI
	SHLQ $5, SI
	ADDQ t_q+16(FP), SI
	MOVQ SI, rowQ-88(SP)
	ANDQ $7, AX
	LEAQ SpanSums_sums16(R9)(AX*4), R11
`)
	if g.halves() {
		g.op("LEAQ SpanSums_Shares(R9)(AX*4), R10", "MOVQ R10, firstShare-152(SP)",
			"LEAQ SpanSums_minus16(R9)(AX*8), R9")
	} else {
		g.op("CMPQ t_layout+104(FP), $const_zeroPoints", "JEQ sumsSet", "LEAQ SpanSums_sums32(R9), R11")
		g.end()
		g.label("sumsSet")
		g.op("LEAQ SpanSums_minus32(R9)(AX*4), R9")
	}
}

// beginRows begins the rows of a span, and then each tile.
func (g *vnni) beginRows() {
	g.block(`
	MOVQ R11, pairSums-48(SP)
	MOVQ R9, minus-96(SP)
	MOVQ $0, row-56(SP)
	MOVQ t_dst+0(FP), DI
	MOVQ DI, rowDst-120(SP)
	MOVQ t_rows+64(FP), R15
	MOVQ R15, left-104(SP)

rows:
	MOVQ rowQ-88(SP), SI
	MOVQ codes-16(SP), BX
	MOVQ minus-96(SP), R9
	ADDQ row-56(SP), R9
`)
	if g.halves() {
		g.op("MOVQ firstShare-152(SP), R10", "ADDQ row-56(SP), R10", "MOVQ R10, shares-144(SP)")
	}
	g.op("MOVQ frame-8(SP), R10", "MOVQ now-80(SP), R11", "MOVQ R15, AX", "MOVQ fetched-112(SP), R15")
	g.op(fmt.Sprintf("CMPQ t_rows+64(FP), $%d", g.manyRows), "JLT few", "CMPQ AX, $4", "JLE nextFetched")
	g.end()
	g.comment("The values and sums of a span of the next three rows.")
	g.op("LEAQ (SI)(DX*2), DI", "ADDQ DX, DI")
	for _, a := range []string{"(DI)", "(DI)(DX*1)", "(DI)(DX*2)"} {
		g.op(lines(4, a)...)
	}
	g.op("LEAQ (R9)(R8*2), DI", "ADDQ R8, DI")
	for _, a := range []string{"(DI)", "(DI)(R8*1)", "(DI)(R8*2)"} {
		g.op(lines(2, a)...)
	}
	g.end()
	g.label("nextFetched")
}

// nextRows goes on to the next rows, span, section and panels.
func (g *vnni) nextRows() {
	g.block(`

// R15 rows are done.
nextRows:
	MOVQ  R15, AX
	IMULQ R8, AX
	ADDQ  AX, row-56(SP)
	MOVQ  R15, AX
	IMULQ DX, AX
	ADDQ  AX, rowQ-88(SP)
	MOVQ  R15, AX
	IMULQ R14, AX
	ADDQ  AX, rowDst-120(SP)
	MOVQ  left-104(SP), AX
	SUBQ  R15, AX
	MOVQ  AX, left-104(SP)
	MOVQ  AX, R15
	JNZ   rows

	MOVQ  now-80(SP), AX
	ADDQ  AX, done-72(SP)
`)
	g.f("IMULQ $%d, AX", g.codeBytes())
	g.block(`
	ADDQ  AX, codes-16(SP)
	MOVQ  done-72(SP), AX
	CMPQ  AX, t_blocks+80(FP)
	JGE   panelsDone
	TESTQ $7, AX
	JNZ   nextSpan
	MOVQ  nextSection-24(SP), AX
	MOVQ  AX, codes-16(SP)
	JMP   nextSection

panelsDone:
	SUBQ $4, t_panels+72(FP)
	JLE  end
	ADDQ $256, t_dst+0(FP)
	MOVQ t_stride+56(FP), AX
	SHLQ $2, AX
	ADDQ AX, t_w+48(FP)
	JMP  nextPanels

end:
	VZEROUPPER
	RET

`)
}
