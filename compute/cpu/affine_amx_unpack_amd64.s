//go:build amd64 && !noasm

// Unpacking of affine types for AMX: 64 inputs of a panel, or the last 32, become digits of level·S less offset·S
// (affine_amx_amd64.h draws both sides). Each function advances R15, codes, and R12, scales, and counts R11, blocks, down to 0; R9 is
// where in levels, DI where m go. With a line of 16 outputs times 4 codes, even and odd codes are multiplied apart, to 16 bits each.
//
//	Z8, Z9   products of the even codes and of the odd ones
//	Z10-Z12  S beside the even codes; beside the odd ones; offset·S for each. S of 12 bits is beside all in Z10
//	Z16-Z19  codes, raw codes, digits
//	Z20-Z24  masks and tables; K2, K3 even and odd bytes

#include "textflag.h"
#include "affine_levels_amd64.h"

// Bytes of words swapped.
DATA swap<>+0(SB)/8, $0x0607040502030001
DATA swap<>+8(SB)/8, $0x0e0f0c0d0a0b0809
GLOBL swap<>(SB), RODATA|NOPTR, $16

// By type (unpackTypes).
DATA ·unpackersAMX+0(SB)/8, $unpackQ8_0AMX<>(SB)
DATA ·unpackersAMX+8(SB)/8, $unpackQ4_0AMX<>(SB)
DATA ·unpackersAMX+16(SB)/8, $unpackQ5_0AMX<>(SB)
DATA ·unpackersAMX+24(SB)/8, $unpackIQ4_NLAMX<>(SB)
DATA ·unpackersAMX+32(SB)/8, $unpackIQ4_XSAMX<>(SB)
DATA ·unpackersAMX+40(SB)/8, $unpackMXFP4AMX<>(SB)
DATA ·unpackersAMX+48(SB)/8, $unpackQ3_KAMX<>(SB)
DATA ·unpackersAMX+56(SB)/8, $unpackQ6_KAMX<>(SB)
DATA ·unpackersAMX+64(SB)/8, $unpackQ4_1AMX<>(SB)
DATA ·unpackersAMX+72(SB)/8, $unpackQ5_1AMX<>(SB)
DATA ·unpackersAMX+80(SB)/8, $unpackQ4_KAMX<>(SB)
DATA ·unpackersAMX+88(SB)/8, $unpackQ5_KAMX<>(SB)
DATA ·unpackersAMX+96(SB)/8, $unpackQ2_KAMX<>(SB)
GLOBL ·unpackersAMX(SB), RODATA|NOPTR, $104

#define BYTES_OF(mask, to) MOVL $mask, AX; VPBROADCASTD AX, to

// S8 and S12 read S of the first (0) or second (16) group of a pair. OFFSET multiplies it by the offset, a power of two; TIMES
// multiplies codes by S.
#define S8(at) \
	VPMOVZXBD at(R12), Z10; \
	VPSLLD    $16, Z10, Z11; \
	VPORD     Z11, Z10, Z10; \
	VPSLLW    $8, Z10, Z11; \
	OFFSET
#define S12(at) \
	VPMOVSXBW at(R12), Y10; \
	VPSLLW    $4, Y10, Y10; \
	VPMOVZXBW 32(R12), Y11; \
	VPSRLW    $(at/4), Y11, Y11; \
	VPTERNLOGD $0xf8, Y20, Y11, Y10; \
	VPMOVZXWD Y10, Z10; \
	VPSLLD    $16, Z10, Z11; \
	VPORD     Z11, Z10, Z10; \
	OFFSET
#define OFFSET_OF(shift) VPSRAW $(8-shift), Z11, Z12
#define OFFSET12_OF(shift) VPSLLW $shift, Z10, Z12
#define LESS_OFFSET VPSUBW Z12, Z8, Z8; VPSUBW Z12, Z9, Z9
#define NOTHING
#define TIMES_S VPMADDUBSW Z10, Z16, Z8; VPMADDUBSW Z11, Z16, Z9; LESS
#define S_TIMES VPMADDUBSW Z16, Z10, Z8; VPMADDUBSW Z16, Z11, Z9
#define TIMES_S12 \
	VMOVDQU8.Z Z16, K2, Z8; \
	VPSRLW     $8, Z16, Z9; \
	VPMULLW    Z10, Z8, Z8; \
	VPMULLW    Z10, Z9, Z9; \
	LESS

