//go:build amd64 && !noasm

// KV panels with AVX2: tiles of 16·16 numbers to float32, and tiles turned about their diagonal. panel.go draws the types.
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

#define STORE(y, o, base) VMOVUPS y, o(base)
#define ROW_F16(r) \
	VCVTPH2PS 32*r(SI), Y0; \
	VCVTPH2PS 32*r+16(SI), Y1; \
	STORE(Y0, 64*r, DI); \
	STORE(Y1, 64*r+32, DI)
#define ROW_BF16(r) \
	VPMOVZXWD 32*r(SI), Y0; \
	VPMOVZXWD 32*r+16(SI), Y1; \
	VPSLLD    $16, Y0, Y0; \
	VPSLLD    $16, Y1, Y1; \
	STORE(Y0, 64*r, DI); \
	STORE(Y1, 64*r+32, DI)

// SCALED turns the integers of y into numbers and stores them as half a row. Y6 and Y7 are the scales of the two halves.
#define SCALED(y, scale, o, base) VCVTDQ2PS y, y; VMULPS scale, y, y; STORE(y, o, base)
#define TOKEN_SCALE(r) VPBROADCASTW 2*r(SI), X6; VCVTPH2PS X6, Y6; VMOVAPS Y6, Y7
#define ROW_Q8(o, r, base) \
	VPMOVSXBD o(SI), Y0; \
	VPMOVSXBD o+8(SI), Y1; \
	SCALED(Y0, Y6, 64*r, base); \
	SCALED(Y1, Y7, 64*r+32, base)
#define KEYS_Q8(r) ROW_Q8(32+16*r, r, DI); ROW_Q8(288+16*r, r, R9)
#define VALUES_Q8(r) TOKEN_SCALE(r); ROW_Q8(32+32*r, r, DI); ROW_Q8(48+32*r, r, R9)
#define HALF_Q4(o, r, scale) \
	VPMOVZXBD 32+16*r+o(SI), Y1; \
	VPAND     Y8, Y1, Y0; \
	VPSRLD    $4, Y1, Y1; \
	VPSUBD    Y9, Y0, Y0; \
	VPSUBD    Y9, Y1, Y1; \
	SCALED(Y0, scale, 64*r+4*o, DI); \
	SCALED(Y1, scale, 64*r+4*o, R9)
#define KEYS_Q4(r) HALF_Q4(0, r, Y6); HALF_Q4(8, r, Y7)
#define VALUES_Q4(r) TOKEN_SCALE(r); KEYS_Q4(r)

#define NIBBLES \
	MOVL         $15, AX; \
	VMOVD        AX, X8; \
	VPBROADCASTD X8, Y8; \
	MOVL         $8, AX; \
	VMOVD        AX, X9; \
	VPBROADCASTD X9, Y9
#define SCALES VCVTPH2PS (SI), Y6; VCVTPH2PS 16(SI), Y7

// func widenF16AVX2(dst *float32, ldd int, src *byte, n int)
TEXT ·widenF16AVX2(SB), NOSPLIT, $0-32
	ARGUMENTS

loop:
	ROWS(ROW_F16)
	ADDQ $512, SI
	ADDQ DX, DI
	DECQ CX
	JNZ  loop
	VZEROUPPER
	RET

// func widenBF16AVX2(dst *float32, ldd int, src *byte, n int)
TEXT ·widenBF16AVX2(SB), NOSPLIT, $0-32
	ARGUMENTS

loop:
	ROWS(ROW_BF16)
	ADDQ $512, SI
	ADDQ DX, DI
	DECQ CX
	JNZ  loop
	VZEROUPPER
	RET

// func keysQ8AVX2(dst *float32, ldd int, src *byte, n int)
TEXT ·keysQ8AVX2(SB), NOSPLIT, $0-32
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

// func valuesQ8AVX2(dst *float32, ldd int, src *byte, n int)
TEXT ·valuesQ8AVX2(SB), NOSPLIT, $0-32
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

// func keysQ4AVX2(dst *float32, ldd int, src *byte, n int)
TEXT ·keysQ4AVX2(SB), NOSPLIT, $0-32
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

// func valuesQ4AVX2(dst *float32, ldd int, src *byte, n int)
TEXT ·valuesQ4AVX2(SB), NOSPLIT, $0-32
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

// BLOCK turns the 8·8 values at byte o of a tile, whose turned place is at byte to.
#define BLOCK(o, to) \
	QUARTER(o, Y0, Y1, Y2, Y3); \
	QUARTER(o+256, Y4, Y5, Y6, Y7); \
	COLUMN(to, 0, Y0, Y4); \
	COLUMN(to, 1, Y1, Y5); \
	COLUMN(to, 2, Y2, Y6); \
	COLUMN(to, 3, Y3, Y7)

// QUARTER turns 4·4 values in both halves of four rows: half h of the n-th register then holds column 4h+n of them.
#define QUARTER(o, a, b, c, d) \
	VMOVUPS   o(SI), Y8; \
	VMOVUPS   o+64(SI), Y9; \
	VMOVUPS   o+128(SI), Y10; \
	VMOVUPS   o+192(SI), Y11; \
	VUNPCKLPS Y9, Y8, Y12; \
	VUNPCKHPS Y9, Y8, Y13; \
	VUNPCKLPS Y11, Y10, Y14; \
	VUNPCKHPS Y11, Y10, Y15; \
	VUNPCKLPD Y14, Y12, a; \
	VUNPCKHPD Y14, Y12, b; \
	VUNPCKLPD Y15, Y13, c; \
	VUNPCKHPD Y15, Y13, d

// COLUMN writes columns n and n+4 from the n-th register of rows 0-3 and of rows 4-7.
#define COLUMN(to, n, a, b) \
	VPERM2F128 $0x20, b, a, Y8; \
	VPERM2F128 $0x31, b, a, Y9; \
	VMOVUPS    Y8, to+64*n(DI); \
	VMOVUPS    Y9, to+64*(n+4)(DI)

// func transposeTilesAVX2(dst *float32, ldd int, src *float32, n int)
TEXT ·transposeTilesAVX2(SB), NOSPLIT, $0-32
	ARGUMENTS

loop:
	BLOCK(0, 0)
	BLOCK(32, 512)
	BLOCK(512, 32)
	BLOCK(544, 544)
	ADDQ $1024, SI
	ADDQ DX, DI
	DECQ CX
	JNZ  loop
	VZEROUPPER
	RET
