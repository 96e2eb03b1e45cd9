//go:build amd64 && !noasm

// Tiles of quantised weights with AVX-512 VNNI: dst[i][p] = chain over the blocks of sum(q[i]·w[p])·(d[i]·scale[p]).
//
//	q       rows of int8, ldq bytes apart, 32 for each block
//	d, s    rows of float32 scales and int32 sums of q, ldb bytes apart, one for each block
//	w       panels, stride bytes apart: all blocks, then their scales
//	  Q8_0  512 bytes for each block: 8 groups of [16 outputs][4 values + 128]
//	  Q4_0  256 bytes for each block: 4 groups of [16 outputs][4 bytes], value+8 of position 4g+t low, of 16+4g+t high
//	  scales 32 bytes for each block: [f16 × 16]
//	dst     rows of float32, ldd bytes apart; the 16 outputs of panel p are at byte 64p of a row
//
// VPDPBUSD multiplies unsigned weights with signed q, so that a sum begins at -128·s (Q4_0: -8·s).
//
// One row takes 4 panels at a time: the processor fetches four streams of weights faster than one. Up to six rows take 2
// or 1, and fetch the next panels to the second cache meanwhile.
//
// Registers: SI, AX rows 0 and 3 of q; R9, R10 the block's d and s of row 0, DI walks them; BX, R13 the first and another
// panel; R12, R14 their scales; R11 blocks left. Z0-Z11 integer sums, Z12-Z23 sums, Z24-Z25 weights or scales, Z26-Z27
// values of q or scratch, Z28 the mask of low halves, Z29 and Z31 bytes of two halves, Z30 zero.

#include "textflag.h"

// ROWS hands F each row: its address in q, o bytes on, and for panels 0 and 1 its integer sums and its sums.
#define ROWS1(F, o) F(o (SI), Z0, Z1, Z12, Z13)
#define ROWS2(F, o) ROWS1(F, o); F(o (SI)(DX*1), Z2, Z3, Z14, Z15)
#define ROWS3(F, o) ROWS2(F, o); F(o (SI)(DX*2), Z4, Z5, Z16, Z17)
#define ROWS4(F, o) ROWS3(F, o); F(o (AX), Z6, Z7, Z18, Z19)
#define ROWS5(F, o) ROWS4(F, o); F(o (SI)(DX*4), Z8, Z9, Z20, Z21)
#define ROWS6(F, o) ROWS5(F, o); F(o (AX)(DX*2), Z10, Z11, Z22, Z23)

// Z26 = -shifted sum of the row's q.
#define OFFSET(shift) VPBROADCASTD (DI), Z26; VPSLLD $shift, Z26, Z26; VPSUBD Z26, Z30, Z26; ADDQ R8, DI

// One panel.
#define ZERO1(q, n, n1, sum, sum1) VPXORQ sum, sum, sum
#define BEGIN81(q, n, n1, sum, sum1) OFFSET(7); VMOVDQA64 Z26, n
#define BEGIN41(q, n, n1, sum, sum1) OFFSET(3); VMOVDQA64 Z26, n
#define DOT1(q, n, n1, sum, sum1) VPDPBUSD.BCST q, Z24, n
#define END1(q, n, n1, sum, sum1) VMULPS.BCST (DI), Z24, Z26; VCVTDQ2PS n, n; VFMADD231PS Z26, n, sum; ADDQ R8, DI
#define STORE1(q, n, n1, sum, sum1) VMOVUPS sum, (DI); ADDQ ldd+8(FP), DI
#define SCALES1 VCVTPH2PS (R12), Z24

