//go:build amd64 && !noasm

// Operations on rows with AVX2. A row is n contiguous float32, n a multiple of 16 and at least 16; quantize takes
// a span of 32 to 256, a multiple of 32.
//
//	x  [8 values][8 values] ...    value i is in lane i mod 16 of a row sum: a register for lanes 0-7, one for 8-15

#include "go_asm.h"
#include "textflag.h"
#include "pairwise_avx2_amd64.h"

// Where VPERMD finds the groups of 4 bytes that packing leaves interleaved.
DATA unpacked<>+0(SB)/8, $0x0000000400000000
DATA unpacked<>+8(SB)/8, $0x0000000500000001
DATA unpacked<>+16(SB)/8, $0x0000000600000002
DATA unpacked<>+24(SB)/8, $0x0000000700000003
GLOBL unpacked<>(SB), RODATA|NOPTR, $32

#define CONSTANT(o, y) VBROADCASTSS ·expTable+o(SB), y

// EXP replaces x by exp(x). n, p, c and keep are scratch.
#define EXP(x, n, p, c, keep) \
	CONSTANT(0, c); \
	VCMPPS      $13, c, x, keep; \
	CONSTANT(4, c); \
	VMINPS      c, x, x; \
	CONSTANT(8, c); \
	VMULPS      c, x, n; \
	VROUNDPS    $0, n, n; \
	CONSTANT(12, c); \
	VFMADD231PS n, c, x; \
	CONSTANT(16, c); \
	VFMADD231PS n, c, x; \
	CONSTANT(20, p); \
	CONSTANT(24, c); \
	VFMADD213PS c, x, p; \
	CONSTANT(28, c); \
	VFMADD213PS c, x, p; \
	CONSTANT(32, c); \
	VFMADD213PS c, x, p; \
	CONSTANT(36, c); \
	VFMADD213PS c, x, p; \
	CONSTANT(40, c); \
	VFMADD213PS c, x, p; \
	VMULPS      x, x, c; \
	VFMADD213PS x, c, p; \
	CONSTANT(44, c); \
	VADDPS      c, p, p; \
	VCVTPS2DQ   n, n; \
	VPSLLD      $23, n, n; \
	VPADDD      n, p, p; \
	VPAND       keep, p, x

// func quantizeSpanAVX2(q *int8, sums *SpanSums, x *float32, n int)
//
// R10 points to the groups' greatest magnitudes and then shares, R11 to what their values are multiplied with. VPSADBW adds up
// eight unsigned bytes: values with their top bit turned are 128 more than they are.
TEXT ·quantizeSpanAVX2(SB), NOSPLIT, $64-32
	MOVQ     q+0(FP), DI
	MOVQ     sums+8(FP), R8
	MOVQ     x+16(FP), SI
	MOVQ     n+24(FP), CX
	LEAQ     shares-64(SP), R10
	LEAQ     factors-32(SP), R11
	VPCMPEQD Y15, Y15, Y15
	VPSRLD   $1, Y15, Y14 // all but the sign
	VPXOR    Y12, Y12, Y12
	VMOVDQU  Y12, (R8)
	VMOVDQU  Y12, 32(R8)
	VMOVDQU  Y12, 64(R8)
	VMOVDQU  Y12, 96(R8)
	VMOVDQU  Y12, 128(R8)
	VMOVDQU  Y12, 160(R8)
	VMOVDQU  Y12, (R10)
	MOVQ     SI, BX
	SHRQ     $5, CX
	XORQ     DX, DX
	VMOVAPS  X12, X4

