// The body of a tile of an affine type with AVX2; affine_avx2_amd64.h draws the layout and holds the loops.

	MOVQ ldd+8(FP), AX
	MOVQ ldq+24(FP), DX
	MOVQ lds+40(FP), R8
	VMOVDQU MASK<>(SB), Y8

next:
	MOVQ  dst+0(FP), DI
	MOVQ  q+16(FP), SI
	MOVQ  sums+32(FP), R9
	LEAQ  (R9)(R8*1), R14
	MOVQ  w+48(FP), BX
	MOVQ  blocks+80(FP), R11
	CMPQ  rows+64(FP), $1
	JNE   two
	TILE(section1, even1, odd1, end1, mins1, ROWS1)

two:
	TILE(section2, even2, odd2, end2, mins2, ROWS2)

advance:
	ADDQ $64, dst+0(FP)
	MOVQ stride+56(FP), R10
	ADDQ R10, w+48(FP)
	DECQ panels+72(FP)
	JNZ  next
	VZEROUPPER
	RET
