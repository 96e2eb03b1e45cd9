//go:build amd64 && !noasm

// KV panels with AVX-512: tiles of 16·16 numbers to float32, and tiles turned about their diagonal. panel.go draws the types.
//
//	dst    tile 0 [16 rows of 64 bytes], tile 1 ldd bytes on, ...
//	Q8_0   [16 scales, F16] then, in keys, [16 rows of 16 int8] of tile 0 and of tile 1, a lane for each token's scale;
//	       in values, for each token, [16 int8 of tile 0][16 int8 of tile 1], all with the token's scale
//	Q4_0   [16 scales, F16] then [16 rows of 16 bytes], low halves for tile 0, high halves for tile 1, 8 above their value

#include "textflag.h"

#define ROWS(F) \
	F(0); F(1); F(2); F(3); F(4); F(5); F(6); F(7); \
	F(8); F(9); F(10); F(11); F(12); F(13); F(14); F(15)

// Registers: DI tile 0, R9 tile 1 in dst; SI the pair in src; DX ldd; CX tiles or pairs left.
#define ARGUMENTS \
	MOVQ dst+0(FP), DI; \
	MOVQ ldd+8(FP), DX; \
	MOVQ src+16(FP), SI; \
	MOVQ n+24(FP), CX; \
	LEAQ (DI)(DX*1), R9

#define STORE(z, o, base) VMOVUPS z, o(base)
#define ROW_F16(r) VCVTPH2PS 32*r(SI), Z0; STORE(Z0, 64*r, DI)
#define ROW_BF16(r) VPMOVZXWD 32*r(SI), Z0; VPSLLD $16, Z0, Z0; STORE(Z0, 64*r, DI)

// SCALED turns the integers of z into numbers and stores them as a row.
#define SCALED(z, scale, o, base) VCVTDQ2PS z, z; VMULPS scale, z, z; STORE(z, o, base)
#define TOKEN_SCALE(r) VPBROADCASTW 2*r(SI), Y2; VCVTPH2PS Y2, Z2
#define KEYS_Q8(r) \
	VPMOVSXBD 32+16*r(SI), Z0; \
	VPMOVSXBD 288+16*r(SI), Z1; \
	SCALED(Z0, Z2, 64*r, DI); \
	SCALED(Z1, Z2, 64*r, R9)
#define VALUES_Q8(r) \
	TOKEN_SCALE(r); \
	VPMOVSXBD 32+32*r(SI), Z0; \
	VPMOVSXBD 48+32*r(SI), Z1; \
	SCALED(Z0, Z2, 64*r, DI); \
	SCALED(Z1, Z2, 64*r, R9)
#define KEYS_Q4(r) \
	VPMOVZXBD 32+16*r(SI), Z1; \
	VPANDD    Z5, Z1, Z0; \
	VPSRLD    $4, Z1, Z1; \
	VPSUBD    Z6, Z0, Z0; \
	VPSUBD    Z6, Z1, Z1; \
	SCALED(Z0, Z2, 64*r, DI); \
	SCALED(Z1, Z2, 64*r, R9)
#define VALUES_Q4(r) TOKEN_SCALE(r); KEYS_Q4(r)

#define NIBBLES \
	MOVL         $15, AX; \
	VPBROADCASTD AX, Z5; \
	MOVL         $8, AX; \
	VPBROADCASTD AX, Z6
#define SCALES VCVTPH2PS (SI), Z2

// func widenF16AVX512(dst *float32, ldd int, src *byte, n int)
TEXT ·widenF16AVX512(SB), NOSPLIT, $0-32
	ARGUMENTS

loop:
	ROWS(ROW_F16)
	ADDQ $512, SI
	ADDQ DX, DI
	DECQ CX
	JNZ  loop
	VZEROUPPER
	RET

// func widenBF16AVX512(dst *float32, ldd int, src *byte, n int)
TEXT ·widenBF16AVX512(SB), NOSPLIT, $0-32
	ARGUMENTS

loop:
	ROWS(ROW_BF16)
	ADDQ $512, SI
	ADDQ DX, DI
	DECQ CX
	JNZ  loop
	VZEROUPPER
	RET

// func keysQ8AVX512(dst *float32, ldd int, src *byte, n int)
TEXT ·keysQ8AVX512(SB), NOSPLIT, $0-32
	ARGUMENTS

loop:
	SCALES
	ROWS(KEYS_Q8)
	ADDQ $544, SI
	LEAQ (DI)(DX*2), DI
	LEAQ (R9)(DX*2), R9
	DECQ CX
	JNZ  loop
	VZEROUPPER
	RET

