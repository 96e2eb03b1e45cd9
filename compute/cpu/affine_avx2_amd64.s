//go:build amd64 && !noasm

// Tiles of affine types with AVX2. The layout and the loops are in affine_avx2_amd64.h; here is how each type unpacks its
// codes and scales.

#include "go_asm.h"
#include "textflag.h"
#include "affine_avx2_data_amd64.h"
#include "affine_avx2_amd64.h"

#define CODE_BYTES 256
#define SECTION_BYTES 2624
#define FETCH(v, p) LINES2(v, p)
#define MASK nibbles
#define A(v, o) A4(v, o)
#define B(v, o) B4(v, o)
#define C(v, o) C4(v, o)
#define D(v, o) D4(v, o)
#define DOT(q, low, high) DOT6(q, low, high)
#define START0(q, r, a, b, low0, low1, high0, high1, to) ZERO_LOW(q, r, a, b, low0, low1, high0, high1, to)
#define START1(q, r, a, b, low0, low1, high0, high1, to) ZERO_LOW(q, r, a, b, low0, low1, high0, high1, to)
#define BLOCK(QUAD, EACH, SCALES, ROWS) BLOCK32(QUAD, EACH, SCALES, ROWS)
#define SCALES0(h, o) INT12S_EVEN(o)
#define SCALES1(h, o) INT12S_ODD(o)
#define STEP0 16
#define STEP1 96
#define SCALES_END INCQ R13; SHRQ $1, R13; IMULQ $112, R13
#define LESS(EACH, ROWS) NO_LESS(EACH, ROWS)
#define MINS(h, o) SHORT_MINS(o)
#define MINS_END(mins, EACH, ROWS) MINS32_END(mins, EACH, ROWS)
#define SPAN_MASK 7
#define SUPER_BYTES 128
#define SUPERS(h, o) FLOAT_PAIRS(o)
#define END_M(a, low, high) END_LESS(a, low, high)
#define UNPACK(SCALES) UNPACK_BYTES(SCALES)
#define UNPACK_S(SCALES) ONE_S(SCALES)
#define PAIR0 PAIRS_OF_M
#define PAIR1 NO_PAIRS
#define KEEP_M(o) STORE_M(o)

// func tileQ4_1AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileQ4_1AVX2(SB), NOSPLIT, $24-88
#include "affine_avx2_body_amd64.h"

// func unpackQ4_1AVX2(to *spanWeights, codes, scales, supers *byte, stride, blocks int)
TEXT ·unpackQ4_1AVX2(SB), NOSPLIT, $0-48
#include "affine_unpack_avx2_amd64.h"

#undef SECTION_BYTES
#undef SCALES0
#undef SCALES1
#undef STEP1
#undef SCALES_END
#undef MINS
#undef SUPER_BYTES
#undef SUPERS
#define SECTION_BYTES 2368
#define SCALES0(h, o) INT8S(0, o)
#define SCALES1(h, o) INT8S(0, o)
#define STEP1 48
#define SCALES_END INCQ R13; SHRQ $1, R13; IMULQ $64, R13
#define MINS(h, o) BYTE_MINS(o)
#define SUPER_BYTES 64
#define SUPERS(h, o) HALF_PAIRS(o)

// func tileQ4_KAVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileQ4_KAVX2(SB), NOSPLIT, $24-88
#include "affine_avx2_body_amd64.h"

// func unpackQ4_KAVX2(to *spanWeights, codes, scales, supers *byte, stride, blocks int)
TEXT ·unpackQ4_KAVX2(SB), NOSPLIT, $0-48
#include "affine_unpack_avx2_amd64.h"

