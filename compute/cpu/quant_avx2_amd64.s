//go:build amd64 && !noasm

// Tiles of quantised weights with AVX2: dst[i][p] = chain over the blocks of sum(q[i]·w[p])·(d[i]·scale[p]), for one or
// two rows.
//
//	q       rows of int8, ldq bytes apart, 32 for each block
//	d, s    rows of float32 scales and int32 sums of q, ldb bytes apart, one for each block
//	w       panels, stride bytes apart: all blocks, then their scales
//	  Q8_0  512 bytes for each block: 8 groups of [16 outputs][4 values + 128]
//	  Q4_0  256 bytes for each block: 4 groups of [16 outputs][4 bytes], value+8 of position 4g+t low, of 16+4g+t high
//	  scales 32 bytes for each block: [f16 × 16]
//	dst     rows of float32, ldd bytes apart; the 16 outputs of panel p are at byte 64p of a row
//
// VPMADDUBSW adds two products of an unsigned and a signed byte in 16 bits. Weights are therefore taken by halves of 4
// bits: the 8 steps of a block stay within 8·2·15·128 < 2¹⁵, which holds for every q. The offset of the weights, 128·s
// (Q4_0: 8·s), is taken off at the end. The next panel is fetched to the second cache meanwhile.
//
// Registers: SI q of row 0; R9, R10 the block's d and s of row 0; BX w; R12 its scales; R11 blocks left. Y0-Y3 sums of low
// halves in 16 bits, Y4-Y7 of high ones, Y8-Y11 sums, Y12-Y13 low and high halves of weights, Y14-Y15 scratch.

#include "textflag.h"

DATA nibbles<>+0(SB)/8, $0x0f0f0f0f0f0f0f0f
DATA nibbles<>+8(SB)/8, $0x0f0f0f0f0f0f0f0f
DATA nibbles<>+16(SB)/8, $0x0f0f0f0f0f0f0f0f
DATA nibbles<>+24(SB)/8, $0x0f0f0f0f0f0f0f0f
GLOBL nibbles<>(SB), RODATA|NOPTR, $32

DATA ones<>+0(SB)/8, $0x0001000100010001
DATA ones<>+8(SB)/8, $0x0001000100010001
DATA ones<>+16(SB)/8, $0x0001000100010001
DATA ones<>+24(SB)/8, $0x0001000100010001
GLOBL ones<>(SB), RODATA|NOPTR, $32

// LEFT and RIGHT hand F each row for outputs 0-7 and 8-15: its address in q, o bytes on, its d and s, its 16-bit sums and
// its sum.
#define LEFT1(F, o) F(o (SI), (R9), (R10), Y0, Y4, Y8)
#define LEFT2(F, o) LEFT1(F, o); F(o (SI)(DX*1), (R9)(R8*1), (R10)(R8*1), Y2, Y6, Y10)
#define RIGHT1(F, o) F(o (SI), (R9), (R10), Y1, Y5, Y9)
#define RIGHT2(F, o) RIGHT1(F, o); F(o (SI)(DX*1), (R9)(R8*1), (R10)(R8*1), Y3, Y7, Y11)

#define ZERO(q, d, s, low, high, sum) VPXOR sum, sum, sum
#define BEGIN(q, d, s, low, high, sum) VPXOR low, low, low; VPXOR high, high, high

// DOT8 uses 4 values of q for both halves of the weights, DOT4 4 values for the low and 4 for the high ones.
#define DOT8(q, d, s, low, high, sum) \
	VPBROADCASTD q, Y14; \
	VPMADDUBSW   Y14, Y12, Y15; \
	VPADDW       Y15, low, low; \
	VPMADDUBSW   Y14, Y13, Y15; \
	VPADDW       Y15, high, high
#define DOT4(q, d, s, low, high, sum) \
	VPBROADCASTD q, Y14; \
	VPMADDUBSW   Y14, Y12, Y15; \
	VPADDW       Y15, low, low; \
	VPBROADCASTD 16+q, Y14; \
	VPMADDUBSW   Y14, Y13, Y15; \
	VPADDW       Y15, low, low

// SPLIT loads 32 bytes of weights as low and high halves.
#define SPLIT(o) \
	VMOVDQU o(BX), Y12; \
	VPSRLW  $4, Y12, Y13; \
	VPAND   nibbles<>(SB), Y12, Y12; \
	VPAND   nibbles<>(SB), Y13, Y13