// func valuesQ8AVX512(dst *float32, ldd int, src *byte, n int)
TEXT ·valuesQ8AVX512(SB), NOSPLIT, $0-32
	ARGUMENTS

loop:
	ROWS(VALUES_Q8)
	ADDQ $544, SI
	LEAQ (DI)(DX*2), DI
	LEAQ (R9)(DX*2), R9
	DECQ CX
	JNZ  loop
	VZEROUPPER
	RET

// func keysQ4AVX512(dst *float32, ldd int, src *byte, n int)
TEXT ·keysQ4AVX512(SB), NOSPLIT, $0-32
	ARGUMENTS
	NIBBLES

loop:
	SCALES
	ROWS(KEYS_Q4)
	ADDQ $288, SI
	LEAQ (DI)(DX*2), DI
	LEAQ (R9)(DX*2), R9
	DECQ CX
	JNZ  loop
	VZEROUPPER
	RET

// func valuesQ4AVX512(dst *float32, ldd int, src *byte, n int)
TEXT ·valuesQ4AVX512(SB), NOSPLIT, $0-32
	ARGUMENTS
	NIBBLES

loop:
	ROWS(VALUES_Q4)
	ADDQ $288, SI
	LEAQ (DI)(DX*2), DI
	LEAQ (R9)(DX*2), R9
	DECQ CX
	JNZ  loop
	VZEROUPPER
	RET

// QUAD turns 4·4 values in each of the four quarters of the registers a to d, by way of t0 to t3: quarter q of the n-th
// register then holds column 4q+n of the four rows.
#define QUAD(a, b, c, d, t0, t1, t2, t3) \
	VUNPCKLPS b, a, t0; \
	VUNPCKHPS b, a, t1; \
	VUNPCKLPS d, c, t2; \
	VUNPCKHPS d, c, t3; \
	VUNPCKLPD t2, t0, a; \
	VUNPCKHPD t2, t0, b; \
	VUNPCKLPD t3, t1, c; \
	VUNPCKHPD t3, t1, d

// COLUMNS writes columns n, n+4, n+8 and n+12 from the n-th register of each four rows.
#define COLUMNS(n, a, b, c, d) \
	VSHUFF32X4 $0x88, b, a, Z16; \
	VSHUFF32X4 $0x88, d, c, Z17; \
	VSHUFF32X4 $0xdd, b, a, Z18; \
	VSHUFF32X4 $0xdd, d, c, Z19; \
	VSHUFF32X4 $0x88, Z17, Z16, Z20; \
	VSHUFF32X4 $0xdd, Z17, Z16, Z21; \
	VSHUFF32X4 $0x88, Z19, Z18, Z22; \
	VSHUFF32X4 $0xdd, Z19, Z18, Z23; \
	VMOVUPS    Z20, 64*n(DI); \
	VMOVUPS    Z22, 64*(n+4)(DI); \
	VMOVUPS    Z21, 64*(n+8)(DI); \
	VMOVUPS    Z23, 64*(n+12)(DI)

// func transposeTilesAVX512(dst *float32, ldd int, src *float32, n int)
TEXT ·transposeTilesAVX512(SB), NOSPLIT, $0-32
	ARGUMENTS

loop:
	VMOVUPS 0(SI), Z0
	VMOVUPS 64(SI), Z1
	VMOVUPS 128(SI), Z2
	VMOVUPS 192(SI), Z3
	VMOVUPS 256(SI), Z4
	VMOVUPS 320(SI), Z5
	VMOVUPS 384(SI), Z6
	VMOVUPS 448(SI), Z7
	VMOVUPS 512(SI), Z8
	VMOVUPS 576(SI), Z9
	VMOVUPS 640(SI), Z10
	VMOVUPS 704(SI), Z11
	VMOVUPS 768(SI), Z12
	VMOVUPS 832(SI), Z13
	VMOVUPS 896(SI), Z14
	VMOVUPS 960(SI), Z15
	QUAD(Z0, Z1, Z2, Z3, Z16, Z17, Z18, Z19)
	QUAD(Z4, Z5, Z6, Z7, Z16, Z17, Z18, Z19)
	QUAD(Z8, Z9, Z10, Z11, Z16, Z17, Z18, Z19)
	QUAD(Z12, Z13, Z14, Z15, Z16, Z17, Z18, Z19)
	COLUMNS(0, Z0, Z4, Z8, Z12)
	COLUMNS(1, Z1, Z5, Z9, Z13)
	COLUMNS(2, Z2, Z6, Z10, Z14)
	COLUMNS(3, Z3, Z7, Z11, Z15)
	ADDQ $1024, SI
	ADDQ DX, DI
	DECQ CX
	JNZ  loop
	VZEROUPPER
	RET
