//go:build amd64 && !noasm

// Tiles of quantised weights with AVX-512 VNNI: dst[i] = chain over the blocks of sum(q[i]·w)·(d[i]·scale), one panel.
//
//	q       rows of int8, ldq bytes apart, 32 for each block
//	d, s    rows of float32 scales and int32 sums of q, ldb bytes apart, one for each block
//	w Q8_0  512 bytes for each block: 8 groups of [16 outputs][4 values + 128]
//	w Q4_0  256 bytes for each block: 4 groups of [16 outputs][4 bytes], value+8 of position 4g+t low, of 16+4g+t high
//	scales  32 bytes for each block: [f16 × 16]
//
// VPDPBUSD multiplies unsigned weights with signed q, so that a sum begins at -128·s (Q4_0: -8·s).
//
// Registers: SI, AX, R13 rows 0, 3, 6 of q; R9, R10 the block's d and s of row 0, DI walks them; BX w; R12 scales; R11
// blocks left. Z0-Z7 integer sums, Z8-Z15 sums, Z31 weights, Z30 zero, Z29 scales, Z28 a product, Z27 the low halves'
// mask, Z26 bytes of two halves.

#include "textflag.h"

// ROWS hands F each row: its address in q, its integer sum and its sum.
#define ROWS1(F) F((SI), Z0, Z8)
#define ROWS2(F) ROWS1(F); F((SI)(DX*1), Z1, Z9)
#define ROWS3(F) ROWS2(F); F((SI)(DX*2), Z2, Z10)
#define ROWS4(F) ROWS3(F); F((AX), Z3, Z11)
#define ROWS5(F) ROWS4(F); F((SI)(DX*4), Z4, Z12)
#define ROWS6(F) ROWS5(F); F((AX)(DX*2), Z5, Z13)
#define ROWS7(F) ROWS6(F); F((R13), Z6, Z14)
#define ROWS8(F) ROWS7(F); F((AX)(DX*4), Z7, Z15)

#define ZERO(q, n, sum) VPXORQ sum, sum, sum
#define BEGIN8(q, n, sum) VPBROADCASTD (DI), n; VPSLLD $7, n, n; VPSUBD n, Z30, n; ADDQ CX, DI
#define BEGIN4(q, n, sum) VPBROADCASTD (DI), n; VPSLLD $3, n, n; VPSUBD n, Z30, n; ADDQ CX, DI
#define DOT0(q, n, sum) VPDPBUSD.BCST 0 q, Z31, n
#define DOT4(q, n, sum) VPDPBUSD.BCST 4 q, Z31, n
#define DOT8(q, n, sum) VPDPBUSD.BCST 8 q, Z31, n
#define DOT12(q, n, sum) VPDPBUSD.BCST 12 q, Z31, n
#define DOT16(q, n, sum) VPDPBUSD.BCST 16 q, Z31, n
#define DOT20(q, n, sum) VPDPBUSD.BCST 20 q, Z31, n
#define DOT24(q, n, sum) VPDPBUSD.BCST 24 q, Z31, n
#define DOT28(q, n, sum) VPDPBUSD.BCST 28 q, Z31, n
#define END(q, n, sum) VMULPS.BCST (DI), Z29, Z28; VCVTDQ2PS n, n; VFMADD231PS Z28, n, sum; ADDQ CX, DI
#define STORE(q, n, sum) VMOVUPS sum, (DI); ADDQ R8, DI

#define BLOCK8(ROWS) \
	ROWS(BEGIN8); \
	VMOVDQU64 (BX), Z31; \
	ROWS(DOT0); \
	VMOVDQU64 64(BX), Z31; \
	ROWS(DOT4); \
	VMOVDQU64 128(BX), Z31; \
	ROWS(DOT8); \
	VMOVDQU64 192(BX), Z31; \
	ROWS(DOT12); \
	VMOVDQU64 256(BX), Z31; \
	ROWS(DOT16); \
	VMOVDQU64 320(BX), Z31; \
	ROWS(DOT20); \
	VMOVDQU64 384(BX), Z31; \
	ROWS(DOT24); \
	VMOVDQU64 448(BX), Z31; \
	ROWS(DOT28); \
	ADDQ $512, BX

