//go:build amd64 && !noasm

// The softmax of attention with AVX-512, in powers of two. A row of scores is n bytes of float32, a whole number of registers.
//
//	s     row 0 [16 scores][16 scores] ...   ld bytes on: row 1 ...
//	most, total, a, b   a value for each row

#include "textflag.h"
#include "pairwise_avx512_amd64.h"

#define LOAD_EXP2 \
	VBROADCASTSS ·exp2Table+0(SB), Z16; \
	VBROADCASTSS ·exp2Table+4(SB), Z17; \
	VBROADCASTSS ·exp2Table+8(SB), Z18; \
	VBROADCASTSS ·exp2Table+12(SB), Z19; \
	VBROADCASTSS ·exp2Table+16(SB), Z20; \
	VBROADCASTSS ·exp2Table+20(SB), Z21; \
	VBROADCASTSS ·exp2Table+24(SB), Z22; \
	VBROADCASTSS ·exp2Table+28(SB), Z23

// EXP2 replaces x by 2 to the x. n and p are scratch.
#define EXP2(x, n, p) \
	VCMPPS      $13, Z16, x, K1; \
	VRNDSCALEPS $0, x, n; \
	VSUBPS      n, x, x; \
	VMOVAPS     Z17, p; \
	VFMADD213PS Z18, x, p; \
	VFMADD213PS Z19, x, p; \
	VFMADD213PS Z20, x, p; \
	VFMADD213PS Z21, x, p; \
	VFMADD213PS Z22, x, p; \
	VFMADD213PS Z23, x, p; \
	VSCALEFPS.Z n, p, K1, x

// func weighRowsAVX512(most, total, s *float32, ld, n, rows int)
TEXT ·weighRowsAVX512(SB), NOSPLIT, $0-48
	MOVQ most+0(FP), DI
	MOVQ total+8(FP), BX
	MOVQ s+16(FP), SI
	MOVQ ld+24(FP), R8
	MOVQ n+32(FP), DX
	MOVQ rows+40(FP), R9
	LOAD_EXP2
	VBROADCASTSS ·exp2Table+32(SB), Z24 // lowest
	VPXORQ Z25, Z25, Z25
	ADDQ DX, SI // the end of the row
	NEGQ DX

row:
	MOVQ    DX, CX
	VMOVAPS Z24, Z0

greatest:
	VMAXPS (SI)(CX*1), Z0, Z0
	ADDQ   $64, CX
	JNZ    greatest
	PAIRWISE(MAX, Z0, Y0, X0, Y1, X1)
	VADDSS X25, X0, X0 // 0 rather than -0
	VMOVSS X0, (DI)
	VBROADCASTSS X0, Z0
	VPXORQ Z5, Z5, Z5
	MOVQ   DX, CX

weights:
	VMOVUPS (SI)(CX*1), Z1
	VSUBPS  Z0, Z1, Z1
	EXP2(Z1, Z2, Z3)
	VMOVUPS Z1, (SI)(CX*1)
	VADDPS  Z1, Z5, Z5
	ADDQ    $64, CX
	JNZ     weights
	PAIRWISE(ADD, Z5, Y5, X5, Y1, X1)
	VMOVSS  X5, (BX)
	ADDQ    $4, DI
	ADDQ    $4, BX
	ADDQ    R8, SI
	DECQ    R9
	JNZ     row
	VZEROUPPER
	RET

// func sharesRowAVX512(a, b, most, total, later, laterTotal *float32, n int)
TEXT ·sharesRowAVX512(SB), NOSPLIT, $0-56
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
	VMOVUPS (R8)(BX*4), Z0
	VMOVUPS (R10)(BX*4), Z4
	VMAXPS  Z4, Z0, Z5
	VMOVUPS Z5, (R8)(BX*4)
	VSUBPS  Z5, Z0, Z0
	VSUBPS  Z5, Z4, Z4
	EXP2(Z0, Z1, Z2)
	EXP2(Z4, Z1, Z2)
	VMOVUPS Z0, (DI)(BX*4)
	VMOVUPS Z4, (SI)(BX*4)
	VMULPS  (R9)(BX*4), Z0, Z0
	VMULPS  (R11)(BX*4), Z4, Z4
	VADDPS  Z4, Z0, Z0
	VMOVUPS Z0, (R9)(BX*4)
	ADDQ    $16, BX
	CMPQ    BX, CX
	JLT     shared
	VZEROUPPER
	RET

// func blendRowsAVX512(dst, x *float32, width int, a, b, total *float32, rows int)
TEXT ·blendRowsAVX512(SB), NOSPLIT, $0-56
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
	VBROADCASTSS (R8)(BX*4), Z1
	VBROADCASTSS (R9)(BX*4), Z2
	MOVQ DX, AX
	NEGQ AX

blended:
	VMULPS      (DI)(AX*1), Z1, Z3
	VFMADD231PS (SI)(AX*1), Z2, Z3
	VMOVUPS     Z3, (DI)(AX*1)
	ADDQ        $64, AX
	JNZ         blended

blendNext:
	ADDQ DX, DI
	ADDQ DX, SI
	INCQ BX
	CMPQ BX, CX
	JLT  blendRow
	VZEROUPPER
	RET

// func scaleRowAVX512(dst, x *float32, n int, factor float32)
TEXT ·scaleRowAVX512(SB), NOSPLIT, $0-28
	MOVQ         dst+0(FP), DI
	MOVQ         x+8(FP), SI
	MOVQ         n+16(FP), CX
	VBROADCASTSS factor+24(FP), Z1

scaled:
	VMULPS  (SI), Z1, Z0
	VMOVUPS Z0, (DI)
	ADDQ    $64, SI
	ADDQ    $64, DI
	SUBQ    $16, CX
	JNZ     scaled
	VZEROUPPER
	RET
