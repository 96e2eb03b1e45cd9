//go:build amd64 && !noasm

// Tiles of affine types with AVX2. The layout and the loops are in affine_avx2_amd64.h; here is how each type unpacks its
// codes and scales.

#include "go_asm.h"
#include "textflag.h"
#include "affine_avx2_data_amd64.h"
#include "affine_avx2_amd64.h"

#define CODE_BYTES 256
#define FETCH(v, p) LINES2(v, p)
#define A(v, o) A4(v, o)
#define B(v, o) B4(v, o)
#define C(v, o) C4(v, o)
#define D(v, o) D4(v, o)
#define DOT(q, low, high) DOT6(q, low, high)
#define START0(q, r, low, high, less, to) NOTHING(q, r, low, high, less, to)
#define START1(q, r, low, high, less, to) NOTHING(q, r, low, high, less, to)
#define BLOCK(LEFT, RIGHT) BLOCK32(JOIN, LEFT, RIGHT)
#define SCALES(h, o) INT8S(0, o)
#define STEP 16
#define STEP2 64
#define SCALES_END INCQ R13; SHRQ $1, R13; IMULQ $96, R13
#define LESS(skip, LEFT, RIGHT) LESS32(skip, LEFT, RIGHT)
#define MINS(o) SHORT_MINS(o)
#define SPAN_MASK 7
#define SUPER_BYTES 128
#define SUPERS(o) FLOAT_PAIRS(o)
#define END_M(less) END_LESS(less)
#define UNPACK UNPACK_BYTES
#define UNPACK_S ONE_S
#define UNPACK_PAIR PAIRS_OF_M
#define PAIR_MASK 1
#define KEEP_M(o) STORE_M(o)

// func tileQ4_1AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileQ4_1AVX2(SB), NOSPLIT, $0-88
#include "affine_avx2_body_amd64.h"

// func unpackQ4_1AVX2(to *spanWeights, codes, scales, supers *byte, stride, blocks int)
TEXT ·unpackQ4_1AVX2(SB), NOSPLIT, $0-48
#include "affine_unpack_avx2_amd64.h"

#undef STEP2
#undef SCALES_END
#undef MINS
#undef SUPER_BYTES
#undef SUPERS
#define STEP2 32
#define SCALES_END INCQ R13; SHRQ $1, R13; IMULQ $64, R13
#define MINS(o) BYTE_MINS(o)
#define SUPER_BYTES 64
#define SUPERS(o) HALF_PAIRS(o)

// func tileQ4_KAVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileQ4_KAVX2(SB), NOSPLIT, $0-88
#include "affine_avx2_body_amd64.h"

// func unpackQ4_KAVX2(to *spanWeights, codes, scales, supers *byte, stride, blocks int)
TEXT ·unpackQ4_KAVX2(SB), NOSPLIT, $0-48
#include "affine_unpack_avx2_amd64.h"

#undef CODE_BYTES
#undef FETCH
#undef A
#undef B
#undef C
#undef D
#undef BLOCK
#undef UNPACK_S
#define CODE_BYTES 320
#define FETCH(v, p) LINES3(v, p)
#define A(v, o) A4(v, o); LAST_BIT(256+32*v+0+o/8, sixteens)
#define B(v, o) B4(v, o); LAST_BIT(256+32*v+8+o/8, sixteens)
#define C(v, o) C4(v, o); LAST_BIT(256+32*v+16+o/8, sixteens)
#define D(v, o) D4(v, o); LAST_BIT(256+32*v+24+o/8, sixteens)
#define BLOCK(LEFT, RIGHT) BLOCK16_M(LEFT, RIGHT)
#define UNPACK_S TWO_S

// func tileQ5_KAVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileQ5_KAVX2(SB), NOSPLIT, $0-88
#include "affine_avx2_body_amd64.h"

// func unpackQ5_KAVX2(to *spanWeights, codes, scales, supers *byte, stride, blocks int)
TEXT ·unpackQ5_KAVX2(SB), NOSPLIT, $0-48
#include "affine_unpack_avx2_amd64.h"

#undef STEP2
#undef SCALES_END
#undef MINS
#undef SUPER_BYTES
#undef SUPERS
#define STEP2 64
#define SCALES_END INCQ R13; SHRQ $1, R13; IMULQ $96, R13
#define MINS(o) SHORT_MINS(o)
#define SUPER_BYTES 128
#define SUPERS(o) FLOAT_PAIRS(o)

// func tileQ5_1AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileQ5_1AVX2(SB), NOSPLIT, $0-88
#include "affine_avx2_body_amd64.h"

