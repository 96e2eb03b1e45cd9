//go:build !noasm

// The softmax of attention with NEON, in powers of two. A row of scores is n float32, n a multiple of 16 and at least 16.
//
//	s     row 0 [16 scores][16 scores] ...   ld bytes on: row 1 ...
//	most, total, a, b   a value for each row

#include "textflag.h"
#include "neon_arm64.h"

// LOAD_EXP2 loads exp2Table: V16 the least argument, V17-V23 the polynomial, V24 the lowest number.
#define LOAD_EXP2 \
	MOVD    $·exp2Table(SB), R9; \
	VLD1R.P 4(R9), [V16.S4]; \
	VLD1R.P 4(R9), [V17.S4]; \
	VLD1R.P 4(R9), [V18.S4]; \
	VLD1R.P 4(R9), [V19.S4]; \
	VLD1R.P 4(R9), [V20.S4]; \
	VLD1R.P 4(R9), [V21.S4]; \
	VLD1R.P 4(R9), [V22.S4]; \
	VLD1R.P 4(R9), [V23.S4]; \
	VLD1R.P 4(R9), [V24.S4]

// EXP2 replaces x by 2 to the x. V25-V28 are scratch.
#define EXP2(x) \
	FCMGE(16, x, 28); \
	FRINTN(x, 25); \
	FSUB(25, x, x); \
	FCVTNS(25, 25); \
	SHL(23, 25, 25); \
	COPY(18, 26); \
	FMLA(17, x, 26); \
	COPY(19, 27); \
	FMLA(26, x, 27); \
	COPY(20, 26); \
	FMLA(27, x, 26); \
	COPY(21, 27); \
	FMLA(26, x, 27); \
	COPY(22, 26); \
	FMLA(27, x, 26); \
	COPY(23, 27); \
	FMLA(26, x, 27); \
	ADD32(25, 27, 27); \
	AND(28, 27, x)

// func weighRowsNEON(most, total, s *float32, ld, n, rows int)
TEXT ·weighRowsNEON(SB), NOSPLIT, $0-48
	MOVD most+0(FP), R0
	MOVD total+8(FP), R1
	MOVD s+16(FP), R2
	MOVD ld+24(FP), R3
	MOVD n+32(FP), R4
	MOVD rows+40(FP), R5
	LOAD_EXP2
	ZERO(12)

row:
	MOVD R2, R6
	MOVD R4, R7
	COPY(24, 8)
	COPY(24, 9)
	COPY(24, 10)
	COPY(24, 11)

greatest:
	LOAD16_NEXT(6, 0)
	FMAX(0, 8, 8)
	FMAX(1, 9, 9)
	FMAX(2, 10, 10)
	FMAX(3, 11, 11)
	SUBS $16, R7
	BNE  greatest
	FMAX(9, 8, 8)
	FMAX(11, 10, 10)
	FMAX(10, 8, 8)
	FMAXV(8, 8)
	FADD(12, 8, 8) // 0 rather than -0
	FMOVS.P F8, 4(R0)
	VDUP    V8.S[0], V13.S4
	ZERO16(8)
	MOVD R2, R6
	MOVD R4, R7

weights:
	LOAD16(6, 0)
	FSUB(13, 0, 0)
	FSUB(13, 1, 1)
	FSUB(13, 2, 2)
	FSUB(13, 3, 3)
	EXP2(0)
	EXP2(1)
	EXP2(2)
	EXP2(3)
	STORE16_NEXT(6, 0)
	FADD16(0, 8, 8)
	SUBS $16, R7
	BNE  weights
	PAIRWISE(8, 0)
	FMOVS.P F8, 4(R1)
	ADD  R3, R2
	SUBS $1, R5
	BNE  row
	RET

// func sharesRowNEON(a, b, most, total, later, laterTotal *float32, n int)
TEXT ·sharesRowNEON(SB), NOSPLIT, $0-56
	MOVD a+0(FP), R0
	MOVD b+8(FP), R1
	MOVD most+16(FP), R2
	MOVD total+24(FP), R3
	MOVD later+32(FP), R4
	MOVD laterTotal+40(FP), R5
	MOVD n+48(FP), R6
	LOAD_EXP2

shared:
	VLD1   (R2), [V0.S4]
	VLD1.P 16(R4), [V1.S4]
	FMAX(1, 0, 2)
	VST1.P [V2.S4], 16(R2)
	FSUB(2, 0, 0)
	FSUB(2, 1, 1)
	EXP2(0)
	EXP2(1)
	VST1.P [V0.S4], 16(R0)
	VST1.P [V1.S4], 16(R1)
	VLD1   (R3), [V2.S4]
	VLD1.P 16(R5), [V3.S4]
	FMUL(0, 2, 2)
	FMUL(1, 3, 3)
	FADD(3, 2, 2)
	VST1.P [V2.S4], 16(R3)
	SUBS   $4, R6
	BNE    shared
	RET

// func blendRowsNEON(dst, x *float32, width int, a, b, total *float32, rows int)
TEXT ·blendRowsNEON(SB), NOSPLIT, $0-56
	MOVD dst+0(FP), R0
	MOVD x+8(FP), R1
	MOVD width+16(FP), R2
	MOVD a+24(FP), R3
	MOVD b+32(FP), R4
	MOVD total+40(FP), R5
	MOVD rows+48(FP), R6

blendRow:
	FMOVS.P 4(R3), F20
	FMOVS.P 4(R4), F21
	FMOVS.P 4(R5), F22
	FCMPS $(0.0), F22
	BEQ   blendSkip
	MOVD  R2, R7

blended:
	LOAD16(0, 0)
	LOAD16_NEXT(1, 4)
	FMUL16_LANE0(20, 0)
	FMLA16_LANE0(21, 4, 0)
	STORE16_NEXT(0, 0)
	SUBS $16, R7
	BNE  blended

blendNext:
	SUBS $1, R6
	BNE  blendRow
	RET

blendSkip:
	ADD R2<<2, R0
	ADD R2<<2, R1
	JMP blendNext
