//go:build amd64 && !noasm

// A tile of pairs of bfloat16 weights with AVX-512 BF16: for each block of 16 pairs, dst[i][p] += even + odd, where even is the chain
// over the inputs at even places and odd that at odd ones. Pairs are those of PairDots, in rows and in panels.
//
//	x    rows of bfloat16, ldx bytes apart         row i:    (x2, x0) (x3, x1) (x6, x4) (x7, x5) ...
//	w    panels, stride bytes apart                panel p:  [16 outputs of (w2, w0)][16 outputs of (w3, w1)] ...
//	dst  rows of float32, ldd bytes apart; the 16 outputs of panel p are at byte 64p of a row
//
// The first of a pair is the lower half of a word of 32 bits. VDPBF16PS multiplies words by words and adds to 16 sums first the product of
// the upper halves, then that of the lower halves, each rounded like an FMA: two steps of a chain. It takes subnormal numbers for 0;
// there are none (least16).
//
// Up to three rows take one panel of at least four after another, so that weights are read from end to end, and fetch what comes 8 KB
// later: blocks are chains of their own, of which enough run side by side. Else rows take 2 panels or 1 and fetch other weights meanwhile.
//
// Registers: SI, AX rows 0, 3 of x; BX panel 0; R15 what is fetched and R13 how much at a time; DI the row of dst; R9 rows; R10 panels
// left; R11 blocks left, R14 fours of inputs left of one. Z0-Z23 sums, Z24-Z27 weights and Z28-Z29 inputs.

#include "textflag.h"
#include "pairs_dots_amd64.h"

#define CLEAR(e, o) VPXORQ e, e, e; VPXORQ o, o, o
#define SUM(d, e, o) VADDPS o, e, e; VADDPS d(DI), e, e; VMOVUPS e, d(DI)

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
	MOVQ t_dst+0(FP), DI; \
	ROWS(SUMS); \
	DECQ R11; \
	JNZ  block; \
	MOVQ $n, R11; \
	JMP  advance
#define ONE_PANEL(block, four, ROWS) MANY_ROWS(block, four, ROWS, 1, CLEAR1, FETCH1, LOAD1, DOT1, SUM1)
#define TWO_PANELS(block, four, ROWS) MANY_ROWS(block, four, ROWS, 2, CLEAR2, FETCH2, LOAD2, DOT2, SUM2)

// func tilePairDots(t pairTile)
TEXT ·tilePairDots(SB), NOSPLIT, $0-88
	MOVQ t_ldd+8(FP), R8
	MOVQ t_ldx+24(FP), DX
	MOVQ t_stride+40(FP), CX
	MOVQ t_rows+48(FP), R9
	MOVQ t_panels+56(FP), R10

next:
	MOVQ t_dst+0(FP), DI
	MOVQ t_x+16(FP), SI
	MOVQ t_w+32(FP), BX
	MOVQ t_ahead+72(FP), R15
	ADDQ BX, R15
	MOVQ t_blocks+64(FP), R11
	LEAQ (SI)(DX*2), AX
	ADDQ DX, AX
	CMPQ R9, $3
	JGT  tall
	CMPQ R10, $4
	JLT  tall
	LEAQ 8192(BX), R15
	MOVQ $128, R13
	JMP  one

tall:
	MOVQ t_fetch+80(FP), R13
	ADDQ R13, R13
#include "pairs_avx512_body_amd64.h"
