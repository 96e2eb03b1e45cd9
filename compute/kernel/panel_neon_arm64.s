//go:build !noasm

// KV panels with NEON: tiles of 16·16 numbers to float32, and tiles turned about their diagonal. panel.go draws the types.
//
//	dst    tile 0 [16 rows of 64 bytes], tile 1 ldd bytes on, ...
//	Q8_0   [16 scales, F16] then, in keys, [16 rows of 16 int8] of tile 0 and of tile 1, a lane for each token's scale;
//	       in values, for each token, [16 int8 of tile 0][16 int8 of tile 1], all with the token's scale
//	Q4_0   [16 scales, F16] then [16 rows of 16 bytes], low halves for tile 0, high halves for tile 1, 8 above their value
//
// Registers: R0 tile 0 and R3 tile 1 in dst, where a row goes; R1 ldd; R2 src; R4 tiles or pairs left; R5 rows left; R6 the scales of
// values, R7 tile 1 in src. V0-V3 a row; V8-V11 scales.

#include "textflag.h"
#include "neon_arm64.h"

#define ARGUMENTS \
	MOVD dst+0(FP), R0; \
	MOVD ldd+8(FP), R1; \
	MOVD src+16(FP), R2; \
	MOVD n+24(FP), R4; \
	ADD  R1, R0, R3

#define NEXT_ROW(row) SUBS $1, R5; BNE row
#define NEXT_TILE(tile) \
	SUB  $1024, R0; \
	ADD  R1, R0; \
	SUBS $1, R4; \
	BNE  tile; \
	RET
#define NEXT_PAIR(pair) \
	SUB  $1024, R0; \
	SUB  $1024, R3; \
	ADD  R1<<1, R0; \
	ADD  R1<<1, R3; \
	SUBS $1, R4; \
	BNE  pair; \
	RET

// Scales of 16 tokens, or of the next token in all lanes of V8.
#define SCALES LOADHALVES_NEXT(2, 4); FCVTL(4, 8); FCVTL2(4, 9); FCVTL(5, 10); FCVTL2(5, 11)
#define TOKEN_SCALE VLD1R.P 2(R6), [V8.H8]; FCVTL(8, 8)

// KEYS and VALUES write 16 int8 of register n, times the scales, where register r points.
#define KEYS(n, r) FLOATS16(n, 0); FMUL16(8, 0, 0); STORE16_NEXT(r, 0)
#define VALUES(n, r) FLOATS16(n, 0); FMUL16_LANE0(8, 0); STORE16_NEXT(r, 0)

// NIBBLES loads 16 bytes of Q4_0, the values of tile 0 in V4 and of tile 1 in V5.
#define NIBBLES \
	VLD1.P 16(R2), [V5.B16]; \
	AND(6, 5, 4); \
	VUSHR  $4, V5.B16, V5.B16; \
	VSUB   V7.B16, V4.B16, V4.B16; \
	VSUB   V7.B16, V5.B16, V5.B16

// func widenF16NEON(dst *float32, ldd int, src *byte, n int)
TEXT ·widenF16NEON(SB), NOSPLIT, $0-32
	ARGUMENTS

tile:
	MOVD $16, R5

row:
	LOADHALVES_NEXT(2, 4)
	FCVTL(4, 0)
	FCVTL2(4, 1)
	FCVTL(5, 2)
	FCVTL2(5, 3)
	STORE16_NEXT(0, 0)
	NEXT_ROW(row)
	NEXT_TILE(tile)

// func widenBF16NEON(dst *float32, ldd int, src *byte, n int)
TEXT ·widenBF16NEON(SB), NOSPLIT, $0-32
	ARGUMENTS

tile:
	MOVD $16, R5

row:
	LOADHALVES_NEXT(2, 4)
	SHLL16(4, 0)
	SHLL16_2(4, 1)
	SHLL16(5, 2)
	SHLL16_2(5, 3)
	STORE16_NEXT(0, 0)
	NEXT_ROW(row)
	NEXT_TILE(tile)

