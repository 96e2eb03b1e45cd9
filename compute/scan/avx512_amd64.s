//go:build amd64 && !noasm

// The passes with AVX-512. A block is four registers:
//
//	x  [16 values][16 values][16 values][16 values]    value i is in lane i mod 16
//
// SI is at the block of x; the number of blocks is at least one.

#include "textflag.h"

// JOIN replaces lane 0 of z by all its lanes, joined pairwise by op. y and x are its lower parts; t is scratch.
#define JOIN(op, z, y, x, ty, tx) \
	VEXTRACTF64X4 $1, z, ty; \
	op            ty, y, y; \
	VEXTRACTF128  $1, y, tx; \
	op            tx, x, x; \
	VPERMILPD     $1, x, tx; \
	op            tx, x, x; \
	VMOVSHDUP     x, tx; \
	op            tx, x, x

// func peaksAVX512(peaks, x []float32) bool
//
// K1 to K4 keep the lanes of each of the four registers in which all numbers so far were at most MaxFloat32, in Z31.
TEXT ·peaksAVX512(SB), NOSPLIT, $0-49
	MOVQ         peaks_base+0(FP), DI
	MOVQ         peaks_len+8(FP), CX
	MOVQ         x_base+24(FP), SI
	MOVL         $0x7f7fffff, AX
	VPBROADCASTD AX, Z31
	VPXORD       Z30, Z30, Z30
	KXNORW       K1, K1, K1
	KXNORW       K2, K2, K2
	KXNORW       K3, K3, K3
	KXNORW       K4, K4, K4

block:
	VMOVUPS (SI), Z0
	VMOVUPS 64(SI), Z1
	VMOVUPS 128(SI), Z2
	VMOVUPS 192(SI), Z3
	VCMPPS  $2, Z31, Z0, K1, K1
	VCMPPS  $2, Z31, Z1, K2, K2
	VCMPPS  $2, Z31, Z2, K3, K3
	VCMPPS  $2, Z31, Z3, K4, K4
	VMAXPS  Z1, Z0, Z0
	VMAXPS  Z2, Z0, Z0
	VMAXPS  Z3, Z0, Z0
	JOIN(VMAXPS, Z0, Y0, X0, Y1, X1)
	VADDSS  X30, X0, X0
	VMOVSS  X0, (DI)
	ADDQ    $256, SI
	ADDQ    $4, DI
	DECQ    CX
	JNZ     block
	KANDW   K1, K2, K1
	KANDW   K3, K4, K3
	KANDW   K1, K3, K1
	KMOVW   K1, AX
	CMPL    AX, $0xffff
	SETEQ   ret+48(FP)
	VZEROUPPER
	RET

// func keepAVX512(at []int32, kept, x []float32, least float32) int
//
// DX counts the values kept. Z30 has the indices of the register in hand. A register's worth is written for each, of which what
// follows the kept ones is written over later: it lies before the next register of x, which may be the same memory.
#define KEEP(off, K) \
	VMOVUPS       off(SI), Z0; \
	VCOMPRESSPS.Z Z0, K, Z0; \
	VPCOMPRESSD.Z Z30, K, Z1; \
	VMOVUPS       Z0, (BX)(DX*4); \
	VMOVDQU32     Z1, (DI)(DX*4); \
	VPADDD        Z29, Z30, Z30; \
	KMOVW         K, AX; \
	POPCNTL       AX, AX; \
	ADDQ          AX, DX

TEXT ·keepAVX512(SB), NOSPLIT, $0-88
	MOVQ         at_base+0(FP), DI
	MOVQ         kept_base+24(FP), BX
	MOVQ         x_base+48(FP), SI
	MOVQ         x_len+56(FP), CX
	VBROADCASTSS least+72(FP), Z31
	VMOVDQU32    lanes512<>(SB), Z30
	MOVL         $16, AX
	VPBROADCASTD AX, Z29
	MOVL         $64, AX
	VPBROADCASTD AX, Z28
	XORQ         DX, DX

