//go:build amd64 && !noasm

// Operations on rows with AVX-512. A row is n contiguous float32, n a multiple of 16 and at least 16; quantize reads 32
// values for each block.
//
//	x  [16 values][16 values] ...    value i is in lane i mod 16, which is also its lane of a row sum

#include "textflag.h"
#include "pairwise_avx512_amd64.h"

#define LOAD_EXP \
	VBROADCASTSS ·expTable+0(SB), Z16; \
	VBROADCASTSS ·expTable+4(SB), Z17; \
	VBROADCASTSS ·expTable+8(SB), Z18; \
	VBROADCASTSS ·expTable+12(SB), Z19; \
	VBROADCASTSS ·expTable+16(SB), Z20; \
	VBROADCASTSS ·expTable+20(SB), Z21; \
	VBROADCASTSS ·expTable+24(SB), Z22; \
	VBROADCASTSS ·expTable+28(SB), Z23; \
	VBROADCASTSS ·expTable+32(SB), Z24; \
	VBROADCASTSS ·expTable+36(SB), Z25; \
	VBROADCASTSS ·expTable+40(SB), Z26; \
	VBROADCASTSS ·expTable+44(SB), Z27

// EXP replaces x by exp(x). n, p and t are scratch.
#define EXP(x, n, p, t) \
	VCMPPS      $13, Z16, x, K1; \
	VMINPS      Z17, x, x; \
	VMULPS      Z18, x, n; \
	VRNDSCALEPS $0, n, n; \
	VFMADD231PS n, Z19, x; \
	VFMADD231PS n, Z20, x; \
	VMOVAPS     Z21, p; \
	VFMADD213PS Z22, x, p; \
	VFMADD213PS Z23, x, p; \
	VFMADD213PS Z24, x, p; \
	VFMADD213PS Z25, x, p; \
	VFMADD213PS Z26, x, p; \
	VMULPS      x, x, t; \
	VFMADD213PS x, t, p; \
	VADDPS      Z27, p, p; \
	VCVTPS2DQ   n, n; \
	VPSLLD      $23, n, n; \
	VPADDD.Z    n, p, K1, x

// func quantizeRowAVX512(q *int8, sums *spanSums, x *float32, blocks, span int)
//
// A span of zeros has 127/0 = Inf as its factor; 0·Inf converts to the integer with only the top bit, whose low byte is 0.
// For each block the frame has the sums of four values each: [block][8] int32.
TEXT ·quantizeRowAVX512(SB), NOSPLIT, $256-40
	MOVQ         q+0(FP), DI
	MOVQ         sums+8(FP), R8
	MOVQ         x+16(FP), SI
	MOVQ         blocks+24(FP), CX
	MOVL         $0x7fffffff, AX
	VPBROADCASTD AX, Z17
	MOVL         $0x42fe0000, AX // 127
	VMOVD        AX, X16
	MOVL         $0x01010101, AX
	VPBROADCASTD AX, Z14
	MOVL         $0x00010001, AX
	VPBROADCASTD AX, Z15

quantizeSpan:
	MOVQ    span+32(FP), DX
	CMPQ    CX, DX
	CMOVQLT CX, DX
	MOVQ    SI, BX
	MOVQ    DX, R9
	VPXORQ  Z2, Z2, Z2
	VPXORQ  Z3, Z3, Z3
	VMOVDQU64 Z2, sums4-256(SP)
	VMOVDQU64 Z2, sums4-192(SP)
	VMOVDQU64 Z2, sums4-128(SP)
	VMOVDQU64 Z2, sums4-64(SP)

greatestBlock:
	VPANDD       (BX), Z17, Z0
	VPANDD       64(BX), Z17, Z1
	VMAXPS       Z0, Z2, Z2
	VMAXPS       Z1, Z3, Z3
	ADDQ         $128, BX
	DECQ         R9
	JNZ          greatestBlock
	VMAXPS       Z3, Z2, Z2
	PAIRWISE(MAX, Z2, Y2, X2, Y3, X3)
	VDIVSS       X16, X2, X3
	VMOVSS       X3, 144(R8)
	VDIVSS       X2, X16, X4
	VBROADCASTSS X4, Z4
	LEAQ         sums4-256(SP), BX
	MOVQ         DX, R9

