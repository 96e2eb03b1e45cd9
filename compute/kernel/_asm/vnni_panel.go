package main

import "fmt"

// Products with AVX-512 VNNI that take one panel after another: ../affine_panel_vnni_amd64.go draws the frame.

// The frame: where its parts begin.
const (
	panelS     = 1024
	panelPairs = 2048
	panelD     = 2560
	panelLeast = 2624
	panelFrame = 2792
	panelAhead = 8192 // bytes fetched ahead
)

// vnniPanel writes the function of a kind of codes.
type vnniPanel struct {
	*asm
	*codes
}

// mins makes Z0 the sum of m, or S times the offset, times Σq.
func (g *vnniPanel) mins() {
	sums, pairs := "SpanSums_sums32", 4
	if g.halves() {
		sums, pairs = "SpanSums_sums16", 8
	}
	g.op("VPXORD Z0, Z0, Z0")
	for i := range pairs {
		g.f("VPDPWSSD.BCST %s+%d(R9), Z%d, Z0", sums, 4*i, 8+i)
	}
}

// dots multiplies a half of a block, with levels from a register on.
func (g *vnniPanel) dots(half, levels int) {
	sum := fmt.Sprint("Z", half)
	g.f("VPXORD %s, %s, %s", sum, sum, sum)
	for i := range 4 {
		g.f("VPDPBUSD.BCST %d(SI), Z%d, %s", 16*half+4*i, levels+i, sum)
	}
}

// The parts of what follows that do not depend on the types.

const panelTextA = `
	MOVQ t_offset+96(FP), AX
	VPBROADCASTW AX, Z26
	MOVL $0xaaaaaaaa, AX
	KMOVD AX, K2
	VPXORD Z0, Z0, Z0
	MOVQ R12, R13
	MOVQ t_rows+64(FP), CX

clear:
	VMOVDQA32 Z0, (R13)
	ADDQ $64, R13
	DECQ CX
	JNZ  clear

nextPanel:
	MOVQ t_w+48(FP), BX
	MOVQ t_blocks+80(FP), AX
	MOVQ AX, left-8(SP)
	MOVQ t_q+16(FP), AX
	MOVQ AX, rowQ-16(SP)
	MOVQ t_sums+32(FP), AX
	MOVQ AX, rowSums-24(SP)

nextSection:
	MOVQ left-8(SP), R11
	CMPQ R11, $const_sectionBlocks
	JLE  short
	MOVQ $const_sectionBlocks, R11

short:
	SUBQ R11, left-8(SP)
	MOVQ BX, R10
	MOVQ R11, R9
`

const panelTextB = `
	VPMULLD.BCST (R9), Z0, Z0
	VPADDD (R13), Z0, Z0
	VMOVDQA32 Z0, (R13)
	ADDQ DX, SI
	ADDQ R8, R9
	ADDQ $64, R13
	DECQ CX
	JNZ  nextRow

`

const panelTextC = `
	VPXORD Z18, Z18, Z18
	MOVQ t_ldd+8(FP), R11
	MOVQ t_dst+0(FP), DI
	MOVQ rowSums-24(SP), R9
	MOVQ R12, R13
	MOVQ t_rows+64(FP), CX
	CMPQ t_layout+88(FP), $const_int12Mins
	JGE  minsRow

offsetRow:
`

const panelTextD = `
	VMOVDQA32 (R13), Z1
	VMOVDQA32 Z18, (R13)
	VPSUBD Z0, Z1, Z1
	VCVTDQ2PS Z1, Z1
	VMULPS.BCST SpanSums_D(R9), Z16, Z2
	VFMADD213PS (DI), Z2, Z1
	VMOVUPS Z1, (DI)
	ADDQ R8, R9
	ADDQ R11, DI
	ADDQ $64, R13
	DECQ CX
	JNZ  offsetRow
	JMP  sectionDone

minsRow:
`

