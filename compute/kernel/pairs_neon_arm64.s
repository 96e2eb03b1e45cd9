//go:build !noasm

// A tile of pairs of bfloat16 weights with NEON: for each block of 16 pairs, dst[i][p] += even + odd, where even is the FMA chain of
// the first inputs of the pairs and odd that of the second. A block is gone through twice, once for each.
//
//	x    rows of float32, ldx bytes apart          row i:    x0 x1 x2 ...
//	w    panels, stride bytes apart                panel p:  [16 outputs of (w0, w1)][16 outputs of (w2, w3)] ...
//	dst  rows of float32, ldd bytes apart; the 16 outputs of panel p are at byte 64p of a row
//
// A line of weights has 16 pairs as 32-bit words: the lower halves moved up are the first weights, the upper halves alone the second.
//
// One row takes 4 panels at a time, so that enough chains run side by side. Any number of rows takes 1. Nothing is
// fetched ahead.
//
// Registers: R0 the panel's outputs of the first row, R1 ldd, R2 x, R3 ldx, R4 the panel, R5 stride, R6 rows, R7 panels left, R8 blocks;
// R11-R16 rows of x or, for one row, R11-R14 panels and R15 x; R17 the row of dst, R19 the panel's weights, R20 blocks left and
// then the panels done, R21 pairs left of a block, R22 the sums of the first pass, on the stack. V0-V3 weights, V4 a value of x,
// V7 the mask of upper halves, V8-V31 sums.

#include "textflag.h"
#include "neon_arm64.h"

#define ROWS1(F) F(R11, 8)
#define ROWS2(F) ROWS1(F); F(R12, 12)
#define ROWS3(F) ROWS2(F); F(R13, 16)
#define ROWS4(F) ROWS3(F); F(R14, 20)
#define ROWS5(F) ROWS4(F); F(R15, 24)
#define ROWS6(F) ROWS5(F); F(R16, 28)

// PANELS4 hands F each of four panels: its register, the number of it, and the first of its sums' registers.
#define PANELS4(F) F(R11, 11, 16); F(R12, 12, 20); F(R13, 13, 24); F(R14, 14, 28)

#define FIRST(r) LOAD16_NEXT(r, 0); SHL16BITS(0)
#define SECOND(r) LOAD16_NEXT(r, 0); AND16(7, 0)

#define CLEAR_ROW(x, t) ZERO16(t)
#define KEEP_ROW(x, t) STORE16_NEXT(22, t); SUB $124, x // back to the first pair, and on to the second value
#define FMA_ROW(x, t) FMOVS.P 8(x), F4; FMLA16_LANE0(4, 0, t)
#define SUM_ROW(x, t) SUB $4, x; SUM(t); STORE16(17, t); ADD R1, R17

// SUM adds the sums of both passes, and dst, in t.
#define SUM(t) LOAD16_NEXT(22, 0); FADD16(0, t, t); LOAD16(17, 0); FADD16(0, t, t)

#define CLEAR_PANEL(w, r, t) ZERO16(t)
#define KEEP_PANEL(w, r, t) STORE16_NEXT(22, t); SUB $1024, w
#define FIRST_PANEL(w, r, t) FIRST(r); FMLA16_LANE0(4, 0, t)
#define SECOND_PANEL(w, r, t) SECOND(r); FMLA16_LANE0(4, 0, t)
#define SUM_PANEL(w, r, t) SUM(t); STORE16_NEXT(17, t)

#define REWIND MOVD $sums-384(SP), R22; MOVD $16, R21

#define ONE_PANEL(block, first, second, ROWS) \
block: \
	REWIND; \
	ROWS(CLEAR_ROW); \
first: \
	FIRST(19); \
	ROWS(FMA_ROW); \
	SUBS $1, R21; \
	BNE  first; \
	ROWS(KEEP_ROW); \
	SUB  $1024, R19; \
	REWIND; \
	ROWS(CLEAR_ROW); \
second: \
	SECOND(19); \
	ROWS(FMA_ROW); \
	SUBS $1, R21; \
	BNE  second; \
	MOVD R0, R17; \
	ROWS(SUM_ROW); \
	SUBS $1, R20; \
	BNE  block; \
	MOVD $1, R20; \
	JMP  advance

// func tilePairsNEON(t pairTile)
TEXT ·tilePairsNEON(SB), NOSPLIT, $384-88
	MOVD t_dst+0(FP), R0
	MOVD t_ldd+8(FP), R1
	MOVD t_x+16(FP), R2
	MOVD t_ldx+24(FP), R3
	MOVD t_w+32(FP), R4
	MOVD t_stride+40(FP), R5
	MOVD t_rows+48(FP), R6
	MOVD t_panels+56(FP), R7
	MOVD t_blocks+64(FP), R8
	MOVD $0xffff0000, R9
	VDUP R9, V7.S4

next:
	MOVD R8, R20
	CMP  $1, R6
	BEQ  single
	MOVD R4, R19
	MOVD R2, R11
	ADD  R3, R11, R12
	ADD  R3, R12, R13
	ADD  R3, R13, R14
	ADD  R3, R14, R15
	ADD  R3, R15, R16
	CMP  $4, R6
	BEQ  r4
	BGT  r5or6
	CMP  $3, R6
	BEQ  r3
	JMP  r2

r5or6:
	CMP $6, R6
	BEQ r6
	JMP r5

single:
	MOVD R4, R19
	MOVD R2, R11
	CMP  $4, R7
	BLT  r1
	ADD  R5, R4, R12
	ADD  R5, R12, R13
	ADD  R5, R13, R14
	MOVD R4, R11
	MOVD R2, R15

singleBlock:
	REWIND
	PANELS4(CLEAR_PANEL)

singleFirst:
	FMOVS.P 8(R15), F4
	PANELS4(FIRST_PANEL)
	SUBS $1, R21
	BNE  singleFirst
	PANELS4(KEEP_PANEL)
	SUB  $124, R15
	REWIND
	PANELS4(CLEAR_PANEL)

singleSecond:
	FMOVS.P 8(R15), F4
	PANELS4(SECOND_PANEL)
	SUBS $1, R21
	BNE  singleSecond
	SUB  $4, R15
	MOVD R0, R17
	PANELS4(SUM_PANEL)
	SUBS $1, R20
	BNE  singleBlock
	MOVD $4, R20
	JMP  advance

	ONE_PANEL(r1, r1e, r1o, ROWS1)
	ONE_PANEL(r2, r2e, r2o, ROWS2)
	ONE_PANEL(r3, r3e, r3o, ROWS3)
	ONE_PANEL(r4, r4e, r4o, ROWS4)
	ONE_PANEL(r5, r5e, r5o, ROWS5)
	ONE_PANEL(r6, r6e, r6o, ROWS6)

// R20 panels are done.
advance:
	ADD  R20<<6, R0
	MADD R20, R4, R5, R4
	SUBS R20, R7, R7
	BNE  next
	RET