// LINE writes line i of the 64 inputs. CODES is A, B, C or D(v), the codes of groups 4v to 4v+3 of the block (affine.go, putCodes).
#define LINE(CODES, v, i) \
	CODES(v); \
	TIMES; \
	VMOVDQA64 Z9, Z18; \
	VPSHUFB   Z24, Z8, K2, Z18; \
	VPSHUFB   Z24, Z9, K3, Z8; \
	VMOVDQU64 Z8, (64*(i))(R9); \
	VMOVDQU64 Z18, (1024+64*(i))(R9)
#define LINES4(v, i) LINE(A, v, i); LINE(B, v, i+1); LINE(C, v, i+2); LINE(D, v, i+3)
#define RAW(o) PREFETCHT1 (o)(R15)(R10*1); VMOVDQU64 (o)(R15), Z17
#define MASKED VPANDD Z20, Z16, Z16
#define A4(v) RAW(128*v); VPANDD Z20, Z17, Z16
#define B4(v) VPSRLW $4, Z17, Z16; MASKED
#define C4(v) RAW(128*v+64); VPANDD Z20, Z17, Z16
#define A2(v) RAW(64*v); VPANDD Z20, Z17, Z16
#define B2(v) VPSRLW $2, Z17, Z16; MASKED
#define C2(v) VPSRLW $4, Z17, Z16; MASKED
#define D2(v) VPSRLW $6, Z17, Z16; MASKED
#define A6(v) RAW(192*v); VPANDD Z20, Z17, Z16
#define B6(v) RAW(192*v+64); VPANDD Z20, Z17, Z16
#define C6(v) RAW(192*v+128); VPANDD Z20, Z17, Z16
#define D6(v) \
	VPSRLW     $2, (192*v)(R15), Z16; \
	VPANDD     Z21, Z16, Z16; \
	VPSRLW     $4, (192*v+64)(R15), Z18; \
	VPTERNLOGD $0xf8, Z22, Z18, Z16; \
	VPSRLW     $6, Z17, Z18; \
	VPTERNLOGD $0xf8, Z23, Z18, Z16
#define A8(v) PREFETCHT1 (256*v)(R15)(R10*1); VPXORD (256*v)(R15), Z23, Z16
#define B8(v) PREFETCHT1 (256*v+64)(R15)(R10*1); VPXORD (256*v+64)(R15), Z23, Z16
#define C8(v) PREFETCHT1 (256*v+128)(R15)(R10*1); VPXORD (256*v+128)(R15), Z23, Z16
#define D8(v) PREFETCHT1 (256*v+192)(R15)(R10*1); VPXORD (256*v+192)(R15), Z23, Z16
#define LAST_BIT(o) KMOVQ (o)(R15), K1; VPADDB Z21, Z16, K1, Z16
#define TABLE VPSHUFB Z16, Z21, Z16

// BLOCKS32 and BLOCKS16 unpack up to two blocks of types with groups of 32 and of 16.
#define BEGIN \
	VBROADCASTI32X4 swap<>(SB), Z24; \
	MOVQ    $0x5555555555555555, AX; \
	KMOVQ   AX, K2; \
	KNOTQ   K2, K3; \
	MASKS
#define NEXT_BLOCK(end) ADDQ $CODE_BYTES, R15; DECQ R11; JLE end
#define BLOCKS32 \
	TESTQ R11, R11; \
	JLE   done; \
	BEGIN; \
	PREFETCHT1 (R12)(R10*1); \
	GROUP(0); \
	LINES4(0, 0); \
	LINES4(1, 4); \
	NEXT_BLOCK(mins); \
	GROUP(16); \
	LINES4(0, 8); \
	LINES4(1, 12); \
	NEXT_BLOCK(mins); \
mins: \
	MINS(0); \
	ADDQ  $SCALE_BYTES, R12; \
done: \
	RET
