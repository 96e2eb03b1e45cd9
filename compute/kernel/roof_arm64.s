//go:build !noasm

// The roofs that benchmarks compare kernels with: loops on registers alone, with 24 independent chains in each pass, and one that only
// reads.

#include "textflag.h"
#include "neon_arm64.h"

#define CHAINS4(OP, t) OP(0, 1, t); OP(0, 1, t+1); OP(0, 1, t+2); OP(0, 1, t+3)
#define CHAINS(OP) CHAINS4(OP, 8); CHAINS4(OP, 12); CHAINS4(OP, 16); CHAINS4(OP, 20); CHAINS4(OP, 24); CHAINS4(OP, 28)

// func roofFMANEON(n int)
//
// 24·4 multiply-adds of float32 in each of n passes.
TEXT ·roofFMANEON(SB), NOSPLIT, $0-8
	MOVD n+0(FP), R0
	ZERO(0)
	ZERO(1)

loop:
	CHAINS(FMLA)
	SUBS $1, R0
	BNE  loop
	RET

// func roofDotNEON(n int)
//
// 24·16 multiply-adds of bytes in each of n passes.
TEXT ·roofDotNEON(SB), NOSPLIT, $0-8
	MOVD n+0(FP), R0
	ZERO(0)
	ZERO(1)

loop:
	CHAINS(SDOT)
	SUBS $1, R0
	BNE  loop
	RET

// func roofBytesNEON(n int)
//
// 24·8 multiplications of bytes in each of n passes, without the additions that follow them.
TEXT ·roofBytesNEON(SB), NOSPLIT, $0-8
	MOVD n+0(FP), R0

loop:
	CHAINS(SMULL8)
	SUBS $1, R0
	BNE  loop
	RET

// func roofReadNEON(p *byte, n int)
//
// Reads n bytes, a multiple of 512, as eight streams: more than one is what it takes to read memory at its speed.
TEXT ·roofReadNEON(SB), NOSPLIT, $0-16
	MOVD p+0(FP), R0
	MOVD n+8(FP), R1
	LSR  $3, R1, R2
	ADD  R2, R0, R3
	ADD  R2, R3, R4
	ADD  R2, R4, R5
	ADD  R2, R5, R6
	ADD  R2, R6, R7
	ADD  R2, R7, R8
	ADD  R2, R8, R9

loop:
	LOAD16_NEXT(0, 0)
	LOAD16_NEXT(3, 4)
	LOAD16_NEXT(4, 8)
	LOAD16_NEXT(5, 12)
	LOAD16_NEXT(6, 16)
	LOAD16_NEXT(7, 20)
	LOAD16_NEXT(8, 24)
	LOAD16_NEXT(9, 28)
	SUBS $512, R1
	BNE  loop
	RET
