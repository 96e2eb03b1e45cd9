//go:build amd64 && !noasm

// What products with AMX need beside tiles: rows in records, and one span unpacked alone.

#include "go_asm.h"
#include "textflag.h"

// func unpackSpanAMX(levels, mins, codes, scales *byte, blocks, unpack int)
TEXT ·unpackSpanAMX(SB), NOSPLIT, $0-48
	MOVQ levels+0(FP), R9
	MOVQ mins+8(FP), DI
	MOVQ codes+16(FP), R15
	MOVQ scales+24(FP), R12
	MOVQ blocks+32(FP), R11
	MOVQ unpack+40(FP), AX
	LEAQ ·unpackersAMX(SB), R13
	MOVQ (R13)(AX*8), R13
	XORQ R10, R10

step:
	CALL R13
	ADDQ $2048, R9
	ADDQ $128, DI
	CMPQ R11, $0
	JGT  step
	VZEROUPPER
	RET

// SPREAD writes group g of the row's span: its values times its share, or 0 where there is none.
#define SPREAD(g) \
	BTQ          $g, R11; \
	SBBQ         AX, AX; \
	KMOVD        AX, K1; \
	VPBROADCASTW (SpanSums_Shares+4*g)(DX), Z1; \
	VPMOVSXBW.Z  (32*g)(SI), K1, Z0; \
	VPMULLW      Z1, Z0, Z0; \
	VPSRLW       $8, Z0, Z1; \
	VPMOVWB      Z0, (g/2*2048+g%2*32)(R8); \
	VPMOVWB      Z1, (g/2*2048+1024+g%2*32)(R8)

// func spreadAMX(to *byte, distance, lane int, q *int8, sums *SpanSums, blocks int)
//
// Writes a row to lane lane of records of 16 rows and a span, distance bytes apart.
TEXT ·spreadAMX(SB), NOSPLIT, $0-48
	MOVQ to+0(FP), R10
	MOVQ distance+8(FP), BX
	MOVQ lane+16(FP), R9
	MOVQ q+24(FP), SI
	MOVQ sums+32(FP), DX
	MOVQ blocks+40(FP), CX
	MOVQ R9, R8
	SHLQ $6, R8
	ADDQ R10, R8        // digits
	LEAQ (R10)(R9*4), DI // d
	SHLQ $4, R9
	LEAQ (R10)(R9*1), R12 // sums of groups of 32
	LEAQ (R10)(R9*2), R13 // and of 16

span:
	MOVL    $0xff, R11 // a bit for each group
	CMPQ    CX, $8
	JGE     whole
	MOVL    $1, R11
	SHLQ    CX, R11
	DECQ    R11

whole:
	SPREAD(0)
	SPREAD(1)
	SPREAD(2)
	SPREAD(3)
	SPREAD(4)
	SPREAD(5)
	SPREAD(6)
	SPREAD(7)
	MOVL    SpanSums_D(DX), AX
	MOVL    AX, 8192(DI)
	VMOVDQU SpanSums_sums32(DX), X0
	VMOVDQU X0, 8256(R12)
	VMOVDQU SpanSums_sums16(DX), Y0
	VMOVDQU Y0, 8512(R13)
	ADDQ    BX, R8
	ADDQ    BX, DI
	ADDQ    BX, R12
	ADDQ    BX, R13
	ADDQ    $256, SI
	ADDQ    $SpanSums__size, DX
	SUBQ    $8, CX
	JGT     span
	VZEROUPPER
	RET
