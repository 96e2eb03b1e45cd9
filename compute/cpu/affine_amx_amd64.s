//go:build amd64 && !noasm

#include "textflag.h"

#include "amx_amd64.h"

#define TILE_DOT46(to) LONG $0x5e4be2c4; BYTE $(0xc4+8*to) // TDPBSSD tmm6, tmm4, to
#define TILE_DOT57(to) LONG $0x5e43e2c4; BYTE $(0xc5+8*to)

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
