//go:build amd64 && !noasm

// Products of a few rows with KV panels where they lie, with AVX-512: pages_avx512_amd64.h draws the layout and holds the
// loops; here are the types. n is the number of panels, whose keys are a multiple of 4, tiles that of a panel's tiles, of
// values at least 4, or 2 where rows are more than 4. rows is 1 to 8.

#include "textflag.h"
#include "pages_avx512_amd64.h"

#define NOTHING
#define LINES1(o, p) PREFETCHT0 o p
#define LINES2(o, p) PREFETCHT0 o p; PREFETCHT0 64+o p
#define LINES4(o, p) LINES2(o, p); PREFETCHT0 128+o p; PREFETCHT0 192+o p
#define TILE_SPAN(second, loop, SCALED, COUNT) MOVQ $4, COUNT

#define BEGIN NOTHING
#define STEP 64
#define TILES 1
#define SCALES(w, y, z) NOTHING
#define WIDEN(w, z, s) VMOVUPS w, z
#define FETCH(p) LINES4(0, (p)(DI*1))
#define SPAN TILE_SPAN

// func pageKeysF32AVX512(t pageTile)
TEXT ·pageKeysF32AVX512(SB), NOSPLIT, $128-72
#include "pages_avx512_keys_amd64.h"

#define BEGIN NOTHING
#define TILE 1024
#define WIDEN(w, z) VMOVUPS w, z
#define BLOCK4 NOTHING
#define BLOCK2 NOTHING
#define LOAD2(u) WIDEN(64*u(R8), Z24); WIDEN(TILE+64*u(R8), Z25)
#define LOAD4(u) LOAD2(u); WIDEN(2*TILE+64*u(R8), Z26); WIDEN(3*TILE+64*u(R8), Z27)
#define FETCH2 LINES4(0, (R12)); LINES4(TILE, (R12))
#define FETCH4 FETCH2; LINES4(2*TILE, (R12)); LINES4(3*TILE, (R12))
#define NEXT ADDQ $256, R8; ADDQ $256, R12

// func pageValuesF32AVX512(t pageTile)
TEXT ·pageValuesF32AVX512(SB), NOSPLIT, $128-72
#include "pages_avx512_values_amd64.h"
#undef WIDEN

#define BEGIN NOTHING
#define STEP 32
#define TILES 1
#define SCALES(w, y, z) NOTHING
#define WIDEN(w, z, s) VCVTPH2PS w, z
#define FETCH(p) LINES2(0, (p)(DI*1))
#define SPAN TILE_SPAN

// func pageKeysF16AVX512(t pageTile)
TEXT ·pageKeysF16AVX512(SB), NOSPLIT, $128-72
#include "pages_avx512_keys_amd64.h"

#define BEGIN NOTHING
#define TILE 512
#define WIDEN(w, z) VCVTPH2PS w, z
#define BLOCK4 NOTHING
#define BLOCK2 NOTHING
#define LOAD2(u) WIDEN(32*u(R8), Z24); WIDEN(TILE+32*u(R8), Z25)
#define LOAD4(u) LOAD2(u); WIDEN(2*TILE+32*u(R8), Z26); WIDEN(3*TILE+32*u(R8), Z27)
#define FETCH2 LINES2(0, (R12)); LINES2(TILE, (R12))
#define FETCH4 FETCH2; LINES2(2*TILE, (R12)); LINES2(3*TILE, (R12))
#define NEXT ADDQ $128, R8; ADDQ $128, R12

// func pageValuesF16AVX512(t pageTile)
TEXT ·pageValuesF16AVX512(SB), NOSPLIT, $128-72
#include "pages_avx512_values_amd64.h"
#undef WIDEN

#define BEGIN NOTHING
#define STEP 32
#define TILES 1
#define SCALES(w, y, z) NOTHING
#define WIDEN(w, z, s) VPMOVZXWD w, z; VPSLLD $16, z, z
#define FETCH(p) LINES2(0, (p)(DI*1))
#define SPAN TILE_SPAN

// func pageKeysBF16AVX512(t pageTile)
TEXT ·pageKeysBF16AVX512(SB), NOSPLIT, $128-72
#include "pages_avx512_keys_amd64.h"

#define BEGIN NOTHING
#define TILE 512
#define WIDEN(w, z) VPMOVZXWD w, z; VPSLLD $16, z, z
#define BLOCK4 NOTHING
#define BLOCK2 NOTHING
#define LOAD2(u) WIDEN(32*u(R8), Z24); WIDEN(TILE+32*u(R8), Z25)
#define LOAD4(u) LOAD2(u); WIDEN(2*TILE+32*u(R8), Z26); WIDEN(3*TILE+32*u(R8), Z27)
#define FETCH2 LINES2(0, (R12)); LINES2(TILE, (R12))
#define FETCH4 FETCH2; LINES2(2*TILE, (R12)); LINES2(3*TILE, (R12))
#define NEXT ADDQ $128, R8; ADDQ $128, R12

// func pageValuesBF16AVX512(t pageTile)
TEXT ·pageValuesBF16AVX512(SB), NOSPLIT, $128-72
#include "pages_avx512_values_amd64.h"
#undef WIDEN

// Q8_0: a pair of tiles is 16 scales, then the bytes.

