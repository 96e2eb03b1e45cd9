//go:build amd64 && !noasm

// The roofs of products in tiles: loops on registers alone, with four independent sums in each pass.

#include "textflag.h"
#include "amx_amd64.h"

#define PAIRS46(to) LONG $0x5c4ae2c4; BYTE $(0xc4+8*to) // TDPBF16PS tmm6, tmm4, to
#define PAIRS57(to) LONG $0x5c42e2c4; BYTE $(0xc5+8*to)

// func roofPairsAMX(n int, config *tileConfig)
//
// 4·16·16·32 multiply-adds of bfloat16 in each of n passes.
TEXT ·roofPairsAMX(SB), NOSPLIT, $0-16
	MOVQ n+0(FP), BX
	MOVQ config+8(FP), AX
	TILE_CONFIG

loop:
	PAIRS46(0)
	PAIRS57(1)
	PAIRS46(2)
	PAIRS57(3)
	DECQ BX
	JNZ  loop
	TILE_RELEASE
	RET

#define HIGH46(to) LONG $0x5e4be2c4; BYTE $(0xc4+8*to) // TDPBSSD tmm6, tmm4, to
#define HIGH57(to) LONG $0x5e43e2c4; BYTE $(0xc5+8*to) // TDPBSSD tmm7, tmm5, to

// func roofTileAMX(n int, config *tileConfig)
//
// 4·16·16·64 multiply-adds of bytes in each of n passes.
TEXT ·roofTileAMX(SB), NOSPLIT, $0-16
	MOVQ n+0(FP), BX
	MOVQ config+8(FP), AX
	TILE_CONFIG

loop:
	HIGH46(0)
	HIGH57(1)
	HIGH46(2)
	HIGH57(3)
	DECQ BX
	JNZ  loop
	TILE_RELEASE
	RET
