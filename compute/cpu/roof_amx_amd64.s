//go:build amd64 && !noasm

// The roof of products of bfloat16 in tiles: a loop on registers alone, with four independent sums in each pass.

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