sizes:
	VANDPS       (BX), Y14, Y0
	VANDPS       32(BX), Y14, Y1
	VANDPS       64(BX), Y14, Y2
	VANDPS       96(BX), Y14, Y3
	VMAXPS       Y1, Y0, Y0
	VMAXPS       Y3, Y2, Y2
	PAIRWISE(MAX, Y0, X0, Y2, X2)
	VMAXPS       X0, X4, X4
	VMOVSS       X0, (R10)(DX*4)
	ADDQ         $128, BX
	INCQ         DX
	CMPQ         DX, CX
	JB           sizes
	MOVL         $0x447e0000, AX // 1016
	VMOVD        AX, X11
	VDIVSS       X11, X4, X5
	VMOVSS       X5, SpanSums_D(R8)
	VDIVSS       X4, X11, X4
	VMOVD        X4, AX
	CMPL         AX, $0x7f800000 // Inf: nothing in the span, or nothing that counts
	JNE          counts
	VPXOR        X4, X4, X4

counts:
	VBROADCASTSS X4, Y4
	VMULPS       (R10), Y4, Y0
	MOVL         $0x3c010204, AX // 1/127
	VMOVD        AX, X1
	VBROADCASTSS X1, Y1
	VMULPS       Y1, Y0, Y0
	VCVTTPS2DQ   Y0, Y0
	VPSUBD       Y15, Y0, Y0
	VPSRLD       $31, Y15, Y1
	VPMAXSD      Y1, Y0, Y0
	VPSLLD       $3, Y1, Y1
	VPMINSD      Y1, Y0, Y0
	VMOVDQU      Y0, (R10)
	VCVTDQ2PS    Y0, Y0
	VDIVPS       Y0, Y4, Y0
	VMOVUPS      Y0, (R11)
	VPSLLW       $15, Y15, Y13
	VPACKSSWB    Y13, Y13, Y13 // the top bit of bytes
	VMOVDQU      unpacked<>(SB), Y14
	XORQ         DX, DX

quantizeBlock:
	VBROADCASTSS (R11)(DX*4), Y4
	VMULPS       (SI), Y4, Y0
	VMULPS       32(SI), Y4, Y1
	VMULPS       64(SI), Y4, Y2
	VMULPS       96(SI), Y4, Y3
	VCVTPS2DQ    Y0, Y0
	VCVTPS2DQ    Y1, Y1
	VCVTPS2DQ    Y2, Y2
	VCVTPS2DQ    Y3, Y3
	VPACKSSDW    Y1, Y0, Y0
	VPACKSSDW    Y3, Y2, Y2
	VPACKSSWB    Y2, Y0, Y0
	VPERMD       Y0, Y14, Y0
	VMOVDQU      Y0, (DI)
	VPXOR        Y13, Y0, Y0
	VPSADBW      Y12, Y0, Y0
	VPSHUFD      $0x4e, Y0, Y1
	VPADDD       Y1, Y0, Y0
	VEXTRACTI128 $1, Y0, X1
	VMOVD        X0, AX
	VMOVD        X1, BX
	MOVL         $2048, R9
	MOVL         (R10)(DX*4), R12
	MOVL         R12, SpanSums_Shares(R8)(DX*4)
	SUBL         AX, R9
	MOVL         R9, SpanSums_minus16(R8)(DX*8)
	SUBL         $2048, AX
	SUBL         $2048, BX
	IMULL        R12, AX
	SUBL         BX, R9
	MOVL         R9, SpanSums_minus32(R8)(DX*4)
	MOVW         AX, SpanSums_sums16(R8)(DX*4)
	IMULL        BX, R12
	MOVW         R12, SpanSums_sums16+2(R8)(DX*4)
	NEGL         BX
	MOVL         BX, SpanSums_minus16+4(R8)(DX*8)
	ADDL         R12, AX
	MOVW         AX, SpanSums_sums32(R8)(DX*2)
	INCQ         DX
	ADDQ         $128, SI
	ADDQ         $32, DI
	CMPQ         DX, CX
	JB           quantizeBlock
	VZEROUPPER
	RET

// func sumSquaresRowAVX2(acc *[16]float32, x *float32, n int, mean float32)
TEXT ·sumSquaresRowAVX2(SB), NOSPLIT, $0-28
	MOVQ         acc+0(FP), DI
	MOVQ         x+8(FP), SI
	MOVQ         n+16(FP), CX
	VBROADCASTSS mean+24(FP), Y4
	VXORPS       Y0, Y0, Y0
	VXORPS       Y1, Y1, Y1

