// A tile of an affine type with NEON: a span of one panel and up to 6 rows. For row i it does dst[i] = fma(sum, d·D, dst[i]) and, for types
// with an m, dst[i] = fma(-least, d·M, dst[i]), where sum = Σ T·S·Σ q·(level - offset) over the groups and least = Σ m·T·Σq, in
// whole numbers (affine.go, matAffine).
//
//	q     rows of int8, ldq bytes apart
//	sums  rows of spanSums, lds bytes apart
//	codes [blocks][8 words of 4 codes][16 outputs], packed (affine.go, putCodes)
//	sc    the span's scales (spanScales)
//	dst   rows of 16 float32, ldd bytes apart
//
// Four registers hold a word of the 16 outputs, one code in each byte, which are multiplied with four values of a row. The sums of a
// group stay in registers, those of the span on the stack.
//
// The including file defines for the codes of a type:
//
//	TILES56      FIVE_OR_SIX, or nothing for at most 4 rows
//	CONSTANTS    sets V5 to V7, and for at most 4 rows V24 to V31; may use R10
//	BEGIN_BLOCK, END_BLOCK
//	HALF(ROWS)   takes half a block: unpacks each word into V0-V3, as signed bytes, and does ROWS(DOT_ROW)
//	MIDDLE(ROWS) what comes between the halves: SECOND_GROUP for groups of 16, or nothing
//	MINUS        the place of the groups' -Σq in spanSums; MINUS_SHIFT is 2, or 3 for groups of 16, two for each block
//
// Registers: R0 the row of dst, R1 ldd; R2-R7 sums and R11-R16 q of the rows; R9 where sums for m are in spanSums, or 0; R19 codes, R17 their last bits;
// R20 sc, R21 S or m in it; R22 blocks or pairs left, R23 sums of the span; R25 and R26 the group's -Σq and T in spanSums.
// V0-V3 levels or scales, V4 a number of a row, V8-V31 sums.

#define ROWS1(F) F(R11, R2, 8)
#define ROWS2(F) ROWS1(F); F(R12, R3, 12)
#define ROWS3(F) ROWS2(F); F(R13, R4, 16)
#define ROWS4(F) ROWS3(F); F(R14, R5, 20)
#define ROWS5(F) ROWS4(F); F(R15, R6, 24)
#define ROWS6(F) ROWS5(F); F(R16, R7, 28)

#define ZERO_SPAN(q, s, t) STORE16_NEXT(23, 0)
#define CLEAR_ROW(q, s, t) ZERO16(t)
#define DOT_ROW(q, s, t) LOAD4(q); DOT(0, t); DOT(1, t+1); DOT(2, t+2); DOT(3, t+3)

// BEGIN_GROUP sets the sums of a group to the offset times -Σq; END_GROUP adds T·S times them to those of the span.
#define OFFSET_ROW(q, s, t) FMOVS (s)(R25), F4; MUL16_LANE0(4, 0, t)
#define BEGIN_GROUP(ROWS) \
	ADD $spanScales_offset, R20, R23; \
	LOAD16(23, 0); \
	ROWS(OFFSET_ROW); \
	ADD $4, R25
#define TIMES_ROW(q, s, t) MUL16(0, t, t)
#define ADD_ROW(q, s, t) FMOVS (s)(R26), F4; LOAD16(23, 0); MLA16_LANE0(4, t, 0); STORE16_NEXT(23, 0)
#define END_GROUP(ROWS) \
	LOAD16_NEXT(21, 0); \
	ROWS(TIMES_ROW); \
	MOVD $span-384(SP), R23; \
	ROWS(ADD_ROW)
#define SECOND_GROUP(ROWS) END_GROUP(ROWS); BEGIN_GROUP(ROWS)

// LEAST_ROW adds m times the sums of a pair of groups.
#define LEAST_ROW(q, s, t) \
	FMOVS (s)(R9), F4; \
	SMLAL_LANE(0, 4, 0, t); \
	SMLAL2_LANE(0, 4, 0, t+1); \
	SMLAL_LANE(0, 4, 1, t+2); \
	SMLAL2_LANE(0, 4, 1, t+3); \
	SMLAL_LANE(1, 4, 2, t); \
	SMLAL2_LANE(1, 4, 2, t+1); \
	SMLAL_LANE(1, 4, 3, t+2); \
	SMLAL2_LANE(1, 4, 3, t+3)

// SUM_ROW adds a span's sums, from the stack, to dst, and LESS_ROW takes its least off. R24 points to D or M.
#define SCALED(s, t, FMA) \
	SCVTF16(t); \
	FMOVS spanSums_d(s), F4; \
	LOAD16(24, 0); \
	FMUL16_LANE0(4, 0); \
	LOAD16(10, 4); \
	FMA(0, t, 4); \
	STORE16(10, 4); \
	ADD R1, R10
#define SUM_ROW(q, s, t) LOAD16_NEXT(23, t); SCALED(s, t, FMLA16)
#define LESS_ROW(q, s, t) SCALED(s, t, FMLS16)

#define TILE(name, loop, each, end, ROWS) \
name: \
	ZERO16(0); \
	ROWS(ZERO_SPAN); \
loop: \
	BEGIN_BLOCK; \
	BEGIN_GROUP(ROWS); \
	HALF(ROWS); \
	MIDDLE(ROWS); \
	HALF(ROWS); \
	END_GROUP(ROWS); \
	ADD  $4, R26; \
	END_BLOCK; \
	SUBS $1, R22; \
	BNE  loop; \
	MOVD $span-384(SP), R23; \
	ADD  $spanScales_d, R20, R24; \
	MOVD R0, R10; \
	ROWS(SUM_ROW); \
	CBZ  R9, end; \
	MOVD pairs+96(FP), R22; \
	ADD  $spanScales_m, R20, R21; \
	ROWS(CLEAR_ROW); \
each: \
	LOAD16_NEXT(21, 0); \
	ROWS(LEAST_ROW); \
	ADD  $4, R9; \
	SUBS $1, R22; \
	BNE  each; \
	ADD  $spanScales_least, R20, R24; \
	MOVD R0, R10; \
	ROWS(LESS_ROW); \
end: \
	RET

#define FIVE_OR_SIX \
	CMP $6, R24; \
	BEQ r6; \
	TILE(r5, r5k, r5m, r5e, ROWS5); \
	TILE(r6, r6k, r6m, r6e, ROWS6)
