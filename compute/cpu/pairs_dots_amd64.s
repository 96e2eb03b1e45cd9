//go:build amd64 && !noasm

// A tile of pairs of bfloat16 weights with AVX-512 BF16: for each block of 16 pairs, dst[i][p] += even + odd, where even is the chain
// over the inputs at even places and odd that at odd ones. Pairs are those of pairDots, in rows and in panels.
//
//	x    rows of bfloat16, ldx bytes apart         row i:    (x2, x0) (x3, x1) (x6, x4) (x7, x5) ...
//	w    panels, stride bytes apart                panel p:  [16 outputs of (w2, w0)][16 outputs of (w3, w1)] ...
//	dst  rows of float32, ldd bytes apart; the 16 outputs of panel p are at byte 64p of a row
//
// The first of a pair is the lower half of a word of 32 bits. VDPBF16PS multiplies words by words and adds to 16 sums first the product of
// the upper halves, then that of the lower halves, each rounded like an FMA: two steps of a chain. It takes subnormal numbers for 0;
// there are none (least16).
//
// One row takes 8 or 4 panels at a time, two and three rows 4, so that enough chains run side by side and the processor fetches as many
// streams of weights. Any number of rows takes 2 or 1 and fetches other weights meanwhile.
//
// Registers: SI, AX rows 0, 3 of x; BX, R12, R13 panels 0, 3, 6, or R15 what is fetched and R13 how much at a time; DI the row of dst;
// R9 rows; R10 panels left; R11 blocks left, R14 fours of inputs left of one. Z0-Z23 sums, Z24-Z27 weights and Z28-Z29 inputs, or Z24-Z25
// weights and Z26-Z31 inputs.

#include "textflag.h"
#include "pairs_dots_amd64.h"

#define CLEAR(e, o) VPXORQ e, e, e; VPXORQ o, o, o
#define SUM(d, e, o) VADDPS o, e, e; VADDPS d(DI), e, e; VMOVUPS e, d(DI)

// PANELS hands F each panel: its address, its byte in a row of dst, the number of its first sum and its sums: even and odd for
// each row.
#define PANELS4(F) \
	F((BX), 0, 0, Z0, Z1, Z2, Z3, Z4, Z5); \
	F((BX)(CX*1), 64, 6, Z6, Z7, Z8, Z9, Z10, Z11); \
	F((BX)(CX*2), 128, 12, Z12, Z13, Z14, Z15, Z16, Z17); \
	F((R12), 192, 18, Z18, Z19, Z20, Z21, Z22, Z23)
#define PANELS8(F) \
	PANELS4(F); \
	F((BX)(CX*4), 256, 2, Z2, Z3, , , , ); \
	F((R12)(CX*2), 320, 8, Z8, Z9, , , , ); \
	F((R13), 384, 14, Z14, Z15, , , , ); \
	F((R12)(CX*4), 448, 20, Z20, Z21, , , , )

#define CLEAR_A(w, d, n, e, o, e1, o1, e2, o2) CLEAR(e, o)
#define CLEAR_B(w, d, n, e, o, e1, o1, e2, o2) CLEAR(e, o); CLEAR(e1, o1)
#define CLEAR_C(w, d, n, e, o, e1, o1, e2, o2) CLEAR(e, o); CLEAR(e1, o1); CLEAR(e2, o2)
#define SUM_ROW0(w, d, n, e, o, e1, o1, e2, o2) SUM(d, e, o)
#define SUM_ROW1(w, d, n, e, o, e1, o1, e2, o2) SUM(d, e1, o1)
#define SUM_ROW2(w, d, n, e, o, e1, o1, e2, o2) SUM(d, e2, o2)
#define SUM_A(PANELS) PANELS(SUM_ROW0)
#define SUM_B(PANELS) SUM_A(PANELS); ADDQ R8, DI; PANELS(SUM_ROW1); SUBQ R8, DI
#define SUM_C(PANELS) SUM_B(PANELS); LEAQ (DI)(R8*2), DI; PANELS(SUM_ROW2); SUBQ R8, DI; SUBQ R8, DI
#define DOT_A(w, d, n, e, o, e1, o1, e2, o2) \
	VMOVDQU32 w, Z24; \
	VMOVDQU32 64 w, Z25; \
	DOT(26, 24, n); \
	DOT(27, 25, n+1)
#define DOT_B(w, d, n, e, o, e1, o1, e2, o2) \
	DOT_A(w, d, n, e, o, e1, o1, e2, o2); \
	DOT(28, 24, n+2); \
	DOT(29, 25, n+3)
#define DOT_C(w, d, n, e, o, e1, o1, e2, o2) \
	DOT_B(w, d, n, e, o, e1, o1, e2, o2); \
	DOT(30, 24, n+4); \
	DOT(31, 25, n+5)
#define INPUTS_A VPBROADCASTD (SI), Z26; VPBROADCASTD 4(SI), Z27
#define INPUTS_B INPUTS_A; VPBROADCASTD (SI)(DX*1), Z28; VPBROADCASTD 4(SI)(DX*1), Z29
#define INPUTS_C INPUTS_B; VPBROADCASTD (SI)(DX*2), Z30; VPBROADCASTD 4(SI)(DX*2), Z31

#define MANY_PANELS(block, four, PANELS, n, CLEARS, INPUTS, DOTS, SUMS) \
block: \
	PANELS(CLEARS); \
	MOVQ $8, R14; \
