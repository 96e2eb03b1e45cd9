//go:build amd64 && !noasm

// A tile of pairs of bfloat16 weights with AVX-512: for each block of 16 pairs, dst[i][p] += even + odd, where even is the FMA
// chain of the first inputs of the pairs and odd that of the second.
//
//	x    rows of float32, ldx bytes apart          row i:    x0 x1 x2 ...
//	w    panels, stride bytes apart                panel p:  [16 outputs of (w0, w1)][16 outputs of (w2, w3)] ...
//	dst  rows of float32, ldd bytes apart; the 16 outputs of panel p are at byte 64p of a row
//
// A line of weights has 16 pairs as 32-bit words: the lower halves moved up are the first weights, the upper halves alone
// the second.
//
// One row takes 8 or 4 panels at a time, two rows 4, so that enough chains run side by side and the processor fetches as many
// streams of weights. Any number of rows takes 2 or 1 and fetches other weights meanwhile.
//
// Registers: SI, AX rows 0, 3 of x; BX, R12, R13 panels 0, 3, 6, or R15 what is fetched and R13 how much at a time; DI the row of dst;
// R9 rows; R10 panels left; R11 blocks left, R14 pairs left of one. Z0-Z23 sums, Z24-Z25 first weights, Z26-Z27 second ones, Z28-Z29 values of x, Z30 the mask of
// upper halves.

#include "textflag.h"

// PANELS hands F each panel: its address, its byte in a row of dst, its two sums for row 0 and for row 1.
#define PANELS4(F) \
	F((BX), 0, Z0, Z8, Z16, Z20); \
	F((BX)(CX*1), 64, Z1, Z9, Z17, Z21); \
	F((BX)(CX*2), 128, Z2, Z10, Z18, Z22); \
	F((R12), 192, Z3, Z11, Z19, Z23)
#define PANELS8(F) \
	PANELS4(F); \
	F((BX)(CX*4), 256, Z4, Z12, Z4, Z4); \
	F((R12)(CX*2), 320, Z5, Z13, Z5, Z5); \
	F((R13), 384, Z6, Z14, Z6, Z6); \
	F((R12)(CX*4), 448, Z7, Z15, Z7, Z7)

#define CLEAR_A(w, d, e, o, e1, o1) VPXORQ e, e, e; VPXORQ o, o, o
#define CLEAR_AB(w, d, e, o, e1, o1) VPXORQ e, e, e; VPXORQ o, o, o; VPXORQ e1, e1, e1; VPXORQ o1, o1, o1
#define SUM(d, e, o) VADDPS o, e, e; VADDPS d(DI), e, e; VMOVUPS e, d(DI)
#define SUM_A(w, d, e, o, e1, o1) SUM(d, e, o)
#define SUM_B(w, d, e, o, e1, o1) SUM(d, e1, o1)
#define FMA_A(w, d, e, o, e1, o1) \
	VPSLLD $16, w, Z24; \
	VPANDD w, Z30, Z26; \
	VFMADD231PS Z28, Z24, e; \
	VFMADD231PS Z29, Z26, o
#define FMA_AB(w, d, e, o, e1, o1) \
	FMA_A(w, d, e, o, e1, o1); \
	VFMADD231PS Z25, Z24, e1; \
	VFMADD231PS Z27, Z26, o1

#define ONE_ROW(block, pair, PANELS, n) \
block: \
	PANELS(CLEAR_A); \
	MOVQ $16, R14; \
pair: \
	VBROADCASTSS (SI), Z28; \
	VBROADCASTSS 4(SI), Z29; \
	PANELS(FMA_A); \
	ADDQ $64, BX; \
	ADDQ $64, R12; \
	ADDQ $64, R13; \
	ADDQ $8, SI; \
	DECQ R14; \
	JNZ  pair; \
	PANELS(SUM_A); \
	DECQ R11; \
	JNZ  block; \
	MOVQ $n, R11; \
	JMP  advance

