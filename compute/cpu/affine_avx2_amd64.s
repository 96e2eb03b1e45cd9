//go:build amd64 && !noasm

// Tiles of affine types with AVX2. The layout and the loops are in affine_avx2_amd64.h; here is how each type unpacks its
// codes and scales.

#include "textflag.h"
#include "affine_avx2_amd64.h"

// Levels of four-bit codes (quant.Affine), twice.
DATA iq4<>+0(SB)/8, $0x766a5d4f3f2d1801
DATA iq4<>+8(SB)/8, $0xf1d9c5b5a6998d81
DATA iq4<>+16(SB)/8, $0x766a5d4f3f2d1801
DATA iq4<>+24(SB)/8, $0xf1d9c5b5a6998d81
GLOBL iq4<>(SB), RODATA|NOPTR, $32

DATA fp4<>+0(SB)/8, $0x1c18161413121110
DATA fp4<>+8(SB)/8, $0x04080a0c0d0e0f10
DATA fp4<>+16(SB)/8, $0x1c18161413121110
DATA fp4<>+24(SB)/8, $0x04080a0c0d0e0f10
GLOBL fp4<>(SB), RODATA|NOPTR, $32

DATA nibbles<>+0(SB)/8, $0x0f0f0f0f0f0f0f0f
DATA nibbles<>+8(SB)/8, $0x0f0f0f0f0f0f0f0f
DATA nibbles<>+16(SB)/8, $0x0f0f0f0f0f0f0f0f
DATA nibbles<>+24(SB)/8, $0x0f0f0f0f0f0f0f0f
GLOBL nibbles<>(SB), RODATA|NOPTR, $32

DATA sixes<>+0(SB)/8, $0x3f3f3f3f3f3f3f3f
DATA sixes<>+8(SB)/8, $0x3f3f3f3f3f3f3f3f
DATA sixes<>+16(SB)/8, $0x3f3f3f3f3f3f3f3f
DATA sixes<>+24(SB)/8, $0x3f3f3f3f3f3f3f3f
GLOBL sixes<>(SB), RODATA|NOPTR, $32

DATA lowest<>+0(SB)/8, $0x0303030303030303
DATA lowest<>+8(SB)/8, $0x0303030303030303
DATA lowest<>+16(SB)/8, $0x0303030303030303
DATA lowest<>+24(SB)/8, $0x0303030303030303
GLOBL lowest<>(SB), RODATA|NOPTR, $32

DATA middle<>+0(SB)/8, $0x0c0c0c0c0c0c0c0c
DATA middle<>+8(SB)/8, $0x0c0c0c0c0c0c0c0c
DATA middle<>+16(SB)/8, $0x0c0c0c0c0c0c0c0c
DATA middle<>+24(SB)/8, $0x0c0c0c0c0c0c0c0c
GLOBL middle<>(SB), RODATA|NOPTR, $32

DATA highest<>+0(SB)/8, $0x3030303030303030
DATA highest<>+8(SB)/8, $0x3030303030303030
DATA highest<>+16(SB)/8, $0x3030303030303030
DATA highest<>+24(SB)/8, $0x3030303030303030
GLOBL highest<>(SB), RODATA|NOPTR, $32

DATA fours<>+0(SB)/8, $0x0404040404040404
DATA fours<>+8(SB)/8, $0x0404040404040404
DATA fours<>+16(SB)/8, $0x0404040404040404
DATA fours<>+24(SB)/8, $0x0404040404040404
GLOBL fours<>(SB), RODATA|NOPTR, $32

DATA sixteens<>+0(SB)/8, $0x1010101010101010
DATA sixteens<>+8(SB)/8, $0x1010101010101010
DATA sixteens<>+16(SB)/8, $0x1010101010101010
DATA sixteens<>+24(SB)/8, $0x1010101010101010
GLOBL sixteens<>(SB), RODATA|NOPTR, $32

