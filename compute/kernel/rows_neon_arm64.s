//go:build !noasm

// Operations on rows with NEON. A row is n contiguous float32, n a multiple of 16 and at least 16.
//
//	x  [4 values][4 values] ...    value i is in lane i mod 16 of a row sum, which four registers hold

#include "textflag.h"
#include "neon_arm64.h"

// LOAD_EXP loads expTable: V16 and V17 limits, V18 log2 e, V19 and V20 -ln 2, V21-V26 the polynomial, V27 ones.
#define LOAD_EXP \
	MOVD    $·expTable(SB), R9; \
	VLD1R.P 4(R9), [V16.S4]; \
	VLD1R.P 4(R9), [V17.S4]; \
	VLD1R.P 4(R9), [V18.S4]; \
	VLD1R.P 4(R9), [V19.S4]; \
	VLD1R.P 4(R9), [V20.S4]; \
	VLD1R.P 4(R9), [V21.S4]; \
	VLD1R.P 4(R9), [V22.S4]; \
	VLD1R.P 4(R9), [V23.S4]; \
	VLD1R.P 4(R9), [V24.S4]; \
	VLD1R.P 4(R9), [V25.S4]; \
	VLD1R.P 4(R9), [V26.S4]; \
	VLD1R.P 4(R9), [V27.S4]

// EXP replaces x by exp(x). n, p, q and keep are scratch.
#define EXP(x, n, p, q, keep) \
	FCMGE(16, x, keep); \
	FMIN(17, x, x); \
	FMUL(18, x, n); \
	FRINTN(n, n); \
	FMLA(19, n, x); \
	FMLA(20, n, x); \
	COPY(22, p); \
	FMLA(21, x, p); \
	COPY(23, q); \
	FMLA(p, x, q); \
	COPY(24, p); \
	FMLA(q, x, p); \
	COPY(25, q); \
	FMLA(p, x, q); \
	COPY(26, p); \
	FMLA(q, x, p); \
	FMUL(x, x, q); \
	FMLA(p, q, x); \
	FADD(27, x, x); \
	FCVTNS(n, n); \
	SHL(23, n, n); \
	ADD32(n, x, x); \
	AND(keep, x, x)

// func sumSquaresRowNEON(acc *[16]float32, x *float32, n int, mean float32)
TEXT ·sumSquaresRowNEON(SB), NOSPLIT, $0-28
	MOVD  acc+0(FP), R0
	MOVD  x+8(FP), R1
	MOVD  n+16(FP), R2
	FMOVS mean+24(FP), F20
	VDUP  V20.S[0], V20.S4
	ZERO16(8)

squares:
	LOAD16_NEXT(1, 0)
	FSUB(20, 0, 0)
	FSUB(20, 1, 1)
	FSUB(20, 2, 2)
	FSUB(20, 3, 3)
	FMLA(0, 0, 8)
	FMLA(1, 1, 9)
	FMLA(2, 2, 10)
	FMLA(3, 3, 11)
	SUBS $16, R2
	BNE  squares
	STORE16(0, 8)
	RET

// func scaleGainRowNEON(dst, x, gain *float32, n int, mean, scale float32)
TEXT ·scaleGainRowNEON(SB), NOSPLIT, $0-40
	MOVD  dst+0(FP), R0
	MOVD  x+8(FP), R1
	MOVD  gain+16(FP), R2
	MOVD  n+24(FP), R3
	FMOVS mean+32(FP), F20
	FMOVS scale+36(FP), F21
	VDUP  V20.S[0], V20.S4

gains:
	LOAD16_NEXT(1, 0)
	LOAD16_NEXT(2, 4)
	FSUB(20, 0, 0)
	FSUB(20, 1, 1)
	FSUB(20, 2, 2)
	FSUB(20, 3, 3)
	FMUL16_LANE0(21, 0)
	FMUL16(4, 0, 0)
	STORE16_NEXT(0, 0)
	SUBS $16, R3
	BNE  gains
	RET