const panelTextE = `
	VCVTDQ2PS (R13), Z1
	VMOVDQA32 Z18, (R13)
	VCVTDQ2PS Z0, Z0
	VMULPS.BCST SpanSums_D(R9), Z16, Z2
	VMULPS.BCST SpanSums_D(R9), Z17, Z3
	VFMADD213PS (DI), Z2, Z1
	VFNMADD231PS Z3, Z0, Z1
	VMOVUPS Z1, (DI)
	ADDQ R8, R9
	ADDQ R11, DI
	ADDQ $64, R13
	DECQ CX
	JNZ  minsRow

sectionDone:
	ADDQ $SpanSums__size, rowSums-24(SP)
	CMPQ left-8(SP), $0
	JG   nextSection

	MOVQ t_stride+56(FP), AX
	ADDQ AX, t_w+48(FP)
	ADDQ $64, t_dst+0(FP)
	DECQ t_panels+72(FP)
	JNZ  nextPanel
	VZEROUPPER
	RET

`

func (g *vnniPanel) function() {
	g.comment("func panelCodes%sVNNI(t panelVNNI)", g.name)
	g.text("·panelCodes"+g.name+"VNNI", "0", 2800, 104)
	g.op("NO_LOCAL_POINTERS")
	g.op("MOVQ t_ldq+24(FP), DX", "MOVQ t_lds+40(FP), R8")
	g.op(fmt.Sprintf("LEAQ scratch-%d(SP), R12", panelFrame), "ADDQ $63, R12", "ANDQ $~63, R12")
	g.op(g.masks()...)
	g.block(panelTextA)
	if !g.halves() {
		g.op("INCQ R9", "SHRQ $1, R9")
	}
	g.op("MOVQ t_layout+88(FP), AX", fmt.Sprintf("LEAQ %d(BX), R15", panelAhead), "CALL panelScales<>(SB)",
		"MOVQ R10, BX")
	g.op("MOVQ rowSums-24(SP), R9", "ADDQ $SpanSums_Shares, R9", "MOVQ R9, shares-32(SP)",
		fmt.Sprintf("LEAQ %d(R12), DI", panelS))
	g.end()
	g.label("nextBlock")
	g.op(lines(g.bits+1, "(R15)")...)
	g.f("ADDQ $%d, R15", g.codeBytes()+64)
	for v := range 2 {
		for i := range 4 {
			g.op(append(g.unpack(v, i, "(BX)"), fmt.Sprintf("VMOVDQA64 Z27, Z%d", 16+4*v+i))...)
		}
	}
	g.op("VMOVDQA32 (DI), Z24")
	if g.halves() {
		g.op("VMOVDQA32 64(DI), Z25", "ADDQ $64, DI")
	}
	g.block(`
	ADDQ $64, DI
	MOVQ rowQ-16(SP), SI
	MOVQ shares-32(SP), R9
	MOVQ R12, R13
	MOVQ t_rows+64(FP), CX
	PCALIGN $64

nextRow:
`)
	g.dots(0, 16)
	g.dots(1, 20)
	if g.halves() {
		g.op("VPMULLD Z25, Z1, Z1", "VPMULLD Z24, Z0, Z0", "VPADDD Z1, Z0, Z0")
	} else {
		g.op("VPADDD Z1, Z0, Z0", "VPMULLD Z24, Z0, Z0")
	}
	g.block(panelTextB)
	g.f("ADDQ $%d, BX", g.codeBytes())
	g.op("ADDQ $32, rowQ-16(SP)", "ADDQ $4, shares-32(SP)", "DECQ R11", "JNZ nextBlock")
	g.end()
	g.comment("The section's sums go to dst: fma(sum, d·D, dst), and fma(-least, d·M, dst).")
	pairs := 4
	if g.halves() {
		pairs = 8
	}
	for i := range pairs {
		g.f("VMOVDQA32 %d(R12), Z%d", panelPairs+64*i, 8+i)
	}
	g.f("VMOVUPS %d(R12), Z16", panelD)
	g.f("VMOVUPS %d(R12), Z17", panelLeast)
	g.block(panelTextC)
	g.mins()
	g.block(panelTextD)
	g.mins()
	g.block(panelTextE)
}