#undef CODE_BYTES
#undef SECTION_BYTES
#undef FETCH
#undef A
#undef B
#undef C
#undef D
#undef BLOCK
#undef UNPACK_S
#define CODE_BYTES 320
#define SECTION_BYTES 2880
#define FETCH(v, p) LINES3(v, p)
#define A(v, o) A4(v, o); LAST_BIT(256+32*v+0+o/8, sixteens)
#define B(v, o) B4(v, o); LAST_BIT(256+32*v+8+o/8, sixteens)
#define C(v, o) C4(v, o); LAST_BIT(256+32*v+16+o/8, sixteens)
#define D(v, o) D4(v, o); LAST_BIT(256+32*v+24+o/8, sixteens)
#define BLOCK(QUAD, EACH, SCALES, ROWS) BLOCK16(QUAD, EACH, SCALES, ROWS)
#define UNPACK_S(SCALES) TWO_S(SCALES)

// func tileQ5_KAVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileQ5_KAVX2(SB), NOSPLIT, $24-88
#include "affine_avx2_body_amd64.h"

// func unpackQ5_KAVX2(to *spanWeights, codes, scales, supers *byte, stride, blocks int)
TEXT ·unpackQ5_KAVX2(SB), NOSPLIT, $0-48
#include "affine_unpack_avx2_amd64.h"

#undef SECTION_BYTES
#undef SCALES0
#undef SCALES1
#undef STEP1
#undef SCALES_END
#undef MINS
#undef SUPER_BYTES
#undef SUPERS
#define SECTION_BYTES 3136
#define SCALES0(h, o) INT12S_EVEN(o)
#define SCALES1(h, o) INT12S_ODD(o)
#define STEP1 96
#define SCALES_END INCQ R13; SHRQ $1, R13; IMULQ $112, R13
#define MINS(h, o) SHORT_MINS(o)
#define SUPER_BYTES 128
#define SUPERS(h, o) FLOAT_PAIRS(o)

// func tileQ5_1AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileQ5_1AVX2(SB), NOSPLIT, $24-88
#include "affine_avx2_body_amd64.h"

// func unpackQ5_1AVX2(to *spanWeights, codes, scales, supers *byte, stride, blocks int)
TEXT ·unpackQ5_1AVX2(SB), NOSPLIT, $0-48
#include "affine_unpack_avx2_amd64.h"

#undef CODE_BYTES
#undef SECTION_BYTES
#undef FETCH
#undef MASK
#undef A
#undef B
#undef C
#undef D
#undef SCALES0
#undef SCALES1
#undef STEP0
#undef STEP1
#undef SCALES_END
#undef MINS
#undef MINS_END
#undef SUPER_BYTES
#undef SUPERS
#undef PAIR1
#define CODE_BYTES 128
#define SECTION_BYTES 1600
#define FETCH(v, p) LINE(v, p)
#define MASK lowest
#define A(v, o) A2(v, o)
#define B(v, o) B2(v, o)
#define C(v, o) C2(v, o)
#define D(v, o) D2(v, o)
#define SCALES0(h, o) INT8S(h, o)
#define SCALES1(h, o) INT8S(h, o)
#define STEP0 64
#define STEP1 64
#define SCALES_END IMULQ $64, R13
#define MINS(h, o) BYTE_MINS(o)
#define MINS_END(mins, EACH, ROWS) MINS16_END(mins, EACH, ROWS)
#define SUPER_BYTES 64
#define SUPERS(h, o) HALF_PAIRS(o)
#define PAIR1 PAIRS_OF_M

// func tileQ2_KAVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileQ2_KAVX2(SB), NOSPLIT, $24-88
#include "affine_avx2_body_amd64.h"

// func unpackQ2_KAVX2(to *spanWeights, codes, scales, supers *byte, stride, blocks int)
TEXT ·unpackQ2_KAVX2(SB), NOSPLIT, $0-48
#include "affine_unpack_avx2_amd64.h"