// Two panels.
#define ZERO2(q, n, n1, sum, sum1) VPXORQ sum, sum, sum; VPXORQ sum1, sum1, sum1
#define BEGIN82(q, n, n1, sum, sum1) OFFSET(7); VMOVDQA64 Z26, n; VMOVDQA64 Z26, n1
#define BEGIN42(q, n, n1, sum, sum1) OFFSET(3); VMOVDQA64 Z26, n; VMOVDQA64 Z26, n1
#define DOT2(q, n, n1, sum, sum1) VPBROADCASTD q, Z26; VPDPBUSD Z26, Z24, n; VPDPBUSD Z26, Z25, n1
#define END2(q, n, n1, sum, sum1) \
	VBROADCASTSS (DI), Z26; \
	VMULPS       Z26, Z24, Z27; \
	VMULPS       Z26, Z25, Z26; \
	VCVTDQ2PS    n, n; \
	VCVTDQ2PS    n1, n1; \
	VFMADD231PS  Z27, n, sum; \
	VFMADD231PS  Z26, n1, sum1; \
	ADDQ         R8, DI
#define STORE2(q, n, n1, sum, sum1) VMOVUPS sum, (DI); VMOVUPS sum1, 64(DI); ADDQ ldd+8(FP), DI
#define SCALES2 VCVTPH2PS (R12), Z24; VCVTPH2PS (R12)(CX*1), Z25

// Groups of 4 values of q: LOAD fetches the weights of group o/4, STEP takes them to the rows.
#define LOAD81(o) VMOVDQU64 o(BX), Z24; PREFETCHT1 o(R13)
#define LOAD82(o) LOAD81(o); VMOVDQU64 o(BX)(CX*1), Z25; PREFETCHT1 o(R13)(CX*1)
#define STEP8(o, LOAD, ROWS, DOT) LOAD(16*o); ROWS(DOT, o)
#define BLOCK8(LOAD, LOW, HIGH, ROWS, DOT) \
	STEP8(0, LOAD, ROWS, DOT); \
	STEP8(4, LOAD, ROWS, DOT); \
	STEP8(8, LOAD, ROWS, DOT); \
	STEP8(12, LOAD, ROWS, DOT); \
	STEP8(16, LOAD, ROWS, DOT); \
	STEP8(20, LOAD, ROWS, DOT); \
	STEP8(24, LOAD, ROWS, DOT); \
	STEP8(28, LOAD, ROWS, DOT); \
	ADDQ $512, BX; \
	ADDQ $512, R13

#define LOAD41(o) VMOVDQU64 o(BX), Z29; PREFETCHT1 o(R13)
#define LOAD42(o) LOAD41(o); VMOVDQU64 o(BX)(CX*1), Z31; PREFETCHT1 o(R13)(CX*1)
#define LOW1 VPANDQ Z28, Z29, Z24
#define LOW2 LOW1; VPANDQ Z28, Z31, Z25
#define HIGH1 VPSRLW $4, Z29, Z24; VPANDQ Z28, Z24, Z24
#define HIGH2 HIGH1; VPSRLW $4, Z31, Z25; VPANDQ Z28, Z25, Z25
#define STEP4(o, LOAD, LOW, HIGH, ROWS, DOT) LOAD(16*o); LOW; ROWS(DOT, o); HIGH; ROWS(DOT, 16+o)
#define BLOCK4(LOAD, LOW, HIGH, ROWS, DOT) \
	STEP4(0, LOAD, LOW, HIGH, ROWS, DOT); \
	STEP4(4, LOAD, LOW, HIGH, ROWS, DOT); \
	STEP4(8, LOAD, LOW, HIGH, ROWS, DOT); \
	STEP4(12, LOAD, LOW, HIGH, ROWS, DOT); \
	ADDQ $256, BX; \
	ADDQ $256, R13

#define NEXT_BLOCK(loop) \
	ADDQ $32, R12; \
	ADDQ $32, SI; \
	ADDQ $32, AX; \
	ADDQ $4, R9; \
	ADDQ $4, R10; \
	DECQ R11; \
	JNZ  loop; \
	MOVQ dst+0(FP), DI

#define ONE_PANEL(name, loop, ROWS, BEGIN, BLOCK, LOAD) \
name: \
	ROWS(ZERO1, 0); \
loop: \
	MOVQ R10, DI; \
	ROWS(BEGIN, 0); \
	BLOCK(LOAD, LOW1, HIGH1, ROWS, DOT1); \
	MOVQ R9, DI; \
	SCALES1; \
	ROWS(END1, 0); \
	NEXT_BLOCK(loop); \
	ROWS(STORE1, 0); \
	MOVQ $1, R11; \
	JMP  advance