// func unpackQ5_1AVX2(to *spanWeights, codes, scales, supers *byte, stride, blocks int)
TEXT ·unpackQ5_1AVX2(SB), NOSPLIT, $0-48
#include "affine_unpack_avx2_amd64.h"

#undef CODE_BYTES
#undef FETCH
#undef A
#undef B
#undef C
#undef D
#undef SCALES
#undef STEP
#undef STEP2
#undef SCALES_END
#undef LESS
#undef MINS
#undef SUPER_BYTES
#undef SUPERS
#undef PAIR_MASK
#define CODE_BYTES 128
#define FETCH(v, p) LINE(v, p)
#define A(v, o) A2(v, o)
#define B(v, o) B2(v, o)
#define C(v, o) C2(v, o)
#define D(v, o) D2(v, o)
#define SCALES(h, o) INT8S(h, o)
#define STEP 64
#define STEP2 0
#define SCALES_END IMULQ $64, R13
#define LESS(skip, LEFT, RIGHT) LESS16(skip, LEFT, RIGHT)
#define MINS(o) BYTE_MINS(o)
#define SUPER_BYTES 64
#define SUPERS(o) HALF_PAIRS(o)
#define PAIR_MASK 0

// func tileQ2_KAVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileQ2_KAVX2(SB), NOSPLIT, $0-88
#include "affine_avx2_body_amd64.h"

// func unpackQ2_KAVX2(to *spanWeights, codes, scales, supers *byte, stride, blocks int)
TEXT ·unpackQ2_KAVX2(SB), NOSPLIT, $0-48
#include "affine_unpack_avx2_amd64.h"

#undef CODE_BYTES
#undef FETCH
#undef A
#undef B
#undef C
#undef D
#undef BLOCK
#undef START0
#undef START1
#undef STEP
#undef SCALES_END
#undef LESS
#undef MINS
#undef SUPER_BYTES
#undef SUPERS
#undef END_M
#undef UNPACK_PAIR
#undef KEEP_M
#define CODE_BYTES 192
#define FETCH(v, p) LINES2(v, p)
#define A(v, o) A2(v, o); LAST_BIT(128+32*v+0+o/8, fours)
#define B(v, o) B2(v, o); LAST_BIT(128+32*v+8+o/8, fours)
#define C(v, o) C2(v, o); LAST_BIT(128+32*v+16+o/8, fours)
#define D(v, o) D2(v, o); LAST_BIT(128+32*v+24+o/8, fours)
#define BLOCK(LEFT, RIGHT) BLOCK16(LEFT, RIGHT)
#define START0(q, r, low, high, less, to) OFFSET16(0, 1, r, low)
#define START1(q, r, low, high, less, to) OFFSET16(1, 1, r, low)
#define STEP 32
#define SCALES_END IMULQ $32, R13
#define LESS(skip, LEFT, RIGHT) NO_LESS(skip, LEFT, RIGHT)
#define MINS(o)
#define SUPER_BYTES 32
#define SUPERS(o) HALVES(o)
#define END_M(less) NO_END_M(less)
#define UNPACK_PAIR PAIRS_OF_S(2)
#define KEEP_M(o) NO_M(o)

// func tileQ3_KAVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileQ3_KAVX2(SB), NOSPLIT, $0-88
#include "affine_avx2_body_amd64.h"

// func unpackQ3_KAVX2(to *spanWeights, codes, scales, supers *byte, stride, blocks int)
TEXT ·unpackQ3_KAVX2(SB), NOSPLIT, $0-48
#include "affine_unpack_avx2_amd64.h"

#undef CODE_BYTES
#undef FETCH
#undef A
#undef B
#undef C
#undef D
#undef START0
#undef START1
#undef BLOCK
#undef LESS
#undef MINS
#undef UNPACK_PAIR
#define CODE_BYTES 384
#define FETCH(v, p) LINES3(v, p)
#define A(v, o) A6(v, o)
#define B(v, o) B6(v, o)
#define C(v, o) C6(v, o)
#define D(v, o) D6(v, o)
#define START0(q, r, low, high, less, to) NOTHING(q, r, low, high, less, to)
#define START1(q, r, low, high, less, to) NOTHING(q, r, low, high, less, to)
#define BLOCK(LEFT, RIGHT) BLOCK6(LEFT, RIGHT)
#define LESS(skip, LEFT, RIGHT) LESS_OFFSET(skip, LEFT, RIGHT)
#define MINS(o) PAIR_OF_S(5, o)
#define UNPACK_PAIR PAIRS_OF_S(5)

