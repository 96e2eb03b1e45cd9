// The body of a tile of an affine type with AVX-512 VNNI; affine_vnni_amd64.h draws the layout and holds the loops.

	MOVQ ldq+24(FP), DX
	MOVQ lds+40(FP), R8
	MOVQ stride+56(FP), CX
	MASKS

next:
	MOVQ  q+16(FP), SI
	MOVQ  sums+32(FP), R9
	MOVQ  w+48(FP), BX
	MOVQ  blocks+80(FP), R11
	MOVQ  R11, R12
	IMULQ $CODE_BYTES, R12
	ADDQ  BX, R12
	MOVQ  R11, R14
	IMULQ $SCALE_BYTES, R14
	ADDQ  R12, R14
	LEAQ  (SI)(DX*2), AX
	ADDQ  DX, AX
	LEAQ  (BX)(CX*1), R13
	MOVQ  rows+64(FP), DI
	CMPQ  panels+72(FP), $2
	JLT   single
	ADDQ  CX, R13
	CMPQ  DI, $4
	JEQ   r4p2
	JGT   above4
	CMPQ  DI, $2
	JEQ   r2p2
	JGT   r3p2
	CMPQ  panels+72(FP), $4
	JLT   r1p2
	LEAQ  (CX)(CX*2), AX
	PANELS4(ZERO_PANEL, 0)

four:
	PANEL_BLOCK
	NEXT_BLOCK(four)
	VMOVUPS Z12, (DI)
	VMOVUPS Z13, 64(DI)
	VMOVUPS Z14, 128(DI)
	VMOVUPS Z15, 192(DI)
	MOVQ    $4, R11
	JMP     advance

above4:
	CMPQ DI, $5
	JEQ  r5p2
	JMP  r6p2

single:
	CMPQ DI, $4
	JEQ  r4p1
	JGT  single4
	CMPQ DI, $2
	JEQ  r2p1
	JGT  r3p1
	JMP  r1p1

single4:
	CMPQ DI, $5
	JEQ  r5p1
	JMP  r6p1

	ONE_PANEL(r1p1, r1p1b, ROWS1)
	ONE_PANEL(r2p1, r2p1b, ROWS2)
	ONE_PANEL(r3p1, r3p1b, ROWS3)
	ONE_PANEL(r4p1, r4p1b, ROWS4)
	ONE_PANEL(r5p1, r5p1b, ROWS5)
	ONE_PANEL(r6p1, r6p1b, ROWS6)
	TWO_PANELS(r1p2, r1p2b, ROWS1)
	TWO_PANELS(r2p2, r2p2b, ROWS2)
	TWO_PANELS(r3p2, r3p2b, ROWS3)
	TWO_PANELS(r4p2, r4p2b, ROWS4)
	TWO_PANELS(r5p2, r5p2b, ROWS5)
	TWO_PANELS(r6p2, r6p2b, ROWS6)

// R11 panels are done.
advance:
	SUBQ  R11, panels+72(FP)
	JZ    end
	MOVQ  R11, R12
	SHLQ  $6, R12
	ADDQ  R12, dst+0(FP)
	IMULQ CX, R11
	ADDQ  R11, w+48(FP)
	JMP   next

end:
	VZEROUPPER
	RET