#define BLOCKS16 \
	TESTQ R11, R11; \
	JLE   done; \
	BEGIN; \
	PREFETCHT1 (R12)(R10*1); \
	GROUP(0); \
	LINES4(0, 0); \
	GROUP(16); \
	LINES4(1, 4); \
	MINS(0); \
	ADDQ  $SCALE_BYTES, R12; \
	NEXT_BLOCK(done); \
	PREFETCHT1 (R12)(R10*1); \
	GROUP(0); \
	LINES4(0, 8); \
	GROUP(16); \
	LINES4(1, 12); \
	MINS(64); \
	ADDQ  $SCALE_BYTES, R12; \
	NEXT_BLOCK(done); \
done: \
	RET

// The m of a pair of groups.
#define NO_MINS(o)
#define SHORT_MINS(o) PREFETCHT1 64(R12)(R10*1); VMOVDQU64 48(R12), Z8; VMOVDQU64 Z8, (o)(DI)
#define BYTE_MINS(o) VPMOVZXBW 32(R12), Z8; VMOVDQU64 Z8, (o)(DI)

#define MASKS BYTES_OF(0x80808080, Z23)
#define GROUP(at) S8(at)
#define CODE_BYTES 512
#define SCALE_BYTES 32
#define OFFSET NOTHING
#define LESS NOTHING
#define TIMES S_TIMES
#define MINS(o) NO_MINS(o)
#define A(v) A8(v)
#define B(v) B8(v)
#define C(v) C8(v)
#define D(v) D8(v)

TEXT unpackQ8_0AMX<>(SB), NOSPLIT|NOFRAME, $0-0
	BLOCKS32

#undef MASKS
#undef GROUP
#undef CODE_BYTES
#undef SCALE_BYTES
#undef OFFSET
#undef LESS
#undef TIMES
#undef A
#undef B
#undef C
#undef D
#define MASKS BYTES_OF(0x0f0f0f0f, Z20)
#define GROUP(at) S12(at)
#define CODE_BYTES 256
#define SCALE_BYTES 48
#define OFFSET OFFSET12_OF(3)
#define LESS LESS_OFFSET
#define TIMES TIMES_S12
#define A(v) A4(v)
#define B(v) B4(v)
#define C(v) C4(v)
#define D(v) B4(v)

TEXT unpackQ4_0AMX<>(SB), NOSPLIT|NOFRAME, $0-0
	BLOCKS32

#undef MASKS
#undef CODE_BYTES
#undef OFFSET
#undef A
#undef B
#undef C
#undef D
#define MASKS BYTES_OF(0x0f0f0f0f, Z20); BYTES_OF(0x10101010, Z21)
#define CODE_BYTES 320
#define OFFSET OFFSET12_OF(4)
#define A(v) A4(v); LAST_BIT(256+32*v+0)
#define B(v) B4(v); LAST_BIT(256+32*v+8)
#define C(v) C4(v); LAST_BIT(256+32*v+16)
#define D(v) B4(v); LAST_BIT(256+32*v+24)

TEXT unpackQ5_0AMX<>(SB), NOSPLIT|NOFRAME, $0-0
	BLOCKS32

#undef MASKS
#undef CODE_BYTES
#undef OFFSET
#undef A
#undef B
#undef C
#undef D
#define MASKS BYTES_OF(0x0f0f0f0f, Z20); VBROADCASTI32X4 iq4<>(SB), Z21
#define CODE_BYTES 256
#define OFFSET OFFSET12_OF(7)
#define A(v) A4(v); TABLE
#define B(v) B4(v); TABLE
#define C(v) C4(v); TABLE
#define D(v) B4(v); TABLE

TEXT unpackIQ4_NLAMX<>(SB), NOSPLIT|NOFRAME, $0-0
	BLOCKS32

#undef GROUP
#undef SCALE_BYTES
#undef OFFSET
#undef TIMES
#define GROUP(at) S8(at)
#define SCALE_BYTES 32
#define OFFSET OFFSET_OF(7)
#define TIMES TIMES_S

TEXT unpackIQ4_XSAMX<>(SB), NOSPLIT|NOFRAME, $0-0
	BLOCKS32

#undef MASKS
#undef OFFSET
#define MASKS BYTES_OF(0x0f0f0f0f, Z20); VBROADCASTI32X4 fp4<>(SB), Z21
#define OFFSET OFFSET_OF(4)