DATA ones<>+0(SB)/8, $0x0001000100010001
DATA ones<>+8(SB)/8, $0x0001000100010001
DATA ones<>+16(SB)/8, $0x0001000100010001
DATA ones<>+24(SB)/8, $0x0001000100010001
GLOBL ones<>(SB), RODATA|NOPTR, $32

// For each of 32 bytes, the byte that holds its bit, and the bit.
DATA spread<>+0(SB)/8, $0x0000000000000000
DATA spread<>+8(SB)/8, $0x0101010101010101
DATA spread<>+16(SB)/8, $0x0202020202020202
DATA spread<>+24(SB)/8, $0x0303030303030303
GLOBL spread<>(SB), RODATA|NOPTR, $32

DATA each<>+0(SB)/8, $0x8040201008040201
DATA each<>+8(SB)/8, $0x8040201008040201
DATA each<>+16(SB)/8, $0x8040201008040201
DATA each<>+24(SB)/8, $0x8040201008040201
GLOBL each<>(SB), RODATA|NOPTR, $32

#define SUPER_MASK 7
#define CODE_BYTES 256
#define FETCH(v, p) LINES2(v, p)
#define SCALE_BYTES 64
#define SUPER_BYTES 0
#define A(v, o) A4(v, o)
#define B(v, o) B4(v, o)
#define C(v, o) C4(v, o)
#define D(v, o) D4(v, o)
#define DOT(q, r, low, high, sum) DOT6(q, low)
#define MIDDLE(q, r, low, high, sum) NO_MIDDLE(q, r, low, high, sum)
#define JOIN(low, high) JOIN4(low)
#define OFFSET(at, r, low) NO_OFFSET(at, r, low)
#define LESS(at, r, sum) LESS_M(at, r, sum)
#define SCALES(h, o) HALF_PAIRS(o)
#define BLOCK BLOCK32

// func tileQ4_1AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileQ4_1AVX2(SB), NOSPLIT, $0-88
#include "affine_avx2_body_amd64.h"

#undef SCALE_BYTES
#undef SUPER_BYTES
#undef SCALES
#define SCALE_BYTES 32
#define SUPER_BYTES 64
#define SCALES(h, o) INT8_PAIRS(0, o)

// func tileQ4_KAVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileQ4_KAVX2(SB), NOSPLIT, $0-88
#include "affine_avx2_body_amd64.h"

#undef CODE_BYTES
#undef FETCH
#undef SCALE_BYTES
#undef SUPER_BYTES
#undef A
#undef B
#undef C
#undef D
#undef MIDDLE
#undef JOIN
#undef SCALES
#define CODE_BYTES 320
#define FETCH(v, p) LINES3(v, p)
#define SCALE_BYTES 64
#define SUPER_BYTES 0
#define A(v, o) A4(v, o); LAST_BIT(256+32*v+0+o/8, sixteens)
#define B(v, o) B4(v, o); LAST_BIT(256+32*v+8+o/8, sixteens)
#define C(v, o) C4(v, o); LAST_BIT(256+32*v+16+o/8, sixteens)
#define D(v, o) D4(v, o); LAST_BIT(256+32*v+24+o/8, sixteens)
#define MIDDLE(q, r, low, high, sum) MIDDLE6(low, high)
#define JOIN(low, high) JOIN6(low, high)
#define SCALES(h, o) HALF_PAIRS(o)

// func tileQ5_1AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileQ5_1AVX2(SB), NOSPLIT, $0-88
#include "affine_avx2_body_amd64.h"

#undef SCALE_BYTES
#undef SUPER_BYTES
#undef SCALES
#define SCALE_BYTES 32
#define SUPER_BYTES 64
#define SCALES(h, o) INT8_PAIRS(0, o)

// func tileQ5_KAVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileQ5_KAVX2(SB), NOSPLIT, $0-88
#include "affine_avx2_body_amd64.h"

