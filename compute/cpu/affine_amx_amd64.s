//go:build amd64 && !noasm

// Products of affine types with AMX: without an m, with one of 8 bits, and with one of 16.

#include "go_asm.h"
#include "textflag.h"
#include "amx_amd64.h"
#include "affine_amx_amd64.h"

#define SUPERS PLAIN_SUPERS
#define KEEP_MINS NOTHING
#define LESS(i, d, q) LESS_NOTHING(i, d, q)
#define PAIR_MINS NOTHING
#define SINGLE_MINS NOTHING

// fetch fetches R12 lines from R10 on to the second cache.
TEXT fetch<>(SB), NOSPLIT|NOFRAME, $0-0
	MOVQ R12, R11

line:
	PREFETCHT1 (R10)
	ADDQ $64, R10
	DECQ R11
	JGT  line
	RET

// func tilesAMX(p *tileProduct)
TEXT ·tilesAMX(SB), NOSPLIT, $16-8
#include "affine_amx_body_amd64.h"

#undef SUPERS
#undef KEEP_MINS
#undef LESS
#define SUPERS FLOAT_SUPERS
#define KEEP_MINS KEEP_WHOLE
#define LESS(i, d, q) LESS_WHOLE(i, d, q)

// func tilesShortMinAMX(p *tileProduct)
TEXT ·tilesShortMinAMX(SB), NOSPLIT, $16-8
#include "affine_amx_body_amd64.h"

#undef SUPERS
#undef KEEP_MINS
#undef LESS
#undef PAIR_MINS
#undef SINGLE_MINS
#define SUPERS HALF_SUPERS
#define KEEP_MINS NOTHING
#define LESS(i, d, q) LESS_FLOAT(i, d, q)
#define PAIR_MINS PAIR_LEAST
#define SINGLE_MINS SINGLE_LEAST

// func tilesByteMinAMX(p *tileProduct)
TEXT ·tilesByteMinAMX(SB), NOSPLIT, $16-8
#include "affine_amx_body_amd64.h"

// func unpackSpanAMX(levels, codes, scales *byte, blocks, unpack int)
TEXT ·unpackSpanAMX(SB), NOSPLIT, $8-40
	MOVQ levels+0(FP), DI
	MOVQ codes+8(FP), R15
	MOVQ scales+16(FP), R12
	MOVQ blocks+24(FP), R11
	MOVQ unpack+32(FP), AX
	LEAQ ·unpackersAMX(SB), R13
	MOVQ (R13)(AX*8), R13
	XORQ R10, R10

step:
	MOVQ DI, R9
	CALL R13
	ADDQ $2048, DI
	CMPQ R11, $0
	JGT  step
	VZEROUPPER
	RET

// func spreadAMX(to *byte, distance, lane int, q *int8, sums *spanSums, blocks int)
//
// Writes a row to lane lane of records of 16 rows and a span, distance bytes apart.
TEXT ·spreadAMX(SB), NOSPLIT, $0-48
	MOVQ to+0(FP), AX
	MOVQ distance+8(FP), BX
	MOVQ lane+16(FP), CX
	MOVQ q+24(FP), SI
	MOVQ sums+32(FP), DX
	MOVQ blocks+40(FP), R11
	MOVQ CX, R8
	SHLQ $6, R8
	ADDQ AX, R8               // q and mins
	MOVQ CX, R9
	SHLQ $4, R9
	ADDQ AX, R9               // sums of 32
	LEAQ (AX)(CX*4), R10      // d
	MOVL $127, CX
	VPBROADCASTD CX, Z31
	VPXORQ Z30, Z30, Z30

span:
	CMPQ R11, $8
	JLT  short
	VMOVDQU64 (SI), Z0
	VMOVDQU64 64(SI), Z1
	VMOVDQU64 128(SI), Z2
	VMOVDQU64 192(SI), Z3

put:
	VMOVDQU64 Z0, (R8)
	VMOVDQU64 Z1, 1024(R8)
	VMOVDQU64 Z2, 2048(R8)
	VMOVDQU64 Z3, 3072(R8)
	VPMOVSXWD spanSums_sums16(DX), Z0
	VPANDD    Z31, Z0, Z1
	VPSUBD    Z1, Z0, Z0
	VCVTDQ2PS Z0, Z0
	VCVTDQ2PS Z1, Z1
	VPSRLD    $16, Z1, Z1
	VPORD     Z1, Z0, Z0
	VMOVDQU64 Z0, 4096(R8)
	MOVL      spanSums_d(DX), CX
	MOVL      CX, 5120(R10)
	VMOVDQU   spanSums_sums32(DX), X0
	VMOVDQU   X0, 5184(R9)
	ADDQ      BX, R8
	ADDQ      BX, R9
	ADDQ      BX, R10
	ADDQ      $256, SI
	ADDQ      $spanSums__size, DX
	SUBQ      $8, R11
	JGT       span
	VZEROUPPER
	RET

// Fewer than 8 blocks: zeros follow.
short:
	VMOVDQA64 Z30, Z0
	VMOVDQA64 Z30, Z1
	VMOVDQA64 Z30, Z2
	VMOVDQA64 Z30, Z3
	VMOVDQU   (SI), Y0
	CMPQ      R11, $2
	JLT       put
	VMOVDQU64 (SI), Z0
	JEQ       put
	VMOVDQU   64(SI), Y1
	CMPQ      R11, $4
	JLT       put
	VMOVDQU64 64(SI), Z1
	JEQ       put
	VMOVDQU   128(SI), Y2
	CMPQ      R11, $6
	JLT       put
	VMOVDQU64 128(SI), Z2
	JEQ       put
	VMOVDQU   192(SI), Y3
	JMP       put

#define HIGH57(to) LONG $0x5e43e2c4; BYTE $(0xc5+8*to) // TDPBSSD tmm7, tmm5, to

// func roofTileAMX(n int, config *tileConfig)
//
// 4·16·16·64 multiply-adds of bytes in each of n passes.
TEXT ·roofTileAMX(SB), NOSPLIT, $0-16
	MOVQ n+0(FP), BX
	MOVQ config+8(FP), AX
	TILE_CONFIG

loop:
	HIGH46(0)
	HIGH57(1)
	HIGH46(2)
	HIGH57(3)
	DECQ BX
	JNZ  loop
	TILE_RELEASE
	RET