#define BEGIN NOTHING
#define STEP 16
#define TILES 2
#define SCALES(w, y, z) VCVTPH2PS w, z
#define WIDEN(w, z, s) VPMOVSXBD w, z; VCVTDQ2PS z, z; VMULPS s, z, z
#define FETCH(p) LINES1(0, (p)(DI*1))
#define SPAN(second, loop, SCALED, COUNT) SCALED; ADDQ $32, DI; MOVQ $8, COUNT

// func pageKeysQ8AVX512(t pageTile)
TEXT ·pageKeysQ8AVX512(SB), NOSPLIT, $128-72
#include "pages_avx512_keys_amd64.h"

// The scales of a panel's tokens wait at R9, 64 bytes for each pair.
#define BEGIN NOTHING
#define TILE 272
#define BLOCK2 \
	VCVTPH2PS (R8), Z16; \
	VMOVUPS   Z16, scales-128(SP); \
	LEAQ      scales-128(SP), R9; \
	ADDQ      $32, R8; \
	ADDQ      $32, R12
#define BLOCK4 \
	VCVTPH2PS (2*TILE)(R8), Z17; \
	VMOVUPS   Z17, scales-64(SP); \
	BLOCK2
#define WIDEN(w, z, s) VPMOVSXBD w, z; VCVTDQ2PS z, z; VMULPS.BCST s, z, z
#define LOAD2(u) \
	WIDEN(32*u(R8), Z24, 4*u(R9)); \
	WIDEN(16+32*u(R8), Z25, 4*u(R9))
#define LOAD4(u) \
	LOAD2(u); \
	WIDEN(2*TILE+32*u(R8), Z26, 64+4*u(R9)); \
	WIDEN(2*TILE+16+32*u(R8), Z27, 64+4*u(R9))
#define FETCH2 LINES2(0, (R12))
#define FETCH4 FETCH2; LINES2(2*TILE, (R12))
#define NEXT ADDQ $128, R8; ADDQ $128, R12; ADDQ $16, R9

// func pageValuesQ8AVX512(t pageTile)
TEXT ·pageValuesQ8AVX512(SB), NOSPLIT, $128-72
#include "pages_avx512_values_amd64.h"
#undef WIDEN

// Q4_0: a byte has a number of each of a pair's tiles. Z29 is the value of each code, Z30 how far to the right the code is.
DATA codes4<>+0(SB)/8, $0xc0e00000c1000000
DATA codes4<>+8(SB)/8, $0xc0a00000c0c00000
DATA codes4<>+16(SB)/8, $0xc0400000c0800000
DATA codes4<>+24(SB)/8, $0xbf800000c0000000
DATA codes4<>+32(SB)/8, $0x3f80000000000000
DATA codes4<>+40(SB)/8, $0x4040000040000000
DATA codes4<>+48(SB)/8, $0x40a0000040800000
DATA codes4<>+56(SB)/8, $0x40e0000040c00000
GLOBL codes4<>(SB), RODATA|NOPTR, $64

#define BEGIN \
	VMOVUPS      codes4<>(SB), Z29; \
	MOVL         $4, AX; \
	VPBROADCASTD AX, Z28; \
	VMOVAPS      Z28, Z30
#define STEP 16
#define TILES 1
#define SCALES(w, y, z) VCVTPH2PS w, z
#define WIDEN(w, z, s) VPMOVZXBD w, z; VPSRLVD Z30, z, z; VPERMPS Z29, z, z; VMULPS s, z, z
#define FETCH(p) LINES1(0, (p)(DI*1))
#define SPAN(second, loop, SCALED, COUNT) \
	MOVQ   $4, COUNT; \
	VPXORQ Z28, Z30, Z30; \
	TESTB  $1, left-8(SP); \
	JNZ    second; \
	SCALED; \
	ADDQ   $32, DI; \
	JMP    loop; \
second: \
	SUBQ   $256, DI

// func pageKeysQ4AVX512(t pageTile)
TEXT ·pageKeysQ4AVX512(SB), NOSPLIT, $128-72
#include "pages_avx512_keys_amd64.h"

#define BEGIN VMOVUPS codes4<>(SB), Z29
#define TILE 144
#define BLOCK2 \
	VCVTPH2PS (R8), Z16; \
	VMOVUPS   Z16, scales-128(SP); \
	LEAQ      scales-128(SP), R9; \
	ADDQ      $32, R8; \
	ADDQ      $32, R12
#define BLOCK4 \
	VCVTPH2PS (2*TILE)(R8), Z17; \
	VMOVUPS   Z17, scales-64(SP); \
	BLOCK2
#define PAIR(w, a, b, s) \
	VPMOVZXBD   w, a; \
	VPSRLD      $4, a, b; \
	VPERMPS     Z29, a, a; \
	VPERMPS     Z29, b, b; \
	VMULPS.BCST s, a, a; \
	VMULPS.BCST s, b, b
#define LOAD2(u) PAIR(16*u(R8), Z24, Z25, 4*u(R9))
#define LOAD4(u) LOAD2(u); PAIR(2*TILE+16*u(R8), Z26, Z27, 64+4*u(R9))
#define FETCH2 LINES1(0, (R12))
#define FETCH4 FETCH2; LINES1(2*TILE, (R12))
#define NEXT ADDQ $64, R8; ADDQ $64, R12; ADDQ $16, R9

// func pageValuesQ4AVX512(t pageTile)
TEXT ·pageValuesQ4AVX512(SB), NOSPLIT, $128-72
#include "pages_avx512_values_amd64.h"
