//go:build amd64 && !noasm

// Widening of F8_E4M3 with AVX2 and AVX-512. A byte S EEEE MMM becomes the float16 S 0EEEE MMM0000000, 2⁻⁸ of its value.
//
//	w      k × [16 bytes]
//	scale  [16 float32], 2⁸ times the scales of the 16 outputs
//	dst    k × [16 float32]

#include "textflag.h"

// The bits of a sign-extended byte, shifted left by 7, that belong to the float16.
DATA kept<>+0(SB)/4, $0xbf80bf80
GLOBL kept<>(SB), RODATA|NOPTR, $4

// func widen8RowAVX2(dst *float32, w *byte, scale *float32, k int)
TEXT ·widen8RowAVX2(SB), NOSPLIT, $0-32
	MOVQ         dst+0(FP), DI
	MOVQ         w+8(FP), SI
	MOVQ         scale+16(FP), BX
	MOVQ         k+24(FP), CX
	VMOVUPS      (BX), Y4
	VMOVUPS      32(BX), Y5
	VPBROADCASTD kept<>(SB), Y6

loop:
	VPMOVSXBW    (SI), Y0
	VPSLLW       $7, Y0, Y0
	VPAND        Y6, Y0, Y0
	VEXTRACTI128 $1, Y0, X1
	VCVTPH2PS    X0, Y0
	VCVTPH2PS    X1, Y1
	VMULPS       Y4, Y0, Y0
	VMULPS       Y5, Y1, Y1
	VMOVUPS      Y0, (DI)
	VMOVUPS      Y1, 32(DI)
	ADDQ         $16, SI
	ADDQ         $64, DI
	DECQ         CX
	JNZ          loop
	VZEROUPPER
	RET

// func widen8RowAVX512(dst *float32, w *byte, scale *float32, k int)
TEXT ·widen8RowAVX512(SB), NOSPLIT, $0-32
	MOVQ         dst+0(FP), DI
	MOVQ         w+8(FP), SI
	MOVQ         scale+16(FP), BX
	MOVQ         k+24(FP), CX
	VMOVUPS      (BX), Z4
	VPBROADCASTD kept<>(SB), Y6

loop:
	VPMOVSXBW (SI), Y0
	VPSLLW    $7, Y0, Y0
	VPAND     Y6, Y0, Y0
	VCVTPH2PS Y0, Z0
	VMULPS    Z4, Z0, Z0
	VMOVUPS   Z0, (DI)
	ADDQ      $16, SI
	ADDQ      $64, DI
	DECQ      CX
	JNZ       loop
	VZEROUPPER
	RET
