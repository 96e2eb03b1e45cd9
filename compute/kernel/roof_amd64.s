//go:build amd64 && !noasm

// The roofs that benchmarks compare kernels with: loops on registers alone, with 12 independent chains in each pass, and
// one that only reads.

#include "textflag.h"
#include "pairs_dots_amd64.h"

#define READ(p) VPXOR p, Y0, Y0; VPXOR 32 p, Y1, Y1

#define CHAINS(OP, v, a, b, c, d, e, f, g, h, i, j, k, l) \
	OP v, v, a; \
	OP v, v, b; \
	OP v, v, c; \
	OP v, v, d; \
	OP v, v, e; \
	OP v, v, f; \
	OP v, v, g; \
	OP v, v, h; \
	OP v, v, i; \
	OP v, v, j; \
	OP v, v, k; \
	OP v, v, l

// func roofFMA512(n int)
//
// 12·16 multiply-adds of float32 in each of n passes.
TEXT ·roofFMA512(SB), NOSPLIT, $0-8
	MOVQ n+0(FP), CX
	VPXORQ Z12, Z12, Z12

loop:
	CHAINS(VFMADD231PS, Z12, Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z7, Z8, Z9, Z10, Z11)
	DECQ CX
	JNZ  loop
	VZEROUPPER
	RET

// func roofDot512(n int)
//
// 12·64 multiply-adds of bytes in each of n passes.
TEXT ·roofDot512(SB), NOSPLIT, $0-8
	MOVQ n+0(FP), CX
	VPXORQ Z12, Z12, Z12

loop:
	CHAINS(VPDPBUSD, Z12, Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z7, Z8, Z9, Z10, Z11)
	DECQ CX
	JNZ  loop
	VZEROUPPER
	RET

#define DOTS(n) DOT(31, 31, n); DOT(31, 31, n+1); DOT(31, 31, n+2); DOT(31, 31, n+3)

// func roofPairs512(n int)
//
// 24·32 multiply-adds of bfloat16 in each of n passes, which are two steps of a chain each: 12 chains would be too few.
TEXT ·roofPairs512(SB), NOSPLIT, $0-8
	MOVQ n+0(FP), CX
	VPXORQ Z31, Z31, Z31

loop:
	DOTS(0)
	DOTS(4)
	DOTS(8)
	DOTS(12)
	DOTS(16)
	DOTS(20)
	DECQ CX
	JNZ  loop
	VZEROUPPER
	RET

// func roofFMA256(n int)
//
// 12·8 multiply-adds of float32 in each of n passes.
TEXT ·roofFMA256(SB), NOSPLIT, $0-8
	MOVQ n+0(FP), CX
	VPXOR Y12, Y12, Y12

loop:
	CHAINS(VFMADD231PS, Y12, Y0, Y1, Y2, Y3, Y4, Y5, Y6, Y7, Y8, Y9, Y10, Y11)
	DECQ CX
	JNZ  loop
	VZEROUPPER
	RET

// func roofDot256(n int)
//
// 12·32 multiply-adds of bytes in each of n passes, without the additions that follow them.
TEXT ·roofDot256(SB), NOSPLIT, $0-8
	MOVQ n+0(FP), CX
	VPXOR Y12, Y12, Y12

loop:
	CHAINS(VPMADDUBSW, Y12, Y0, Y1, Y2, Y3, Y4, Y5, Y6, Y7, Y8, Y9, Y10, Y11)
	DECQ CX
	JNZ  loop
	VZEROUPPER
	RET

// To Y(low), or to Y(low+8), the dot products of Y12 with itself.
#define DPBUSD(low) BYTE $0xc4; BYTE $0xc2; BYTE $0x1d; BYTE $0x50; BYTE $(0xc4+8*low)
#define DPBUSD_HIGH(low) BYTE $0xc4; BYTE $0x42; BYTE $0x1d; BYTE $0x50; BYTE $(0xc4+8*low)

// func roofDotAVXVNNI(n int)
//
// 12·32 multiply-adds of bytes in each of n passes.
TEXT ·roofDotAVXVNNI(SB), NOSPLIT, $0-8
	MOVQ n+0(FP), CX
	VPXOR Y12, Y12, Y12

loop:
	DPBUSD(0)
	DPBUSD(1)
	DPBUSD(2)
	DPBUSD(3)
	DPBUSD(4)
	DPBUSD(5)
	DPBUSD(6)
	DPBUSD(7)
	DPBUSD_HIGH(0)
	DPBUSD_HIGH(1)
	DPBUSD_HIGH(2)
	DPBUSD_HIGH(3)
	DECQ CX
	JNZ  loop
	VZEROUPPER
	RET

// func roofRead(p *byte, n int)
//
// Reads n bytes, a multiple of 512, as eight streams: more than one is what it takes to read memory at its speed.
TEXT ·roofRead(SB), NOSPLIT, $0-16
	MOVQ p+0(FP), SI
	MOVQ n+8(FP), CX
	MOVQ CX, DX
	SHRQ $3, DX
	LEAQ (SI)(DX*2), AX
	ADDQ DX, AX
	LEAQ (AX)(DX*2), BX
	ADDQ DX, BX

loop:
	READ((SI))
	READ((SI)(DX*1))
	READ((SI)(DX*2))
	READ((AX))
	READ((SI)(DX*4))
	READ((AX)(DX*2))
	READ((BX))
	READ((AX)(DX*4))
	ADDQ $64, SI
	ADDQ $64, AX
	ADDQ $64, BX
	SUBQ $512, CX
	JNZ  loop
	VZEROUPPER
	RET
