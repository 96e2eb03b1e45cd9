//go:build amd64 && !noasm

// Tiles of affine types with AMX: those with groups of 32 inputs and of 16, without an m and with one.

#include "textflag.h"
#include "affine_amx_amd64.h"

#define Q_AT(g) 512*g
#define B_BYTES 512
#define S_BYTES 128
#define BATCH 4
#define AT(g) 256*g
#define SUM(g) 192
#define LEAST(o, m) NO_LEAST(o, m)
#define LESS(sum, m, acc) NO_LESS(sum, m, acc)
#define SINGLE PRODUCT46(0); SCALE(0)

// func tiles32AMX(dst *float32, ldd int, q *int8, sums *float32, levels *int8, scales, mins *float32, buf *byte, rows, blocks, all int, config *tileConfig, accumulate bool)
TEXT ·tiles32AMX(SB), NOSPLIT, $0-97
#include "affine_amx_body_amd64.h"

#undef LEAST
#undef LESS
#define LEAST(o, m) LOAD_LEAST(o, m)
#define LESS(sum, m, acc) LESS_M(sum, m, acc)

// func tiles32MinAMX(dst *float32, ldd int, q *int8, sums *float32, levels *int8, scales, mins *float32, buf *byte, rows, blocks, all int, config *tileConfig, accumulate bool)
TEXT ·tiles32MinAMX(SB), NOSPLIT, $0-97
#include "affine_amx_body_amd64.h"

#undef Q_AT
#undef B_BYTES
#undef S_BYTES
#undef BATCH
#undef AT
#undef SUM
#undef SINGLE
#define Q_AT(g) 512*(g/2)+16*(g%2)
#define B_BYTES 256
#define S_BYTES 64
#define BATCH 2
#define AT(g) 256*(g/2)
#define SUM(g) 64*(1+g%2)
#define SINGLE PRODUCT46(0); PRODUCT57(1); SCALE(0); SCALE(1)

// func tiles16MinAMX(dst *float32, ldd int, q *int8, sums *float32, levels *int8, scales, mins *float32, buf *byte, rows, blocks, all int, config *tileConfig, accumulate bool)
TEXT ·tiles16MinAMX(SB), NOSPLIT, $0-97
#include "affine_amx_body_amd64.h"

#undef LEAST
#undef LESS
#define LEAST(o, m) NO_LEAST(o, m)
#define LESS(sum, m, acc) NO_LESS(sum, m, acc)

// func tiles16AMX(dst *float32, ldd int, q *int8, sums *float32, levels *int8, scales, mins *float32, buf *byte, rows, blocks, all int, config *tileConfig, accumulate bool)
TEXT ·tiles16AMX(SB), NOSPLIT, $0-97
#include "affine_amx_body_amd64.h"

// func roofTileAMX(n int, config *tileConfig)
//
// 4·16·16·64 multiply-adds of bytes in each of n passes.
TEXT ·roofTileAMX(SB), NOSPLIT, $0-16
	MOVQ n+0(FP), BX
	MOVQ config+8(FP), AX
	TILE_CONFIG

loop:
	TILE_DOT46(0)
	TILE_DOT57(1)
	TILE_DOT46(2)
	TILE_DOT57(3)
	DECQ BX
	JNZ  loop
	TILE_RELEASE
	RET
