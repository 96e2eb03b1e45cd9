//go:build !noasm

// The scales of quantised weights for NEON, and the quantisation of rows.

#include "go_asm.h"
#include "textflag.h"
#include "neon_arm64.h"

// Scales of pairs of groups in whole numbers.
#define STORE_S(INTS, n) INTS(n, 0); STORE16_NEXT(3, 0)
#define HALVES LOADHALVES_NEXT(2, 4); FCVTL(4, 0); FCVTL2(4, 1); FCVTL(5, 2); FCVTL2(5, 3); STORE16_NEXT(3, 0)

// func scalesNEON(sc *spanScales, scales, superScales *byte, pairs, layout, bias int)
//
// Brings the scales of a span to one form (affine.go, scaleLayout). With zero points, the offsets are those less the bias, and S stays as it is.
TEXT ·scalesNEON(SB), NOSPLIT, $0-48
	MOVD sc+0(FP), R0
	MOVD scales+8(FP), R1
	MOVD superScales+16(FP), R2
	MOVD pairs+24(FP), R4
	MOVD layout+32(FP), R5
	MOVD R0, R3
	ADD  $spanScales_m, R0, R6
	CMP  $const_zeroPoints, R5
	BEQ  zeros
	CMP  $const_uint8s, R5
	BEQ  unsigned
	CMP  $const_int12s, R5
	BEQ  twelve
	CMP  $const_int12Mins, R5
	BEQ  twelve

signed:
	VLD1.P 32(R1), [V4.B16, V5.B16]
	STORE_S(INTS16, 4)
	STORE_S(INTS16, 5)
	CMP  $const_byteMins, R5
	BNE  nextPair
	VLD2.P 32(R1), [V4.B16, V5.B16] // m of the first groups and of the second
	UXTL8(4, 0)
	UXTL8_2(4, 1)
	UXTL8(5, 2)
	UXTL8_2(5, 3)
	STORE16_NEXT(6, 0)

nextPair:
	SUBS $1, R4
	BNE  signed
	JMP  superScales

twelve:
	VLD1.P 48(R1), [V4.B16, V5.B16, V6.B16] // the upper bits of the first groups and of the second, the lower ones of both
	USHR8(4, 6, 7)
	VSHL  $4, V6.B16, V6.B16
	VUSHR $4, V6.B16, V6.B16
	INTS12(4, 6, 0)
	STORE16_NEXT(3, 0)
	INTS12(5, 7, 0)
	STORE16_NEXT(3, 0)
	CMP  $const_int12Mins, R5
	BNE  nextTwelve
	VLD2.P 32(R1), [V4.H8, V5.H8]
	VLD2.P 32(R1), [V6.H8, V7.H8]
	COPY(4, 0)
	COPY(6, 1)
	COPY(5, 2)
	COPY(7, 3)
	STORE16_NEXT(6, 0)

nextTwelve:
	SUBS $1, R4
	BNE  twelve

superScales:
	ADD $spanScales_d, R0, R3
	CMP $const_byteMins, R5
	BEQ halves
	LOAD16_NEXT(2, 0)
	STORE16_NEXT(3, 0)
	CMP $const_int12Mins, R5
	BNE end
	LOAD16(2, 0)
	STORE16(3, 0)

end:
	RET

halves:
	HALVES
	HALVES
	RET

unsigned:
	VLD1.P 32(R1), [V4.B16, V5.B16]
	STORE_S(UINTS16, 4)
	STORE_S(UINTS16, 5)
	SUBS $1, R4
	BNE  unsigned
	JMP  superScales

zeros:
	ADD  $64, R2, R7
	VLD1 (R7), [V4.B16]
	MOVD bias+40(FP), R8
	VDUP R8, V5.S4
	UINTS16(4, 0)
	VSUB V5.S4, V0.S4, V0.S4
	VSUB V5.S4, V1.S4, V1.S4
	VSUB V5.S4, V2.S4, V2.S4
	VSUB V5.S4, V3.S4, V3.S4
	ADD  $spanScales_offset, R0, R3
	STORE16(3, 0)
	JMP  superScales

