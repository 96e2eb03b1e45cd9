//go:build amd64 && !noasm

// Operations on rows with AVX-512. A row is n contiguous float32, n a multiple of 16 and at least 16; quantize reads 32
// values for each block.
//
//	x  [16 values][16 values] ...    value i is in lane i mod 16, which is also its lane of a row sum

#include "textflag.h"
#include "go_asm.h"

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

// Where in a greatest of four values of a block, one of each is, of eight blocks.
DATA firstOfFour<>+0(SB)/8, $0x0000000400000000
DATA firstOfFour<>+8(SB)/8, $0x0000000c00000008
DATA firstOfFour<>+16(SB)/8, $0x0000001400000010
DATA firstOfFour<>+24(SB)/8, $0x0000001c00000018
GLOBL firstOfFour<>(SB), RODATA|NOPTR, $32

// func quantizeRowAVX512(q *int8, sums *SpanSums, x *float32, blocks, span int)
//
// Where all is zero 1016/0 is Inf, which becomes 0. For each block the frame first has the greatest of four lanes, [block][4]
// float32, and the factor of its values, then the sums of four values each: [block][8] int32.
TEXT ·quantizeRowAVX512(SB), NOSPLIT, $288-40
	MOVQ         q+0(FP), DI
	MOVQ         sums+8(FP), R8
	MOVQ         x+16(FP), SI
	MOVQ         blocks+24(FP), CX
	MOVL         $0x7fffffff, AX
	VPBROADCASTD AX, Z17
	MOVL         $0x447e0000, AX // 1016
	VMOVD        AX, X16
	MOVL         $0x7f800000, AX // Inf
	VPBROADCASTD AX, Y18
	MOVL         $0x3c010204, AX // 1/127
	VPBROADCASTD AX, Y19
	MOVL         $1, AX
	VPBROADCASTD AX, Y20
	MOVL         $const_greatestShare, AX
	VPBROADCASTD AX, Y21
	VMOVDQU32    firstOfFour<>(SB), Y22
	MOVL         $0x01010101, AX
	VPBROADCASTD AX, Z14
	MOVL         $0x00010001, AX
	VPBROADCASTD AX, Z15

quantizeSpan:
	MOVQ      span+32(FP), DX
	CMPQ      CX, DX
	CMOVQLT   CX, DX
	MOVQ      SI, BX
	MOVQ      DX, R9
	LEAQ      sums4-256(SP), R10
	VPXORQ    Z2, Z2, Z2
	VMOVDQU64 Z2, sums4-256(SP)
	VMOVDQU64 Z2, sums4-192(SP)

greatestBlock:
	VPANDD        (BX), Z17, Z0
	VPANDD        64(BX), Z17, Z1
	VMAXPS        Z1, Z0, Z0
	VEXTRACTF64X4 $1, Z0, Y1
	VMAXPS        Y1, Y0, Y0
	VEXTRACTF128  $1, Y0, X1
	VMAXPS        X1, X0, X0
	VMOVUPS       X0, (R10)
	ADDQ          $128, BX
	ADDQ          $16, R10
	DECQ          R9
	JNZ           greatestBlock
	VMOVUPS       sums4-256(SP), Z0
	VMOVUPS       sums4-192(SP), Z1
	VPERMILPS     $0xb1, Z0, Z2
	VPERMILPS     $0xb1, Z1, Z3
	VMAXPS        Z2, Z0, Z0
	VMAXPS        Z3, Z1, Z1
	VPERMILPS     $0x4e, Z0, Z2
	VPERMILPS     $0x4e, Z1, Z3
	VMAXPS        Z2, Z0, Z0
	VMAXPS        Z3, Z1, Z1
	VMOVDQA64     Z22, Z5
	VPERMI2PS     Z1, Z0, Z5 // of each block
	VEXTRACTF128  $1, Y5, X2
	VMAXPS        X2, X5, X2
	VPERMILPS     $0x4e, X2, X3
	VMAXPS        X3, X2, X2
	VPERMILPS     $0xb1, X2, X3
	VMAXPS        X3, X2, X2
	VDIVSS        X16, X2, X3
	VMOVSS        X3, SpanSums_D(R8)
	VDIVSS        X2, X16, X4
	VBROADCASTSS  X4, Y4
	VPCMPEQD      Y18, Y4, K1
	VPXORD        Y4, Y4, K1, Y4
	VMULPS        Y4, Y5, Y5
	VMULPS        Y19, Y5, Y5
	VCVTTPS2DQ    Y5, Y5
	VPADDD        Y20, Y5, Y5
	VPMAXSD       Y20, Y5, Y5
	VPMINSD       Y21, Y5, Y5 // the shares
	VCVTDQ2PS     Y5, Y6
	VDIVPS        Y6, Y4, Y4
	VMOVUPS       Y4, factors-288(SP)
	MOVQ          $-1, AX
	BZHIQ         DX, AX, AX
	KMOVB         AX, K1
	VMOVDQA32.Z   Y5, K1, Y5
	VMOVDQU       Y5, SpanSums_Shares(R8)
	VPXORQ        Z2, Z2, Z2
	VMOVDQU64     Z2, sums4-256(SP)
	VMOVDQU64     Z2, sums4-192(SP)
	VMOVDQU64     Z2, sums4-128(SP)
	VMOVDQU64     Z2, sums4-64(SP)
	LEAQ          sums4-256(SP), BX
	LEAQ          factors-288(SP), R10
	MOVQ          DX, R9

quantizeBlock:
	VBROADCASTSS (R10), Z4
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
	ADDQ         $4, R10
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
	VPERM2I128   $0x20, Y1, Y0, Y2
	VPERM2I128   $0x31, Y1, Y0, Y3
	VPADDD       Y3, Y2, Y0   // of each block
	VPMOVZXDQ    Y2, Z2
	VPMOVZXDQ    Y3, Z3
	VPSLLQ       $32, Z3, Z3
	VPORQ        Z3, Z2, Z2   // of each half
	VPXORQ       Z1, Z1, Z1
	VPSUBD       Y0, Y1, Y3
	VPSUBD       Z2, Z1, Z4
	VMOVDQU      Y3, SpanSums_minus32(R8)
	VMOVDQU64    Z4, SpanSums_minus16(R8)
	VPMULLD      Y5, Y0, Y0
	VPMOVDW      Y0, SpanSums_sums32(R8)
	VPMOVZXDQ    Y5, Z5
	VPSLLQ       $32, Z5, Z3
	VPORQ        Z3, Z5, Z5
	VPMULLD      Z5, Z2, Z2
	VPMOVDW      Z2, SpanSums_sums16(R8)
	ADDQ         $SpanSums__size, R8
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

// func rotateInterleavedRowAVX512(x, cos, sin *float32, n int)
//
//	x  [a0 b0 a1 b1 ...]   cosines and sines of its pairs become [c0 c0 c1 c1 ...]
TEXT ·rotateInterleavedRowAVX512(SB), NOSPLIT, $0-32
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