// func keysQ8NEON(dst *float32, ldd int, src *byte, n int)
TEXT ·keysQ8NEON(SB), NOSPLIT, $0-32
	ARGUMENTS

pair:
	SCALES
	ADD  $256, R2, R7
	MOVD $16, R5

row:
	VLD1.P 16(R2), [V4.B16]
	VLD1.P 16(R7), [V5.B16]
	KEYS(4, 0)
	KEYS(5, 3)
	NEXT_ROW(row)
	MOVD R7, R2
	NEXT_PAIR(pair)

// func valuesQ8NEON(dst *float32, ldd int, src *byte, n int)
TEXT ·valuesQ8NEON(SB), NOSPLIT, $0-32
	ARGUMENTS

pair:
	MOVD R2, R6
	ADD  $32, R2
	MOVD $16, R5

row:
	TOKEN_SCALE
	VLD1.P 32(R2), [V4.B16, V5.B16]
	VALUES(4, 0)
	VALUES(5, 3)
	NEXT_ROW(row)
	NEXT_PAIR(pair)

// func keysQ4NEON(dst *float32, ldd int, src *byte, n int)
TEXT ·keysQ4NEON(SB), NOSPLIT, $0-32
	ARGUMENTS
	VMOVI $15, V6.B16
	VMOVI $8, V7.B16

pair:
	SCALES
	MOVD $16, R5

row:
	NIBBLES
	KEYS(4, 0)
	KEYS(5, 3)
	NEXT_ROW(row)
	NEXT_PAIR(pair)

// func valuesQ4NEON(dst *float32, ldd int, src *byte, n int)
TEXT ·valuesQ4NEON(SB), NOSPLIT, $0-32
	ARGUMENTS
	VMOVI $15, V6.B16
	VMOVI $8, V7.B16

pair:
	MOVD R2, R6
	ADD  $32, R2
	MOVD $16, R5

row:
	TOKEN_SCALE
	NIBBLES
	VALUES(4, 0)
	VALUES(5, 3)
	NEXT_ROW(row)
	NEXT_PAIR(pair)

// BLOCK turns the 4·4 values at byte o of four rows of a tile, whose turned place is at byte to.
#define BLOCK(o, to) \
	FMOVQ o(R2), F0; \
	FMOVQ o+64(R2), F1; \
	FMOVQ o+128(R2), F2; \
	FMOVQ o+192(R2), F3; \
	VTRN1 V1.S4, V0.S4, V4.S4; \
	VTRN2 V1.S4, V0.S4, V5.S4; \
	VTRN1 V3.S4, V2.S4, V6.S4; \
	VTRN2 V3.S4, V2.S4, V7.S4; \
	VTRN1 V6.D2, V4.D2, V0.D2; \
	VTRN1 V7.D2, V5.D2, V1.D2; \
	VTRN2 V6.D2, V4.D2, V2.D2; \
	VTRN2 V7.D2, V5.D2, V3.D2; \
	FMOVQ F0, to(R0); \
	FMOVQ F1, to+64(R0); \
	FMOVQ F2, to+128(R0); \
	FMOVQ F3, to+192(R0)

// func transposeTilesNEON(dst *float32, ldd int, src *float32, n int)
TEXT ·transposeTilesNEON(SB), NOSPLIT, $0-32
	ARGUMENTS

tile:
	MOVD $4, R5

// Four rows of src become four columns of dst.
rows:
	BLOCK(0, 0)
	BLOCK(16, 256)
	BLOCK(32, 512)
	BLOCK(48, 768)
	ADD  $256, R2
	ADD  $16, R0
	SUBS $1, R5
	BNE  rows
	SUB  $64, R0
	ADD  R1, R0
	SUBS $1, R4
	BNE  tile
	RET