// scales writes panelScales.
func (g *vnniPanel) scales() {
	g.comment("panelScales brings the scales of a section to the form that they have in the frame at R12: R9 pairs of groups at R10, and\n" +
		"the super-block scale after them. It leaves the codes, which come then, in R10. AX is the layout.")
	g.text("panelScales<>", "NOSPLIT|NOFRAME", 0, 0)
	g.op(fmt.Sprintf("LEAQ %d(R12), DI", panelS), fmt.Sprintf("LEAQ %d(R12), R13", panelPairs))
	g.op("CMPQ AX, $const_byteMins", "JEQ byteMins", "CMPQ AX, $const_int8s", "JEQ int8s", "JLT uint8s")
	g.op("MOVL $15, CX", "VPBROADCASTD CX, Z3", "CMPQ AX, $const_int12Mins", "JEQ int12Mins")
	// S of a pair of groups in Z0 and Z1.
	signed := list("VPMOVSXBD (R10), Z0", "VPMOVSXBD 16(R10), Z1")
	signed12 := join(signed, list("VPMOVZXBD 32(R10), Z2", "VPSLLD $4, Z0, Z0", "VPSLLD $4, Z1, Z1",
		"VPTERNLOGD $0xf8, Z3, Z2, Z0", "VPSRLD $4, Z2, Z2", "VPORD Z2, Z1, Z1"))
	offsets := list("VPSLLD $16, Z1, Z1", "VMOVDQU16 Z1, K2, Z0", "VPMULLW Z26, Z0, Z0", "VMOVDQA32 Z0, (R13)",
		"ADDQ $64, R13")
	loop := func(name string, s, then []string, bytes int) {
		g.end()
		g.label(name)
		g.op(s...)
		g.op("VMOVDQA32 Z0, (DI)", "VMOVDQA32 Z1, 64(DI)", "ADDQ $128, DI")
		g.op(then...)
		g.op(fmt.Sprintf("ADDQ $%d, R10", bytes), "DECQ R9", "JNZ "+name)
	}
	loop("int12s", signed12, offsets, 48)
	g.op("JMP float")
	loop("int8s", signed, offsets, 32)
	g.op("JMP float")
	loop("uint8s", list("VPMOVZXBD (R10), Z0", "VPMOVZXBD 16(R10), Z1"), offsets, 32)
	g.end()
	g.label("float")
	g.op("VMOVUPS (R10), Z0", fmt.Sprintf("VMOVUPS Z0, %d(R12)", panelD), "ADDQ $64, R10", "JMP aligned")
	loop("int12Mins", signed12, list("VMOVDQU32 48(R10), Z0", "VMOVDQA32 Z0, (R13)", "ADDQ $64, R13"), 112)
	g.op("VMOVUPS (R10), Z0", fmt.Sprintf("VMOVUPS Z0, %d(R12)", panelD))
	g.op("VMOVUPS 64(R10), Z0", fmt.Sprintf("VMOVUPS Z0, %d(R12)", panelLeast), "ADDQ $128, R10", "JMP aligned")
	loop("byteMins", signed, list("VPMOVZXBW 32(R10), Z0", "VMOVDQA32 Z0, (R13)", "ADDQ $64, R13"), 64)
	g.op("VCVTPH2PS (R10), Z0", fmt.Sprintf("VMOVUPS Z0, %d(R12)", panelD))
	g.op("VCVTPH2PS 32(R10), Z0", fmt.Sprintf("VMOVUPS Z0, %d(R12)", panelLeast), "ADDQ $64, R10")
	g.end()
	g.label("aligned")
	g.op("ADDQ $63, R10", "ANDQ $~63, R10", "RET")
	g.end()
}

// vnniPanels is the file of the products that take one panel after another.
func vnniPanels() *asm {
	a := newAsm("amd64", "textflag.h", "funcdata.h", "go_asm.h")
	a.end()
	a.comment("Products with AVX-512 VNNI that take one panel after another; affine_panel_vnni_amd64.go draws the frame.")
	a.end()
	levelTables(a)
	(&vnniPanel{asm: a}).scales()
	for _, c := range kinds {
		(&vnniPanel{a, c}).function()
	}
	return a
}
