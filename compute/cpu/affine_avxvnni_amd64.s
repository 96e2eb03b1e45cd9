//go:build amd64 && !noasm

// Spans of types with levels of 8 bits, unpacked for AVX-VNNI: as bytes. affine_avx2_amd64.h tells of the macros.

#include "go_asm.h"
#include "textflag.h"
#include "affine_avx2_data_amd64.h"
#include "affine_avx2_amd64.h"

#define CODE_BYTES 512
#define FETCH(v, p) LINES4(v, p)
#define MASK tops
#define A(v, o) A8(v, o)
#define B(v, o) B8(v, o)
#define C(v, o) C8(v, o)
#define D(v, o) D8(v, o)
#define SCALES0(h, o) UINT8S(o)
#define SCALES1(h, o) UINT8S(o)
#define STEP0 16
#define STEP1 16
#define SUPERS(h, o) FLOATS(o)
#define UNPACK(SCALES) UNPACK_BYTES8(SCALES)
#define PAIR0 PAIRS_OF_S(7)
#define PAIR1 NO_PAIRS
#define KEEP_M(o) NO_M(o)

// func unpackQ8_0AVXVNNI(to *spanWeights, codes, scales, supers *byte, stride, blocks int)
TEXT ·unpackQ8_0AVXVNNI(SB), NOSPLIT, $0-48
#include "affine_unpack_avx2_amd64.h"

#undef SCALES0
#undef SCALES1
#undef STEP0
#undef STEP1
#undef PAIR0
#define SCALES0(h, o) ONES
#define SCALES1(h, o) ONES
#define STEP0 0
#define STEP1 0
#define PAIR0 PAIRS_OF_ZERO

// func unpackU8_32AVXVNNI(to *spanWeights, codes, scales, supers *byte, stride, blocks int)
TEXT ·unpackU8_32AVXVNNI(SB), NOSPLIT, $0-48
#include "affine_unpack_avx2_amd64.h"

#undef PAIR0
#define PAIR0 PAIRS_OF_ZEROS

// func unpackU8_128AVXVNNI(to *spanWeights, codes, scales, supers *byte, stride, blocks int)
TEXT ·unpackU8_128AVXVNNI(SB), NOSPLIT, $0-48
#include "affine_unpack_avx2_amd64.h"

#undef CODE_BYTES
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
#undef PAIR0
#define CODE_BYTES 256
#define FETCH(v, p) LINES2(v, p)
#define MASK nibbles
#define A(v, o) A4_IQ(v, o)
#define B(v, o) B4_IQ(v, o)
#define C(v, o) C4_IQ(v, o)
#define D(v, o) D4_IQ(v, o)
#define SCALES0(h, o) INT12S_EVEN(o)
#define SCALES1(h, o) INT12S_ODD(o)
#define STEP0 16
#define STEP1 32
#define PAIR0 PAIRS_OF_S(7)

// func unpackIQ4_NLAVXVNNI(to *spanWeights, codes, scales, supers *byte, stride, blocks int)
TEXT ·unpackIQ4_NLAVXVNNI(SB), NOSPLIT, $0-48
#include "affine_unpack_avx2_amd64.h"

#undef SCALES0
#undef SCALES1
#undef STEP1
#define SCALES0(h, o) INT8S(0, o)
#define SCALES1(h, o) INT8S(0, o)
#define STEP1 16

// func unpackIQ4_XSAVXVNNI(to *spanWeights, codes, scales, supers *byte, stride, blocks int)
TEXT ·unpackIQ4_XSAVXVNNI(SB), NOSPLIT, $0-48
#include "affine_unpack_avx2_amd64.h"