// ROWS hands F each row: its address in x, its two sums for panel 0 and for panel 1.
#define ROWS1(F) F((SI), Z0, Z12, Z1, Z13)
#define ROWS2(F) ROWS1(F); F((SI)(DX*1), Z2, Z14, Z3, Z15)
#define ROWS3(F) ROWS2(F); F((SI)(DX*2), Z4, Z16, Z5, Z17)
#define ROWS4(F) ROWS3(F); F((AX), Z6, Z18, Z7, Z19)
#define ROWS5(F) ROWS4(F); F((SI)(DX*4), Z8, Z20, Z9, Z21)
#define ROWS6(F) ROWS5(F); F((AX)(DX*2), Z10, Z22, Z11, Z23)

#define CLEAR1(x, e, o, e1, o1) VPXORQ e, e, e; VPXORQ o, o, o
#define CLEAR2(x, e, o, e1, o1) CLEAR1(x, e, o, e1, o1); VPXORQ e1, e1, e1; VPXORQ o1, o1, o1
#define SUM1(x, e, o, e1, o1) SUM(0, e, o); ADDQ R8, DI
#define SUM2(x, e, o, e1, o1) SUM(0, e, o); SUM(64, e1, o1); ADDQ R8, DI
#define FMA1(x, e, o, e1, o1) VFMADD231PS.BCST x, Z24, e; VFMADD231PS.BCST 4 x, Z26, o
#define FMA2(x, e, o, e1, o1) \
	VBROADCASTSS x, Z28; \
	VFMADD231PS Z28, Z24, e; \
	VFMADD231PS Z28, Z25, e1; \
	VBROADCASTSS 4 x, Z29; \
	VFMADD231PS Z29, Z26, o; \
	VFMADD231PS Z29, Z27, o1

#define NEXT_PAIR(pair) \
	ADDQ $64, BX; \
	ADDQ $8, SI; \
	ADDQ $8, AX; \
	DECQ R14; \
	JNZ  pair; \
	MOVQ t_dst+0(FP), DI

#define ONE_PANEL(block, pair, ROWS) \
block: \
	ROWS(CLEAR1); \
	MOVQ $16, R14; \
pair: \
	VPSLLD $16, (BX), Z24; \
	VPANDD (BX), Z30, Z26; \
	PREFETCHT1 (R15); \
	ADDQ R13, R15; \
	ROWS(FMA1); \
	NEXT_PAIR(pair); \
	ROWS(SUM1); \
	DECQ R11; \
	JNZ  block; \
	MOVQ $1, R11; \
	JMP  advance

#define TWO_PANELS(block, pair, ROWS) \
block: \
	ROWS(CLEAR2); \
	MOVQ $16, R14; \
pair: \
	VPSLLD $16, (BX), Z24; \
	VPSLLD $16, (BX)(CX*1), Z25; \
	VPANDD (BX), Z30, Z26; \
	VPANDD (BX)(CX*1), Z30, Z27; \
	PREFETCHT1 (R15); \
	PREFETCHT1 (R15)(CX*1); \
	ADDQ R13, R15; \
	ROWS(FMA2); \
	NEXT_PAIR(pair); \
	ROWS(SUM2); \
	DECQ R11; \
	JNZ  block; \
	MOVQ $2, R11; \
	JMP  advance

// func tilePairsAVX512(t pairTile)
TEXT ·tilePairsAVX512(SB), NOSPLIT, $0-88
	MOVQ t_ldd+8(FP), R8
	MOVQ t_ldx+24(FP), DX
	MOVQ t_stride+40(FP), CX
	MOVQ t_rows+48(FP), R9
	MOVQ t_panels+56(FP), R10
	VPTERNLOGD $0xff, Z30, Z30, Z30
	VPSLLD $16, Z30, Z30

next:
	MOVQ t_dst+0(FP), DI
	MOVQ t_x+16(FP), SI
	MOVQ t_w+32(FP), BX
	MOVQ t_blocks+64(FP), R11
	MOVQ t_ahead+72(FP), R15
	ADDQ BX, R15
	LEAQ (BX)(CX*2), R12
	ADDQ CX, R12
	LEAQ (R12)(CX*2), R13
	ADDQ CX, R13
	LEAQ (SI)(DX*2), AX
	ADDQ DX, AX
	CMPQ R9, $2
	JGT  tall
	CMPQ R10, $4
	JLT  tall
	CMPQ R9, $2
	JEQ  r2p4
	CMPQ R10, $8
	JLT  r1p4
	JMP  r1p8

