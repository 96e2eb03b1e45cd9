// Tiles for the codes of each number of bits with NEON: how these are unpacked (affine.go, putCodes). affine_neon_arm64.h draws the layout
// and holds the loop. The including file defines LOAD4 and DOT, and MOST_TILES as FIVE_OR_SIX or nothing; its function goes on
// to one of these by TILE_OF_KIND.

#include "affine_neon_arm64.h"

#define SPLAT(byte, v) VMOVI $byte, v

// Codes of 8 bits: a line of 64 bytes is a word. Turning the top bit takes 128 off.
#define BEGIN_BLOCK
#define END_BLOCK
#define MIDDLE(ROWS)
#define MINUS spanSums_minus32
#define MINUS_SHIFT 2
#define TILES56 MOST_TILES
#define CONSTANTS SPLAT(128, V5.B16)
#define WORD8(ROWS) LOAD16_NEXT(19, 0); EOR16(5, 0); ROWS(DOT_ROW)
#define HALF(ROWS) WORD8(ROWS); WORD8(ROWS); WORD8(ROWS); WORD8(ROWS)

TEXT tileCodes8<>(SB), NOSPLIT, $384-104
#include "affine_neon_body_arm64.h"

// Codes of 4 bits: a line is two words, in low and in high halves.
#undef CONSTANTS
#undef HALF
#define CONSTANTS SPLAT(15, V5.B16)
#define LINE4(ROWS) LOW4; ROWS(DOT_ROW); HIGH4; ROWS(DOT_ROW)
#define HALF(ROWS) LINE4(ROWS); LINE4(ROWS)
#define LOW4 LOAD16(19, 0); AND16(5, 0)
#define HIGH4 LOAD16_NEXT(19, 0); USHR8_16(4, 0)

TEXT tileCodes4<>(SB), NOSPLIT, $384-104
#include "affine_neon_body_arm64.h"

// Codes of 4 bits that number levels.
#undef CONSTANTS
#undef LOW4
#undef HIGH4
#define CONSTANTS SPLAT(15, V5.B16); ADD $spanScales_levels, R20, R10; VLD1 (R10), [V6.B16]
#define LOW4 LOAD16(19, 0); AND16(5, 0); TBL16(6, 0)
#define HIGH4 LOAD16_NEXT(19, 0); USHR8_16(4, 0); TBL16(6, 0)

TEXT tileLevels<>(SB), NOSPLIT, $384-104
#include "affine_neon_body_arm64.h"

// Codes of 2 bits: a line is four words.
#undef CONSTANTS
#undef HALF
#undef MIDDLE
#undef MINUS
#undef MINUS_SHIFT
#define MINUS spanSums_minus16
#define MINUS_SHIFT 3
#define MIDDLE(ROWS) SECOND_GROUP(ROWS)
#define CONSTANTS SPLAT(3, V5.B16)
#define WORD2(s, ROWS) LOAD16(19, 0); USHR8_16(s, 0); AND16(5, 0); ROWS(DOT_ROW)
#define HALF(ROWS) \
	LOAD16(19, 0); AND16(5, 0); ROWS(DOT_ROW); \
	WORD2(2, ROWS); \
	WORD2(4, ROWS); \
	LOAD16_NEXT(19, 0); USHR8_16(6, 0); ROWS(DOT_ROW)

TEXT tileCodes2<>(SB), NOSPLIT, $384-104
#include "affine_neon_body_arm64.h"

// Codes of 6 bits: three lines are a word each, and their upper two bits a fourth.
#undef CONSTANTS
#undef HALF
#define CONSTANTS SPLAT(63, V5.B16)
#define WORD6(ROWS) LOAD16_NEXT(19, 0); AND16(5, 0); ROWS(DOT_ROW)
#define TOP6(r, f) \
	FMOVQ 16*r-192(R19), f; \
	FMOVQ 16*r-128(R19), F6; \
	SRI8(2, 6, r); \
	FMOVQ 16*r-64(R19), F6; \
	SRI8(4, 6, r); \
	USHR8(2, r, r)
