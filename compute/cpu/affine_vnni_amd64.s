//go:build amd64 && !noasm

// Tiles of affine types with AVX-512 VNNI. The layout and the loops are in affine_vnni_amd64.h; here is how the codes of each
// type and the scales of each layout are unpacked.

#include "textflag.h"
#include "funcdata.h"
#include "go_asm.h"
#include "affine_vnni_amd64.h"
#include "affine_levels_amd64.h"

// One pair of groups or one super of a panel at p, to place o of the frame's scales. Z2 has ones for ONES, 15 for INT12S and K1 the second group.
#define SCALES(o) VMOVDQU Y0, (o)/2(DI); VEXTRACTI64X4 $1, Z0, 128+(o)/2(DI)
#define UINT8S(p, o) VPMOVZXBW 0 p, Z0; SCALES(o)
#define INT8S(p, o) VPMOVSXBW 0 p, Z0; SCALES(o)
#define INT12S(p, o) \
	VPMOVSXBW       0 p, Z0; \
	VPSLLW          $4, Z0, Z0; \
	VBROADCASTI128  32 p, Y1; \
	VPMOVZXBW       Y1, Z1; \
	VPSRLW          $4, Z1, K1, Z1; \
	VPTERNLOGQ      $0xf8, Z2, Z1, Z0; \
	SCALES(o)
#define INT12_MINS(p, o) INT12S(p, o); VMOVDQU64 48 p, Z0; VMOVDQU64 Z0, M_BYTES+o(R11)
#define BYTE_MINS(p, o) INT8S(p, o); VPMOVZXBW 32 p, Z0; VMOVDQU64 Z0, M_BYTES+o(R11)
#define FLOAT(p, o) VMOVUPS 0 p, Z0; VMOVUPS Z0, D_BYTES+o(R10)
#define FLOATS(p, o) FLOAT(p, o); VMOVUPS 64 p, Z0; VMOVUPS Z0, LEAST_BYTES+o(R10)
#define HALVES(p, o) VCVTPH2PS 0 p, Z0; VMOVUPS Z0, D_BYTES+o(R10); VCVTPH2PS 32 p, Z0; VMOVUPS Z0, LEAST_BYTES+o(R10)
#define ONES(p, o) VMOVDQA64 Z2, Z0; SCALES(o); VPMOVZXBD 64 p, Z0; VPSLLD $16, Z0, Z1; VPORQ Z0, Z1, Z0; VMOVDQU64 Z0, M_BYTES+o(R11)

// scalesVNNI brings the scales of a span of four panels to one form in the frame at R10: R9 pairs of groups, at SI, and the
// super after them. It moves SI to their end. AX is the layout.
TEXT scalesVNNI<>(SB), NOSPLIT|NOFRAME, $0-0
	MOVQ R10, DI
	MOVQ R10, R11
	CMPQ AX, $const_uint8s
	JEQ  uint8s
	CMPQ AX, $const_int8s
	JEQ  int8s
	CMPQ AX, $const_byteMins
	JEQ  byteMins
	CMPQ AX, $const_zeroPoints
	JEQ  zeroPoints

	MOVL         $0xffff0000, BX
	KMOVD        BX, K1
	MOVL         $15, BX
	VPBROADCASTW BX, Z2
	CMPQ         AX, $const_int12Mins
	JEQ          int12Mins

int12s:
	PANELS(INT12S, SI)
	ADDQ $48, SI
	ADDQ $256, DI
	DECQ R9
	JNZ  int12s
	JMP  float

int8s:
	PANELS(INT8S, SI)
	ADDQ $32, SI
	ADDQ $256, DI
	DECQ R9
	JNZ  int8s
	JMP  float

uint8s:
	PANELS(UINT8S, SI)
	ADDQ $32, SI
	ADDQ $256, DI
	DECQ R9
	JNZ  uint8s

float:
	PANELS(FLOAT, SI)
	RET

int12Mins:
	PANELS(INT12_MINS, SI)
	ADDQ $112, SI
	ADDQ $256, DI
	ADDQ $256, R11
	DECQ R9
	JNZ  int12Mins
	PANELS(FLOATS, SI)
	RET

byteMins:
	PANELS(BYTE_MINS, SI)
	ADDQ $64, SI
	ADDQ $256, DI
	ADDQ $256, R11
	DECQ R9
	JNZ  byteMins
	PANELS(HALVES, SI)
	RET

zeroPoints:
	MOVL         $1, AX
	VPBROADCASTW AX, Z2