#undef CODE_BYTES
#undef SECTION_BYTES
#undef FETCH
#undef A
#undef B
#undef C
#undef D
#undef START0
#undef START1
#undef STEP0
#undef STEP1
#undef SCALES_END
#undef MINS
#undef MINS_END
#undef SUPERS
#undef END_M
#undef PAIR0
#undef PAIR1
#undef KEEP_M
#define CODE_BYTES 192
#define SECTION_BYTES 1856
#define FETCH(v, p) LINES2(v, p)
#define A(v, o) A2(v, o); LAST_BIT(128+32*v+0+o/8, fours)
#define B(v, o) B2(v, o); LAST_BIT(128+32*v+8+o/8, fours)
#define C(v, o) C2(v, o); LAST_BIT(128+32*v+16+o/8, fours)
#define D(v, o) D2(v, o); LAST_BIT(128+32*v+24+o/8, fours)
#define START0(q, r, a, b, low0, low1, high0, high1, to) OFFSET16(0, 1, r, low0, low1)
#define START1(q, r, a, b, low0, low1, high0, high1, to) OFFSET16(1, 1, r, low0, low1)
#define STEP0 32
#define STEP1 32
#define SCALES_END IMULQ $32, R13
#define MINS(h, o)
#define MINS_END(mins, EACH, ROWS) NO_MINS(mins, EACH, ROWS)
#define SUPERS(h, o) FLOATS(o)
#define END_M(a, low, high) NO_END_M(a, low, high)
#define PAIR0 PAIRS_OF_S(2)
#define PAIR1 PAIRS_OF_S(2)
#define KEEP_M(o) NO_M(o)

// func tileQ3_KAVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileQ3_KAVX2(SB), NOSPLIT, $24-88
#include "affine_avx2_body_amd64.h"

// func unpackQ3_KAVX2(to *spanWeights, codes, scales, supers *byte, stride, blocks int)
TEXT ·unpackQ3_KAVX2(SB), NOSPLIT, $0-48
#include "affine_unpack_avx2_amd64.h"

#undef CODE_BYTES
#undef SECTION_BYTES
#undef FETCH
#undef MASK
#undef A
#undef B
#undef C
#undef D
#undef START0
#undef START1
#undef BLOCK
#undef LESS
#undef MINS
#undef PAIR0
#undef PAIR1
#define CODE_BYTES 384
#define SECTION_BYTES 3392
#define FETCH(v, p) LINES3(v, p)
#define MASK sixes
#define A(v, o) A6(v, o)
#define B(v, o) B6(v, o)
#define C(v, o) C6(v, o)
#define D(v, o) D6(v, o)
#define START0(q, r, a, b, low0, low1, high0, high1, to) ZERO_LOW(q, r, a, b, low0, low1, high0, high1, to)
#define START1(q, r, a, b, low0, low1, high0, high1, to) ZERO_LOW(q, r, a, b, low0, low1, high0, high1, to)
#define BLOCK(QUAD, EACH, SCALES, ROWS) BLOCK6(QUAD, EACH, SCALES, ROWS)
#define LESS(EACH, ROWS) LESS_OFFSET(EACH, ROWS)
#define MINS(h, o) PAIR_OF_S(5, o)
#define PAIR0 PAIRS_OF_S(5)
#define PAIR1 PAIRS_OF_S(5)

// func tileQ6_KAVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileQ6_KAVX2(SB), NOSPLIT, $24-88
#include "affine_avx2_body_amd64.h"

// func unpackQ6_KAVX2(to *spanWeights, codes, scales, supers *byte, stride, blocks int)
TEXT ·unpackQ6_KAVX2(SB), NOSPLIT, $0-48
#include "affine_unpack_avx2_amd64.h"