squares:
	VMOVUPS     (SI), Y2
	VMOVUPS     32(SI), Y3
	VSUBPS      Y4, Y2, Y2
	VSUBPS      Y4, Y3, Y3
	VFMADD231PS Y2, Y2, Y0
	VFMADD231PS Y3, Y3, Y1
	ADDQ        $64, SI
	SUBQ        $16, CX
	JNZ         squares
	VMOVUPS     Y0, (DI)
	VMOVUPS     Y1, 32(DI)
	VZEROUPPER
	RET

// func scaleGainRowAVX2(dst, x, gain *float32, n int, mean, scale float32)
TEXT ·scaleGainRowAVX2(SB), NOSPLIT, $0-40
	MOVQ         dst+0(FP), DI
	MOVQ         x+8(FP), SI
	MOVQ         gain+16(FP), BX
	MOVQ         n+24(FP), CX
	VBROADCASTSS mean+32(FP), Y1
	VBROADCASTSS scale+36(FP), Y2

gains:
	VMOVUPS (SI), Y0
	VSUBPS  Y1, Y0, Y0
	VMULPS  Y2, Y0, Y0
	VMULPS  (BX), Y0, Y0
	VMOVUPS Y0, (DI)
	ADDQ    $32, SI
	ADDQ    $32, BX
	ADDQ    $32, DI
	SUBQ    $8, CX
	JNZ     gains
	VZEROUPPER
	RET

// func softcapRowAVX2(s *float32, n int, limit float32)
TEXT ·softcapRowAVX2(SB), NOSPLIT, $0-20
	MOVQ         s+0(FP), SI
	MOVQ         n+8(FP), CX
	VBROADCASTSS limit+16(FP), Y14
	VPCMPEQD     Y15, Y15, Y15
	VPSLLD       $31, Y15, Y15 // the sign
	MOVL         $0x40000000, AX // 2
	VMOVD        AX, X13
	VPBROADCASTD X13, Y13
	VXORPS       Y7, Y7, Y7

capped:
	VMOVUPS (SI), Y0
	VDIVPS  Y14, Y0, Y0
	VCMPPS  $1, Y7, Y0, Y6 // negative
	VANDPS  Y15, Y6, Y6
	VANDNPS Y0, Y15, Y1
	VADDPS  Y1, Y1, Y1
	EXP(Y1, Y2, Y3, Y4, Y5)
	CONSTANT(44, Y4)
	VADDPS  Y4, Y1, Y1
	VDIVPS  Y1, Y13, Y1
	VSUBPS  Y1, Y4, Y1
	VXORPS  Y6, Y1, Y1
	VMULPS  Y14, Y1, Y1
	VMOVUPS Y1, (SI)
	ADDQ    $32, SI
	SUBQ    $8, CX
	JNZ     capped
	VZEROUPPER
	RET

// func siluRowAVX2(dst, gate, up *float32, n int)
TEXT ·siluRowAVX2(SB), NOSPLIT, $0-32
	MOVQ     dst+0(FP), DI
	MOVQ     gate+8(FP), SI
	MOVQ     up+16(FP), BX
	MOVQ     n+24(FP), CX
	VPCMPEQD Y15, Y15, Y15
	VPSLLD   $31, Y15, Y15 // the sign

gates:
	VMOVUPS (SI), Y0
	VXORPS  Y15, Y0, Y1
	EXP(Y1, Y2, Y3, Y4, Y5)
	CONSTANT(44, Y4)
	VADDPS  Y4, Y1, Y1
	VDIVPS  Y1, Y0, Y0
	VMULPS  (BX), Y0, Y0
	VMOVUPS Y0, (DI)
	ADDQ    $32, SI
	ADDQ    $32, BX
	ADDQ    $32, DI
	SUBQ    $8, CX
	JNZ     gates
	VZEROUPPER
	RET