four: \
	INPUTS; \
	PANELS(DOTS); \
	ADDQ $128, BX; \
	ADDQ $128, R12; \
	ADDQ $128, R13; \
	ADDQ $8, SI; \
	DECQ R14; \
	JNZ  four; \
	SUMS(PANELS); \
	DECQ R11; \
	JNZ  block; \
	MOVQ $n, R11; \
	JMP  advance

// ROWS hands F each row: its address in x, the number of its first sum and its sums: even and odd for each panel.
#define ROWS1(F) F((SI), 0, Z0, Z1, Z2, Z3)
#define ROWS2(F) ROWS1(F); F((SI)(DX*1), 4, Z4, Z5, Z6, Z7)
#define ROWS3(F) ROWS2(F); F((SI)(DX*2), 8, Z8, Z9, Z10, Z11)
#define ROWS4(F) ROWS3(F); F((AX), 12, Z12, Z13, Z14, Z15)
#define ROWS5(F) ROWS4(F); F((SI)(DX*4), 16, Z16, Z17, Z18, Z19)
#define ROWS6(F) ROWS5(F); F((AX)(DX*2), 20, Z20, Z21, Z22, Z23)

#define CLEAR1(x, n, e, o, e1, o1) CLEAR(e, o)
#define CLEAR2(x, n, e, o, e1, o1) CLEAR(e, o); CLEAR(e1, o1)
#define SUM1(x, n, e, o, e1, o1) SUM(0, e, o); ADDQ R8, DI
#define SUM2(x, n, e, o, e1, o1) SUM(0, e, o); SUM(64, e1, o1); ADDQ R8, DI
#define DOT1(x, n, e, o, e1, o1) \
	VPBROADCASTD x, Z28; \
	VPBROADCASTD 4 x, Z29; \
	DOT(28, 24, n); \
	DOT(29, 25, n+1)
#define DOT2(x, n, e, o, e1, o1) \
	DOT1(x, n, e, o, e1, o1); \
	DOT(28, 26, n+2); \
	DOT(29, 27, n+3)

#define LOAD1 VMOVDQU32 (BX), Z24; VMOVDQU32 64(BX), Z25
#define LOAD2 LOAD1; VMOVDQU32 (BX)(CX*1), Z26; VMOVDQU32 64(BX)(CX*1), Z27
#define FETCH1 PREFETCHT1 (R15); PREFETCHT1 64(R15)
#define FETCH2 FETCH1; PREFETCHT1 (R15)(CX*1); PREFETCHT1 64(R15)(CX*1)

#define MANY_ROWS(block, four, ROWS, n, CLEARS, FETCHES, LOADS, DOTS, SUMS) \
block: \
	ROWS(CLEARS); \
	MOVQ $8, R14; \
four: \
	LOADS; \
	FETCHES; \
	ADDQ R13, R15; \
	ROWS(DOTS); \
	ADDQ $128, BX; \
	ADDQ $8, SI; \
	ADDQ $8, AX; \
	DECQ R14; \
	JNZ  four; \
	MOVQ dst+0(FP), DI; \
	ROWS(SUMS); \
	DECQ R11; \
	JNZ  block; \
	MOVQ $n, R11; \
	JMP  advance
#define ONE_PANEL(block, four, ROWS) MANY_ROWS(block, four, ROWS, 1, CLEAR1, FETCH1, LOAD1, DOT1, SUM1)
#define TWO_PANELS(block, four, ROWS) MANY_ROWS(block, four, ROWS, 2, CLEAR2, FETCH2, LOAD2, DOT2, SUM2)

// func tilePairDots(dst *float32, ldd int, x *uint16, ldx int, w *uint32, stride, rows, panels, blocks, ahead, fetch int)
TEXT ·tilePairDots(SB), NOSPLIT, $0-88
	MOVQ ldd+8(FP), R8
	MOVQ ldx+24(FP), DX
	MOVQ stride+40(FP), CX
	MOVQ rows+48(FP), R9
	MOVQ panels+56(FP), R10

next:
	MOVQ dst+0(FP), DI
	MOVQ x+16(FP), SI
	MOVQ w+32(FP), BX
	MOVQ ahead+72(FP), R15
	ADDQ BX, R15
	MOVQ blocks+64(FP), R11
	LEAQ (BX)(CX*2), R12
	ADDQ CX, R12
	LEAQ (R12)(CX*2), R13
	ADDQ CX, R13
	LEAQ (SI)(DX*2), AX
	ADDQ DX, AX
	CMPQ R9, $3
	JGT  tall
	CMPQ R10, $4
	JLT  tall
	CMPQ R9, $2
	JGT  r3p4
	JEQ  r2p4
	CMPQ R10, $8
	JLT  r1p4
	JMP  r1p8

	MANY_PANELS(r1p8, r1p8k, PANELS8, 8, CLEAR_A, INPUTS_A, DOT_A, SUM_A)
	MANY_PANELS(r1p4, r1p4k, PANELS4, 4, CLEAR_A, INPUTS_A, DOT_A, SUM_A)
	MANY_PANELS(r2p4, r2p4k, PANELS4, 4, CLEAR_B, INPUTS_B, DOT_B, SUM_B)
	MANY_PANELS(r3p4, r3p4k, PANELS4, 4, CLEAR_C, INPUTS_C, DOT_C, SUM_C)

tall:
	MOVQ fetch+80(FP), R13
	ADDQ R13, R13
#include "pairs_avx512_body_amd64.h"
