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

DATA threes<>+0(SB)/8, $0x0303030303030303
DATA threes<>+8(SB)/8, $0x0303030303030303
DATA threes<>+16(SB)/8, $0x0303030303030303
DATA threes<>+24(SB)/8, $0x0303030303030303
GLOBL threes<>(SB), RODATA|NOPTR, $32

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

DATA upper<>+0(SB)/8, $0x3030303030303030
DATA upper<>+8(SB)/8, $0x3030303030303030
DATA upper<>+16(SB)/8, $0x3030303030303030
DATA upper<>+24(SB)/8, $0x3030303030303030
GLOBL upper<>(SB), RODATA|NOPTR, $32

DATA ones<>+0(SB)/8, $0x0001000100010001
DATA ones<>+8(SB)/8, $0x0001000100010001
DATA ones<>+16(SB)/8, $0x0001000100010001
DATA ones<>+24(SB)/8, $0x0001000100010001
GLOBL ones<>(SB), RODATA|NOPTR, $32

#define CODE_BYTES 256
#define SCALE_BYTES 64
#define SUPER_BYTES 0
#define EVEN(g, v, o) EVEN4(v, o)
#define ODD(g, v, o) ODD4(v, o)
#define DOT(q, r, low, high, sum) DOT6(q, low)
#define MIDDLE(q, r, low, high, sum) NO_MIDDLE(q, r, low, high, sum)
#define JOIN(low, high) JOIN4(low)
#define OFFSET(at, r, low) NO_OFFSET(at, r, low)
#define LESS(at, r, sum) LESS_M(at, r, sum)
#define SCALES(h, o) HALF_PAIRS(o)
#define BLOCK BLOCK32

// func tileQ4_1AVX2(dst *float32, ldd int, q *int8, ldq int, sums *blockSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileQ4_1AVX2(SB), NOSPLIT, $0-88
#include "affine_avx2_body_amd64.h"

#undef SCALE_BYTES
#undef SUPER_BYTES
#undef SCALES
#define SCALE_BYTES 32
#define SUPER_BYTES 64
#define SCALES(h, o) INT8_PAIRS(0, o)

// func tileQ4_KAVX2(dst *float32, ldd int, q *int8, ldq int, sums *blockSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileQ4_KAVX2(SB), NOSPLIT, $0-88
#include "affine_avx2_body_amd64.h"

#undef CODE_BYTES
#undef SCALE_BYTES
#undef SUPER_BYTES
#undef EVEN
#undef ODD
#undef MIDDLE
#undef JOIN
#undef SCALES
#define CODE_BYTES 320
#define SCALE_BYTES 64
#define SUPER_BYTES 0
#define EVEN(g, v, o) EVEN4(v, o); FIFTH(g, o)
#define ODD(g, v, o) ODD4(v, o); FIFTH(g, o)
#define MIDDLE(q, r, low, high, sum) MIDDLE6(low, high)
#define JOIN(low, high) JOIN6(low, high)
#define SCALES(h, o) HALF_PAIRS(o)

// func tileQ5_1AVX2(dst *float32, ldd int, q *int8, ldq int, sums *blockSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileQ5_1AVX2(SB), NOSPLIT, $0-88
#include "affine_avx2_body_amd64.h"

#undef SCALE_BYTES
#undef SUPER_BYTES
#undef SCALES
#define SCALE_BYTES 32
#define SUPER_BYTES 64
#define SCALES(h, o) INT8_PAIRS(0, o)

// func tileQ5_KAVX2(dst *float32, ldd int, q *int8, ldq int, sums *blockSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileQ5_KAVX2(SB), NOSPLIT, $0-88
#include "affine_avx2_body_amd64.h"

#undef CODE_BYTES
#undef SCALE_BYTES
#undef EVEN
#undef ODD
#undef MIDDLE
#undef JOIN
#undef SCALES
#undef BLOCK
#define CODE_BYTES 128
#define SCALE_BYTES 64
#define EVEN(g, v, o) TWO_BITS(g, o)
#define ODD(g, v, o) TWO_BITS(g, o)
#define MIDDLE(q, r, low, high, sum) NO_MIDDLE(q, r, low, high, sum)
#define JOIN(low, high) JOIN4(low)
#define SCALES(h, o) INT8_PAIRS(32*h, o)
#define BLOCK BLOCK16

// func tileQ2_KAVX2(dst *float32, ldd int, q *int8, ldq int, sums *blockSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileQ2_KAVX2(SB), NOSPLIT, $0-88
#include "affine_avx2_body_amd64.h"