quantizeBlock:
	VMULPS       (SI), Z4, Z0
	VMULPS       64(SI), Z4, Z1
	VCVTPS2DQ    Z0, Z0
	VCVTPS2DQ    Z1, Z1
	VPMOVDB      Z0, X0
	VPMOVDB      Z1, X1
	VINSERTI128  $1, X1, Y0, Y0
	VMOVDQU      Y0, (DI)
	VPMADDUBSW   Y0, Y14, Y0
	VPMADDWD     Y15, Y0, Y0
	VMOVDQU      Y0, (BX)
	ADDQ         $128, SI
	ADDQ         $32, DI
	ADDQ         $32, BX
	DECQ         R9
	JNZ          quantizeBlock

	// Of four blocks each: [first halves | last halves].
	VMOVDQU      sums4-256(SP), Y0
	VPHADDD      sums4-224(SP), Y0, Y0
	VMOVDQU      sums4-192(SP), Y1
	VPHADDD      sums4-160(SP), Y1, Y1
	VPHADDD      Y1, Y0, Y0
	VMOVDQU      sums4-128(SP), Y1
	VPHADDD      sums4-96(SP), Y1, Y1
	VMOVDQU      sums4-64(SP), Y2
	VPHADDD      sums4-32(SP), Y2, Y2
	VPHADDD      Y2, Y1, Y1
	VEXTRACTI128 $1, Y0, X2
	VEXTRACTI128 $1, Y1, X3
	VPUNPCKLDQ   X2, X0, X4
	VPUNPCKHDQ   X2, X0, X5
	VPUNPCKLDQ   X3, X1, X6
	VPUNPCKHDQ   X3, X1, X7
	VPADDD       X2, X0, X0
	VPADDD       X3, X1, X1
	VPACKSSDW    X5, X4, X2
	VPACKSSDW    X7, X6, X3
	VMOVDQU      X2, 96(R8)
	VMOVDQU      X3, 112(R8)
	VPACKSSDW    X1, X0, X2
	VMOVDQU      X2, 128(R8)
	VPXOR        X2, X2, X2
	VPSUBD       X4, X2, X4
	VPSUBD       X5, X2, X5
	VPSUBD       X6, X2, X6
	VPSUBD       X7, X2, X7
	VPSUBD       X0, X2, X0
	VPSUBD       X1, X2, X1
	VMOVDQU      X4, (R8)
	VMOVDQU      X5, 16(R8)
	VMOVDQU      X6, 32(R8)
	VMOVDQU      X7, 48(R8)
	VMOVDQU      X0, 64(R8)
	VMOVDQU      X1, 80(R8)
	ADDQ         $160, R8
	SUBQ         DX, CX
	JNZ          quantizeSpan
	VZEROUPPER
	RET

// func sumSquaresRowAVX512(acc *[16]float32, x *float32, n int, mean float32)
TEXT ·sumSquaresRowAVX512(SB), NOSPLIT, $0-28
	MOVQ         acc+0(FP), DI
	MOVQ         x+8(FP), SI
	MOVQ         n+16(FP), CX
	VBROADCASTSS mean+24(FP), Z2
	VPXORQ       Z0, Z0, Z0

squares:
	VMOVUPS     (SI), Z1
	VSUBPS      Z2, Z1, Z1
	VFMADD231PS Z1, Z1, Z0
	ADDQ        $64, SI
	SUBQ        $16, CX
	JNZ         squares
	VMOVUPS     Z0, (DI)
	VZEROUPPER
	RET

// func scaleGainRowAVX512(dst, x, gain *float32, n int, mean, scale float32)
TEXT ·scaleGainRowAVX512(SB), NOSPLIT, $0-40
	MOVQ         dst+0(FP), DI
	MOVQ         x+8(FP), SI
	MOVQ         gain+16(FP), BX
	MOVQ         n+24(FP), CX
	VBROADCASTSS mean+32(FP), Z1
	VBROADCASTSS scale+36(FP), Z2

gains:
	VMOVUPS (SI), Z0
	VSUBPS  Z1, Z0, Z0
	VMULPS  Z2, Z0, Z0
	VMULPS  (BX), Z0, Z0
	VMOVUPS Z0, (DI)
	ADDQ    $64, SI
	ADDQ    $64, BX
	ADDQ    $64, DI
	SUBQ    $16, CX
	JNZ     gains
	VZEROUPPER
	RET

// func softcapRowAVX512(s *float32, n int, limit float32)
TEXT ·softcapRowAVX512(SB), NOSPLIT, $0-20
	MOVQ         s+0(FP), SI
	MOVQ         n+8(FP), CX
	VBROADCASTSS limit+16(FP), Z5
	MOVL         $0x80000000, AX
	VPBROADCASTD AX, Z28
	MOVL         $0x40000000, AX // 2
	VPBROADCASTD AX, Z6
	VPXORQ       Z7, Z7, Z7
	LOAD_EXP

capped:
	VMOVUPS (SI), Z0
	VDIVPS  Z5, Z0, Z0
	VCMPPS  $1, Z7, Z0, K2 // negative
	VPANDND Z0, Z28, Z0
	VADDPS  Z0, Z0, Z1
	EXP(Z1, Z2, Z3, Z4)
	VADDPS  Z27, Z1, Z1
	VDIVPS  Z1, Z6, Z1
	VSUBPS  Z1, Z27, Z1
	VPXORD  Z28, Z1, K2, Z1
	VMULPS  Z5, Z1, Z1
	VMOVUPS Z1, (SI)
	ADDQ    $64, SI
	SUBQ    $16, CX
	JNZ     capped
	VZEROUPPER
	RET