// func addScaledRowAVX2(dst, x *float32, n int, scale float32)
TEXT ·addScaledRowAVX2(SB), NOSPLIT, $0-28
	MOVQ         dst+0(FP), DI
	MOVQ         x+8(FP), SI
	MOVQ         n+16(FP), CX
	VBROADCASTSS scale+24(FP), Y1

added:
	VMOVUPS     (DI), Y0
	VFMADD231PS (SI), Y1, Y0
	VMOVUPS     Y0, (DI)
	ADDQ        $32, SI
	ADDQ        $32, DI
	SUBQ        $8, CX
	JNZ         added
	VZEROUPPER
	RET

// func decayAddPanelAVX2(w, x *float32, n int, v *float32, decay float32)
//
//	w  [row 0: 16 lanes][row 1: 16 lanes] ...   n rows; row i becomes row·decay + x[i]·v
TEXT ·decayAddPanelAVX2(SB), NOSPLIT, $0-36
	MOVQ         w+0(FP), DI
	MOVQ         x+8(FP), SI
	MOVQ         n+16(FP), CX
	MOVQ         v+24(FP), BX
	VMOVUPS      (BX), Y4
	VMOVUPS      32(BX), Y5
	VBROADCASTSS decay+32(FP), Y2

decayed:
	VMULPS       (DI), Y2, Y0
	VMULPS       32(DI), Y2, Y1
	VBROADCASTSS (SI), Y3
	VFMADD231PS  Y4, Y3, Y0
	VFMADD231PS  Y5, Y3, Y1
	VMOVUPS      Y0, (DI)
	VMOVUPS      Y1, 32(DI)
	ADDQ         $4, SI
	ADDQ         $64, DI
	DECQ         CX
	JNZ          decayed
	VZEROUPPER
	RET

// func rotateRowAVX2(lo, hi, cos, sin *float32, n int)
TEXT ·rotateRowAVX2(SB), NOSPLIT, $0-40
	MOVQ lo+0(FP), DI
	MOVQ hi+8(FP), SI
	MOVQ cos+16(FP), BX
	MOVQ sin+24(FP), DX
	MOVQ n+32(FP), CX

pairs:
	VMOVUPS     (DI), Y0
	VMOVUPS     (SI), Y1
	VMOVUPS     (BX), Y2
	VMOVUPS     (DX), Y3
	VMULPS      Y3, Y1, Y4
	VMULPS      Y3, Y0, Y5
	VFMSUB231PS Y2, Y0, Y4
	VFMADD231PS Y2, Y1, Y5
	VMOVUPS     Y4, (DI)
	VMOVUPS     Y5, (SI)
	ADDQ        $32, DI
	ADDQ        $32, SI
	ADDQ        $32, BX
	ADDQ        $32, DX
	SUBQ        $8, CX
	JNZ         pairs
	VZEROUPPER
	RET

// func rotateInterleavedRowAVX2(x, cos, sin *float32, n int)
//
//	x  [a0 b0 a1 b1 ...]   cosines and sines of its pairs become [c0 c0 c1 c1 ...]
TEXT ·rotateInterleavedRowAVX2(SB), NOSPLIT, $0-32
	MOVQ x+0(FP), DI
	MOVQ cos+8(FP), BX
	MOVQ sin+16(FP), DX
	MOVQ n+24(FP), CX

sideBySide:
	VMOVUPS        (DI), Y0
	VPMOVZXDQ      (BX), Y2
	VPMOVZXDQ      (DX), Y3
	VMOVSLDUP      Y2, Y2
	VMOVSLDUP      Y3, Y3
	VPERMILPS      $0xb1, Y0, Y1 // [b0 a0 b1 a1 ...]
	VMULPS         Y3, Y1, Y1
	VFMADDSUB213PS Y1, Y2, Y0
	VMOVUPS        Y0, (DI)
	ADDQ           $32, DI
	ADDQ           $16, BX
	ADDQ           $16, DX
	SUBQ           $8, CX
	JNZ            sideBySide
	VZEROUPPER
	RET