#undef CODE_BYTES
#undef SCALE_BYTES
#undef SUPER_BYTES
#undef EVEN
#undef ODD
#undef OFFSET
#undef LESS
#undef SCALES
#define CODE_BYTES 192
#define SCALE_BYTES 32
#define SUPER_BYTES 32
#define EVEN(g, v, o) TWO_BITS(g, o); THIRD(g, o)
#define ODD(g, v, o) TWO_BITS(g, o); THIRD(g, o)
#define OFFSET(at, r, low) OFFSET_OF(2, at, r, low)
#define LESS(at, r, sum) LESS_NOTHING(at, r, sum)
#define SCALES(h, o) INT8S(16*h, o)

// func tileQ3_KAVX2(dst *float32, ldd int, q *int8, ldq int, sums *blockSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileQ3_KAVX2(SB), NOSPLIT, $0-88
#include "affine_avx2_body_amd64.h"

#undef CODE_BYTES
#undef SUPER_BYTES
#undef EVEN
#undef ODD
#undef MIDDLE
#undef JOIN
#undef OFFSET
#undef SCALES
#undef BLOCK
#define CODE_BYTES 320
#define SUPER_BYTES 0
#define EVEN(g, v, o) EVEN4(v, o); FIFTH(g, o)
#define ODD(g, v, o) ODD4(v, o); FIFTH(g, o)
#define MIDDLE(q, r, low, high, sum) MIDDLE6(low, high)
#define JOIN(low, high) JOIN6(low, high)
#define OFFSET(at, r, low) OFFSET_OF(4, at, r, low)
#define SCALES(h, o) HALVES(o)
#define BLOCK BLOCK32

// func tileQ5_0AVX2(dst *float32, ldd int, q *int8, ldq int, sums *blockSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileQ5_0AVX2(SB), NOSPLIT, $0-88
#include "affine_avx2_body_amd64.h"

#undef CODE_BYTES
#undef SUPER_BYTES
#undef EVEN
#undef ODD
#undef OFFSET
#undef SCALES
#undef BLOCK
#define CODE_BYTES 384
#define SUPER_BYTES 32
#define EVEN(g, v, o) EVEN4(v, o); UPPER(g, o)
#define ODD(g, v, o) ODD4(v, o); UPPER(g, o)
#define OFFSET(at, r, low) OFFSET_OF(5, at, r, low)
#define SCALES(h, o) INT8S(16*h, o)
#define BLOCK BLOCK16

// func tileQ6_KAVX2(dst *float32, ldd int, q *int8, ldq int, sums *blockSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileQ6_KAVX2(SB), NOSPLIT, $0-88
#include "affine_avx2_body_amd64.h"

#undef CODE_BYTES
#undef SUPER_BYTES
#undef EVEN
#undef ODD
#undef DOT
#undef MIDDLE
#undef JOIN
#undef OFFSET
#undef SCALES
#undef BLOCK
#define CODE_BYTES 256
#define SUPER_BYTES 0
#define EVEN(g, v, o) EVEN4(v, o); LEVELS8(iq4)
#define ODD(g, v, o) ODD4(v, o); LEVELS8(iq4)
#define DOT(q, r, low, high, sum) DOT8(q, low, high)
#define MIDDLE(q, r, low, high, sum) NO_MIDDLE(q, r, low, high, sum)
#define JOIN(low, high) JOIN8(low, high)
#define OFFSET(at, r, low) OFFSET_OF(7, at, r, low)
#define SCALES(h, o) HALVES(o)
#define BLOCK BLOCK32

// func tileIQ4_NLAVX2(dst *float32, ldd int, q *int8, ldq int, sums *blockSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileIQ4_NLAVX2(SB), NOSPLIT, $0-88
#include "affine_avx2_body_amd64.h"

#undef SCALE_BYTES
#undef SUPER_BYTES
#undef SCALES
#define SCALE_BYTES 16
#define SUPER_BYTES 32
#define SCALES(h, o) INT8S(0, o)

// func tileIQ4_XSAVX2(dst *float32, ldd int, q *int8, ldq int, sums *blockSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileIQ4_XSAVX2(SB), NOSPLIT, $0-88
#include "affine_avx2_body_amd64.h"

#undef SCALE_BYTES
#undef SUPER_BYTES
#undef EVEN
#undef ODD
#undef DOT
#undef MIDDLE
#undef JOIN
#undef OFFSET
#undef SCALES
#define SCALE_BYTES 64
#define SUPER_BYTES 0
#define EVEN(g, v, o) EVEN4(v, o); LEVELS(fp4)
#define ODD(g, v, o) ODD4(v, o); LEVELS(fp4)
#define DOT(q, r, low, high, sum) DOT6(q, low)
#define MIDDLE(q, r, low, high, sum) MIDDLE6(low, high)
#define JOIN(low, high) JOIN6(low, high)
#define OFFSET(at, r, low) OFFSET_OF(4, at, r, low)
#define SCALES(h, o) FLOATS(o)

// func tileMXFP4AVX2(dst *float32, ldd int, q *int8, ldq int, sums *blockSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileMXFP4AVX2(SB), NOSPLIT, $0-88
#include "affine_avx2_body_amd64.h"