#define TWO_PANELS(name, loop, ROWS, BEGIN, BLOCK, LOAD) \
name: \
	ROWS(ZERO2, 0); \
loop: \
	MOVQ R10, DI; \
	ROWS(BEGIN, 0); \
	BLOCK(LOAD, LOW2, HIGH2, ROWS, DOT2); \
	MOVQ R9, DI; \
	SCALES2; \
	PREFETCHT1 (R12)(CX*2); \
	ROWS(END2, 0); \
	NEXT_BLOCK(loop); \
	ROWS(STORE2, 0); \
	MOVQ $2, R11; \
	JMP  advance

// PANELS4 hands F each of four panels: its weights, o bytes on, its scales, its integer sum and its sum.
#define PANELS4(F, o) \
	F(o (BX), (R12), Z0, Z12); \
	F(o (BX)(CX*1), (R12)(CX*1), Z1, Z13); \
	F(o (BX)(CX*2), (R12)(CX*2), Z2, Z14); \
	F(o (R13), (R14), Z3, Z15)
#define ZERO_PANEL(w, scales, n, sum) VPXORQ sum, sum, sum
#define BEGIN_PANEL(w, scales, n, sum) VMOVDQA64 Z26, n
#define DOT8_PANEL(w, scales, n, sum) VMOVDQU64 w, Z24; VPDPBUSD Z26, Z24, n
#define DOT4_PANEL(w, scales, n, sum) \
	VMOVDQU64 w, Z29; \
	VPANDQ    Z28, Z29, Z24; \
	VPDPBUSD  Z26, Z24, n; \
	VPSRLW    $4, Z29, Z24; \
	VPANDQ    Z28, Z24, Z24; \
	VPDPBUSD  Z27, Z24, n
#define END_PANEL(w, scales, n, sum) VCVTPH2PS scales, Z24; VMULPS Z26, Z24, Z24; VCVTDQ2PS n, n; VFMADD231PS Z24, n, sum
#define PANEL_STEP8(o) VPBROADCASTD o(SI), Z26; PANELS4(DOT8_PANEL, 16*o)
#define PANEL_STEP4(o) VPBROADCASTD o(SI), Z26; VPBROADCASTD 16+o(SI), Z27; PANELS4(DOT4_PANEL, 16*o)
#define PANEL_BLOCK8 \
	OFFSET(7); \
	PANELS4(BEGIN_PANEL, 0); \
	PANEL_STEP8(0); \
	PANEL_STEP8(4); \
	PANEL_STEP8(8); \
	PANEL_STEP8(12); \
	PANEL_STEP8(16); \
	PANEL_STEP8(20); \
	PANEL_STEP8(24); \
	PANEL_STEP8(28); \
	ADDQ $512, BX; \
	ADDQ $512, R13
#define PANEL_BLOCK4 \
	OFFSET(3); \
	PANELS4(BEGIN_PANEL, 0); \
	PANEL_STEP4(0); \
	PANEL_STEP4(4); \
	PANEL_STEP4(8); \
	PANEL_STEP4(12); \
	ADDQ $256, BX; \
	ADDQ $256, R13

#define TILES(BYTES, BEGINS1, BEGINS2, BLOCK, LOADS1, LOADS2, PANEL_BLOCK) \
	MOVQ   ldq+24(FP), DX; \
	MOVQ   ldb+48(FP), R8; \
	MOVQ   stride+64(FP), CX; \
	VPXORQ Z30, Z30, Z30; \
next: \
	MOVQ  q+16(FP), SI; \
	MOVQ  d+32(FP), R9; \
	MOVQ  s+40(FP), R10; \
	MOVQ  w+56(FP), BX; \
	MOVQ  blocks+88(FP), R11; \
	MOVQ  R11, R12; \
	IMULQ $BYTES, R12; \
	ADDQ  BX, R12; \
	LEAQ  (SI)(DX*2), AX; \
	ADDQ  DX, AX; \
	MOVQ  rows+72(FP), DI; \
	CMPQ  panels+80(FP), $2; \
	JLT   single; \
	LEAQ  (BX)(CX*2), R13; \
	CMPQ  DI, $4; \
	JEQ   r4p2; \
	JGT   above4; \
	CMPQ  DI, $2; \
	JEQ   r2p2; \
	JGT   r3p2; \
	CMPQ  panels+80(FP), $4; \
	JLT   r1p2; \
	ADDQ  CX, R13; \
	LEAQ  (R12)(CX*2), R14; \
	ADDQ  CX, R14; \
	PANELS4(ZERO_PANEL, 0); \