// func scaleRowNEON(dst, x *float32, n int, factor float32)
TEXT ·scaleRowNEON(SB), NOSPLIT, $0-28
	MOVD  dst+0(FP), R0
	MOVD  x+8(FP), R1
	MOVD  n+16(FP), R2
	FMOVS factor+24(FP), F20

scaled:
	LOAD16_NEXT(1, 0)
	FMUL16_LANE0(20, 0)
	STORE16_NEXT(0, 0)
	SUBS $16, R2
	BNE  scaled
	RET

// func addScaledRowNEON(dst, x *float32, n int, scale float32)
TEXT ·addScaledRowNEON(SB), NOSPLIT, $0-28
	MOVD  dst+0(FP), R0
	MOVD  x+8(FP), R1
	MOVD  n+16(FP), R2
	FMOVS scale+24(FP), F20

added:
	LOAD16(0, 0)
	LOAD16_NEXT(1, 4)
	FMLA16_LANE0(20, 4, 0)
	STORE16_NEXT(0, 0)
	SUBS $16, R2
	BNE  added
	RET

// func softcapRowNEON(s *float32, n int, limit float32)
TEXT ·softcapRowNEON(SB), NOSPLIT, $0-20
	MOVD  s+0(FP), R0
	MOVD  n+8(FP), R1
	FMOVS limit+16(FP), F28
	VDUP  V28.S[0], V28.S4
	LOAD_EXP
	ZERO(29)
	FADD(27, 27, 30) // 2
	VMOVI $0x80, V31.B16
	VSHL  $24, V31.S4, V31.S4 // the sign

capped:
	VLD1 (R0), [V0.S4]
	FDIV(28, 0, 0)
	FCMGT(0, 29, 6) // negative
	AND(31, 6, 6)
	FABS(0, 0)
	FADD(0, 0, 0)
	EXP(0, 1, 2, 3, 4)
	FADD(27, 0, 0)
	FDIV(0, 30, 0)
	FSUB(0, 27, 0)
	EOR(6, 0, 0)
	FMUL(28, 0, 0)
	VST1.P [V0.S4], 16(R0)
	SUBS   $4, R1
	BNE    capped
	RET

// func siluRowNEON(dst, gate, up *float32, n int)
TEXT ·siluRowNEON(SB), NOSPLIT, $0-32
	MOVD dst+0(FP), R0
	MOVD gate+8(FP), R1
	MOVD up+16(FP), R2
	MOVD n+24(FP), R3
	LOAD_EXP

gates:
	VLD1.P 16(R1), [V5.S4]
	VLD1.P 16(R2), [V6.S4]
	FNEG(5, 0)
	EXP(0, 1, 2, 3, 4)
	FADD(27, 0, 0)
	FDIV(0, 5, 0)
	FMUL(6, 0, 0)
	VST1.P [V0.S4], 16(R0)
	SUBS   $4, R3
	BNE    gates
	RET

// func decayAddPanelNEON(w, x *float32, n int, v *float32, decay float32)
//
//	w  [row 0: 16 lanes][row 1: 16 lanes] ...   n rows; row i becomes row·decay + x[i]·v
TEXT ·decayAddPanelNEON(SB), NOSPLIT, $0-36
	MOVD  w+0(FP), R0
	MOVD  x+8(FP), R1
	MOVD  n+16(FP), R2
	MOVD  v+24(FP), R3
	FMOVS decay+32(FP), F20
	LOAD16(3, 4)

decayed:
	LOAD16(0, 0)
	FMOVS.P 4(R1), F21
	FMUL16_LANE0(20, 0)
	FMLA16_LANE0(21, 4, 0)
	STORE16_NEXT(0, 0)
	SUBS $1, R2
	BNE  decayed
	RET

// TURN turns pairs of V0 and V1 into V4 and V5, by the cosines of V2 and the sines of V3.
#define TURN FMUL(3, 1, 4); FMUL(3, 0, 5); FNEG(4, 4); FMLA(2, 0, 4); FMLA(2, 1, 5)