TEXT unpackMXFP4AMX<>(SB), NOSPLIT|NOFRAME, $0-0
	BLOCKS32

#undef MASKS
#undef CODE_BYTES
#undef OFFSET
#undef A
#undef B
#undef C
#undef D
#define MASKS BYTES_OF(0x03030303, Z20); BYTES_OF(0x04040404, Z21)
#define CODE_BYTES 192
#define OFFSET OFFSET_OF(2)
#define A(v) A2(v); LAST_BIT(128+32*v+0)
#define B(v) B2(v); LAST_BIT(128+32*v+8)
#define C(v) C2(v); LAST_BIT(128+32*v+16)
#define D(v) D2(v); LAST_BIT(128+32*v+24)

TEXT unpackQ3_KAMX<>(SB), NOSPLIT|NOFRAME, $0-0
	BLOCKS16

#undef MASKS
#undef CODE_BYTES
#undef OFFSET
#undef A
#undef B
#undef C
#undef D
#define MASKS BYTES_OF(0x3f3f3f3f, Z20); BYTES_OF(0x30303030, Z21); BYTES_OF(0x0c0c0c0c, Z22); BYTES_OF(0x03030303, Z23)
#define CODE_BYTES 384
#define OFFSET OFFSET_OF(5)
#define A(v) A6(v)
#define B(v) B6(v)
#define C(v) C6(v)
#define D(v) D6(v)

TEXT unpackQ6_KAMX<>(SB), NOSPLIT|NOFRAME, $0-0
	BLOCKS16

#undef MASKS
#undef CODE_BYTES
#undef SCALE_BYTES
#undef OFFSET
#undef LESS
#undef MINS
#undef A
#undef B
#undef C
#undef D
#define MASKS BYTES_OF(0x03030303, Z20)
#define CODE_BYTES 128
#define SCALE_BYTES 64
#define OFFSET NOTHING
#define LESS NOTHING
#define MINS(o) BYTE_MINS(o)
#define A(v) A2(v)
#define B(v) B2(v)
#define C(v) C2(v)
#define D(v) D2(v)

TEXT unpackQ2_KAMX<>(SB), NOSPLIT|NOFRAME, $0-0
	BLOCKS16

#undef MASKS
#undef CODE_BYTES
#undef A
#undef B
#undef C
#undef D
#define MASKS BYTES_OF(0x0f0f0f0f, Z20)
#define CODE_BYTES 256
#define A(v) A4(v)
#define B(v) B4(v)
#define C(v) C4(v)
#define D(v) B4(v)

TEXT unpackQ4_KAMX<>(SB), NOSPLIT|NOFRAME, $0-0
	BLOCKS32

#undef MASKS
#undef CODE_BYTES
#undef A
#undef B
#undef C
#undef D
#define MASKS BYTES_OF(0x0f0f0f0f, Z20); BYTES_OF(0x10101010, Z21)
#define CODE_BYTES 320
#define A(v) A4(v); LAST_BIT(256+32*v+0)
#define B(v) B4(v); LAST_BIT(256+32*v+8)
#define C(v) C4(v); LAST_BIT(256+32*v+16)
#define D(v) B4(v); LAST_BIT(256+32*v+24)

TEXT unpackQ5_KAMX<>(SB), NOSPLIT|NOFRAME, $0-0
	BLOCKS32

#undef GROUP
#undef SCALE_BYTES
#undef TIMES
#undef MINS
#define GROUP(at) S12(at)
#define SCALE_BYTES 112
#define TIMES TIMES_S12
#define MINS(o) SHORT_MINS(o)

TEXT unpackQ5_1AMX<>(SB), NOSPLIT|NOFRAME, $0-0
	BLOCKS32

#undef MASKS
#undef CODE_BYTES
#undef A
#undef B
#undef C
#undef D
#define MASKS BYTES_OF(0x0f0f0f0f, Z20)
#define CODE_BYTES 256
#define A(v) A4(v)
#define B(v) B4(v)
#define C(v) C4(v)
#define D(v) B4(v)

TEXT unpackQ4_1AMX<>(SB), NOSPLIT|NOFRAME, $0-0
	BLOCKS32