// func quantizeSpanNEON(q *int8, sums *SpanSums, x *float32, n int)
//
// Quantises a span of n float32, a multiple of 32, at least one: see quantize. Until a group has its share, its greatest magnitude is in
// that's place.
TEXT ·quantizeSpanNEON(SB), NOSPLIT, $0-32
	MOVD q+0(FP), R0
	MOVD sums+8(FP), R1
	MOVD x+16(FP), R2
	MOVD n+24(FP), R3
	MOVD R1, R4
	ZERO16(0)
	STORE16_NEXT(4, 0)
	STORE16_NEXT(4, 0)
	STORE16(4, 0)
	ZERO(16) // the greatest of all
	MOVD R1, R4
	MOVD R2, R5
	MOVD R3, R6

greatest:
	LOAD16_NEXT(5, 0)
	LOAD16_NEXT(5, 4)
	FABS(0, 0)
	FABS(1, 1)
	FABS(2, 2)
	FABS(3, 3)
	FABS(4, 4)
	FABS(5, 5)
	FABS(6, 6)
	FABS(7, 7)
	FMAX(4, 0, 0)
	FMAX(5, 1, 1)
	FMAX(6, 2, 2)
	FMAX(7, 3, 3)
	FMAX(1, 0, 0)
	FMAX(3, 2, 2)
	FMAX(2, 0, 0)
	FMAXV(0, 0)
	FMOVS.P F0, 4(R4)
	FMAX(0, 16, 16)
	SUBS $32, R6
	BNE  greatest
	MOVW  $const_mostOfRow, R5
	SCVTFWS R5, F17
	FDIVS F17, F16, F18
	FMOVS F18, SpanSums_D(R1)
	FDIVS F16, F17, F17 // inv
	FMOVS F17, R5
	MOVW  $0x7f800000, R6
	CMPW  R6, R5
	BNE   counts
	FMOVS ZR, F17

counts:
	MOVW $0x3c010204, R5 // 1/127
	FMOVS R5, F19
	MOVD R1, R4
	ADD  $SpanSums_minus16, R1, R5
	ADD  $SpanSums_sums16, R1, R6

group:
	FMOVS (R4), F18
	FMULS F17, F18, F18
	FMULS F19, F18, F18
	FCVTZSSW F18, R7
	ADDW  $1, R7
	MOVW  $const_greatestShare, R8
	CMPW  R8, R7
	CSEL  LT, R7, R8, R7
	MOVW  R7, (R4)
	SCVTFWS R7, F18
	FDIVS F18, F17, F18
	LOAD16_NEXT(2, 0)
	LOAD16_NEXT(2, 4)
	FMUL16_LANE0(18, 0)
	FMUL16_LANE0(18, 4)
	FCVTNS(0, 0)
	FCVTNS(1, 1)
	FCVTNS(2, 2)
	FCVTNS(3, 3)
	FCVTNS(4, 4)
	FCVTNS(5, 5)
	FCVTNS(6, 6)
	FCVTNS(7, 7)
	SQXTN32(0, 0)
	SQXTN32_2(1, 0)
	SQXTN32(2, 2)
	SQXTN32_2(3, 2)
	SQXTN16(0, 0)
	SQXTN16_2(2, 0)
	SQXTN32(4, 4)
	SQXTN32_2(5, 4)
	SQXTN32(6, 6)
	SQXTN32_2(7, 6)
	SQXTN16(4, 1)
	SQXTN16_2(6, 1)
	VST1.P [V0.B16, V1.B16], 32(R0)
	SADDLV8(0, 0)
	SADDLV8(1, 1)
	VMOV  V0.H[0], R8
	VMOV  V1.H[0], R9
	SXTHW R8, R8
	SXTHW R9, R9
	ADDW  R8, R9, R10
	NEGW  R8, R11
	NEGW  R9, R12
	NEGW  R10, R13
	STPW.P (R11, R12), 8(R5)
	MOVW  R13, SpanSums_minus32-SpanSums_Shares(R4)
	MULW  R7, R8, R8
	MULW  R7, R9, R9
	MULW  R7, R10, R10
	MOVH.P R8, 2(R6)
	MOVH.P R9, 2(R6)
	SUB   R1, R4, R11 // 4 for each group
	LSR   $1, R11
	ADD   R1, R11
	MOVH  R10, SpanSums_sums32(R11)
	ADD   $4, R4
	SUBS  $32, R3
	BNE   group
	RET
