// The body of a tile of an affine type with AVX2; affine_avx2_amd64.h draws the layout and holds the loops.

	MOVQ ldq+24(FP), DX
	MOVQ lds+40(FP), R8
	MOVQ stride+56(FP), CX

next:
	MOVQ  q+16(FP), SI
	MOVQ  sums+32(FP), R9
	MOVQ  w+48(FP), BX
	MOVQ  blocks+80(FP), R11
	MOVQ  R11, R12
	IMULQ $CODE_BYTES, R12
	ADDQ  BX, R12
	MOVQ  R11, R13
	IMULQ $SCALE_BYTES, R13
	ADDQ  R12, R13
	CMPQ  rows+64(FP), $1
	JNE   two
	TILE(loop1, LEFT1, RIGHT1)
	JMP   advance

two:
	TILE(loop2, LEFT2, RIGHT2)
	ADDQ    ldd+8(FP), DI
	VMOVUPS Y10, (DI)
	VMOVUPS Y11, 32(DI)

advance:
	ADDQ $64, dst+0(FP)
	ADDQ CX, w+48(FP)
	DECQ panels+72(FP)
	JNZ  next
	VZEROUPPER
	RET
