//go:build amd64 && !noasm

// Products of rows with affine types with AVX-512 VNNI that take one panel after another, so that weights are read from end to
// end. For each section, row i and panel p they do dst[i][p] = fma(sum, d·D, dst[i][p]) and, for types with an m,
// dst[i][p] = fma(-least, d·M, dst[i][p]), with sum and least as in matAffine.
//
// A Zen 5 core reads one stream of memory, if what lies AHEAD is fetched, a quarter faster than four in turn. A block of 32 inputs is
// unpacked to eight registers, whose levels are multiplied with four values of a row at a time; the instruction spreads these over a
// register itself, so that rows need none but their sums. Levels keep their offset: it is taken off at a section's end like an m, of S times the
// offset. The frame has
//
//	   0  sums of a section [16 rows][16] int32
//	1024  S [16 groups][16] int32
//	2048  m, or S times the offset [8 pairs][16][2] int16
//	2560  D [16] float32
//	2624  M [16] float32
//
// Registers: BX codes of the block, R10 its section's scales, R12 the frame, R15 what is fetched; SI, R9 and R13 are
// values, shares and sums of a row. Z16 to Z23 levels, Z24 and Z25 S, Z26 the offset.

#include "textflag.h"
#include "funcdata.h"
#include "go_asm.h"
#include "affine_vnni_amd64.h"
#include "affine_levels_amd64.h"

#define S_BYTES 1024
#define PAIR_BYTES 2048
#define D_AT 2560
#define LEAST_AT 2624
#define FRAME_BYTES 2792
#define AHEAD 8192

#define LEVELS(v, l0, l1, l2, l3) \
	A(v, (BX)); \
	VMOVDQA64 Z27, l0; \
	B(v, (BX)); \
	VMOVDQA64 Z27, l1; \
	C(v, (BX)); \
	VMOVDQA64 Z27, l2; \
	D(v, (BX)); \
	VMOVDQA64 Z27, l3
#define MINS4 \
	VPXORD Z0, Z0, Z0; \
	VPDPWSSD.BCST SUMS+0(R9), Z8, Z0; \
	VPDPWSSD.BCST SUMS+4(R9), Z9, Z0; \
	VPDPWSSD.BCST SUMS+8(R9), Z10, Z0; \
	VPDPWSSD.BCST SUMS+12(R9), Z11, Z0
#define MINS8 \
	MINS4; \
	VPDPWSSD.BCST SUMS+16(R9), Z12, Z0; \
	VPDPWSSD.BCST SUMS+20(R9), Z13, Z0; \
	VPDPWSSD.BCST SUMS+24(R9), Z14, Z0; \
	VPDPWSSD.BCST SUMS+28(R9), Z15, Z0

#define AT2 PREFETCHT0 (R15); PREFETCHT0 64(R15); PREFETCHT0 128(R15)
#define AT3 AT2; PREFETCHT0 192(R15)
#define AT4 AT3; PREFETCHT0 256(R15)
#define AT5 AT4; PREFETCHT0 320(R15)
#define AT6 AT5; PREFETCHT0 384(R15)
#define AT8 AT6; PREFETCHT0 448(R15); PREFETCHT0 512(R15)

// S of a pair of groups at R10, in Z0 and Z1.
#define UNSIGNED VPMOVZXBD (R10), Z0; VPMOVZXBD 16(R10), Z1
#define SIGNED VPMOVSXBD (R10), Z0; VPMOVSXBD 16(R10), Z1
#define SIGNED12 \
	SIGNED; \
	VPMOVZXBD 32(R10), Z2; \
	VPSLLD $4, Z0, Z0; \
	VPSLLD $4, Z1, Z1; \
	VPTERNLOGD $0xf8, Z3, Z2, Z0; \
	VPSRLD $4, Z2, Z2; \
	VPORD Z2, Z1, Z1
#define KEEP_S VMOVDQA32 Z0, (DI); VMOVDQA32 Z1, 64(DI); ADDQ $128, DI
#define OFFSETS \
	VPSLLD $16, Z1, Z1; \
	VMOVDQU16 Z1, K2, Z0; \
	VPMULLW Z26, Z0, Z0; \
	VMOVDQA32 Z0, (R13); \
	ADDQ $64, R13