#undef CODE_BYTES
#undef FETCH
#undef SCALE_BYTES
#undef A
#undef B
#undef C
#undef D
#undef MIDDLE
#undef JOIN
#undef SCALES
#undef BLOCK
#define CODE_BYTES 128
#define FETCH(v, p) LINE(v, p)
#define SCALE_BYTES 64
#define A(v, o) A2(v, o)
#define B(v, o) B2(v, o)
#define C(v, o) C2(v, o)
#define D(v, o) D2(v, o)
#define MIDDLE(q, r, low, high, sum) NO_MIDDLE(q, r, low, high, sum)
#define JOIN(low, high) JOIN4(low)
#define SCALES(h, o) INT8_PAIRS(32*h, o)
#define BLOCK BLOCK16

// func tileQ2_KAVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileQ2_KAVX2(SB), NOSPLIT, $0-88
#include "affine_avx2_body_amd64.h"

#undef CODE_BYTES
#undef FETCH
#undef SCALE_BYTES
#undef SUPER_BYTES
#undef A
#undef B
#undef C
#undef D
#undef OFFSET
#undef LESS
#undef SCALES
#define CODE_BYTES 192
#define FETCH(v, p) LINES2(v, p)
#define SCALE_BYTES 32
#define SUPER_BYTES 32
#define A(v, o) A2(v, o); LAST_BIT(128+32*v+0+o/8, fours)
#define B(v, o) B2(v, o); LAST_BIT(128+32*v+8+o/8, fours)
#define C(v, o) C2(v, o); LAST_BIT(128+32*v+16+o/8, fours)
#define D(v, o) D2(v, o); LAST_BIT(128+32*v+24+o/8, fours)
#define OFFSET(at, r, low) OFFSET_OF(2, at, r, low)
#define LESS(at, r, sum) LESS_NOTHING(at, r, sum)
#define SCALES(h, o) INT8S(16*h, o)

// func tileQ3_KAVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileQ3_KAVX2(SB), NOSPLIT, $0-88
#include "affine_avx2_body_amd64.h"

#undef CODE_BYTES
#undef FETCH
#undef A
#undef B
#undef C
#undef D
#undef MIDDLE
#undef JOIN
#undef OFFSET
#define CODE_BYTES 384
#define FETCH(v, p) LINES3(v, p)
#define A(v, o) A6(v, o)
#define B(v, o) B6(v, o)
#define C(v, o) C6(v, o)
#define D(v, o) D6(v, o)
#define MIDDLE(q, r, low, high, sum) MIDDLE6(low, high)
#define JOIN(low, high) JOIN6(low, high)
#define OFFSET(at, r, low) OFFSET_OF(5, at, r, low)

// func tileQ6_KAVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileQ6_KAVX2(SB), NOSPLIT, $0-88
#include "affine_avx2_body_amd64.h"

#undef CODE_BYTES
#undef FETCH
#undef SUPER_BYTES
#undef A
#undef B
#undef C
#undef D
#undef DOT
#undef MIDDLE
#undef JOIN
#undef OFFSET
#undef SCALES
#undef BLOCK
#define CODE_BYTES 512
#define FETCH(v, p) LINES4(v, p)
#define SUPER_BYTES 0
#define A(v, o) A8(v, o)
#define B(v, o) B8(v, o)
#define C(v, o) C8(v, o)
#define D(v, o) D8(v, o)
#define DOT(q, r, low, high, sum) DOT8(q, low, high)
#define MIDDLE(q, r, low, high, sum) NO_MIDDLE(q, r, low, high, sum)
#define JOIN(low, high) JOIN8(low, high)
#define OFFSET(at, r, low) OFFSET_OF(7, at, r, low)
#define SCALES(h, o) HALVES(o)
#define BLOCK BLOCK32

// func tileQ8_0AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileQ8_0AVX2(SB), NOSPLIT, $0-88
#include "affine_avx2_body_amd64.h"

