//go:build amd64 && !noasm

// The softmax of attention with AVX2, in powers of two. A row of scores is n bytes of float32, a whole number of groups of 16.
//
//	s     row 0 [16 scores][16 scores] ...   ld bytes on: row 1 ...
//	most, total, a, b   a value for each row

#include "textflag.h"
#include "pairwise_avx2_amd64.h"

#define LOAD_EXP2 \
	VBROADCASTSS ·exp2Table+0(SB), Y8; \
	VBROADCASTSS ·exp2Table+4(SB), Y9; \
	VBROADCASTSS ·exp2Table+8(SB), Y10; \
	VBROADCASTSS ·exp2Table+12(SB), Y11; \
	VBROADCASTSS ·exp2Table+16(SB), Y12; \
	VBROADCASTSS ·exp2Table+20(SB), Y13; \
	VBROADCASTSS ·exp2Table+24(SB), Y14; \
	VBROADCASTSS ·exp2Table+28(SB), Y15

// EXP2 replaces x by 2 to the x. n, p and keep are scratch.
#define EXP2(x, n, p, keep) \
	VCMPPS      $13, Y8, x, keep; \
	VROUNDPS    $0, x, n; \
	VSUBPS      n, x, x; \
	VCVTPS2DQ   n, n; \
	VPSLLD      $23, n, n; \
	VMOVAPS     Y9, p; \
	VFMADD213PS Y10, x, p; \
	VFMADD213PS Y11, x, p; \
	VFMADD213PS Y12, x, p; \
	VFMADD213PS Y13, x, p; \
	VFMADD213PS Y14, x, p; \
	VFMADD213PS Y15, x, p; \
	VPADDD      n, p, p; \
	VPAND       keep, p, x

// func weighRowsAVX2(most, total, s *float32, ld, n, rows int)
TEXT ·weighRowsAVX2(SB), NOSPLIT, $0-48
	MOVQ most+0(FP), DI
	MOVQ total+8(FP), BX
	MOVQ s+16(FP), SI
	MOVQ ld+24(FP), R8
	MOVQ n+32(FP), DX
	MOVQ rows+40(FP), R9
	LOAD_EXP2
	ADDQ DX, SI // the end of the row
	NEGQ DX

row:
	MOVQ    DX, CX
	VBROADCASTSS ·exp2Table+32(SB), Y0 // lowest
	VMOVAPS Y0, Y1

greatest:
	VMAXPS (SI)(CX*1), Y0, Y0
	VMAXPS 32(SI)(CX*1), Y1, Y1
	ADDQ   $64, CX
	JNZ    greatest
	PAIRWISE(MAX, Y0, X0, Y1, X1)
	VXORPS X1, X1, X1
	VADDSS X1, X0, X0 // 0 rather than -0
	VMOVSS X0, (DI)
	VBROADCASTSS X0, Y0
	VXORPS Y6, Y6, Y6
	VXORPS Y7, Y7, Y7
	MOVQ   DX, CX

weights:
	VMOVUPS (SI)(CX*1), Y1
	VSUBPS  Y0, Y1, Y1
	EXP2(Y1, Y2, Y3, Y4)
	VMOVUPS Y1, (SI)(CX*1)
	VADDPS  Y1, Y6, Y6
	VMOVUPS 32(SI)(CX*1), Y1
	VSUBPS  Y0, Y1, Y1
	EXP2(Y1, Y2, Y3, Y4)
	VMOVUPS Y1, 32(SI)(CX*1)
	VADDPS  Y1, Y7, Y7
	ADDQ    $64, CX
	JNZ     weights
	PAIRWISE(ADD, Y6, X6, Y7, X7)
	VMOVSS  X6, (BX)
	ADDQ    $4, DI
	ADDQ    $4, BX
	ADDQ    R8, SI
	DECQ    R9
	JNZ     row
	VZEROUPPER
	RET

// func sharesRowAVX2(a, b, most, total, later, laterTotal *float32, n int)
TEXT ·sharesRowAVX2(SB), NOSPLIT, $0-56
	MOVQ a+0(FP), DI
	MOVQ b+8(FP), SI
	MOVQ most+16(FP), R8
	MOVQ total+24(FP), R9
	MOVQ later+32(FP), R10
	MOVQ laterTotal+40(FP), R11
	MOVQ n+48(FP), CX
	XORQ BX, BX
	LOAD_EXP2

shared:
	VMOVUPS (R8)(BX*4), Y0
	VMOVUPS (R10)(BX*4), Y4
	VMAXPS  Y4, Y0, Y5
	VMOVUPS Y5, (R8)(BX*4)
	VSUBPS  Y5, Y0, Y0
	VSUBPS  Y5, Y4, Y4
	EXP2(Y0, Y1, Y2, Y3)
	EXP2(Y4, Y1, Y2, Y3)
	VMOVUPS Y0, (DI)(BX*4)
	VMOVUPS Y4, (SI)(BX*4)
	VMULPS  (R9)(BX*4), Y0, Y0
	VMULPS  (R11)(BX*4), Y4, Y4
	VADDPS  Y4, Y0, Y0
	VMOVUPS Y0, (R9)(BX*4)
	ADDQ    $8, BX
	CMPQ    BX, CX
	JLT     shared
	VZEROUPPER
	RET

// func blendRowsAVX2(dst, x *float32, width int, a, b, total *float32, rows int)
TEXT ·blendRowsAVX2(SB), NOSPLIT, $0-56
	MOVQ dst+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ width+16(FP), DX
	MOVQ a+24(FP), R8
	MOVQ b+32(FP), R9
	MOVQ total+40(FP), R10
	MOVQ rows+48(FP), CX
	XORQ BX, BX
	ADDQ DX, DI // the ends of the rows
	ADDQ DX, SI

blendRow:
	MOVL  (R10)(BX*4), AX
	TESTL AX, AX
	JZ    blendNext
	VBROADCASTSS (R8)(BX*4), Y1
	VBROADCASTSS (R9)(BX*4), Y2
	MOVQ DX, AX
	NEGQ AX

blended:
	VMULPS      (DI)(AX*1), Y1, Y3
	VFMADD231PS (SI)(AX*1), Y2, Y3
	VMOVUPS     Y3, (DI)(AX*1)
	ADDQ        $32, AX
	JNZ         blended

blendNext:
	ADDQ DX, DI
	ADDQ DX, SI
	INCQ BX
	CMPQ BX, CX
	JLT  blendRow
	VZEROUPPER
	RET

// func scaleRowAVX2(dst, x *float32, n int, factor float32)
TEXT ·scaleRowAVX2(SB), NOSPLIT, $0-28
	MOVQ         dst+0(FP), DI
	MOVQ         x+8(FP), SI
	MOVQ         n+16(FP), CX
	VBROADCASTSS factor+24(FP), Y1

scaled:
	VMULPS  (SI), Y1, Y0
	VMOVUPS Y0, (DI)
	ADDQ    $32, SI
	ADDQ    $32, DI
	SUBQ    $8, CX
	JNZ     scaled
	VZEROUPPER
	RET