block:
	VCMPPS   $2, (SI), Z31, K1
	VCMPPS   $2, 64(SI), Z31, K2
	VCMPPS   $2, 128(SI), Z31, K3
	VCMPPS   $2, 192(SI), Z31, K4
	KORW     K1, K2, K5
	KORW     K3, K4, K6
	KORTESTW K5, K6
	JZ       none
	KEEP(0, K1)
	KEEP(64, K2)
	KEEP(128, K3)
	KEEP(192, K4)
	ADDQ     $256, SI
	SUBQ     $64, CX
	JNZ      block
	JMP      done

none:
	VPADDD Z28, Z30, Z30
	ADDQ   $256, SI
	SUBQ   $64, CX
	JNZ    block

done:
	MOVQ DX, ret+80(FP)
	VZEROUPPER
	RET

DATA lanes512<>+0(SB)/8, $0x0000000100000000
DATA lanes512<>+8(SB)/8, $0x0000000300000002
DATA lanes512<>+16(SB)/8, $0x0000000500000004
DATA lanes512<>+24(SB)/8, $0x0000000700000006
DATA lanes512<>+32(SB)/8, $0x0000000900000008
DATA lanes512<>+40(SB)/8, $0x0000000b0000000a
DATA lanes512<>+48(SB)/8, $0x0000000d0000000c
DATA lanes512<>+56(SB)/8, $0x0000000f0000000e
GLOBL lanes512<>(SB), RODATA|NOPTR, $64

// POWER writes the weights of a register at off to w and leaves them in p: power, in portable Go, has the steps. d, s and r are
// scratch.
#define POWER(off, d, s, r, p) \
	VMOVUPS     off(SI), d; \
	VSUBPS      Z28, d, d; \
	VMOVAPS     Z20, s; \
	VFMADD231PS Z29, d, s; \
	VSUBPS      s, Z20, r; \
	VCMPPS      $13, Z31, s, K1; \
	VFMADD231PS Z29, d, r; \
	VPSLLD      $23, s, s; \
	VFMADD231PS Z30, d, r; \
	VMOVAPS     Z21, p; \
	VFMADD213PS Z22, r, p; \
	VFMADD213PS Z23, r, p; \
	VFMADD213PS Z24, r, p; \
	VFMADD213PS Z25, r, p; \
	VFMADD213PS Z26, r, p; \
	VFMADD213PS Z27, r, p; \
	VPADDD.Z    s, p, K1, p; \
	VMOVUPS     p, off(DI)

// func weighAVX512(w, sums, x []float32, most, hi, lo float32)
TEXT ·weighAVX512(SB), NOSPLIT, $0-84
	MOVQ         w_base+0(FP), DI
	MOVQ         sums_base+24(FP), BX
	MOVQ         sums_len+32(FP), CX
	MOVQ         x_base+48(FP), SI
	VBROADCASTSS most+72(FP), Z28
	VBROADCASTSS hi+76(FP), Z29
	VBROADCASTSS lo+80(FP), Z30
	VBROADCASTSS ·constants+0(SB), Z20
	VBROADCASTSS ·constants+4(SB), Z31
	VBROADCASTSS ·constants+8(SB), Z21
	VBROADCASTSS ·constants+12(SB), Z22
	VBROADCASTSS ·constants+16(SB), Z23
	VBROADCASTSS ·constants+20(SB), Z24
	VBROADCASTSS ·constants+24(SB), Z25
	VBROADCASTSS ·constants+28(SB), Z26
	VBROADCASTSS ·constants+32(SB), Z27

block:
	POWER(0, Z0, Z1, Z2, Z3)
	POWER(64, Z0, Z1, Z2, Z4)
	POWER(128, Z0, Z1, Z2, Z5)
	POWER(192, Z0, Z1, Z2, Z6)
	VADDPS Z4, Z3, Z3
	VADDPS Z5, Z3, Z3
	VADDPS Z6, Z3, Z3
	JOIN(VADDPS, Z3, Y3, X3, Y4, X4)
	VMOVSS X3, (BX)
	ADDQ   $256, SI
	ADDQ   $256, DI
	ADDQ   $4, BX
	DECQ   CX
	JNZ    block
	VZEROUPPER
	RET