zeroPair:
	PANELS(ONES, SI)
	ADDQ $256, DI
	ADDQ $256, R11
	DECQ R9
	JNZ  zeroPair
	PANELS(FLOAT, SI)
	ADDQ $80, SI
	RET

// timesVNNI writes the multiples of S of R9 pairs of groups to the frame at R10.
TEXT timesVNNI<>(SB), NOSPLIT|NOFRAME, $0-0
	MOVQ R10, DI
	SHLQ $2, R9

times:
	VMOVDQA64 (DI), Z0
	VPADDW    Z0, Z0, Z1
	VMOVDQA64 Z1, TIMES_BYTES(DI)
	VPADDW    Z0, Z1, Z2
	VMOVDQA64 Z2, 2*TIMES_BYTES(DI)
	VPADDW    Z1, Z1, Z3
	VMOVDQA64 Z3, 3*TIMES_BYTES(DI)
	VPADDW    Z0, Z3, Z4
	VMOVDQA64 Z4, 4*TIMES_BYTES(DI)
	VPADDW    Z2, Z2, Z5
	VMOVDQA64 Z5, 5*TIMES_BYTES(DI)
	VPADDW    Z2, Z3, Z6
	VMOVDQA64 Z6, 6*TIMES_BYTES(DI)
	VPADDW    Z3, Z3, Z7
	VMOVDQA64 Z7, 7*TIMES_BYTES(DI)
	ADDQ      $64, DI
	DECQ      R9
	JNZ       times
	RET

#define FRAME 19200
#define MANY_ROWS 24
#define TILES_MANY UNPACK_AGAIN
#define SHARE spanSums_shares-spanSums_minus32
#define BLOCK(ROWS, LOAD, DOT, TAKE, FIRST, LAST) BLOCK32(ROWS, LOAD, DOT, TAKE, FIRST, LAST)
#define CODE_BYTES 512
#define FETCH_ROWS 4
#define FETCH_LINES 9
#define FETCH LINES9
#define MASKS
#define A(v, p) A8(v, p)
#define B(v, p) B8(v, p)
#define C(v, p) C8(v, p)
#define D(v, p) D8(v, p)
#define OFFSET_BITS 7

// func tileCodes8VNNI(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks, span, section, layout, offset, head, lastHead int)
TEXT ·tileCodes8VNNI(SB), 0, $19200-136
	NO_LOCAL_POINTERS
#include "affine_vnni_body_amd64.h"

#undef CODE_BYTES
#undef FETCH_ROWS
#undef FETCH_LINES
#undef FETCH
#undef OFFSET_BITS
#undef MASKS
#undef MANY_ROWS
#undef A
#undef B
#undef C
#undef D
#define MANY_ROWS 10
#define CODE_BYTES 256
#define FETCH_ROWS 1
#define FETCH_LINES 5
#define FETCH LINES5
#define MASKS BYTES_OF(0x0f0f0f0f, Z30)
#define A(v, p) A4(v, p)
#define B(v, p) B4(v, p)
#define C(v, p) C4(v, p)
#define D(v, p) D4(v, p)
#define OFFSET_BITS 3

// func tileCodes4VNNI(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks, span, section, layout, offset, head, lastHead int)
TEXT ·tileCodes4VNNI(SB), 0, $19200-136
	NO_LOCAL_POINTERS
#include "affine_vnni_body_amd64.h"

#undef OFFSET_BITS
#undef MASKS
#undef A
#undef B
#undef C
#undef D
#define A(v, p) A4(v, p); TABLE
#define B(v, p) B4(v, p); TABLE
#define C(v, p) C4(v, p); TABLE
#define D(v, p) D4(v, p); TABLE
#define MASKS BYTES_OF(0x0f0f0f0f, Z30); VBROADCASTI32X4 iq4<>(SB), Z31
#define OFFSET_BITS 7

// Types that take longer to unpack keep the levels of a span for more rows.
#undef TILES_MANY
#define TILES_MANY KEEP_LEVELS
#undef FRAME
#define FRAME 35584

// func tileCodesIQ4VNNI(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks, span, section, layout, offset, head, lastHead int)
TEXT ·tileCodesIQ4VNNI(SB), 0, $35584-136
	NO_LOCAL_POINTERS
#include "affine_vnni_body_amd64.h"

#undef OFFSET_BITS
#undef MASKS
#define MASKS BYTES_OF(0x0f0f0f0f, Z30); VBROADCASTI32X4 fp4<>(SB), Z31
#define OFFSET_BITS 4

// func tileCodesFP4VNNI(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks, span, section, layout, offset, head, lastHead int)
TEXT ·tileCodesFP4VNNI(SB), 0, $35584-136
	NO_LOCAL_POINTERS
