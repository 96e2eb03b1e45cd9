//go:build !noasm

// Products of quantised weights with SDOT.

#include "go_asm.h"
#include "textflag.h"
#include "neon_arm64.h"

// LOAD4 loads four values of a row, which DOT multiplies with those of each output.
#define LOAD4(q) FMOVS.P 4(q), F4
#define DOT(n, d) SDOT_LANE0(4, n, d)
#define MOST_TILES FIVE_OR_SIX
#include "affine_neon_codes_arm64.h"

// func tileDotNEON(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, codes *byte, sc *spanScales, rows, blocks, first, mins, pairs, kind int)
TEXT ·tileDotNEON(SB), NOSPLIT|NOFRAME, $0-112
	TILE_OF_KIND