#define HALF(ROWS) \
	WORD6(ROWS); \
	WORD6(ROWS); \
	WORD6(ROWS); \
	TOP6(0, F0); \
	TOP6(1, F1); \
	TOP6(2, F2); \
	TOP6(3, F3); \
	ROWS(DOT_ROW)

TEXT tileCodes6<>(SB), NOSPLIT, $384-104
#include "affine_neon_body_arm64.h"

// Codes of 3 and of 5 bits: those of 2 and of 4, and a line with the last bits, 8 bytes of them for each word. V24-V27 tell from
// which byte of these the 16 bytes of a register take theirs, V28 which bit, V29 is what it adds.
#undef CONSTANTS
#undef HALF
#undef BEGIN_BLOCK
#undef END_BLOCK
#undef TILES56
#define TILES56
#define END_BLOCK MOVD R17, R19
#define LAST_BITS(add) \
	MOVD $0x8040201008040201, R10; \
	VDUP R10, V28.D2; \
	SPLAT(add, V29.B16); \
	SPLAT(2, V31.B16); \
	MOVD $0x0101010101010101, R10; \
	VEOR V24.B16, V24.B16, V24.B16; \
	VMOV R10, V24.D[1]; \
	VADD V31.B16, V24.B16, V25.B16; \
	VADD V31.B16, V25.B16, V26.B16; \
	VADD V31.B16, V26.B16, V27.B16
#define LAST_BIT(r) TBL(r+24, 30, 31); CMTST8(28, 31, 31); AND(29, 31, 31); ORR(31, r, r)
#define WITH_LAST FMOVD.P 8(R17), F30; LAST_BIT(0); LAST_BIT(1); LAST_BIT(2); LAST_BIT(3)
#define CONSTANTS SPLAT(3, V5.B16); LAST_BITS(4)
#define BEGIN_BLOCK ADD $128, R19, R17
#define WORD3(s, ROWS) LOAD16(19, 0); USHR8_16(s, 0); AND16(5, 0); WITH_LAST; ROWS(DOT_ROW)
#define HALF(ROWS) \
	LOAD16(19, 0); AND16(5, 0); WITH_LAST; ROWS(DOT_ROW); \
	WORD3(2, ROWS); \
	WORD3(4, ROWS); \
	LOAD16_NEXT(19, 0); USHR8_16(6, 0); WITH_LAST; ROWS(DOT_ROW)

TEXT tileCodes3<>(SB), NOSPLIT, $384-104
#include "affine_neon_body_arm64.h"

#undef CONSTANTS
#undef HALF
#undef MIDDLE
#undef MINUS
#undef MINUS_SHIFT
#undef BEGIN_BLOCK
#undef LOW4
#undef HIGH4
#define MINUS spanSums_minus32
#define MINUS_SHIFT 2
#define MIDDLE(ROWS)
#define CONSTANTS SPLAT(15, V5.B16); LAST_BITS(16)
#define BEGIN_BLOCK ADD $256, R19, R17
#define LOW4 LOAD16(19, 0); AND16(5, 0); WITH_LAST
#define HIGH4 LOAD16_NEXT(19, 0); USHR8_16(4, 0); WITH_LAST
#define HALF(ROWS) LINE4(ROWS); LINE4(ROWS)

TEXT tileCodes5<>(SB), NOSPLIT, $384-104
#include "affine_neon_body_arm64.h"

// TILE_OF_KIND goes on to the tile of a kind, the bits of a code or const_levelCodes. Arguments and frame are those of the function.
#define TILE_OF_KIND \
	MOVD kind+104(FP), R0; \
	CMP  $4, R0; \
	BEQ  codes4; \
	CMP  $8, R0; \
	BEQ  codes8; \
	CMP  $6, R0; \
	BEQ  codes6; \
	CMP  $5, R0; \
	BEQ  codes5; \
	CMP  $3, R0; \
	BEQ  codes3; \
	CMP  $2, R0; \
	BEQ  codes2; \
	JMP  tileLevels<>(SB); \
codes2: JMP tileCodes2<>(SB); \
codes3: JMP tileCodes3<>(SB); \
codes4: JMP tileCodes4<>(SB); \
codes5: JMP tileCodes5<>(SB); \
codes6: JMP tileCodes6<>(SB); \
codes8: JMP tileCodes8<>(SB)