#include "affine_vnni_body_amd64.h"

#undef CODE_BYTES
#undef FETCH_ROWS
#undef FETCH_LINES
#undef FETCH
#undef OFFSET_BITS
#undef MASKS
#undef A
#undef B
#undef C
#undef D
#define CODE_BYTES 320
#define FETCH_ROWS 1
#define FETCH_LINES 6
#define FETCH LINES6
#define MASKS BYTES_OF(0x0f0f0f0f, Z30); BYTES_OF(0x10101010, Z31)
#define A(v, p) A4(v, p); LAST_BIT(256+32*v+0, p)
#define B(v, p) B4(v, p); LAST_BIT(256+32*v+8, p)
#define C(v, p) C4(v, p); LAST_BIT(256+32*v+16, p)
#define D(v, p) D4(v, p); LAST_BIT(256+32*v+24, p)
#define OFFSET_BITS 4

// func tileCodes5VNNI(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks, span, section, layout, offset, head, lastHead int)
TEXT ·tileCodes5VNNI(SB), 0, $35584-136
	NO_LOCAL_POINTERS
#include "affine_vnni_body_amd64.h"

// Codes of types with groups of 16.
#define GROUP16
#undef BLOCK
#define BLOCK(ROWS, LOAD, DOT, TAKE, FIRST, LAST) BLOCK16(ROWS, LOAD, DOT, TAKE, FIRST, LAST)
#undef SHARE
#define SHARE 0
#undef CODE_BYTES
#undef FETCH_ROWS
#undef FETCH_LINES
#undef FETCH
#undef OFFSET_BITS
#undef MASKS
#undef A
#undef B
#undef C
#undef D
#define CODE_BYTES 192
#define FETCH_ROWS 1
#define FETCH_LINES 4
#define FETCH LINES4
#define MASKS BYTES_OF(0x03030303, Z30); BYTES_OF(0x04040404, Z31)
#define A(v, p) A2(v, p); LAST_BIT(128+32*v+0, p)
#define B(v, p) B2(v, p); LAST_BIT(128+32*v+8, p)
#define C(v, p) C2(v, p); LAST_BIT(128+32*v+16, p)
#define D(v, p) D2(v, p); LAST_BIT(128+32*v+24, p)
#define OFFSET_BITS 2

// func tileCodes3VNNI(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks, span, section, layout, offset, head, lastHead int)
TEXT ·tileCodes3VNNI(SB), 0, $35584-136
	NO_LOCAL_POINTERS
#include "affine_vnni_body_amd64.h"

#undef CODE_BYTES
#undef FETCH_ROWS
#undef FETCH_LINES
#undef FETCH
#undef OFFSET_BITS
#undef MASKS
#undef A
#undef B
#undef C
#undef D
#define CODE_BYTES 384
#define FETCH_ROWS 3
#define FETCH_LINES 7
#define FETCH LINES7
#define MASKS BYTES_OF(0x0f0f0f0f, Z29); BYTES_OF(0x3f3f3f3f, Z30); BYTES_OF(0x03030303, Z31)
#define A(v, p) A6(v, p)
#define B(v, p) B6(v, p)
#define C(v, p) C6(v, p)
#define D(v, p) D6(v, p)
#define OFFSET_BITS 5

// func tileCodes6VNNI(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks, span, section, layout, offset, head, lastHead int)
TEXT ·tileCodes6VNNI(SB), 0, $35584-136
	NO_LOCAL_POINTERS
#include "affine_vnni_body_amd64.h"

#undef TILES_MANY
#undef FRAME
#define TILES_MANY UNPACK_AGAIN
#define FRAME 19200
#undef CODE_BYTES
#undef FETCH_ROWS
#undef FETCH_LINES
#undef FETCH
#undef OFFSET_BITS
#undef MASKS
#undef A
#undef B
#undef C
#undef D
#define CODE_BYTES 128
#define FETCH_ROWS 1
#define FETCH_LINES 4
#define FETCH LINES4
#define MASKS BYTES_OF(0x03030303, Z30)
#define A(v, p) A2(v, p)
#define B(v, p) B2(v, p)
#define C(v, p) C2(v, p)
#define D(v, p) D2(v, p)
#define OFFSET_BITS 0

// func tileCodes2VNNI(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks, span, section, layout, offset, head, lastHead int)
TEXT ·tileCodes2VNNI(SB), 0, $19200-136
	NO_LOCAL_POINTERS
#include "affine_vnni_body_amd64.h"
