// One function of affine_panel_vnni_amd64.s: products of rows with panels whose codes are of one kind. The including file defines, as for
// affine_vnni_amd64.h, CODE_BYTES, MASKS and A to D, and GROUP16 for groups of 16 values.

	MOVQ ldq+24(FP), DX
	MOVQ lds+40(FP), R8
	LEAQ scratch-FRAME_BYTES(SP), R12
	ADDQ $63, R12
	ANDQ $~63, R12
	MASKS
	MOVQ offset+96(FP), AX
	VPBROADCASTW AX, Z26
	MOVL $0xaaaaaaaa, AX
	KMOVD AX, K2
	VPXORD Z0, Z0, Z0
	MOVQ R12, R13
	MOVQ rows+64(FP), CX

clear:
	VMOVDQA32 Z0, (R13)
	ADDQ $64, R13
	DECQ CX
	JNZ  clear

nextPanel:
	MOVQ w+48(FP), BX
	MOVQ blocks+80(FP), AX
	MOVQ AX, left-8(SP)
	MOVQ q+16(FP), AX
	MOVQ AX, rowQ-16(SP)
	MOVQ sums+32(FP), AX
	MOVQ AX, rowSums-24(SP)

nextSection:
	MOVQ    left-8(SP), R11
	CMPQ    R11, $const_sectionBlocks
	JLE     short
	MOVQ    $const_sectionBlocks, R11

short:
	SUBQ    R11, left-8(SP)
	MOVQ    BX, R10
	MOVQ    R11, R9
#ifndef GROUP16
	INCQ    R9
	SHRQ    $1, R9
#endif
	MOVQ    layout+88(FP), AX
	LEAQ    AHEAD(BX), R15
	CALL    panelScales<>(SB)
	MOVQ    R10, BX
	MOVQ    rowSums-24(SP), R9
	ADDQ    $spanSums_shares, R9
	MOVQ    R9, shares-32(SP)
	LEAQ    S_BYTES(R12), DI

nextBlock:
	FETCH
	ADDQ $(CODE_BYTES+64), R15
	LEVELS(0, Z16, Z17, Z18, Z19)
	LEVELS(1, Z20, Z21, Z22, Z23)
	VMOVDQA32 (DI), Z24
#ifdef GROUP16
	VMOVDQA32 64(DI), Z25
	ADDQ $64, DI
#endif
	ADDQ $64, DI
	MOVQ rowQ-16(SP), SI
	MOVQ shares-32(SP), R9
	MOVQ R12, R13
	MOVQ rows+64(FP), CX
	PCALIGN $64

nextRow:
	VPXORD Z0, Z0, Z0
	VPDPBUSD.BCST (SI), Z16, Z0
	VPDPBUSD.BCST 4(SI), Z17, Z0
	VPDPBUSD.BCST 8(SI), Z18, Z0
	VPDPBUSD.BCST 12(SI), Z19, Z0
#ifdef GROUP16
	VPXORD Z1, Z1, Z1
	VPDPBUSD.BCST 16(SI), Z20, Z1
	VPDPBUSD.BCST 20(SI), Z21, Z1
	VPDPBUSD.BCST 24(SI), Z22, Z1
	VPDPBUSD.BCST 28(SI), Z23, Z1
	VPMULLD Z25, Z1, Z1
	VPMULLD Z24, Z0, Z0
	VPADDD Z1, Z0, Z0
#else
	VPXORD Z1, Z1, Z1
	VPDPBUSD.BCST 16(SI), Z20, Z1
	VPDPBUSD.BCST 20(SI), Z21, Z1
	VPDPBUSD.BCST 24(SI), Z22, Z1
	VPDPBUSD.BCST 28(SI), Z23, Z1
	VPADDD Z1, Z0, Z0
	VPMULLD Z24, Z0, Z0
#endif
	VPMULLD.BCST (R9), Z0, Z0
	VPADDD (R13), Z0, Z0
	VMOVDQA32 Z0, (R13)
	ADDQ DX, SI
	ADDQ R8, R9
	ADDQ $64, R13
	DECQ CX
	JNZ  nextRow

	ADDQ $CODE_BYTES, BX
	ADDQ $32, rowQ-16(SP)
	ADDQ $4, shares-32(SP)
	DECQ R11
	JNZ  nextBlock

	// The section's sums go to dst: fma(sum, d·D, dst), and fma(-least, d·M, dst).
	VMOVDQA32 PAIR_BYTES(R12), Z8
	VMOVDQA32 PAIR_BYTES+64(R12), Z9
	VMOVDQA32 PAIR_BYTES+128(R12), Z10
	VMOVDQA32 PAIR_BYTES+192(R12), Z11
#ifdef GROUP16
	VMOVDQA32 PAIR_BYTES+256(R12), Z12
	VMOVDQA32 PAIR_BYTES+320(R12), Z13
	VMOVDQA32 PAIR_BYTES+384(R12), Z14
	VMOVDQA32 PAIR_BYTES+448(R12), Z15
#endif
	VMOVUPS D_AT(R12), Z16
	VMOVUPS LEAST_AT(R12), Z17
	VPXORD  Z18, Z18, Z18
	MOVQ ldd+8(FP), R11
	MOVQ dst+0(FP), DI
	MOVQ rowSums-24(SP), R9
	MOVQ R12, R13
	MOVQ rows+64(FP), CX
	CMPQ layout+88(FP), $const_int12Mins
	JGE  minsRow

offsetRow:
	MINS
	VMOVDQA32 (R13), Z1
	VMOVDQA32 Z18, (R13)
	VPSUBD Z0, Z1, Z1
	VCVTDQ2PS Z1, Z1
	VMULPS.BCST spanSums_d(R9), Z16, Z2
	VFMADD213PS (DI), Z2, Z1
	VMOVUPS Z1, (DI)
	ADDQ R8, R9
	ADDQ R11, DI
	ADDQ $64, R13
	DECQ CX
	JNZ  offsetRow
	JMP  sectionDone

minsRow:
	MINS
	VCVTDQ2PS (R13), Z1
	VMOVDQA32 Z18, (R13)
	VCVTDQ2PS Z0, Z0
	VMULPS.BCST spanSums_d(R9), Z16, Z2
	VMULPS.BCST spanSums_d(R9), Z17, Z3
	VFMADD213PS (DI), Z2, Z1
	VFNMADD231PS Z3, Z0, Z1
	VMOVUPS Z1, (DI)
	ADDQ R8, R9
	ADDQ R11, DI
	ADDQ $64, R13
	DECQ CX
	JNZ  minsRow

sectionDone:
	ADDQ $spanSums__size, rowSums-24(SP)
	CMPQ left-8(SP), $0
	JG   nextSection

	MOVQ stride+56(FP), AX
	ADDQ AX, w+48(FP)
	ADDQ $64, dst+0(FP)
	DECQ panels+72(FP)
	JNZ  nextPanel
	VZEROUPPER
	RET