// func tileQ6_KAVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileQ6_KAVX2(SB), NOSPLIT, $0-88
#include "affine_avx2_body_amd64.h"

// func unpackQ6_KAVX2(to *spanWeights, codes, scales, supers *byte, stride, blocks int)
TEXT ·unpackQ6_KAVX2(SB), NOSPLIT, $0-48
#include "affine_unpack_avx2_amd64.h"

#undef CODE_BYTES
#undef A
#undef B
#undef C
#undef D
#undef START0
#undef START1
#undef BLOCK
#undef SCALES
#undef STEP
#undef SCALES_END
#undef LESS
#undef MINS
#undef SUPER_BYTES
#undef SUPERS
#undef UNPACK_PAIR
#undef PAIR_MASK
#define CODE_BYTES 320
#define A(v, o) A4(v, o); LAST_BIT(256+32*v+0+o/8, sixteens)
#define B(v, o) B4(v, o); LAST_BIT(256+32*v+8+o/8, sixteens)
#define C(v, o) C4(v, o); LAST_BIT(256+32*v+16+o/8, sixteens)
#define D(v, o) D4(v, o); LAST_BIT(256+32*v+24+o/8, sixteens)
#define START0(q, r, low, high, less, to) OFFSET16(0, 3, r, low)
#define START1(q, r, low, high, less, to) OFFSET16(1, 3, r, low)
#define BLOCK(LEFT, RIGHT) BLOCK16(LEFT, RIGHT)
#define SCALES(h, o) INT8S(0, o)
#define STEP 16
#define SCALES_END INCQ R13; SHRQ $1, R13; IMULQ $32, R13
#define LESS(skip, LEFT, RIGHT) NO_LESS(skip, LEFT, RIGHT)
#define MINS(o)
#define SUPER_BYTES 64
#define SUPERS(o) FLOATS(o)
#define UNPACK_PAIR PAIRS_OF_S(4)
#define PAIR_MASK 1

// func tileQ5_0AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileQ5_0AVX2(SB), NOSPLIT, $0-88
#include "affine_avx2_body_amd64.h"

// func unpackQ5_0AVX2(to *spanWeights, codes, scales, supers *byte, stride, blocks int)
TEXT ·unpackQ5_0AVX2(SB), NOSPLIT, $0-48
#include "affine_unpack_avx2_amd64.h"

#undef CODE_BYTES
#undef FETCH
#undef A
#undef B
#undef C
#undef D
#define CODE_BYTES 256
#define FETCH(v, p) LINES2(v, p)
#define A(v, o) A4(v, o); TABLE(fp4)
#define B(v, o) B4(v, o); TABLE(fp4)
#define C(v, o) C4(v, o); TABLE(fp4)
#define D(v, o) D4(v, o); TABLE(fp4)

// func tileMXFP4AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileMXFP4AVX2(SB), NOSPLIT, $0-88
#include "affine_avx2_body_amd64.h"

// func unpackMXFP4AVX2(to *spanWeights, codes, scales, supers *byte, stride, blocks int)
TEXT ·unpackMXFP4AVX2(SB), NOSPLIT, $0-48
#include "affine_unpack_avx2_amd64.h"

#undef A
#undef B
#undef C
#undef D
#undef START0
#undef START1
#undef BLOCK
#undef UNPACK_S
#undef UNPACK_PAIR
#define A(v, o) A4(v, o)
#define B(v, o) B4(v, o)
#define C(v, o) C4(v, o)
#define D(v, o) D4(v, o)
#define START0(q, r, low, high, less, to) OFFSET32(2, r, low)
#define START1(q, r, low, high, less, to) NOTHING(q, r, low, high, less, to)
#define BLOCK(LEFT, RIGHT) BLOCK32(JOIN, LEFT, RIGHT)
#define UNPACK_S ONE_S
#define UNPACK_PAIR PAIRS_OF_S(3)

// func tileQ4_0AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileQ4_0AVX2(SB), NOSPLIT, $0-88
#include "affine_avx2_body_amd64.h"

// func unpackQ4_0AVX2(to *spanWeights, codes, scales, supers *byte, stride, blocks int)
TEXT ·unpackQ4_0AVX2(SB), NOSPLIT, $0-48
#include "affine_unpack_avx2_amd64.h"