#undef CODE_BYTES
#undef FETCH
#undef A
#undef B
#undef C
#undef D
#undef DOT
#undef MIDDLE
#undef JOIN
#undef OFFSET
#define CODE_BYTES 320
#define FETCH(v, p) LINES3(v, p)
#define A(v, o) A4(v, o); LAST_BIT(256+32*v+0+o/8, sixteens)
#define B(v, o) B4(v, o); LAST_BIT(256+32*v+8+o/8, sixteens)
#define C(v, o) C4(v, o); LAST_BIT(256+32*v+16+o/8, sixteens)
#define D(v, o) D4(v, o); LAST_BIT(256+32*v+24+o/8, sixteens)
#define DOT(q, r, low, high, sum) DOT6(q, low)
#define MIDDLE(q, r, low, high, sum) MIDDLE6(low, high)
#define JOIN(low, high) JOIN6(low, high)
#define OFFSET(at, r, low) OFFSET_OF(4, at, r, low)

// func tileQ5_0AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileQ5_0AVX2(SB), NOSPLIT, $0-88
#include "affine_avx2_body_amd64.h"

#undef CODE_BYTES
#undef FETCH
#undef A
#undef B
#undef C
#undef D
#undef MIDDLE
#undef JOIN
#undef OFFSET
#define CODE_BYTES 256
#define FETCH(v, p) LINES2(v, p)
#define A(v, o) A4(v, o)
#define B(v, o) B4(v, o)
#define C(v, o) C4(v, o)
#define D(v, o) D4(v, o)
#define MIDDLE(q, r, low, high, sum) NO_MIDDLE(q, r, low, high, sum)
#define JOIN(low, high) JOIN4(low)
#define OFFSET(at, r, low) OFFSET_OF(3, at, r, low)

// func tileQ4_0AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileQ4_0AVX2(SB), NOSPLIT, $0-88
#include "affine_avx2_body_amd64.h"

#undef A
#undef B
#undef C
#undef D
#undef DOT
#undef JOIN
#undef OFFSET
#define A(v, o) LOW8(iq4, 128*v+o)
#define B(v, o) HIGH8(iq4, 128*v+o)
#define C(v, o) LOW8(iq4, 128*v+64+o)
#define D(v, o) HIGH8(iq4, 128*v+64+o)
#define DOT(q, r, low, high, sum) DOT8(q, low, high)
#define JOIN(low, high) JOIN8(low, high)
#define OFFSET(at, r, low) OFFSET_OF(7, at, r, low)

// func tileIQ4_NLAVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileIQ4_NLAVX2(SB), NOSPLIT, $0-88
#include "affine_avx2_body_amd64.h"

#undef SCALE_BYTES
#undef SUPER_BYTES
#undef SCALES
#define SCALE_BYTES 16
#define SUPER_BYTES 32
#define SCALES(h, o) INT8S(0, o)

// func tileIQ4_XSAVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileIQ4_XSAVX2(SB), NOSPLIT, $0-88
#include "affine_avx2_body_amd64.h"

#undef SCALE_BYTES
#undef SUPER_BYTES
#undef A
#undef B
#undef C
#undef D
#undef DOT
#undef MIDDLE
#undef JOIN
#undef OFFSET
#undef SCALES
#define SCALE_BYTES 64
#define SUPER_BYTES 0
#define A(v, o) A4(v, o); TABLE(fp4)
#define B(v, o) B4(v, o); TABLE(fp4)
#define C(v, o) C4(v, o); TABLE(fp4)
#define D(v, o) D4(v, o); TABLE(fp4)
#define DOT(q, r, low, high, sum) DOT6(q, low)
#define MIDDLE(q, r, low, high, sum) MIDDLE6(low, high)
#define JOIN(low, high) JOIN6(low, high)
#define OFFSET(at, r, low) OFFSET_OF(4, at, r, low)
#define SCALES(h, o) FLOATS(o)

// func tileMXFP4AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileMXFP4AVX2(SB), NOSPLIT, $0-88
#include "affine_avx2_body_amd64.h"

