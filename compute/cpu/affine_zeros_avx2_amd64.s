//go:build amd64 && !noasm

// Tiles of types with zero points with AVX2, by their bits, for spans of 32 and of 128. The layout and the loops are in
// affine_avx2_amd64.h.

#include "go_asm.h"
#include "textflag.h"
#include "affine_avx2_data_amd64.h"
#include "affine_avx2_amd64.h"

#define CODE_BYTES 256
#define SECTION_BYTES 2688
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
#define SCALES0(h, o) ONES
#define SCALES1(h, o) ONES
#define STEP0 0
#define STEP1 0
#define SCALES_END XORQ R13, R13
#define LESS(EACH, ROWS) LESS_ZERO(EACH, ROWS)
#define MINS(h, o) ZEROS(o)
#define MINS_END(mins, EACH, ROWS) NO_MINS(mins, EACH, ROWS)
#define SPAN_MASK 0
#define SUPER_BYTES 80
#define SUPERS(h, o) FLOATS(o)
#define END_M(a, low, high) NO_END_M(a, low, high)
#define UNPACK(SCALES) UNPACK_BYTES(SCALES)
#define UNPACK_S(SCALES) ONE_S(SCALES)
#define PAIR0 PAIRS_OF_ZERO
#define PAIR1 NO_PAIRS
#define KEEP_M(o) NO_M(o)

// func tileU4_32AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileU4_32AVX2(SB), NOSPLIT, $24-88
#include "affine_avx2_body_amd64.h"

// func unpackU4_32AVX2(to *spanWeights, codes, scales, supers *byte, stride, blocks int)
TEXT ·unpackU4_32AVX2(SB), NOSPLIT, $0-48
#include "affine_unpack_avx2_amd64.h"

#undef SECTION_BYTES
#undef SPAN_MASK
#undef PAIR0
#define SECTION_BYTES 2240
#define SPAN_MASK 3
#define PAIR0 PAIRS_OF_ZEROS

// func tileU4_128AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileU4_128AVX2(SB), NOSPLIT, $24-88
#include "affine_avx2_body_amd64.h"

// func unpackU4_128AVX2(to *spanWeights, codes, scales, supers *byte, stride, blocks int)
TEXT ·unpackU4_128AVX2(SB), NOSPLIT, $0-48
#include "affine_unpack_avx2_amd64.h"

#undef CODE_BYTES
#undef SECTION_BYTES
#undef MASK
#undef A
#undef B
#undef C
#undef D
#undef SPAN_MASK
#undef PAIR0
#define CODE_BYTES 192
#define SECTION_BYTES 2176
#define MASK lowest
#define A(v, o) A2(v, o); LAST_BIT(128+32*v+0+o/8, fours)
#define B(v, o) B2(v, o); LAST_BIT(128+32*v+8+o/8, fours)
#define C(v, o) C2(v, o); LAST_BIT(128+32*v+16+o/8, fours)
#define D(v, o) D2(v, o); LAST_BIT(128+32*v+24+o/8, fours)
#define SPAN_MASK 0
#define PAIR0 PAIRS_OF_ZERO

// func tileU3_32AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileU3_32AVX2(SB), NOSPLIT, $24-88
#include "affine_avx2_body_amd64.h"

// func unpackU3_32AVX2(to *spanWeights, codes, scales, supers *byte, stride, blocks int)
TEXT ·unpackU3_32AVX2(SB), NOSPLIT, $0-48
#include "affine_unpack_avx2_amd64.h"

#undef SECTION_BYTES
#undef SPAN_MASK
#undef PAIR0
#define SECTION_BYTES 1728
#define SPAN_MASK 3
#define PAIR0 PAIRS_OF_ZEROS

// func tileU3_128AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileU3_128AVX2(SB), NOSPLIT, $24-88
#include "affine_avx2_body_amd64.h"

// func unpackU3_128AVX2(to *spanWeights, codes, scales, supers *byte, stride, blocks int)
TEXT ·unpackU3_128AVX2(SB), NOSPLIT, $0-48
#include "affine_unpack_avx2_amd64.h"

#undef CODE_BYTES
#undef SECTION_BYTES
#undef FETCH
#undef A
#undef B
#undef C
#undef D
#undef SPAN_MASK
#undef PAIR0
#define CODE_BYTES 128
#define SECTION_BYTES 1664
#define FETCH(v, p) LINE(v, p)
#define A(v, o) A2(v, o)
#define B(v, o) B2(v, o)
#define C(v, o) C2(v, o)
#define D(v, o) D2(v, o)
#define SPAN_MASK 0
#define PAIR0 PAIRS_OF_ZERO

// func tileU2_32AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileU2_32AVX2(SB), NOSPLIT, $24-88
#include "affine_avx2_body_amd64.h"

// func unpackU2_32AVX2(to *spanWeights, codes, scales, supers *byte, stride, blocks int)
TEXT ·unpackU2_32AVX2(SB), NOSPLIT, $0-48
#include "affine_unpack_avx2_amd64.h"

#undef SECTION_BYTES
#undef SPAN_MASK
#undef PAIR0
#define SECTION_BYTES 1216
#define SPAN_MASK 3
#define PAIR0 PAIRS_OF_ZEROS

// func tileU2_128AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileU2_128AVX2(SB), NOSPLIT, $24-88
#include "affine_avx2_body_amd64.h"

// func unpackU2_128AVX2(to *spanWeights, codes, scales, supers *byte, stride, blocks int)
TEXT ·unpackU2_128AVX2(SB), NOSPLIT, $0-48
#include "affine_unpack_avx2_amd64.h"

#undef CODE_BYTES
#undef SECTION_BYTES
#undef FETCH
#undef MASK
#undef A
#undef B
#undef C
#undef D
#undef DOT
#undef BLOCK
#undef MINS
#undef SPAN_MASK
#undef UNPACK
#undef PAIR0
#define CODE_BYTES 512
#define SECTION_BYTES 4736
#define FETCH(v, p) LINES4(v, p)
#define MASK tops
#define A(v, o) A8(v, o)
#define B(v, o) B8(v, o)
#define C(v, o) C8(v, o)
#define D(v, o) D8(v, o)
#define DOT(q, low, high) DOT8(q, low, high)
#define BLOCK(QUAD, EACH, SCALES, ROWS) BLOCK8(QUAD, EACH, SCALES, ROWS)
#define MINS(h, o) ZEROS8(o)
#define SPAN_MASK 0
#define UNPACK(SCALES) UNPACK_WORDS(SCALES)
#define WHOLE(by, from, to) VPSUBW by, from, to
#define WHOLES(SCALES) SPREAD_ZEROS(SCALES)
#define PAIR0 NO_PAIRS

// func tileU8_32AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileU8_32AVX2(SB), NOSPLIT, $24-88
#include "affine_avx2_body_amd64.h"

// func unpackU8_32AVX2(to *spanWeights, codes, scales, supers *byte, stride, blocks int)
TEXT ·unpackU8_32AVX2(SB), NOSPLIT, $0-48
#include "affine_unpack_avx2_amd64.h"

#undef SECTION_BYTES
#undef SPAN_MASK
#define SECTION_BYTES 4288
#define SPAN_MASK 3

// func tileU8_128AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileU8_128AVX2(SB), NOSPLIT, $24-88
#include "affine_avx2_body_amd64.h"

// func unpackU8_128AVX2(to *spanWeights, codes, scales, supers *byte, stride, blocks int)
TEXT ·unpackU8_128AVX2(SB), NOSPLIT, $0-48
#include "affine_unpack_avx2_amd64.h"
