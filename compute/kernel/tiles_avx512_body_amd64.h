// The body of a tile of float weights with AVX-512; tiles_avx512_amd64.h draws the layout and holds the loops.

	MOVQ t_ldd+8(FP), R8
	MOVQ t_ldx+24(FP), DX
	MOVQ t_stride+40(FP), CX
	MOVQ t_rows+48(FP), R9
	MOVQ t_panels+56(FP), R10
	MOVBQZX t_accumulate+80(FP), R11
	NEGQ R11
	KMOVW R11, K1

next:
	MOVQ t_dst+0(FP), DI
	MOVQ t_x+16(FP), SI
	MOVQ t_w+32(FP), BX
	MOVQ t_k+64(FP), R11
	LEAQ (BX)(CX*2), R12
	ADDQ CX, R12
	LEAQ (SI)(DX*2), AX
	ADDQ DX, AX
	CMPQ R9, $2
	JGT  tall
	LEAQ (R12)(CX*2), R13
	ADDQ CX, R13
	CMPQ R10, $4
	JLT  tall
	CMPQ R10, $8
	JLT  four
	CMPQ R9, $1
	JEQ  r1p8
	JMP  r2p8

four:
	CMPQ R9, $1
	JEQ  r1p4
	JMP  r2p4

tall:
	LEAQ (AX)(DX*2), R14
	ADDQ DX, R14
	CMPQ R10, $2
	JLT  one
	CMPQ R9, $8
	JEQ  r8p2
	CMPQ R9, $4
	JEQ  r4p2
	JGT  above4
	CMPQ R9, $2
	JLT  r1p2
	JEQ  r2p2
	JMP  r3p2

above4:
	CMPQ R9, $6
	JLT  r5p2
	JEQ  r6p2
	JMP  r7p2

one:
	CMPQ R9, $8
	JEQ  r8p1
	CMPQ R9, $4
	JEQ  r4p1
	JGT  one4
	CMPQ R9, $2
	JLT  r1p1
	JEQ  r2p1
	JMP  r3p1

one4:
	CMPQ R9, $6
	JLT  r5p1
	JEQ  r6p1
	JMP  r7p1

	ONE_ROW(r1p8, r1p8k, PANELS8, 8)
	ONE_ROW(r1p4, r1p4k, PANELS4, 4)
	TWO_ROWS(r2p8, r2p8k, PANELS8, 8)
	TWO_ROWS(r2p4, r2p4k, PANELS4, 4)
	TWO_PANELS(r1p2, r1p2k, ROWS1)
	TWO_PANELS(r2p2, r2p2k, ROWS2)
	TWO_PANELS(r3p2, r3p2k, ROWS3)
	TWO_PANELS(r4p2, r4p2k, ROWS4)
	TWO_PANELS(r5p2, r5p2k, ROWS5)
	TWO_PANELS(r6p2, r6p2k, ROWS6)
	TWO_PANELS(r7p2, r7p2k, ROWS7)
	TWO_PANELS(r8p2, r8p2k, ROWS8)
	ONE_PANEL(r1p1, r1p1k, ROWS1)
	ONE_PANEL(r2p1, r2p1k, ROWS2)
	ONE_PANEL(r3p1, r3p1k, ROWS3)
	ONE_PANEL(r4p1, r4p1k, ROWS4)
	ONE_PANEL(r5p1, r5p1k, ROWS5)
	ONE_PANEL(r6p1, r6p1k, ROWS6)
	ONE_PANEL(r7p1, r7p1k, ROWS7)
	ONE_PANEL(r8p1, r8p1k, ROWS8)

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
