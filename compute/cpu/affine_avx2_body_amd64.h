// The body of a tile of an affine type with AVX2; affine_avx2_amd64.h draws the layout and holds the loops.

	MOVQ ldd+8(FP), AX
	MOVQ ldq+24(FP), DX
	MOVQ lds+40(FP), R8
	MOVQ stride+56(FP), CX

next:
	MOVQ  dst+0(FP), DI
	MOVQ  q+16(FP), SI
	MOVQ  sums+32(FP), R9
	LEAQ  (R9)(R8*1), R14
	MOVQ  w+48(FP), BX
	MOVQ  blocks+80(FP), R11
	MOVQ  R11, R12
	IMULQ $CODE_BYTES, R12
	ADDQ  BX, R12
	MOVQ  R11, R13
	SCALES_END
	ADDQ  R12, R13
	XORQ  R10, R10
	CMPQ  rows+64(FP), $1
	JNE   two
	TILE(block1, skip1, odd1, end1, more1, LEFT1, RIGHT1)
	JMP   advance

two:
	TILE(block2, skip2, odd2, end2, more2, LEFT2, RIGHT2)

advance:
	ADDQ $64, dst+0(FP)
	ADDQ CX, w+48(FP)
	DECQ panels+72(FP)
	JNZ  next
	VZEROUPPER
	RET