#undef CODE_BYTES
#undef SECTION_BYTES
#undef MASK
#undef A
#undef B
#undef C
#undef D
#undef START0
#undef START1
#undef BLOCK
#undef SCALES0
#undef SCALES1
#undef STEP0
#undef SCALES_END
#undef LESS
#undef MINS
#undef PAIR0
#undef PAIR1
#define CODE_BYTES 320
#define SECTION_BYTES 2816
#define MASK nibbles
#define A(v, o) A4(v, o); LAST_BIT(256+32*v+0+o/8, sixteens)
#define B(v, o) B4(v, o); LAST_BIT(256+32*v+8+o/8, sixteens)
#define C(v, o) C4(v, o); LAST_BIT(256+32*v+16+o/8, sixteens)
#define D(v, o) D4(v, o); LAST_BIT(256+32*v+24+o/8, sixteens)
#define START0(q, r, a, b, low0, low1, high0, high1, to) OFFSET16(0, 3, r, low0, low1)
#define START1(q, r, a, b, low0, low1, high0, high1, to) OFFSET16(1, 3, r, low0, low1)
#define BLOCK(QUAD, EACH, SCALES, ROWS) BLOCK16(QUAD, EACH, SCALES, ROWS)
#define SCALES0(h, o) INT12S_EVEN(o)
#define SCALES1(h, o) INT12S_ODD(o)
#define STEP0 16
#define SCALES_END INCQ R13; SHRQ $1, R13; IMULQ $48, R13
#define LESS(EACH, ROWS) NO_LESS(EACH, ROWS)
#define MINS(h, o)
#define PAIR0 PAIRS_OF_S(4)
#define PAIR1 NO_PAIRS

// func tileQ5_0AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileQ5_0AVX2(SB), NOSPLIT, $24-88
#include "affine_avx2_body_amd64.h"

// func unpackQ5_0AVX2(to *spanWeights, codes, scales, supers *byte, stride, blocks int)
TEXT ·unpackQ5_0AVX2(SB), NOSPLIT, $0-48
#include "affine_unpack_avx2_amd64.h"

#undef CODE_BYTES
#undef SECTION_BYTES
#undef FETCH
#undef A
#undef B
#undef C
#undef D
#undef SCALES0
#undef SCALES1
#undef STEP1
#undef SCALES_END
#define CODE_BYTES 256
#define SECTION_BYTES 2240
#define FETCH(v, p) LINES2(v, p)
#define A(v, o) A4(v, o); TABLE(fp4)
#define B(v, o) B4(v, o); TABLE(fp4)
#define C(v, o) C4(v, o); TABLE(fp4)
#define D(v, o) D4(v, o); TABLE(fp4)
#define SCALES0(h, o) INT8S(0, o)
#define SCALES1(h, o) INT8S(0, o)
#define STEP1 16
#define SCALES_END INCQ R13; SHRQ $1, R13; IMULQ $32, R13

// func tileMXFP4AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileMXFP4AVX2(SB), NOSPLIT, $24-88
#include "affine_avx2_body_amd64.h"

// func unpackMXFP4AVX2(to *spanWeights, codes, scales, supers *byte, stride, blocks int)
TEXT ·unpackMXFP4AVX2(SB), NOSPLIT, $0-48
#include "affine_unpack_avx2_amd64.h"

#undef SECTION_BYTES
#undef A
#undef B
#undef C
#undef D
#undef START0
#undef START1
#undef BLOCK
#undef SCALES0
#undef SCALES1
#undef STEP1
#undef SCALES_END
#undef UNPACK_S
#undef PAIR0
#define SECTION_BYTES 2304
#define A(v, o) A4(v, o)
#define B(v, o) B4(v, o)
#define C(v, o) C4(v, o)
#define D(v, o) D4(v, o)
#define START0(q, r, a, b, low0, low1, high0, high1, to) OFFSET32(2, r, low0, low1)
#define START1(q, r, a, b, low0, low1, high0, high1, to) ZERO_LOW(q, r, a, b, low0, low1, high0, high1, to)
#define BLOCK(QUAD, EACH, SCALES, ROWS) BLOCK32(QUAD, EACH, SCALES, ROWS)
#define SCALES0(h, o) INT12S_EVEN(o)
#define SCALES1(h, o) INT12S_ODD(o)
#define STEP1 32
#define SCALES_END INCQ R13; SHRQ $1, R13; IMULQ $48, R13
#define UNPACK_S(SCALES) ONE_S(SCALES)
#define PAIR0 PAIRS_OF_S(3)

// func tileQ4_0AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileQ4_0AVX2(SB), NOSPLIT, $24-88
#include "affine_avx2_body_amd64.h"

// func unpackQ4_0AVX2(to *spanWeights, codes, scales, supers *byte, stride, blocks int)
TEXT ·unpackQ4_0AVX2(SB), NOSPLIT, $0-48
#include "affine_unpack_avx2_amd64.h"