four: \
	MOVQ R10, DI; \
	PANEL_BLOCK; \
	VBROADCASTSS (R9), Z26; \
	PANELS4(END_PANEL, 0); \
	ADDQ    $32, R14; \
	NEXT_BLOCK(four); \
	VMOVUPS Z12, (DI); \
	VMOVUPS Z13, 64(DI); \
	VMOVUPS Z14, 128(DI); \
	VMOVUPS Z15, 192(DI); \
	MOVQ    $4, R11; \
	JMP     advance; \
above4: \
	CMPQ DI, $5; \
	JEQ  r5p2; \
	JMP  r6p2; \
single: \
	LEAQ (BX)(CX*1), R13; \
	CMPQ DI, $4; \
	JEQ  r4p1; \
	JGT  single4; \
	CMPQ DI, $2; \
	JEQ  r2p1; \
	JGT  r3p1; \
	JMP  r1p1; \
single4: \
	CMPQ DI, $5; \
	JEQ  r5p1; \
	JMP  r6p1; \
	ONE_PANEL(r1p1, r1p1b, ROWS1, BEGINS1, BLOCK, LOADS1); \
	ONE_PANEL(r2p1, r2p1b, ROWS2, BEGINS1, BLOCK, LOADS1); \
	ONE_PANEL(r3p1, r3p1b, ROWS3, BEGINS1, BLOCK, LOADS1); \
	ONE_PANEL(r4p1, r4p1b, ROWS4, BEGINS1, BLOCK, LOADS1); \
	ONE_PANEL(r5p1, r5p1b, ROWS5, BEGINS1, BLOCK, LOADS1); \
	ONE_PANEL(r6p1, r6p1b, ROWS6, BEGINS1, BLOCK, LOADS1); \
	TWO_PANELS(r1p2, r1p2b, ROWS1, BEGINS2, BLOCK, LOADS2); \
	TWO_PANELS(r2p2, r2p2b, ROWS2, BEGINS2, BLOCK, LOADS2); \
	TWO_PANELS(r3p2, r3p2b, ROWS3, BEGINS2, BLOCK, LOADS2); \
	TWO_PANELS(r4p2, r4p2b, ROWS4, BEGINS2, BLOCK, LOADS2); \
	TWO_PANELS(r5p2, r5p2b, ROWS5, BEGINS2, BLOCK, LOADS2); \
	TWO_PANELS(r6p2, r6p2b, ROWS6, BEGINS2, BLOCK, LOADS2); \
advance: \
	SUBQ  R11, panels+80(FP); \
	JZ    end; \
	MOVQ  R11, R12; \
	SHLQ  $6, R12; \
	ADDQ  R12, dst+0(FP); \
	IMULQ CX, R11; \
	ADDQ  R11, w+56(FP); \
	JMP   next; \
end: \
	VZEROUPPER; \
	RET

// func tileQ8VNNI(dst *float32, ldd int, q *int8, ldq int, d *float32, s *int32, ldb int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileQ8VNNI(SB), NOSPLIT, $0-96
	TILES(512, BEGIN81, BEGIN82, BLOCK8, LOAD81, LOAD82, PANEL_BLOCK8)

// func tileQ4VNNI(dst *float32, ldd int, q *int8, ldq int, d *float32, s *int32, ldb int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileQ4VNNI(SB), NOSPLIT, $0-96
	MOVL         $0x0f0f0f0f, AX
	VPBROADCASTD AX, Z28
	TILES(256, BEGIN41, BEGIN42, BLOCK4, LOAD41, LOAD42, PANEL_BLOCK4)