// func siluRowAVX512(dst, gate, up *float32, n int)
TEXT ·siluRowAVX512(SB), NOSPLIT, $0-32
	MOVQ         dst+0(FP), DI
	MOVQ         gate+8(FP), SI
	MOVQ         up+16(FP), BX
	MOVQ         n+24(FP), CX
	MOVL         $0x80000000, AX
	VPBROADCASTD AX, Z28
	LOAD_EXP

gates:
	VMOVUPS (SI), Z0
	VPXORD  Z28, Z0, Z1
	EXP(Z1, Z2, Z3, Z4)
	VADDPS  Z27, Z1, Z1
	VDIVPS  Z1, Z0, Z0
	VMULPS  (BX), Z0, Z0
	VMOVUPS Z0, (DI)
	ADDQ    $64, SI
	ADDQ    $64, BX
	ADDQ    $64, DI
	SUBQ    $16, CX
	JNZ     gates
	VZEROUPPER
	RET

// func addScaledRowAVX512(dst, x *float32, n int, scale float32)
TEXT ·addScaledRowAVX512(SB), NOSPLIT, $0-28
	MOVQ         dst+0(FP), DI
	MOVQ         x+8(FP), SI
	MOVQ         n+16(FP), CX
	VBROADCASTSS scale+24(FP), Z1

added:
	VMOVUPS     (DI), Z0
	VFMADD231PS (SI), Z1, Z0
	VMOVUPS     Z0, (DI)
	ADDQ        $64, SI
	ADDQ        $64, DI
	SUBQ        $16, CX
	JNZ         added
	VZEROUPPER
	RET

// func decayAddPanelAVX512(w, x *float32, n int, v *float32, decay float32)
//
//	w  [row 0: 16 lanes][row 1: 16 lanes] ...   n rows; row i becomes row·decay + x[i]·v
TEXT ·decayAddPanelAVX512(SB), NOSPLIT, $0-36
	MOVQ         w+0(FP), DI
	MOVQ         x+8(FP), SI
	MOVQ         n+16(FP), CX
	MOVQ         v+24(FP), BX
	VMOVUPS      (BX), Z1
	VBROADCASTSS decay+32(FP), Z2

decayed:
	VMULPS       (DI), Z2, Z0
	VBROADCASTSS (SI), Z3
	VFMADD231PS  Z1, Z3, Z0
	VMOVUPS      Z0, (DI)
	ADDQ         $4, SI
	ADDQ         $64, DI
	DECQ         CX
	JNZ          decayed
	VZEROUPPER
	RET

// func rotateRowAVX512(lo, hi, cos, sin *float32, n int)
TEXT ·rotateRowAVX512(SB), NOSPLIT, $0-40
	MOVQ lo+0(FP), DI
	MOVQ hi+8(FP), SI
	MOVQ cos+16(FP), BX
	MOVQ sin+24(FP), DX
	MOVQ n+32(FP), CX

pairs:
	VMOVUPS     (DI), Z0
	VMOVUPS     (SI), Z1
	VMOVUPS     (BX), Z2
	VMOVUPS     (DX), Z3
	VMULPS      Z3, Z1, Z4
	VMULPS      Z3, Z0, Z5
	VFMSUB231PS Z2, Z0, Z4
	VFMADD231PS Z2, Z1, Z5
	VMOVUPS     Z4, (DI)
	VMOVUPS     Z5, (SI)
	ADDQ        $64, DI
	ADDQ        $64, SI
	ADDQ        $64, BX
	ADDQ        $64, DX
	SUBQ        $16, CX
	JNZ         pairs
	VZEROUPPER
	RET

// func turnPairsRowAVX512(x, cos, sin *float32, n int)
//
//	x  [a0 b0 a1 b1 ...]   cosines and sines of its pairs become [c0 c0 c1 c1 ...]
TEXT ·turnPairsRowAVX512(SB), NOSPLIT, $0-32
	MOVQ x+0(FP), DI
	MOVQ cos+8(FP), BX
	MOVQ sin+16(FP), DX
	MOVQ n+24(FP), CX

sideBySide:
	VMOVUPS        (DI), Z0
	VPMOVZXDQ      (BX), Z2
	VPMOVZXDQ      (DX), Z3
	VMOVSLDUP      Z2, Z2
	VMOVSLDUP      Z3, Z3
	VPERMILPS      $0xb1, Z0, Z1 // [b0 a0 b1 a1 ...]
	VMULPS         Z3, Z1, Z1
	VFMADDSUB213PS Z1, Z2, Z0
	VMOVUPS        Z0, (DI)
	ADDQ           $64, DI
	ADDQ           $32, BX
	ADDQ           $32, DX
	SUBQ           $16, CX
	JNZ            sideBySide
	VZEROUPPER
	RET
