//go:build amd64 && !noasm

// Tiles of affine types with AVX2. The layout and the loops are in affine_avx2_amd64.h; here is how each type unpacks its
// codes and scales.

#include "textflag.h"
#include "affine_avx2_amd64.h"

// Levels of four-bit codes (quant.Affine), those of IQ4_NL less 128, twice.
DATA iq4<>+0(SB)/8, $0xf6eaddcfbfad9881
DATA iq4<>+8(SB)/8, $0x7159453526190d01
DATA iq4<>+16(SB)/8, $0xf6eaddcfbfad9881
DATA iq4<>+24(SB)/8, $0x7159453526190d01
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

DATA minus128<>+0(SB)/8, $0xffffff80ffffff80
DATA minus128<>+8(SB)/8, $0xffffff80ffffff80
DATA minus128<>+16(SB)/8, $0xffffff80ffffff80
DATA minus128<>+24(SB)/8, $0xffffff80ffffff80
GLOBL minus128<>(SB), RODATA|NOPTR, $32

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

DATA tops<>+0(SB)/8, $0x8080808080808080
DATA tops<>+8(SB)/8, $0x8080808080808080
DATA tops<>+16(SB)/8, $0x8080808080808080
DATA tops<>+24(SB)/8, $0x8080808080808080
GLOBL tops<>(SB), RODATA|NOPTR, $32

// Where VPSHUFB finds the low or the high bytes of words, two for each of 8 bytes.
DATA toWords<>+0(SB)/8, $0x8001800180008000
DATA toWords<>+8(SB)/8, $0x8003800380028002
DATA toWords<>+16(SB)/8, $0x8005800580048004
DATA toWords<>+24(SB)/8, $0x8007800780068006
GLOBL toWords<>(SB), RODATA|NOPTR, $32

DATA toTops<>+0(SB)/8, $0x0180018000800080
DATA toTops<>+8(SB)/8, $0x0380038002800280
DATA toTops<>+16(SB)/8, $0x0580058004800480
DATA toTops<>+24(SB)/8, $0x0780078006800680
GLOBL toTops<>(SB), RODATA|NOPTR, $32

#define CODE_BYTES 256
#define FETCH(v, p) LINES2(v, p)
#define A(v, o) A4(v, o)
#define B(v, o) B4(v, o)
#define C(v, o) C4(v, o)
#define D(v, o) D4(v, o)
#define DOT(q, low, high) DOT6(q, low, high)
#define START0(q, r, low, high, less, to) NOTHING(q, r, low, high, less, to)
#define START1(q, r, low, high, less, to) NOTHING(q, r, low, high, less, to)
#define BLOCK(LEFT, RIGHT) BLOCK32(LEFT, RIGHT)
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

// func tileQ4_1AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileQ4_1AVX2(SB), NOSPLIT, $0-88
#include "affine_avx2_body_amd64.h"

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

#undef CODE_BYTES
#undef FETCH
#undef A
#undef B
#undef C
#undef D
#undef BLOCK
#define CODE_BYTES 320
#define FETCH(v, p) LINES3(v, p)
#define A(v, o) A4(v, o); LAST_BIT(256+32*v+0+o/8, sixteens)
#define B(v, o) B4(v, o); LAST_BIT(256+32*v+8+o/8, sixteens)
#define C(v, o) C4(v, o); LAST_BIT(256+32*v+16+o/8, sixteens)
#define D(v, o) D4(v, o); LAST_BIT(256+32*v+24+o/8, sixteens)
#define BLOCK(LEFT, RIGHT) BLOCK16(LEFT, RIGHT)

// func tileQ5_KAVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileQ5_KAVX2(SB), NOSPLIT, $0-88
#include "affine_avx2_body_amd64.h"

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

// func tileQ2_KAVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileQ2_KAVX2(SB), NOSPLIT, $0-88
#include "affine_avx2_body_amd64.h"

