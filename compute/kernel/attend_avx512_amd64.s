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

// GREATEST, WEIGHTS and their ends work on a row whose end is p: m is its greatest score, t its sum of weights.
#define GREATEST(p, m) VMAXPS (p)(CX*1), m, m
#define END_GREATEST(at, z, y, x) \
	PAIRWISE(MAX, z, y, x, Y15, X15); \
	VADDSS       X25, x, x; \
	VMOVSS       x, at(DI); \
	VBROADCASTSS x, z
#define WEIGHTS(p, m, t, x, n, q) \
	VMOVUPS (p)(CX*1), x; \
	VSUBPS  m, x, x; \
	EXP2(x, n, q); \
	VMOVUPS x, (p)(CX*1); \
	VADDPS  x, t, t
#define END_WEIGHTS(at, z, y, x) \
	PAIRWISE(ADD, z, y, x, Y15, X15); \
	VMOVSS x, at(BX)

// func weighRowsAVX512(most, total, s *float32, ld, n, rows int)
//
// Four rows at a time keep the chains of one from waiting for each other.
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
	SUBQ $4, R9
	JLT  rest

rows4:
	LEAQ    (SI)(R8*1), R10
	LEAQ    (SI)(R8*2), R11
	LEAQ    (R10)(R8*2), R12
	MOVQ    DX, CX
	VMOVAPS Z24, Z0
	VMOVAPS Z24, Z1
	VMOVAPS Z24, Z2
	VMOVAPS Z24, Z3

greatest4:
	GREATEST(SI, Z0)
	GREATEST(R10, Z1)
	GREATEST(R11, Z2)
	GREATEST(R12, Z3)
	ADDQ $64, CX
	JNZ  greatest4
	END_GREATEST(0, Z0, Y0, X0)
	END_GREATEST(4, Z1, Y1, X1)
	END_GREATEST(8, Z2, Y2, X2)
	END_GREATEST(12, Z3, Y3, X3)
	VPXORQ Z4, Z4, Z4
	VPXORQ Z5, Z5, Z5
	VPXORQ Z6, Z6, Z6
	VPXORQ Z7, Z7, Z7
	MOVQ   DX, CX

weights4:
	WEIGHTS(SI, Z0, Z4, Z8, Z9, Z10)
	WEIGHTS(R10, Z1, Z5, Z11, Z12, Z13)
	WEIGHTS(R11, Z2, Z6, Z14, Z15, Z26)
	WEIGHTS(R12, Z3, Z7, Z27, Z28, Z29)
	ADDQ $64, CX
	JNZ  weights4
	END_WEIGHTS(0, Z4, Y4, X4)
	END_WEIGHTS(4, Z5, Y5, X5)
	END_WEIGHTS(8, Z6, Y6, X6)
	END_WEIGHTS(12, Z7, Y7, X7)
	ADDQ $16, DI
	ADDQ $16, BX
	LEAQ (SI)(R8*4), SI
	SUBQ $4, R9
	JGE  rows4

rest:
	ADDQ $4, R9
	JZ   end

row:
	MOVQ    DX, CX
	VMOVAPS Z24, Z0

greatest:
	GREATEST(SI, Z0)
	ADDQ $64, CX
	JNZ  greatest
	END_GREATEST(0, Z0, Y0, X0)
	VPXORQ Z4, Z4, Z4
	MOVQ   DX, CX

weights:
	WEIGHTS(SI, Z0, Z4, Z8, Z9, Z10)
	ADDQ $64, CX
	JNZ  weights
	END_WEIGHTS(0, Z4, Y4, X4)
	ADDQ $4, DI
	ADDQ $4, BX
	ADDQ R8, SI
	DECQ R9
	JNZ  row

end:
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
