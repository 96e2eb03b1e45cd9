//go:build amd64 && !noasm

// The passes with AVX2. A block is eight registers:
//
//	x  [8 values][8 values] ... [8 values]    value i is in lane i mod 8 of register i/8
//
// Even registers have the lower eight of the 16 lanes, odd ones the upper. SI is at the block of x; the number of blocks is at
// least one.

#include "textflag.h"

// JOIN replaces lane 0 of lo by all lanes of lo and hi, joined pairwise by op. x is the lower part of lo; t is scratch.
#define JOIN(op, hi, lo, x, t) \
	op           hi, lo, lo; \
	VEXTRACTF128 $1, lo, t; \
	op           t, x, x; \
	VPERMILPD    $1, x, t; \
	op           t, x, x; \
	VMOVSHDUP    x, t; \
	op           t, x, x

// GREATEST takes 16 values into the maxima Y0 and Y1, and into Y14 and Y15 whether all were at most MaxFloat32, in Y13.
#define GREATEST(off) \
	VMOVUPS off(SI), Y2; \
	VMOVUPS off+32(SI), Y3; \
	VMAXPS  Y2, Y0, Y0; \
	VMAXPS  Y3, Y1, Y1; \
	VCMPPS  $2, Y13, Y2, Y2; \
	VCMPPS  $2, Y13, Y3, Y3; \
	VANDPS  Y2, Y14, Y14; \
	VANDPS  Y3, Y15, Y15

// func peaksAVX2(peaks, x []float32) bool
TEXT ·peaksAVX2(SB), NOSPLIT, $0-49
	MOVQ         peaks_base+0(FP), DI
	MOVQ         peaks_len+8(FP), CX
	MOVQ         x_base+24(FP), SI
	MOVL         $0x7f7fffff, AX
	VMOVD        AX, X13
	VPBROADCASTD X13, Y13
	VPCMPEQD     Y14, Y14, Y14
	VPCMPEQD     Y15, Y15, Y15
	VPSLLD       $23, Y15, Y12 // -Inf
	VPXOR        X4, X4, X4

block:
	VMOVAPS Y12, Y0
	VMOVAPS Y12, Y1
	GREATEST(0)
	GREATEST(64)
	GREATEST(128)
	GREATEST(192)
	JOIN(VMAXPS, Y1, Y0, X0, X1)
	VADDSS  X4, X0, X0
	VMOVSS  X0, (DI)
	ADDQ    $256, SI
	ADDQ    $4, DI
	DECQ    CX
	JNZ     block
	VANDPS    Y15, Y14, Y14
	VMOVMSKPS Y14, AX
	CMPL      AX, $0xff
	SETEQ     ret+48(FP)
	VZEROUPPER
	RET

// func keepAVX2(at []int32, kept, x []float32, least float32) int
//
// DX counts the values kept. Y13 has the index of the first value of the register in hand, in all lanes. A register's worth is
// written for each, of which what follows the kept ones is written over later: it lies before the next register of x, which may
// be the same memory.
#define KEEP(off, mask) \
	VMOVMSKPS mask, AX; \
	VPMOVZXBD (R8)(AX*8), Y8; \
	VPERMPS   off(SI), Y8, Y9; \
	VPADDD    Y13, Y8, Y8; \
	VMOVUPS   Y9, (BX)(DX*4); \
	VMOVDQU   Y8, (DI)(DX*4); \
	VPADDD    Y12, Y13, Y13; \
	POPCNTL   AX, AX; \
	ADDQ      AX, DX

TEXT ·keepAVX2(SB), NOSPLIT, $0-88
	MOVQ         at_base+0(FP), DI
	MOVQ         kept_base+24(FP), BX
	MOVQ         x_base+48(FP), SI
	MOVQ         x_len+56(FP), CX
	LEAQ         ·pack(SB), R8
	VBROADCASTSS least+72(FP), Y15
	VPXOR        Y13, Y13, Y13
	MOVL         $8, AX
	VMOVD        AX, X12
	VPBROADCASTD X12, Y12
	VPSLLD       $3, Y12, Y14
	XORQ         DX, DX