#undef CODE_BYTES
#undef FETCH
#undef A
#undef B
#undef C
#undef D
#undef START0
#undef START1
#undef STEP
#undef SCALES_END
#undef LESS
#undef MINS
#undef SUPER_BYTES
#undef SUPERS
#undef END_M
#define CODE_BYTES 192
#define FETCH(v, p) LINES2(v, p)
#define A(v, o) A2(v, o); LAST_BIT(128+32*v+0+o/8, fours)
#define B(v, o) B2(v, o); LAST_BIT(128+32*v+8+o/8, fours)
#define C(v, o) C2(v, o); LAST_BIT(128+32*v+16+o/8, fours)
#define D(v, o) D2(v, o); LAST_BIT(128+32*v+24+o/8, fours)
#define START0(q, r, low, high, less, to) OFFSET16(0, 1, r, low)
#define START1(q, r, low, high, less, to) OFFSET16(1, 1, r, low)
#define STEP 32
#define SCALES_END IMULQ $32, R13
#define LESS(skip, LEFT, RIGHT) NO_LESS(skip, LEFT, RIGHT)
#define MINS(o)
#define SUPER_BYTES 32
#define SUPERS(o) HALVES(o)
#define END_M(less) NO_END_M(less)

// func tileQ3_KAVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileQ3_KAVX2(SB), NOSPLIT, $0-88
#include "affine_avx2_body_amd64.h"

#undef CODE_BYTES
#undef FETCH
#undef A
#undef B
#undef C
#undef D
#undef START0
#undef START1
#undef BLOCK
#define CODE_BYTES 384
#define FETCH(v, p) LINES3(v, p)
#define A(v, o) A6(v, o)
#define B(v, o) B6(v, o)
#define C(v, o) C6(v, o)
#define D(v, o) D6(v, o)
#define START0(q, r, low, high, less, to) OFFSET16(0, 4, r, low)
#define START1(q, r, low, high, less, to) OFFSET16(1, 4, r, low)
#define BLOCK(LEFT, RIGHT) BLOCK6(LEFT, RIGHT)

// func tileQ6_KAVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileQ6_KAVX2(SB), NOSPLIT, $0-88
#include "affine_avx2_body_amd64.h"

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
#undef SUPER_BYTES
#undef SUPERS
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
#define SUPER_BYTES 64
#define SUPERS(o) FLOATS(o)

// func tileQ5_0AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileQ5_0AVX2(SB), NOSPLIT, $0-88
#include "affine_avx2_body_amd64.h"

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

#undef A
#undef B
#undef C
#undef D
#undef START0
#undef START1
#undef BLOCK
#define A(v, o) A4(v, o)
#define B(v, o) B4(v, o)
#define C(v, o) C4(v, o)
#define D(v, o) D4(v, o)
#define START0(q, r, low, high, less, to) OFFSET32(2, r, low)
#define START1(q, r, low, high, less, to) NOTHING(q, r, low, high, less, to)
#define BLOCK(LEFT, RIGHT) BLOCK32(LEFT, RIGHT)

// func tileQ4_0AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileQ4_0AVX2(SB), NOSPLIT, $0-88
#include "affine_avx2_body_amd64.h"

#undef A
#undef B
#undef C
#undef D
#undef DOT
#undef START0
#undef BLOCK
#define A(v, o) A4_IQ(v, o)
#define B(v, o) B4_IQ(v, o)
#define C(v, o) C4_IQ(v, o)
#define D(v, o) D4_IQ(v, o)
#define DOT(q, low, high) DOT8(q, low, high)
#define START0(q, r, low, high, less, to) NOTHING(q, r, low, high, less, to)
#define BLOCK(LEFT, RIGHT) BLOCK8(LEFT, RIGHT)

// func tileIQ4_NLAVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileIQ4_NLAVX2(SB), NOSPLIT, $0-88
#include "affine_avx2_body_amd64.h"

#undef SUPER_BYTES
#undef SUPERS
#define SUPER_BYTES 32
#define SUPERS(o) HALVES(o)

// func tileIQ4_XSAVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileIQ4_XSAVX2(SB), NOSPLIT, $0-88
#include "affine_avx2_body_amd64.h"

