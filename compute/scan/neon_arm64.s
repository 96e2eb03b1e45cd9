//go:build !noasm

// The passes with NEON. A block is 64 float32, 16 registers of 4; the number of blocks is at least one. R2 is at the values.

#include "textflag.h"

// Instructions that Go's assembler does not have, on four lanes. Operands are numbers of registers, the destination last.
#define VVV(op, m, n, d) WORD $((op) | (m)<<16 | (n)<<5 | (d))
#define VV(op, n, d) WORD $((op) | (n)<<5 | (d))
#define FADD(m, n, d) VVV(0x4e20d400, m, n, d)
#define FSUB(m, n, d) VVV(0x4ea0d400, m, n, d) // n - m
#define FMLA(m, n, d) VVV(0x4e20cc00, m, n, d) // d + n·m
#define FMAX(m, n, d) VVV(0x4e20f400, m, n, d) // NaN if either is
#define FMAXV(n, d) VV(0x6e30f800, n, d) // the greatest of four
#define FADDP2(n, d) VV(0x7e30d800, n, d) // the sum of the lower two
#define FCMGE(m, n, d) VVV(0x6e20e400, m, n, d) // n >= m
#define ADD32(m, n, d) VVV(0x4ea08400, m, n, d)
#define SHL23(n, d) VV(0x4f375400, n, d)
#define AND(m, n, d) VVV(0x4e201c00, m, n, d)
#define MOV(n, d) VVV(0x4ea01c00, n, n, d)
#define SWAP(n, d) VVV(0x6e004000, n, n, d) // the upper two lanes and the lower

// func peaksNEON(peaks, x []float32) float32
TEXT ·peaksNEON(SB), NOSPLIT, $0-52
	MOVD   peaks_base+0(FP), R0
	MOVD   peaks_len+8(FP), R1
	MOVD   x_base+24(FP), R2
	FMOVS  $0.0, F17
	FMOVS  (R2), F18

block:
	VLD1.P 64(R2), [V0.S4, V1.S4, V2.S4, V3.S4]
	VLD1.P 64(R2), [V4.S4, V5.S4, V6.S4, V7.S4]
	VLD1.P 64(R2), [V8.S4, V9.S4, V10.S4, V11.S4]
	VLD1.P 64(R2), [V12.S4, V13.S4, V14.S4, V15.S4]
	FMAX(0, 4, 0)
	FMAX(1, 5, 1)
	FMAX(2, 6, 2)
	FMAX(3, 7, 3)
	FMAX(8, 12, 8)
	FMAX(9, 13, 9)
	FMAX(10, 14, 10)
	FMAX(11, 15, 11)
	FMAX(0, 8, 0)
	FMAX(1, 9, 1)
	FMAX(2, 10, 2)
	FMAX(3, 11, 3)
	FMAX(0, 1, 0)
	FMAX(2, 3, 2)
	FMAX(0, 2, 0)
	FMAXV(0, 0)
	FADDS   F17, F0, F0 // not -0
	FMAXS   F0, F18, F18
	FMOVS.P F0, 4(R0)
	SUBS    $1, R1
	BNE     block
	FMOVS   F18, ret+48(FP)
	RET

// POWER replaces x by its weight: power, in portable Go, has the steps. s, r and p are scratch.
#define POWER(x, s, r, p) \
	FSUB(28, x, x); \
	MOV(20, s); \
	FMLA(29, x, s); \
	FSUB(s, 20, r); \
	FMLA(29, x, r); \
	FMLA(30, x, r); \
	MOV(22, p); \
	FMLA(21, r, p); \
	MOV(23, x); \
	FMLA(p, r, x); \
	MOV(24, p); \
	FMLA(x, r, p); \
	MOV(25, x); \
	FMLA(p, r, x); \
	MOV(26, p); \
	FMLA(x, r, p); \
	MOV(27, x); \
	FMLA(p, r, x); \
	FCMGE(31, s, p); \
	SHL23(s, s); \
	ADD32(s, x, x); \
	AND(p, x, x)

// func weighNEON(w, sums, x []float32, most, hi, lo float32)
//
// V4 to V7 have the 16 lanes of the sum of a block. V20, V31 and V21 to V27 are the constants, V28 to V30 most, hi and lo.
TEXT ·weighNEON(SB), NOSPLIT, $0-84
	MOVD    w_base+0(FP), R0
	MOVD    sums_base+24(FP), R1
	MOVD    sums_len+32(FP), R3
	MOVD    x_base+48(FP), R2
	MOVD    $most+72(FP), R4
	VLD1R.P 4(R4), [V28.S4]
	VLD1R.P 4(R4), [V29.S4]
	VLD1R.P 4(R4), [V30.S4]
	MOVD    $·constants(SB), R4
	VLD1R.P 4(R4), [V20.S4]
	VLD1R.P 4(R4), [V31.S4]
	VLD1R.P 4(R4), [V21.S4]
	VLD1R.P 4(R4), [V22.S4]
	VLD1R.P 4(R4), [V23.S4]
	VLD1R.P 4(R4), [V24.S4]
	VLD1R.P 4(R4), [V25.S4]
	VLD1R.P 4(R4), [V26.S4]
	VLD1R.P 4(R4), [V27.S4]

block:
	VEOR V4.B16, V4.B16, V4.B16
	VEOR V5.B16, V5.B16, V5.B16
	VEOR V6.B16, V6.B16, V6.B16
	VEOR V7.B16, V7.B16, V7.B16
	MOVD $4, R5

sixteen:
	VLD1.P 64(R2), [V0.S4, V1.S4, V2.S4, V3.S4]
	POWER(0, 8, 9, 10)
	POWER(1, 11, 12, 13)
	POWER(2, 14, 15, 16)
	POWER(3, 17, 18, 19)
	VST1.P [V0.S4, V1.S4, V2.S4, V3.S4], 64(R0)
	FADD(0, 4, 4)
	FADD(1, 5, 5)
	FADD(2, 6, 6)
	FADD(3, 7, 7)
	SUBS   $1, R5
	BNE    sixteen
	FADD(6, 4, 4)
	FADD(7, 5, 5)
	FADD(5, 4, 4)
	SWAP(4, 5)
	FADD(5, 4, 4)
	FADDP2(4, 4)
	FMOVS.P F4, 4(R1)
	SUBS    $1, R3
	BNE     block
	RET