// Types with levels of 8 bits.
#undef CODE_BYTES
#undef SECTION_BYTES
#undef FETCH
#undef MASK
#undef A
#undef B
#undef C
#undef D
#undef DOT
#undef START0
#undef BLOCK
#undef SCALES0
#undef SCALES1
#undef STEP1
#undef SCALES_END
#undef UNPACK
#undef PAIR0
#define CODE_BYTES 512
#define SECTION_BYTES 4288
#define FETCH(v, p) LINES4(v, p)
#define MASK tops
#define A(v, o) A8(v, o)
#define B(v, o) B8(v, o)
#define C(v, o) C8(v, o)
#define D(v, o) D8(v, o)
#define DOT(q, low, high) DOT8(q, low, high)
#define START0(q, r, a, b, low0, low1, high0, high1, to) ZERO_LOW(q, r, a, b, low0, low1, high0, high1, to)
#define BLOCK(QUAD, EACH, SCALES, ROWS) BLOCK8(QUAD, EACH, SCALES, ROWS)
#define SCALES0(h, o) UINT8S(o)
#define SCALES1(h, o) UINT8S(o)
#define STEP1 16
#define SCALES_END INCQ R13; SHRQ $1, R13; IMULQ $32, R13
#define UNPACK(SCALES) UNPACK_WORDS(SCALES)
#define WHOLE(by, from, to) VPMULLW by, from, to
#define WHOLES(SCALES) SPREAD_S(SCALES)
#define PAIR0 NO_PAIRS

// func tileQ8_0AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileQ8_0AVX2(SB), NOSPLIT, $24-88
#include "affine_avx2_body_amd64.h"

// func unpackQ8_0AVX2(to *spanWeights, codes, scales, supers *byte, stride, blocks int)
TEXT ·unpackQ8_0AVX2(SB), NOSPLIT, $0-48
#include "affine_unpack_avx2_amd64.h"

#undef CODE_BYTES
#undef SECTION_BYTES
#undef FETCH
#undef MASK
#undef A
#undef B
#undef C
#undef D
#undef SCALES0
#undef SCALES1
#undef STEP1
#undef SCALES_END
#define CODE_BYTES 256
#define SECTION_BYTES 2304
#define FETCH(v, p) LINES2(v, p)
#define MASK nibbles
#define A(v, o) A4_IQ(v, o)
#define B(v, o) B4_IQ(v, o)
#define C(v, o) C4_IQ(v, o)
#define D(v, o) D4_IQ(v, o)
#define SCALES0(h, o) INT12S_EVEN(o)
#define SCALES1(h, o) INT12S_ODD(o)
#define STEP1 32
#define SCALES_END INCQ R13; SHRQ $1, R13; IMULQ $48, R13

// func tileIQ4_NLAVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileIQ4_NLAVX2(SB), NOSPLIT, $24-88
#include "affine_avx2_body_amd64.h"

// func unpackIQ4_NLAVX2(to *spanWeights, codes, scales, supers *byte, stride, blocks int)
TEXT ·unpackIQ4_NLAVX2(SB), NOSPLIT, $0-48
#include "affine_unpack_avx2_amd64.h"

#undef SECTION_BYTES
#undef SCALES0
#undef SCALES1
#undef STEP1
#undef SCALES_END
#define SECTION_BYTES 2240
#define SCALES0(h, o) INT8S(0, o)
#define SCALES1(h, o) INT8S(0, o)
#define STEP1 16
#define SCALES_END INCQ R13; SHRQ $1, R13; IMULQ $32, R13

// func tileIQ4_XSAVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileIQ4_XSAVX2(SB), NOSPLIT, $24-88
#include "affine_avx2_body_amd64.h"

// func unpackIQ4_XSAVX2(to *spanWeights, codes, scales, supers *byte, stride, blocks int)
TEXT ·unpackIQ4_XSAVX2(SB), NOSPLIT, $0-48
#include "affine_unpack_avx2_amd64.h"