#define GROUP(o, DOT, LEFT, RIGHT) \
	PREFETCHT1 16*o(BX)(CX*1); \
	SPLIT(16*o); \
	LEFT(DOT, o); \
	SPLIT(16*o+32); \
	RIGHT(DOT, o)

#define BLOCK8(LEFT, RIGHT) \
	GROUP(0, DOT8, LEFT, RIGHT); \
	GROUP(4, DOT8, LEFT, RIGHT); \
	GROUP(8, DOT8, LEFT, RIGHT); \
	GROUP(12, DOT8, LEFT, RIGHT); \
	GROUP(16, DOT8, LEFT, RIGHT); \
	GROUP(20, DOT8, LEFT, RIGHT); \
	GROUP(24, DOT8, LEFT, RIGHT); \
	GROUP(28, DOT8, LEFT, RIGHT); \
	ADDQ $512, BX
#define BLOCK4(LEFT, RIGHT) \
	GROUP(0, DOT4, LEFT, RIGHT); \
	GROUP(4, DOT4, LEFT, RIGHT); \
	GROUP(8, DOT4, LEFT, RIGHT); \
	GROUP(12, DOT4, LEFT, RIGHT); \
	ADDQ $256, BX

// END adds a block to sum. Y12 holds the scales of the weights.
#define END8(q, d, s, low, high, sum) \
	VPMADDWD ones<>(SB), low, low; \
	VPMADDWD ones<>(SB), high, high; \
	VPSLLD   $4, high, high; \
	VPADDD   high, low, low; \
	SCALE(7, d, s, low, sum)
#define END4(q, d, s, low, high, sum) \
	VPMADDWD ones<>(SB), low, low; \
	SCALE(3, d, s, low, sum)
#define SCALE(shift, d, s, n, sum) \
	VPBROADCASTD s, Y14; \
	VPSLLD       $shift, Y14, Y14; \
	VPSUBD       Y14, n, n; \
	VCVTDQ2PS    n, n; \
	VBROADCASTSS d, Y15; \
	VMULPS       Y15, Y12, Y15; \
	VFMADD231PS  Y15, n, sum

#define TILE(loop, LEFT, RIGHT, BLOCK, END) \
	LEFT(ZERO, 0); \
	RIGHT(ZERO, 0); \
loop: \
	LEFT(BEGIN, 0); \
	RIGHT(BEGIN, 0); \
	BLOCK(LEFT, RIGHT); \
	PREFETCHT1 (R12)(CX*1); \
	VCVTPH2PS (R12), Y12; \
	LEFT(END, 0); \
	VCVTPH2PS 16(R12), Y12; \
	RIGHT(END, 0); \
	ADDQ $32, R12; \
	ADDQ $32, SI; \
	ADDQ $4, R9; \
	ADDQ $4, R10; \
	DECQ R11; \
	JNZ  loop; \
	MOVQ dst+0(FP), DI; \
	VMOVUPS Y8, (DI); \
	VMOVUPS Y9, 32(DI)

#define TILES(BYTES, BLOCK, END) \
	MOVQ ldq+24(FP), DX; \
	MOVQ ldb+48(FP), R8; \
	MOVQ stride+64(FP), CX; \
next: \
	MOVQ  q+16(FP), SI; \
	MOVQ  d+32(FP), R9; \
	MOVQ  s+40(FP), R10; \
	MOVQ  w+56(FP), BX; \
	MOVQ  blocks+88(FP), R11; \
	MOVQ  R11, R12; \
	IMULQ $BYTES, R12; \
	ADDQ  BX, R12; \
	CMPQ  rows+72(FP), $1; \
	JNE   two; \
	TILE(loop1, LEFT1, RIGHT1, BLOCK, END); \
	JMP   advance; \
two: \
	TILE(loop2, LEFT2, RIGHT2, BLOCK, END); \
	ADDQ    ldd+8(FP), DI; \
	VMOVUPS Y10, (DI); \
	VMOVUPS Y11, 32(DI); \
advance: \
	ADDQ $64, dst+0(FP); \
	ADDQ CX, w+56(FP); \
	DECQ panels+80(FP); \
	JNZ  next; \
	VZEROUPPER; \
	RET

// func tileQ8AVX2(dst *float32, ldd int, q *int8, ldq int, d *float32, s *int32, ldb int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileQ8AVX2(SB), NOSPLIT, $0-96
	TILES(512, BLOCK8, END8)

// func tileQ4AVX2(dst *float32, ldd int, q *int8, ldq int, d *float32, s *int32, ldb int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileQ4AVX2(SB), NOSPLIT, $0-96
	TILES(256, BLOCK4, END4)