// Types with zero points, by their bits, for spans of 32 and of 128.
#undef BLOCK
#undef START0
#undef SCALES
#undef STEP
#undef SCALES_END
#undef LESS
#undef MINS
#undef SPAN_MASK
#undef SUPER_BYTES
#undef UNPACK_PAIR
#define BLOCK(LEFT, RIGHT) BLOCK32(JOIN1, LEFT, RIGHT)
#define START0(q, r, low, high, less, to) NOTHING(q, r, low, high, less, to)
#define SCALES(h, o) ONES
#define STEP 0
#define SCALES_END XORQ R13, R13
#define LESS(skip, LEFT, RIGHT) LESS_ZERO(skip, LEFT, RIGHT)
#define MINS(o) ZEROS(o)
#define SPAN_MASK 0
#define SUPER_BYTES 80
#define UNPACK_PAIR PAIRS_OF_ZERO

// func tileU4_32AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileU4_32AVX2(SB), NOSPLIT, $0-88
#include "affine_avx2_body_amd64.h"

// func unpackU4_32AVX2(to *spanWeights, codes, scales, supers *byte, stride, blocks int)
TEXT ·unpackU4_32AVX2(SB), NOSPLIT, $0-48
#include "affine_unpack_avx2_amd64.h"

#undef SPAN_MASK
#undef UNPACK_PAIR
#define SPAN_MASK 3
#define UNPACK_PAIR PAIRS_OF_ZEROS

// func tileU4_128AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileU4_128AVX2(SB), NOSPLIT, $0-88
#include "affine_avx2_body_amd64.h"

// func unpackU4_128AVX2(to *spanWeights, codes, scales, supers *byte, stride, blocks int)
TEXT ·unpackU4_128AVX2(SB), NOSPLIT, $0-48
#include "affine_unpack_avx2_amd64.h"

#undef CODE_BYTES
#undef A
#undef B
#undef C
#undef D
#undef SPAN_MASK
#undef UNPACK_PAIR
#define CODE_BYTES 192
#define A(v, o) A2(v, o); LAST_BIT(128+32*v+0+o/8, fours)
#define B(v, o) B2(v, o); LAST_BIT(128+32*v+8+o/8, fours)
#define C(v, o) C2(v, o); LAST_BIT(128+32*v+16+o/8, fours)
#define D(v, o) D2(v, o); LAST_BIT(128+32*v+24+o/8, fours)
#define SPAN_MASK 0
#define UNPACK_PAIR PAIRS_OF_ZERO

// func tileU3_32AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileU3_32AVX2(SB), NOSPLIT, $0-88
#include "affine_avx2_body_amd64.h"

// func unpackU3_32AVX2(to *spanWeights, codes, scales, supers *byte, stride, blocks int)
TEXT ·unpackU3_32AVX2(SB), NOSPLIT, $0-48
#include "affine_unpack_avx2_amd64.h"

#undef SPAN_MASK
#undef UNPACK_PAIR
#define SPAN_MASK 3
#define UNPACK_PAIR PAIRS_OF_ZEROS

// func tileU3_128AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileU3_128AVX2(SB), NOSPLIT, $0-88
#include "affine_avx2_body_amd64.h"

// func unpackU3_128AVX2(to *spanWeights, codes, scales, supers *byte, stride, blocks int)
TEXT ·unpackU3_128AVX2(SB), NOSPLIT, $0-48
#include "affine_unpack_avx2_amd64.h"

#undef CODE_BYTES
#undef FETCH
#undef A
#undef B
#undef C
#undef D
#undef SPAN_MASK
#undef UNPACK_PAIR
#define CODE_BYTES 128
#define FETCH(v, p) LINE(v, p)
#define A(v, o) A2(v, o)
#define B(v, o) B2(v, o)
#define C(v, o) C2(v, o)
#define D(v, o) D2(v, o)
#define SPAN_MASK 0
#define UNPACK_PAIR PAIRS_OF_ZERO

// func tileU2_32AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileU2_32AVX2(SB), NOSPLIT, $0-88
#include "affine_avx2_body_amd64.h"

// func unpackU2_32AVX2(to *spanWeights, codes, scales, supers *byte, stride, blocks int)
TEXT ·unpackU2_32AVX2(SB), NOSPLIT, $0-48
#include "affine_unpack_avx2_amd64.h"

#undef SPAN_MASK
#undef UNPACK_PAIR
#define SPAN_MASK 3
#define UNPACK_PAIR PAIRS_OF_ZEROS

// func tileU2_128AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileU2_128AVX2(SB), NOSPLIT, $0-88
#include "affine_avx2_body_amd64.h"