block:
	VCMPPS  $2, (SI), Y15, Y0
	VCMPPS  $2, 32(SI), Y15, Y1
	VCMPPS  $2, 64(SI), Y15, Y2
	VCMPPS  $2, 96(SI), Y15, Y3
	VCMPPS  $2, 128(SI), Y15, Y4
	VCMPPS  $2, 160(SI), Y15, Y5
	VCMPPS  $2, 192(SI), Y15, Y6
	VCMPPS  $2, 224(SI), Y15, Y7
	VORPS   Y0, Y1, Y8
	VORPS   Y2, Y3, Y9
	VORPS   Y4, Y5, Y10
	VORPS   Y6, Y7, Y11
	VORPS   Y8, Y9, Y8
	VORPS   Y10, Y11, Y10
	VORPS   Y8, Y10, Y8
	VPTEST  Y8, Y8
	JZ      none
	KEEP(0, Y0)
	KEEP(32, Y1)
	KEEP(64, Y2)
	KEEP(96, Y3)
	KEEP(128, Y4)
	KEEP(160, Y5)
	KEEP(192, Y6)
	KEEP(224, Y7)
	ADDQ    $256, SI
	SUBQ    $64, CX
	JNZ     block
	JMP     done

none:
	VPADDD Y14, Y13, Y13
	ADDQ   $256, SI
	SUBQ   $64, CX
	JNZ    block

done:
	MOVQ DX, ret+80(FP)
	VZEROUPPER
	RET

// POWER writes the weights of a register at off to w and leaves them in p: power, in portable Go, has the steps. d, s and r are
// scratch.
#define POWER(off, d, s, r, p) \
	VMOVUPS      off(SI), d; \
	VSUBPS       Y5, d, d; \
	VMOVAPS      Y4, s; \
	VFMADD231PS  Y6, d, s; \
	VSUBPS       s, Y4, r; \
	VFMADD231PS  Y6, d, r; \
	VFMADD231PS  Y7, d, r; \
	VCMPPS       $13, Y8, s, d; \
	VPSLLD       $23, s, s; \
	VMOVAPS      Y9, p; \
	VFMADD213PS  Y10, r, p; \
	VFMADD213PS  Y11, r, p; \
	VFMADD213PS  Y12, r, p; \
	VFMADD213PS  Y13, r, p; \
	VFMADD213PS  Y14, r, p; \
	VFMADD213PS  Y15, r, p; \
	VPADDD       s, p, p; \
	VANDPS       d, p, p; \
	VMOVUPS      p, off(DI)

// func weighAVX2(w, sums, x []float32, most, hi, lo float32)
//
// The sums are those of what was written.
TEXT ·weighAVX2(SB), NOSPLIT, $0-84
	MOVQ         w_base+0(FP), DI
	MOVQ         sums_base+24(FP), BX
	MOVQ         sums_len+32(FP), CX
	MOVQ         x_base+48(FP), SI
	VBROADCASTSS most+72(FP), Y5
	VBROADCASTSS hi+76(FP), Y6
	VBROADCASTSS lo+80(FP), Y7
	VBROADCASTSS ·constants+0(SB), Y4
	VBROADCASTSS ·constants+4(SB), Y8
	VBROADCASTSS ·constants+8(SB), Y9
	VBROADCASTSS ·constants+12(SB), Y10
	VBROADCASTSS ·constants+16(SB), Y11
	VBROADCASTSS ·constants+20(SB), Y12
	VBROADCASTSS ·constants+24(SB), Y13
	VBROADCASTSS ·constants+28(SB), Y14
	VBROADCASTSS ·constants+32(SB), Y15

block:
	POWER(0, Y0, Y1, Y2, Y3)
	POWER(32, Y0, Y1, Y2, Y3)
	POWER(64, Y0, Y1, Y2, Y3)
	POWER(96, Y0, Y1, Y2, Y3)
	POWER(128, Y0, Y1, Y2, Y3)
	POWER(160, Y0, Y1, Y2, Y3)
	POWER(192, Y0, Y1, Y2, Y3)
	POWER(224, Y0, Y1, Y2, Y3)
	VMOVUPS (DI), Y0
	VMOVUPS 32(DI), Y1
	VADDPS  64(DI), Y0, Y0
	VADDPS  96(DI), Y1, Y1
	VADDPS  128(DI), Y0, Y0
	VADDPS  160(DI), Y1, Y1
	VADDPS  192(DI), Y0, Y0
	VADDPS  224(DI), Y1, Y1
	JOIN(VADDPS, Y1, Y0, X0, X1)
	VMOVSS  X0, (BX)
	ADDQ    $256, SI
	ADDQ    $256, DI
	ADDQ    $4, BX
	DECQ    CX
	JNZ     block
	VZEROUPPER
	RET