// func rotateRowNEON(lo, hi, cos, sin *float32, n int)
TEXT ·rotateRowNEON(SB), NOSPLIT, $0-40
	MOVD lo+0(FP), R0
	MOVD hi+8(FP), R1
	MOVD cos+16(FP), R2
	MOVD sin+24(FP), R3
	MOVD n+32(FP), R4

pairs:
	VLD1   (R0), [V0.S4]
	VLD1   (R1), [V1.S4]
	VLD1.P 16(R2), [V2.S4]
	VLD1.P 16(R3), [V3.S4]
	TURN
	VST1.P [V4.S4], 16(R0)
	VST1.P [V5.S4], 16(R1)
	SUBS   $4, R4
	BNE    pairs
	RET

// func roundRowNEON(dst, x *float32, n int)
//
// Rounds to bfloat16: adds half of the last place, less one if the last bit is even. What is no number keeps its upper half, with a bit
// that says so; what is less than 2⁻⁵⁰ becomes 0.
TEXT ·roundRowNEON(SB), NOSPLIT, $0-24
	MOVD dst+0(FP), R0
	MOVD x+8(FP), R1
	MOVD n+16(FP), R2
	MOVD $0x267fffff, R3 // below 2⁻⁵⁰
	VDUP R3, V16.S4
	MOVD $0x7fff, R3
	VDUP R3, V17.S4
	MOVD $1, R3
	VDUP R3, V18.S4
	MOVD $0x00400000, R3
	VDUP R3, V19.S4
	MOVD $0xffff0000, R3
	VDUP R3, V20.S4

round:
	VLD1.P 16(R1), [V0.S4]
	FABS(0, 1)
	CMGT(16, 1, 1)
	VUSHR  $16, V0.S4, V2.S4
	AND(18, 2, 2)
	ADD32(17, 2, 2)
	ADD32(0, 2, 2)
	VORR   V19.B16, V0.B16, V3.B16
	FCMEQ(0, 0, 4)
	VBSL   V3.B16, V2.B16, V4.B16
	AND(20, 4, 4)
	AND(1, 4, 4)
	VST1.P [V4.S4], 16(R0)
	SUBS   $4, R2
	BNE    round
	RET

// func widen8RowNEON(dst *float32, w *byte, scale *float32, k int)
//
// Widens k · 16 numbers of F8_E4M3. A byte S EEEE MMM becomes the float16 S 0EEEE MMM0000000, 2⁻⁸ of its value.
TEXT ·widen8RowNEON(SB), NOSPLIT, $0-32
	MOVD dst+0(FP), R0
	MOVD w+8(FP), R1
	MOVD scale+16(FP), R2
	MOVD k+24(FP), R3
	LOAD16(2, 8)
	MOVD $0xbf80, R4 // the bits of a sign-extended byte, shifted left by 7, that belong to the float16
	VDUP R4, V20.H8

wider:
	VLD1.P 16(R1), [V0.B16]
	SXTL8(0, 4)
	SXTL8_2(0, 5)
	VSHL   $7, V4.H8, V4.H8
	VSHL   $7, V5.H8, V5.H8
	AND(20, 4, 4)
	AND(20, 5, 5)
	FCVTL(4, 0)
	FCVTL2(4, 1)
	FCVTL(5, 2)
	FCVTL2(5, 3)
	FMUL16(8, 0, 0)
	STORE16_NEXT(0, 0)
	SUBS   $1, R3
	BNE    wider
	RET

// func rotateInterleavedRowNEON(x, cos, sin *float32, n int)
//
//	x  [a0 b0 a1 b1 ...]
TEXT ·rotateInterleavedRowNEON(SB), NOSPLIT, $0-32
	MOVD x+0(FP), R0
	MOVD cos+8(FP), R1
	MOVD sin+16(FP), R2
	MOVD n+24(FP), R3

sideBySide:
	VLD2   (R0), [V0.S4, V1.S4]
	VLD1.P 16(R1), [V2.S4]
	VLD1.P 16(R2), [V3.S4]
	TURN
	VST2.P [V4.S4, V5.S4], 32(R0)
	SUBS   $8, R3
	BNE    sideBySide
	RET