r2p4:
	PANELS4(CLEAR_AB)
	MOVQ $16, R14

r2p4k:
	VBROADCASTSS (SI), Z28
	VBROADCASTSS 4(SI), Z29
	VBROADCASTSS (SI)(DX*1), Z25
	VBROADCASTSS 4(SI)(DX*1), Z27
	PANELS4(FMA_AB)
	ADDQ $64, BX
	ADDQ $64, R12
	ADDQ $8, SI
	DECQ R14
	JNZ  r2p4k
	PANELS4(SUM_A)
	ADDQ R8, DI
	PANELS4(SUM_B)
	SUBQ R8, DI
	DECQ R11
	JNZ  r2p4
	MOVQ $4, R11
	JMP  advance

	ONE_ROW(r1p8, r1p8k, PANELS8, 8)
	ONE_ROW(r1p4, r1p4k, PANELS4, 4)

tall:
	MOVQ t_fetch+80(FP), R13
#include "pairs_avx512_body_amd64.h"

// ROUND rounds 16 values to bfloat16: it adds half of the last place, less one if the last bit is even. What is no number
// keeps its upper half, with a bit that says so; what is less than 2⁻⁵⁰ becomes 0.
#define ROUND_CONSTANTS \
	VPTERNLOGD $0xff, Z31, Z31, Z31; \
	VPSRLD $31, Z31, Z29; \
	VPSLLD $16, Z31, Z30; \
	VPSRLD $17, Z31, Z28; \
	VPSLLD $22, Z29, Z27; \
	VPSRLD $1, Z31, Z26; \
	MOVL $0x26800000, AX; \
	VPBROADCASTD AX, Z25
#define ROUND(x, z) \
	VMOVUPS x, z; \
	VPANDD z, Z26, Z1; \
	VPCMPUD $5, Z25, Z1, K1; \
	VCMPPS $3, z, z, K2; \
	VPSRLD $16, z, Z2; \
	VPANDD Z29, Z2, Z2; \
	VPADDD Z28, Z2, Z2; \
	VPADDD z, Z2, Z2; \
	VPORD z, Z27, K2, Z2; \
	VPANDD.Z Z30, Z2, K1, z

// func roundRowAVX512(dst, x *float32, n int)
//
// n is a multiple of 16.
TEXT ·roundRowAVX512(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ n+16(FP), CX
	ROUND_CONSTANTS

round:
	ROUND((SI), Z0)
	VMOVUPS Z0, (DI)
	ADDQ $64, SI
	ADDQ $64, DI
	SUBQ $16, CX
	JNZ  round
	VZEROUPPER
	RET

// func narrowRowAVX512(dst *uint16, x *float32, n int)
//
// n is a multiple of 16.
TEXT ·narrowRowAVX512(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ n+16(FP), CX
	ROUND_CONSTANTS

narrow:
	ROUND((SI), Z0)
	VPSRLD $16, Z0, Z0
	VPMOVDW Z0, (DI)
	ADDQ $64, SI
	ADDQ $32, DI
	SUBQ $16, CX
	JNZ  narrow
	VZEROUPPER
	RET

// func narrowDotsRowAVX512(dst *uint16, x *float32, n int)
//
// narrowRowAVX512 in the order of PairDots: of each four values, (x2, x0) (x3, x1).
TEXT ·narrowDotsRowAVX512(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ n+16(FP), CX
	ROUND_CONSTANTS
	VBROADCASTI32X4 dotOrder<>(SB), Y24

narrowDots:
	ROUND((SI), Z0)
	VPSRLD $16, Z0, Z0
	VPMOVDW Z0, Y0
	VPSHUFB Y24, Y0, Y0
	VMOVDQU32 Y0, (DI)
	ADDQ $64, SI
	ADDQ $32, DI
	SUBQ $16, CX
	JNZ  narrowDots
	VZEROUPPER
	RET

DATA dotOrder<>+0(SB)/8, $0x0302070601000504
DATA dotOrder<>+8(SB)/8, $0x0b0a0f0e09080d0c
GLOBL dotOrder<>(SB), RODATA|NOPTR, $16
