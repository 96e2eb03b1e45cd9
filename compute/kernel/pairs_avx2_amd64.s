//go:build amd64 && !noasm

// A tile of pairs of bfloat16 weights with AVX2: for each block of 16 pairs, dst[i][p] += even + odd, where even is the FMA chain
// of the first inputs of the pairs and odd that of the second. A block is gone through twice, once for each.
//
//	x    rows of float32, ldx bytes apart          row i:    x0 x1 x2 ...
//	w    panels, stride bytes apart                panel p:  [16 outputs of (w0, w1)][16 outputs of (w2, w3)] ...
//	dst  rows of float32, ldd bytes apart; the 16 outputs of panel p are at byte 64p of a row
//
// A line of weights has 16 pairs as 32-bit words: the lower halves moved up are the first weights, the upper halves alone
// the second.
//
// One row takes 4 panels at a time, so that enough chains run side by side and the processor fetches as many streams of weights.
// Any number of rows takes 1 and fetches other weights meanwhile.
//
// Registers: SI, AX rows 0, 3 of x; BX, R12 panels 0, 3; DI the row of dst; R9 rows; R10 panels left; R11 blocks left, R13
// pairs left of one; R15 what is fetched, R14 how much at a time. Y0-Y11 sums, Y12-Y13 weights, Y14 a value of x, Y15 the mask of
// upper halves. The sums of the first pass are kept on the stack.

#include "textflag.h"

#define FIRST(w, y) VMOVDQU w, y; VPSLLD $16, y, y
#define SECOND(w, y) VPAND w, Y15, y

// PANELS4 hands F each panel: its address, its byte in a row of dst and on the stack, its two sums.
#define PANELS4(F) \
	F((BX), 0, Y0, Y1); \
	F((BX)(CX*1), 64, Y2, Y3); \
	F((BX)(CX*2), 128, Y4, Y5); \
	F((R12), 192, Y6, Y7)

#define CLEAR(x, o, a, b) VPXOR a, a, a; VPXOR b, b, b
#define KEEP(x, o, a, b) VMOVUPS a, o(SP); VMOVUPS b, o+32(SP)
#define SUM(at, o, a, b) \
	VADDPS o(SP), a, a; \
	VADDPS o+32(SP), b, b; \
	VADDPS at(DI), a, a; \
	VADDPS at+32(DI), b, b; \
	VMOVUPS a, at(DI); \
	VMOVUPS b, at+32(DI)
#define SUM_PANEL(w, o, a, b) SUM(o, o, a, b)
#define SUM_ROW(x, o, a, b) SUM(0, o, a, b); ADDQ R8, DI
#define FMA_PANEL(WIDEN, w, a, b) \
	WIDEN(w, Y12); \
	WIDEN(32 w, Y13); \
	VFMADD231PS Y14, Y12, a; \
	VFMADD231PS Y14, Y13, b
#define FIRST_PANEL(w, o, a, b) FMA_PANEL(FIRST, w, a, b)
#define SECOND_PANEL(w, o, a, b) FMA_PANEL(SECOND, w, a, b)
#define FIRST_ROW(x, o, a, b) VBROADCASTSS x, Y14; VFMADD231PS Y14, Y12, a; VFMADD231PS Y14, Y13, b
#define SECOND_ROW(x, o, a, b) VBROADCASTSS 4 x, Y14; VFMADD231PS Y14, Y12, a; VFMADD231PS Y14, Y13, b

// ROWS hands F each row: its address in x, its byte on the stack, its two sums.
#define ROWS1(F) F((SI), 0, Y0, Y1)
#define ROWS2(F) ROWS1(F); F((SI)(DX*1), 64, Y2, Y3)
#define ROWS3(F) ROWS2(F); F((SI)(DX*2), 128, Y4, Y5)
#define ROWS4(F) ROWS3(F); F((AX), 192, Y6, Y7)
#define ROWS5(F) ROWS4(F); F((SI)(DX*4), 256, Y8, Y9)
#define ROWS6(F) ROWS5(F); F((AX)(DX*2), 320, Y10, Y11)

#define NEXT_PAIR(pair) \
	ADDQ $64, BX; \
	ADDQ $8, SI; \
	ADDQ $8, AX; \
	DECQ R13; \
	JNZ  pair
#define REWIND \
	SUBQ $1024, BX; \
	SUBQ $128, SI; \
	SUBQ $128, AX; \
	MOVQ $16, R13

