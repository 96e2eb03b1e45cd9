// The body of a tile of float weights with AVX2; tiles_avx2_amd64.h draws the layout and holds the loops.

	MOVQ t_ldd+8(FP), R8
	MOVQ t_ldx+24(FP), DX
	MOVQ t_stride+40(FP), CX
	MOVQ t_rows+48(FP), R9
	MOVQ t_panels+56(FP), R10
	MOVBQZX t_accumulate+80(FP), R11
	NEGQ R11
	VMOVQ R11, X15
	VPBROADCASTQ X15, Y15

next:
	MOVQ t_dst+0(FP), DI
	MOVQ t_x+16(FP), SI
	MOVQ t_w+32(FP), BX
	MOVQ t_k+64(FP), R11
	LEAQ (SI)(DX*2), AX
	ADDQ DX, AX
	CMPQ R9, $1
	JEQ  single
	CMPQ R9, $6
	JEQ  r6
	CMPQ R9, $4
	JEQ  r4
	JGT  r5
	CMPQ R9, $3
	JEQ  r3
	JMP  r2

single:
	CMPQ R10, $4
	JLT  r1
	LEAQ (BX)(CX*2), R12
	ADDQ CX, R12
	PANELS4(LOAD_PANEL)

singleLoop:
	VBROADCASTSS (SI), Y14
	PANELS4(FMA_PANEL)
	ADDQ $STEP, BX
	ADDQ $STEP, R12
	ADDQ $4, SI
	DECQ R11
	JNZ  singleLoop
	PANELS4(STORE_PANEL)
	MOVQ $4, R11
	JMP  advance

	ONE_PANEL(r1, r1k, ROWS1)
	ONE_PANEL(r2, r2k, ROWS2)
	ONE_PANEL(r3, r3k, ROWS3)
	ONE_PANEL(r4, r4k, ROWS4)
	ONE_PANEL(r5, r5k, ROWS5)
	ONE_PANEL(r6, r6k, ROWS6)

// R11 panels are done.
advance:
	SUBQ  R11, R10
	JZ    end
	MOVQ  R11, R12
	SHLQ  $6, R12
	ADDQ  R12, t_dst+0(FP)
	IMULQ CX, R11
	ADDQ  R11, t_w+32(FP)
	JMP   next

// The next rows, and the first panel again: dst and w are at the last R11.
end:
	DECQ  t_groups+72(FP)
	JZ    done
	MOVQ  t_panels+56(FP), R10
	SUBQ  R10, R11
	MOVQ  R11, R12
	IMULQ CX, R11
	ADDQ  R11, t_w+32(FP)
	SHLQ  $6, R12
	MOVQ  R9, R11
	IMULQ R8, R11
	ADDQ  R12, R11
	ADDQ  R11, t_dst+0(FP)
	MOVQ  R9, R11
	IMULQ DX, R11
	ADDQ  R11, t_x+16(FP)
	JMP   next

done:
	VZEROUPPER
	RET
