//go:build !noasm

// Tiles of float weights with NEON. The layout and the loops are in tiles_neon_body_arm64.h; here are the three ways to read and widen
// the 16 weights of one k, where register r points, into V0-V3:
//
//	F32   64 bytes   [f32 × 16]   as they are
//	F16   32 bytes   [f16 × 16]   converted
//	BF16  32 bytes   [bf16 × 16]  the upper halves of float32

#include "textflag.h"
#include "neon_arm64.h"

// ROWS hands F each row: the pointer to its values, and the first of the four registers of its sums.
#define ROWS1(F) F(R11, 8)
#define ROWS2(F) ROWS1(F); F(R12, 12)
#define ROWS3(F) ROWS2(F); F(R13, 16)
#define ROWS4(F) ROWS3(F); F(R14, 20)
#define ROWS5(F) ROWS4(F); F(R15, 24)
#define ROWS6(F) ROWS5(F); F(R16, 28)

#define LOAD_ROW(x, t) LOAD16(17, t); AND16(7, t); ADD R1, R17
#define STORE_ROW(x, t) STORE16(17, t); ADD R1, R17
#define FMA_ROW(x, t) FMOVS.P 4(x), F4; FMLA16_LANE0(4, 0, t)

#define ONE_PANEL(name, loop, ROWS) \
name: \
	ROWS(LOAD_ROW); \
loop: \
	WIDEN(19); \
	ROWS(FMA_ROW); \
	SUBS $1, R20, R20; \
	BNE  loop; \
	MOVD R0, R17; \
	ROWS(STORE_ROW); \
	MOVD $1, R20; \
	JMP  advance

// PANELS4 hands F each of four panels: the number of the register that points to it, and the first of its sums' registers.
#define PANELS4(F) F(11, 16); F(12, 20); F(13, 24); F(14, 28)

#define LOAD_PANEL(w, t) LOAD16_NEXT(17, t); AND16(7, t)
#define STORE_PANEL(w, t) STORE16_NEXT(17, t)
#define FMA_PANEL(w, t) WIDEN(w); FMLA16_LANE0(4, 0, t)

#define WIDEN(r) LOAD16_NEXT(r, 0)

// func tileF32NEON(t floatTile)
TEXT ·tileF32NEON(SB), NOSPLIT, $0-88
#include "tiles_neon_body_arm64.h"

#undef WIDEN
#define WIDEN(r) LOADHALVES_NEXT(r, 5); FCVTL(5, 0); FCVTL2(5, 1); FCVTL(6, 2); FCVTL2(6, 3)

// func tileF16NEON(t floatTile)
TEXT ·tileF16NEON(SB), NOSPLIT, $0-88
#include "tiles_neon_body_arm64.h"

#undef WIDEN
#define WIDEN(r) LOADHALVES_NEXT(r, 5); SHLL16(5, 0); SHLL16_2(5, 1); SHLL16(6, 2); SHLL16_2(6, 3)

// func tileBF16NEON(t floatTile)
TEXT ·tileBF16NEON(SB), NOSPLIT, $0-88
#include "tiles_neon_body_arm64.h"
