//go:build amd64 && !noasm

// Tiles of float weights with AVX2. The layout and the loops are in tiles_avx2_amd64.h; here are the three ways to widen
// 8 of the 16 weights of one k:
//
//	F32   64 bytes   [f32 × 16]   as they are
//	F16   32 bytes   [f16 × 16]   converted
//	BF16  32 bytes   [bf16 × 16]  the upper halves of float32

#include "textflag.h"
#include "tiles_avx2_amd64.h"

#define STEP 64
#define HALF 32
#define WIDEN(w, y) VMOVUPS w, y

// func tileF32AVX2(t floatTile)
TEXT ·tileF32AVX2(SB), NOSPLIT, $0-88
#include "tiles_avx2_body_amd64.h"

#undef STEP
#undef HALF
#undef WIDEN
#define STEP 32
#define HALF 16
#define WIDEN(w, y) VCVTPH2PS w, y

// func tileF16AVX2(t floatTile)
TEXT ·tileF16AVX2(SB), NOSPLIT, $0-88
#include "tiles_avx2_body_amd64.h"

#undef WIDEN
#define WIDEN(w, y) VPMOVZXWD w, y; VPSLLD $16, y, y

// func tileBF16AVX2(t floatTile)
TEXT ·tileBF16AVX2(SB), NOSPLIT, $0-88
#include "tiles_avx2_body_amd64.h"
