// The body of a tile of an affine type with AVX2; affine_avx2_amd64.h draws the layout and holds the loops.

	VMOVDQU MASK<>(SB), Y8
	MOVQ    ldq+24(FP), DX
	LEAQ    (DX)(DX*2), R15

next:
	MOVQ dst+0(FP), DI
	MOVQ ldd+8(FP), AX
	MOVQ q+16(FP), SI
	MOVQ sums+32(FP), R9
	MOVQ lds+40(FP), R8
	LEAQ (R9)(R8*1), R14
	MOVQ w+48(FP), BX
	MOVQ blocks+80(FP), R11
	CMPQ rows+64(FP), $2
	JEQ  two
	JGT  more

one:
	SECTION(even1, odd1, end1, mins1, done1, QUAD_ALL, EACH_ALL, ENDS_ALL, ROWS1)
	TESTQ R11, R11
	JZ    advance
	ADDQ  $spanSums__size, R9
	JMP   one

two:
	SECTION(even2, odd2, end2, mins2, done2, QUAD_ALL, EACH_ALL, ENDS_ALL, ROWS2)
	TESTQ R11, R11
	JZ    advance
	ADDQ  $spanSums__size, R9
	ADDQ  $spanSums__size, R14
	JMP   two

more:
	LEAQ (R14)(R8*2), AX
	LEAQ (R9)(R8*2), R8

half:
	MOVQ  BX, section-8(SP)
	MOVQ  SI, values-16(SP)
	MOVQ  R11, left-24(SP)
	CMPQ  rows+64(FP), $4
	JEQ   four
	SECTION(even3, odd3, end3, mins3, done3, QUAD_LEFT, EACH_LEFT, ENDS_LEFT, ROWS3)
	MOVQ  section-8(SP), BX
	MOVQ  values-16(SP), SI
	MOVQ  left-24(SP), R11
	SECTION(even3r, odd3r, end3r, mins3r, done3r, QUAD_RIGHT, EACH_RIGHT, ENDS_RIGHT, ROWS3)
	JMP   end

four:
	SECTION(even4, odd4, end4, mins4, done4, QUAD_LEFT, EACH_LEFT, ENDS_LEFT, ROWS4)
	MOVQ  section-8(SP), BX
	MOVQ  values-16(SP), SI
	MOVQ  left-24(SP), R11
	SECTION(even4r, odd4r, end4r, mins4r, done4r, QUAD_RIGHT, EACH_RIGHT, ENDS_RIGHT, ROWS4)

end:
	TESTQ R11, R11
	JZ    advance
	ADDQ  $spanSums__size, R9
	ADDQ  $spanSums__size, R14
	ADDQ  $spanSums__size, R8
	ADDQ  $spanSums__size, AX
	JMP   half

advance:
	ADDQ $64, dst+0(FP)
	MOVQ stride+56(FP), R10
	ADDQ R10, w+48(FP)
	DECQ panels+72(FP)
	JNZ  next
	VZEROUPPER
	RET