// panelScales brings the scales of a section to the form that they have in the frame at R12: R9 pairs of groups at R10, and
// the super after them. It leaves the codes, which come then, in R10. AX is the layout.
TEXT panelScales<>(SB), NOSPLIT|NOFRAME, $0-0
	LEAQ S_BYTES(R12), DI
	LEAQ PAIR_BYTES(R12), R13
	CMPQ AX, $const_byteMins
	JEQ  byteMins
	CMPQ AX, $const_int8s
	JEQ  int8s
	JLT  uint8s
	MOVL $15, CX
	VPBROADCASTD CX, Z3
	CMPQ AX, $const_int12Mins
	JEQ  int12Mins

int12s:
	SIGNED12
	KEEP_S
	OFFSETS
	ADDQ $48, R10
	DECQ R9
	JNZ  int12s
	JMP  float

int8s:
	SIGNED
	KEEP_S
	OFFSETS
	ADDQ $32, R10
	DECQ R9
	JNZ  int8s
	JMP  float

uint8s:
	UNSIGNED
	KEEP_S
	OFFSETS
	ADDQ $32, R10
	DECQ R9
	JNZ  uint8s

float:
	VMOVUPS (R10), Z0
	VMOVUPS Z0, D_AT(R12)
	ADDQ $64, R10
	JMP  aligned

int12Mins:
	SIGNED12
	KEEP_S
	VMOVDQU32 48(R10), Z0
	VMOVDQA32 Z0, (R13)
	ADDQ $64, R13
	ADDQ $112, R10
	DECQ R9
	JNZ  int12Mins
	VMOVUPS (R10), Z0
	VMOVUPS Z0, D_AT(R12)
	VMOVUPS 64(R10), Z0
	VMOVUPS Z0, LEAST_AT(R12)
	ADDQ $128, R10
	JMP  aligned

byteMins:
	SIGNED
	KEEP_S
	VPMOVZXBW 32(R10), Z0
	VMOVDQA32 Z0, (R13)
	ADDQ $64, R13
	ADDQ $64, R10
	DECQ R9
	JNZ  byteMins
	VCVTPH2PS (R10), Z0
	VMOVUPS Z0, D_AT(R12)
	VCVTPH2PS 32(R10), Z0
	VMOVUPS Z0, LEAST_AT(R12)
	ADDQ $64, R10

aligned:
	ADDQ $63, R10
	ANDQ $~63, R10
	RET

#define SUMS spanSums_sums32
#define MINS MINS4
#define CODE_BYTES 512
#define FETCH AT8
#define MASKS
#define A(v, p) A8(v, p)
#define B(v, p) B8(v, p)
#define C(v, p) C8(v, p)
#define D(v, p) D8(v, p)

// func panelCodes8VNNI(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks, layout, offset int)
TEXT ·panelCodes8VNNI(SB), 0, $2800-104
	NO_LOCAL_POINTERS
#include "affine_panel_vnni_amd64.h"

#undef CODE_BYTES
#undef FETCH
#undef MASKS
#undef A
#undef B
#undef C
#undef D
#define CODE_BYTES 256
#define FETCH AT4
#define MASKS BYTES_OF(0x0f0f0f0f, Z30)
#define A(v, p) A4(v, p)
#define B(v, p) B4(v, p)
#define C(v, p) C4(v, p)
#define D(v, p) D4(v, p)

// func panelCodes4VNNI(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks, layout, offset int)
TEXT ·panelCodes4VNNI(SB), 0, $2800-104
	NO_LOCAL_POINTERS
#include "affine_panel_vnni_amd64.h"

#undef CODE_BYTES
#undef FETCH
#undef MASKS
#undef A
#undef B
#undef C
#undef D
#define CODE_BYTES 256
#define FETCH AT4
#define MASKS BYTES_OF(0x0f0f0f0f, Z30); VBROADCASTI32X4 iq4<>(SB), Z31
#define A(v, p) A4(v, p); TABLE
#define B(v, p) B4(v, p); TABLE
#define C(v, p) C4(v, p); TABLE
#define D(v, p) D4(v, p); TABLE