#define BLOCK4(ROWS) \
	ROWS(BEGIN4); \
	HALVES(0, ROWS, DOT0, DOT16); \
	HALVES(64, ROWS, DOT4, DOT20); \
	HALVES(128, ROWS, DOT8, DOT24); \
	HALVES(192, ROWS, DOT12, DOT28); \
	ADDQ $256, BX

#define HALVES(o, ROWS, LOW, HIGH) \
	VMOVDQU64 o(BX), Z26; \
	VPANDQ    Z27, Z26, Z31; \
	ROWS(LOW); \
	VPSRLW    $4, Z26, Z26; \
	VPANDQ    Z27, Z26, Z31; \
	ROWS(HIGH)

#define TILE(name, loop, ROWS, BLOCK) \
name: \
	ROWS(ZERO); \
loop: \
	MOVQ R10, DI; \
	BLOCK(ROWS); \
	VCVTPH2PS (R12), Z29; \
	MOVQ R9, DI; \
	ROWS(END); \
	ADDQ $32, R12; \
	ADDQ $32, SI; \
	ADDQ $32, AX; \
	ADDQ $32, R13; \
	ADDQ $4, R9; \
	ADDQ $4, R10; \
	DECQ R11; \
	JNZ  loop; \
	MOVQ dst+0(FP), DI; \
	ROWS(STORE); \
	VZEROUPPER; \
	RET

#define SETUP \
	MOVQ   ldd+8(FP), R8; \
	MOVQ   q+16(FP), SI; \
	MOVQ   ldq+24(FP), DX; \
	MOVQ   d+32(FP), R9; \
	MOVQ   s+40(FP), R10; \
	MOVQ   ldb+48(FP), CX; \
	MOVQ   w+56(FP), BX; \
	MOVQ   scales+64(FP), R12; \
	MOVQ   rows+72(FP), DI; \
	MOVQ   blocks+80(FP), R11; \
	VPXORQ Z30, Z30, Z30; \
	LEAQ   (SI)(DX*2), AX; \
	ADDQ   DX, AX; \
	LEAQ   (AX)(DX*2), R13; \
	ADDQ   DX, R13; \
	CMPQ   DI, $1; \
	JEQ    r1; \
	CMPQ   DI, $8; \
	JEQ    r8; \
	CMPQ   DI, $4; \
	JEQ    r4; \
	JGT    above4; \
	CMPQ   DI, $3; \
	JLT    r2; \
	JMP    r3; \
above4: \
	CMPQ   DI, $6; \
	JLT    r5; \
	JEQ    r6; \
	JMP    r7

#define TILES(BLOCK) \
	TILE(r1, loop1, ROWS1, BLOCK); \
	TILE(r2, loop2, ROWS2, BLOCK); \
	TILE(r3, loop3, ROWS3, BLOCK); \
	TILE(r4, loop4, ROWS4, BLOCK); \
	TILE(r5, loop5, ROWS5, BLOCK); \
	TILE(r6, loop6, ROWS6, BLOCK); \
	TILE(r7, loop7, ROWS7, BLOCK); \
	TILE(r8, loop8, ROWS8, BLOCK)

// func tileQ8VNNI(dst *float32, ldd int, q *int8, ldq int, d *float32, s *int32, ldb int, w, scales *byte, rows, blocks int)
TEXT ·tileQ8VNNI(SB), NOSPLIT, $0-88
	SETUP
	TILES(BLOCK8)

// func tileQ4VNNI(dst *float32, ldd int, q *int8, ldq int, d *float32, s *int32, ldb int, w, scales *byte, rows, blocks int)
TEXT ·tileQ4VNNI(SB), NOSPLIT, $0-88
	MOVL         $0x0f0f0f0f, AX
	VPBROADCASTD AX, Z27
	SETUP
	TILES(BLOCK4)