// Types with zero points, by their bits, for groups of 32 and of 128.
#undef SCALE_BYTES
#undef SUPER_BYTES
#undef SCALES
#undef OFFSET
#undef MIDDLE
#define SCALE_BYTES 0
#define SUPER_BYTES 80
#define SCALES(h, o) ZERO_POINTS(o)
#define OFFSET(at, r, low) OFFSET_ZERO(at, r, low)
#define MIDDLE(q, r, low, high, sum) NO_MIDDLE(q, r, low, high, sum)
#undef CODE_BYTES
#undef FETCH
#undef DOT
#undef JOIN
#undef A
#undef B
#undef C
#undef D
#define CODE_BYTES 256
#define FETCH(v, p) LINES2(v, p)
#define DOT(q, r, low, high, sum) DOT6(q, low)
#define JOIN(low, high) JOIN4(low)
#define A(v, o) A4(v, o)
#define B(v, o) B4(v, o)
#define C(v, o) C4(v, o)
#define D(v, o) D4(v, o)
#undef SUPER_MASK
#define SUPER_MASK 0

// func tileU4_32AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileU4_32AVX2(SB), NOSPLIT, $0-88
#include "affine_avx2_body_amd64.h"

#undef SUPER_MASK
#define SUPER_MASK 3

// func tileU4_128AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileU4_128AVX2(SB), NOSPLIT, $0-88
#include "affine_avx2_body_amd64.h"

#undef CODE_BYTES
#undef FETCH
#undef DOT
#undef JOIN
#undef A
#undef B
#undef C
#undef D
#define CODE_BYTES 512
#define FETCH(v, p) LINES4(v, p)
#define DOT(q, r, low, high, sum) DOT8(q, low, high)
#define JOIN(low, high) JOIN8(low, high)
#define A(v, o) A8(v, o)
#define B(v, o) B8(v, o)
#define C(v, o) C8(v, o)
#define D(v, o) D8(v, o)
#undef SUPER_MASK
#define SUPER_MASK 0

// func tileU8_32AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileU8_32AVX2(SB), NOSPLIT, $0-88
#include "affine_avx2_body_amd64.h"

#undef SUPER_MASK
#define SUPER_MASK 3

// func tileU8_128AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileU8_128AVX2(SB), NOSPLIT, $0-88
#include "affine_avx2_body_amd64.h"

#undef CODE_BYTES
#undef FETCH
#undef DOT
#undef JOIN
#undef A
#undef B
#undef C
#undef D
#define CODE_BYTES 128
#define FETCH(v, p) LINE(v, p)
#define DOT(q, r, low, high, sum) DOT6(q, low)
#define JOIN(low, high) JOIN4(low)
#define A(v, o) A2(v, o)
#define B(v, o) B2(v, o)
#define C(v, o) C2(v, o)
#define D(v, o) D2(v, o)
#undef SUPER_MASK
#define SUPER_MASK 0

// func tileU2_32AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileU2_32AVX2(SB), NOSPLIT, $0-88
#include "affine_avx2_body_amd64.h"

#undef SUPER_MASK
#define SUPER_MASK 3

// func tileU2_128AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileU2_128AVX2(SB), NOSPLIT, $0-88
#include "affine_avx2_body_amd64.h"

#undef CODE_BYTES
#undef FETCH
#undef DOT
#undef JOIN
#undef A
#undef B
#undef C
#undef D
#define CODE_BYTES 192
#define FETCH(v, p) LINES2(v, p)
#define DOT(q, r, low, high, sum) DOT6(q, low)
#define JOIN(low, high) JOIN4(low)
#define A(v, o) A2(v, o); LAST_BIT(128+32*v+0+o/8, fours)
#define B(v, o) B2(v, o); LAST_BIT(128+32*v+8+o/8, fours)
#define C(v, o) C2(v, o); LAST_BIT(128+32*v+16+o/8, fours)
#define D(v, o) D2(v, o); LAST_BIT(128+32*v+24+o/8, fours)
#undef SUPER_MASK
#define SUPER_MASK 0

// func tileU3_32AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileU3_32AVX2(SB), NOSPLIT, $0-88
#include "affine_avx2_body_amd64.h"

#undef SUPER_MASK
#define SUPER_MASK 3

// func tileU3_128AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileU3_128AVX2(SB), NOSPLIT, $0-88
#include "affine_avx2_body_amd64.h"