#define ONE_PANEL(block, first, second, ROWS) \
block: \
	MOVQ t_dst+0(FP), DI; \
	MOVQ $16, R13; \
	ROWS(CLEAR); \
first: \
	FIRST((BX), Y12); \
	FIRST(32(BX), Y13); \
	PREFETCHT1 (R15); \
	ADDQ R14, R15; \
	ROWS(FIRST_ROW); \
	NEXT_PAIR(first); \
	ROWS(KEEP); \
	ROWS(CLEAR); \
	REWIND; \
second: \
	SECOND((BX), Y12); \
	SECOND(32(BX), Y13); \
	ROWS(SECOND_ROW); \
	NEXT_PAIR(second); \
	ROWS(SUM_ROW); \
	DECQ R11; \
	JNZ  block; \
	MOVQ $1, R11; \
	JMP  advance

// func tilePairsAVX2(t pairTile)
TEXT ·tilePairsAVX2(SB), NOSPLIT, $384-88
	MOVQ t_ldd+8(FP), R8
	MOVQ t_ldx+24(FP), DX
	MOVQ t_stride+40(FP), CX
	MOVQ t_rows+48(FP), R9
	MOVQ t_panels+56(FP), R10
	MOVQ t_fetch+80(FP), R14
	VPCMPEQD Y15, Y15, Y15
	VPSLLD $16, Y15, Y15

next:
	MOVQ t_dst+0(FP), DI
	MOVQ t_x+16(FP), SI
	MOVQ t_w+32(FP), BX
	MOVQ t_blocks+64(FP), R11
	MOVQ t_ahead+72(FP), R15
	ADDQ BX, R15
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

singleBlock:
	MOVQ $16, R13
	PANELS4(CLEAR)

singleFirst:
	VBROADCASTSS (SI), Y14
	PANELS4(FIRST_PANEL)
	ADDQ $64, R12
	NEXT_PAIR(singleFirst)
	PANELS4(KEEP)
	PANELS4(CLEAR)
	SUBQ $1024, R12
	REWIND

singleSecond:
	VBROADCASTSS 4(SI), Y14
	PANELS4(SECOND_PANEL)
	ADDQ $64, R12
	NEXT_PAIR(singleSecond)
	PANELS4(SUM_PANEL)
	DECQ R11
	JNZ  singleBlock
	MOVQ $4, R11
	JMP  advance

	ONE_PANEL(r1, r1e, r1o, ROWS1)
	ONE_PANEL(r2, r2e, r2o, ROWS2)
	ONE_PANEL(r3, r3e, r3o, ROWS3)
	ONE_PANEL(r4, r4e, r4o, ROWS4)
	ONE_PANEL(r5, r5e, r5o, ROWS5)
	ONE_PANEL(r6, r6e, r6o, ROWS6)

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

end:
	VZEROUPPER
	RET

// func roundRowAVX2(dst, x *float32, n int)
//
// Rounds n values, a multiple of 16, to bfloat16: adds half of the last place, less one if the last bit is even. What is no number
// keeps its upper half, with a bit that says so; what is less than 2⁻⁵⁰ becomes 0.
TEXT ·roundRowAVX2(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ n+16(FP), CX
	VPCMPEQD Y15, Y15, Y15
	VPSRLD $31, Y15, Y14
	VPSLLD $16, Y15, Y13
	VPSRLD $17, Y15, Y12
	VPSLLD $22, Y14, Y11
	VPSRLD $1, Y15, Y10
	MOVL $0x267fffff, AX // below 2⁻⁵⁰
	MOVQ AX, X9
	VPBROADCASTD X9, Y9

round:
	VMOVUPS (SI), Y0
	VPAND Y0, Y10, Y1
	VPCMPGTD Y9, Y1, Y1
	VCMPPS $3, Y0, Y0, Y2
	VPSRLD $16, Y0, Y3
	VPAND Y14, Y3, Y3
	VPADDD Y12, Y3, Y3
	VPADDD Y0, Y3, Y3
	VPOR Y0, Y11, Y4
	VBLENDVPS Y2, Y4, Y3, Y3
	VPAND Y13, Y3, Y3
	VPAND Y1, Y3, Y3
	VMOVUPS Y3, (DI)
	ADDQ $32, SI
	ADDQ $32, DI
	SUBQ $8, CX
	JNZ  round
	VZEROUPPER
	RET