// func unpackU2_128AVX2(to *spanWeights, codes, scales, supers *byte, stride, blocks int)
TEXT ·unpackU2_128AVX2(SB), NOSPLIT, $0-48
#include "affine_unpack_avx2_amd64.h"

// Types with levels of 8 bits.
#undef CODE_BYTES
#undef FETCH
#undef A
#undef B
#undef C
#undef D
#undef DOT
#undef BLOCK
#undef MINS
#undef SPAN_MASK
#undef UNPACK
#undef UNPACK_PAIR
#define CODE_BYTES 512
#define FETCH(v, p) LINES4(v, p)
#define A(v, o) A8(v, o)
#define B(v, o) B8(v, o)
#define C(v, o) C8(v, o)
#define D(v, o) D8(v, o)
#define DOT(q, low, high) DOT8(q, low, high)
#define BLOCK(LEFT, RIGHT) BLOCK8(LEFT, RIGHT)
#define MINS(o) ZEROS8(o)
#define SPAN_MASK 0
#define UNPACK UNPACK_WORDS
#define WHOLE(by, from, to) VPADDW by, from, to
#define WHOLES SPREAD_ZEROS
#define UNPACK_PAIR NO_PAIRS

// func tileU8_32AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileU8_32AVX2(SB), NOSPLIT, $0-88
#include "affine_avx2_body_amd64.h"

// func unpackU8_32AVX2(to *spanWeights, codes, scales, supers *byte, stride, blocks int)
TEXT ·unpackU8_32AVX2(SB), NOSPLIT, $0-48
#include "affine_unpack_avx2_amd64.h"

#undef SPAN_MASK
#define SPAN_MASK 3

// func tileU8_128AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileU8_128AVX2(SB), NOSPLIT, $0-88
#include "affine_avx2_body_amd64.h"

// func unpackU8_128AVX2(to *spanWeights, codes, scales, supers *byte, stride, blocks int)
TEXT ·unpackU8_128AVX2(SB), NOSPLIT, $0-48
#include "affine_unpack_avx2_amd64.h"

#undef SCALES
#undef STEP
#undef SCALES_END
#undef LESS
#undef MINS
#undef SPAN_MASK
#undef SUPER_BYTES
#undef WHOLE
#undef WHOLES
#define SCALES(h, o) UINT8S(o)
#define STEP 16
#define SCALES_END INCQ R13; SHRQ $1, R13; IMULQ $32, R13
#define LESS(skip, LEFT, RIGHT) NO_LESS(skip, LEFT, RIGHT)
#define MINS(o)
#define SPAN_MASK 7
#define SUPER_BYTES 64
#define WHOLE(by, from, to) VPMULLW by, from, to
#define WHOLES SPREAD_UINT8S

// func tileQ8_0AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileQ8_0AVX2(SB), NOSPLIT, $0-88
#include "affine_avx2_body_amd64.h"

// func unpackQ8_0AVX2(to *spanWeights, codes, scales, supers *byte, stride, blocks int)
TEXT ·unpackQ8_0AVX2(SB), NOSPLIT, $0-48
#include "affine_unpack_avx2_amd64.h"

#undef CODE_BYTES
#undef FETCH
#undef A
#undef B
#undef C
#undef D
#undef SCALES
#undef WHOLES
#define CODE_BYTES 256
#define FETCH(v, p) LINES2(v, p)
#define A(v, o) A4_IQ(v, o)
#define B(v, o) B4_IQ(v, o)
#define C(v, o) C4_IQ(v, o)
#define D(v, o) D4_IQ(v, o)
#define SCALES(h, o) INT8S(0, o)
#define WHOLES SPREAD_INT8S

// func tileIQ4_NLAVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileIQ4_NLAVX2(SB), NOSPLIT, $0-88
#include "affine_avx2_body_amd64.h"

// func unpackIQ4_NLAVX2(to *spanWeights, codes, scales, supers *byte, stride, blocks int)
TEXT ·unpackIQ4_NLAVX2(SB), NOSPLIT, $0-48
#include "affine_unpack_avx2_amd64.h"

#undef SUPER_BYTES
#undef SUPERS
#define SUPER_BYTES 32
#define SUPERS(o) HALVES(o)

// func tileIQ4_XSAVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileIQ4_XSAVX2(SB), NOSPLIT, $0-88
#include "affine_avx2_body_amd64.h"

// func unpackIQ4_XSAVX2(to *spanWeights, codes, scales, supers *byte, stride, blocks int)
TEXT ·unpackIQ4_XSAVX2(SB), NOSPLIT, $0-48
#include "affine_unpack_avx2_amd64.h"