#undef CODE_BYTES
#undef FETCH
#undef A
#undef B
#undef C
#undef D
#undef SCALES
#undef SUPER_BYTES
#undef SUPERS
#define CODE_BYTES 512
#define FETCH(v, p) LINES4(v, p)
#define A(v, o) A8(v, o)
#define B(v, o) B8(v, o)
#define C(v, o) C8(v, o)
#define D(v, o) D8(v, o)
#define SCALES(h, o) UINT8S(o)
#define SUPER_BYTES 64
#define SUPERS(o) FLOATS(o)

// func tileQ8_0AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileQ8_0AVX2(SB), NOSPLIT, $0-88
#include "affine_avx2_body_amd64.h"

// Types with zero points, by their bits, for spans of 32 and of 128.
#undef SCALES
#undef STEP
#undef SCALES_END
#undef LESS
#undef MINS
#undef SPAN_MASK
#undef SUPER_BYTES
#define SCALES(h, o) ONES
#define STEP 0
#define SCALES_END XORQ R13, R13
#define LESS(skip, LEFT, RIGHT) LESS_ZERO(skip, LEFT, RIGHT)
#define MINS(o) ZEROS8(o)
#define SPAN_MASK 0
#define SUPER_BYTES 80

// func tileU8_32AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileU8_32AVX2(SB), NOSPLIT, $0-88
#include "affine_avx2_body_amd64.h"

#undef SPAN_MASK
#define SPAN_MASK 3

// func tileU8_128AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileU8_128AVX2(SB), NOSPLIT, $0-88
#include "affine_avx2_body_amd64.h"

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
#define CODE_BYTES 256
#define FETCH(v, p) LINES2(v, p)
#define A(v, o) A4(v, o)
#define B(v, o) B4(v, o)
#define C(v, o) C4(v, o)
#define D(v, o) D4(v, o)
#define DOT(q, low, high) DOT6(q, low, high)
#define BLOCK(LEFT, RIGHT) BLOCK32(LEFT, RIGHT)
#define MINS(o) ZEROS(o)
#define SPAN_MASK 0

// func tileU4_32AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileU4_32AVX2(SB), NOSPLIT, $0-88
#include "affine_avx2_body_amd64.h"

#undef SPAN_MASK
#define SPAN_MASK 3

// func tileU4_128AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileU4_128AVX2(SB), NOSPLIT, $0-88
#include "affine_avx2_body_amd64.h"

#undef CODE_BYTES
#undef A
#undef B
#undef C
#undef D
#undef SPAN_MASK
#define CODE_BYTES 192
#define A(v, o) A2(v, o); LAST_BIT(128+32*v+0+o/8, fours)
#define B(v, o) B2(v, o); LAST_BIT(128+32*v+8+o/8, fours)
#define C(v, o) C2(v, o); LAST_BIT(128+32*v+16+o/8, fours)
#define D(v, o) D2(v, o); LAST_BIT(128+32*v+24+o/8, fours)
#define SPAN_MASK 0

// func tileU3_32AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileU3_32AVX2(SB), NOSPLIT, $0-88
#include "affine_avx2_body_amd64.h"

#undef SPAN_MASK
#define SPAN_MASK 3

// func tileU3_128AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileU3_128AVX2(SB), NOSPLIT, $0-88
#include "affine_avx2_body_amd64.h"

#undef CODE_BYTES
#undef FETCH
#undef A
#undef B
#undef C
#undef D
#undef SPAN_MASK
#define CODE_BYTES 128
#define FETCH(v, p) LINE(v, p)
#define A(v, o) A2(v, o)
#define B(v, o) B2(v, o)
#define C(v, o) C2(v, o)
#define D(v, o) D2(v, o)
#define SPAN_MASK 0

// func tileU2_32AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileU2_32AVX2(SB), NOSPLIT, $0-88
#include "affine_avx2_body_amd64.h"

#undef SPAN_MASK
#define SPAN_MASK 3

// func tileU2_128AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileU2_128AVX2(SB), NOSPLIT, $0-88
#include "affine_avx2_body_amd64.h"