// func panelCodesIQ4VNNI(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks, layout, offset int)
TEXT ·panelCodesIQ4VNNI(SB), 0, $2800-104
	NO_LOCAL_POINTERS
#include "affine_panel_vnni_amd64.h"

#undef CODE_BYTES
#undef FETCH
#undef MASKS
#undef A
#undef B
#undef C
#undef D
#define CODE_BYTES 256
#define FETCH AT4
#define MASKS BYTES_OF(0x0f0f0f0f, Z30); VBROADCASTI32X4 fp4<>(SB), Z31
#define A(v, p) A4(v, p); TABLE
#define B(v, p) B4(v, p); TABLE
#define C(v, p) C4(v, p); TABLE
#define D(v, p) D4(v, p); TABLE

// func panelCodesFP4VNNI(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks, layout, offset int)
TEXT ·panelCodesFP4VNNI(SB), 0, $2800-104
	NO_LOCAL_POINTERS
#include "affine_panel_vnni_amd64.h"

#undef CODE_BYTES
#undef FETCH
#undef MASKS
#undef A
#undef B
#undef C
#undef D
#define CODE_BYTES 320
#define FETCH AT5
#define MASKS BYTES_OF(0x0f0f0f0f, Z30); BYTES_OF(0x10101010, Z31)
#define A(v, p) A4(v, p); LAST_BIT(256+32*v+0, p)
#define B(v, p) B4(v, p); LAST_BIT(256+32*v+8, p)
#define C(v, p) C4(v, p); LAST_BIT(256+32*v+16, p)
#define D(v, p) D4(v, p); LAST_BIT(256+32*v+24, p)

// func panelCodes5VNNI(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks, layout, offset int)
TEXT ·panelCodes5VNNI(SB), 0, $2800-104
	NO_LOCAL_POINTERS
#include "affine_panel_vnni_amd64.h"

#undef CODE_BYTES
#undef FETCH
#undef MASKS
#undef A
#undef B
#undef C
#undef D
#define GROUP16
#undef SUMS
#undef MINS
#define SUMS spanSums_sums16
#define MINS MINS8
#define CODE_BYTES 192
#define FETCH AT3
#define MASKS BYTES_OF(0x03030303, Z30); BYTES_OF(0x04040404, Z31)
#define A(v, p) A2(v, p); LAST_BIT(128+32*v+0, p)
#define B(v, p) B2(v, p); LAST_BIT(128+32*v+8, p)
#define C(v, p) C2(v, p); LAST_BIT(128+32*v+16, p)
#define D(v, p) D2(v, p); LAST_BIT(128+32*v+24, p)

// func panelCodes3VNNI(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks, layout, offset int)
TEXT ·panelCodes3VNNI(SB), 0, $2800-104
	NO_LOCAL_POINTERS
#include "affine_panel_vnni_amd64.h"

#undef CODE_BYTES
#undef FETCH
#undef MASKS
#undef A
#undef B
#undef C
#undef D
#define CODE_BYTES 384
#define FETCH AT6
#define MASKS BYTES_OF(0x0f0f0f0f, Z29); BYTES_OF(0x3f3f3f3f, Z30); BYTES_OF(0x03030303, Z31)
#define A(v, p) A6(v, p)
#define B(v, p) B6(v, p)
#define C(v, p) C6(v, p)
#define D(v, p) D6(v, p)

// func panelCodes6VNNI(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks, layout, offset int)
TEXT ·panelCodes6VNNI(SB), 0, $2800-104
	NO_LOCAL_POINTERS
#include "affine_panel_vnni_amd64.h"

#undef CODE_BYTES
#undef FETCH
#undef MASKS
#undef A
#undef B
#undef C
#undef D
#define CODE_BYTES 128
#define FETCH AT2
#define MASKS BYTES_OF(0x03030303, Z30)
#define A(v, p) A2(v, p)
#define B(v, p) B2(v, p)
#define C(v, p) C2(v, p)
#define D(v, p) D2(v, p)

// func panelCodes2VNNI(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks, layout, offset int)
TEXT ·panelCodes2VNNI(SB), 0, $2800-104
	NO_LOCAL_POINTERS
#include "affine_panel_vnni_amd64.h"
