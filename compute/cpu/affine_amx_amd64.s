//go:build amd64 && !noasm

// Products of affine types with AMX: without an m, and with one for groups of 32 or of 16.

#include "go_asm.h"
#include "textflag.h"
#include "amx_amd64.h"
#include "affine_amx_amd64.h"

// chunk unpacks the next 64 inputs of the pair of panels that is multiplied after this one, if there are any left. AX is the
// tileProduct.
TEXT chunk<>(SB), NOSPLIT|NOFRAME, $0-0
	MOVQ  tileProduct_chunk(AX), R9
	CMPQ  R9, tileProduct_chunks(AX)
	JGE   none
	TESTQ $3, R9
	JNE   inputs

	// A panel begins.
	MOVQ    tileProduct_at(AX), R12
	MOVQ    tileProduct_codesAt(AX), R15
	MOVQ    tileProduct_supersAt(AX), DI
	MOVQ    tileProduct_section(AX), R10
	MOVQ    $8, R11
	CMPQ    tileProduct_blocks(AX), R11
	JGT     parts
	MOVQ    tileProduct_lastCodes(AX), R15
	MOVQ    tileProduct_lastSupers(AX), DI
	MOVQ    tileProduct_ahead(AX), R10
	MOVQ    tileProduct_blocks(AX), R11

parts:
	ADDQ R12, R15
	ADDQ R12, DI
	DECQ tileProduct_left(AX)
	MOVQ tileProduct_stride(AX), R9
	ADDQ R9, tileProduct_at(AX)

	// D and M.
	MOVQ       tileProduct_chunk(AX), R9
	SHLQ       $5, R9
	ADDQ       tileProduct_supers(AX), R9
	PREFETCHT1 (DI)(R10*1)
	CMPQ       tileProduct_layout(AX), $const_byteMins
	JEQ        halves
	VMOVUPS    (DI), Z0
	VMOVUPS    Z0, 1024(R9)
	CMPQ       tileProduct_layout(AX), $const_int12Mins
	JNE        inputs
	PREFETCHT1 64(DI)(R10*1)
	VMOVUPS    64(DI), Z0
	VMOVUPS    Z0, 1088(R9)
	JMP        inputs

halves:
	VCVTPH2PS (DI), Z0
	VCVTPH2PS 32(DI), Z1
	VMOVUPS   Z0, 1024(R9)
	VMOVUPS   Z1, 1088(R9)

inputs:
	MOVQ tileProduct_chunk(AX), R9
	INCQ tileProduct_chunk(AX)
	MOVQ R9, DI
	SHLQ $7, DI
	ADDQ tileProduct_supers(AX), DI
	SHLQ $11, R9
	LEAQ LEVELS(BX)(R9*1), R9
	MOVQ tileProduct_unpack(AX), AX
	JMP  AX

none:
	RET

// next lets chunk unpack the pair of panels after the one that it has done, if there is one. AX is the tileProduct.
TEXT next<>(SB), NOSPLIT|NOFRAME, $0-0
	MOVQ tileProduct_supers(AX), R9
	ADDQ $SUPERS_BYTES, R9
	LEAQ (SUPERS+3*SUPERS_BYTES)(BX), R10
	CMPQ R9, R10
	JLT  place
	LEAQ SUPERS(BX), R9

place:
	MOVQ R9, tileProduct_supers(AX)
	MOVQ $0, tileProduct_chunk(AX)
	MOVQ $0, tileProduct_chunks(AX)
	CMPQ tileProduct_left(AX), $0
	JGT  panels
	SUBQ $8, tileProduct_blocks(AX)
	JLE  none
	MOVQ tileProduct_section(AX), R10
	ADDQ tileProduct_w(AX), R10
	MOVQ R10, tileProduct_w(AX)
	MOVQ R10, tileProduct_at(AX)
	MOVQ tileProduct_panels(AX), R10
	MOVQ R10, tileProduct_left(AX)

panels:
	MOVQ $8, tileProduct_chunks(AX)
	CMPQ tileProduct_left(AX), $1
	JNE  none
	MOVQ $4, tileProduct_chunks(AX)

none:
	RET

#define MINS(panel) NO_MINS(panel)
#define LESS(i) NO_LESS(i)

// func tilesAMX(p *tileProduct)
TEXT ·tilesAMX(SB), NOSPLIT, $0-8
#include "affine_amx_body_amd64.h"

#undef MINS
#undef LESS
#define MINS(panel) MINS32(panel)
#define LESS(i) LESS32(i)

// func tilesMins32AMX(p *tileProduct)
TEXT ·tilesMins32AMX(SB), NOSPLIT, $0-8
#include "affine_amx_body_amd64.h"

#undef MINS
#undef LESS
#define MINS(panel) MINS16(panel)
#define LESS(i) LESS16(i)

// func tilesMins16AMX(p *tileProduct)
TEXT ·tilesMins16AMX(SB), NOSPLIT, $0-8
#include "affine_amx_body_amd64.h"

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
	VPBROADCASTW (spanSums_shares+4*g)(DX), Z1; \
	VPMOVSXBW.Z  (32*g)(SI), K1, Z0; \
	VPMULLW      Z1, Z0, Z0; \
	VPSRLW       $8, Z0, Z1; \
	VPMOVWB      Z0, (g/2*2048+g%2*32)(R8); \
	VPMOVWB      Z1, (g/2*2048+1024+g%2*32)(R8)

// func spreadAMX(to *byte, distance, lane int, q *int8, sums *spanSums, blocks int)
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
	MOVL    spanSums_d(DX), AX
	MOVL    AX, 8192(DI)
	VMOVDQU spanSums_sums32(DX), X0
	VMOVDQU X0, 8256(R12)
	VMOVDQU spanSums_sums16(DX), Y0
	VMOVDQU Y0, 8512(R13)
	ADDQ    BX, R8
	ADDQ    BX, DI
	ADDQ    BX, R12
	ADDQ    BX, R13
	ADDQ    $256, SI
	ADDQ    $spanSums__size, DX
	SUBQ    $8, CX
	JGT     span
	VZEROUPPER
	RET
