//go:build amd64 && !noasm

// Tiles of float weights with AVX-512. The layout and the loops are in tiles_avx512_amd64.h; here are the three ways to
// widen the 16 weights of one k:
//
//	F32   64 bytes   [f32 × 16]   as they are
//	F16   32 bytes   [f16 × 16]   converted
//	BF16  32 bytes   [bf16 × 16]  the upper halves of float32

#include "textflag.h"
#include "tiles_avx512_amd64.h"

#define STEP 64
#define WIDEN(w, z) VMOVUPS w, z

// func tileF32AVX512(t floatTile)
TEXT ·tileF32AVX512(SB), NOSPLIT, $0-88
#include "tiles_avx512_body_amd64.h"

#undef STEP
#undef WIDEN
#define STEP 32
#define WIDEN(w, z) VCVTPH2PS w, z

// func tileF16AVX512(t floatTile)
TEXT ·tileF16AVX512(SB), NOSPLIT, $0-88
#include "tiles_avx512_body_amd64.h"

#undef WIDEN
#define WIDEN(w, z) VPMOVZXWD w, z; VPSLLD $16, z, z

// func tileBF16AVX512(t floatTile)
TEXT ·tileBF16AVX512(SB), NOSPLIT, $0-88
#include "tiles_avx512_body_amd64.h"
