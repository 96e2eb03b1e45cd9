//go:build amd64 && !noasm

// Products of many rows with a span of a panel, with AVX2. The layouts and the loops are in affine_span_avx2_amd64.h.

#include "go_asm.h"
#include "textflag.h"
#include "affine_span_avx2_amd64.h"

// func spanBytes32AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, shares *int32, w *spanWeights, rows, blocks, pairs, at, mins int)
TEXT ·spanBytes32AVX2(SB), NOSPLIT, $0-104
	BYTES(BLOCK32)

// func spanBytes16AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, shares *int32, w *spanWeights, rows, blocks, pairs, at, mins int)
TEXT ·spanBytes16AVX2(SB), NOSPLIT, $0-104
	BYTES(BLOCK16)

// func spanBytes8AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, shares *int32, w *spanWeights, rows, blocks, pairs, at, mins int)
TEXT ·spanBytes8AVX2(SB), NOSPLIT, $0-104
	BYTES(BLOCK8)

// func spanDots32AVXVNNI(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, shares *int32, w *spanWeights, rows, blocks, pairs, at, mins int)
TEXT ·spanDots32AVXVNNI(SB), NOSPLIT, $0-104
	BYTES(DOTS32)

// func spanDots16AVXVNNI(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, shares *int32, w *spanWeights, rows, blocks, pairs, at, mins int)
TEXT ·spanDots16AVXVNNI(SB), NOSPLIT, $0-104
	BYTES(DOTS16)

// func spanWordsAVX2(dst *float32, ldd int, q *int16, sums *spanSums, w *spanWeights, rows, blocks, lds int)
TEXT ·spanWordsAVX2(SB), NOSPLIT, $0-64
	MOVQ dst+0(FP), DI
	MOVQ ldd+8(FP), AX
	MOVQ q+16(FP), SI
	MOVQ sums+24(FP), R9
	MOVQ rows+40(FP), R10
	MOVQ lds+56(FP), R8

begin:
	MOVQ w+32(FP), R13
	LEAQ spanWeights_levels(R13), BX
	LEAQ (R8)(R8*2), R14
	ADDQ R9, R14
	LEAQ (AX)(AX*2), R12
	ADDQ DI, R12
	XORQ DX, DX
	CMPQ R10, $3
	JLT  below3
	JEQ  three
	CMPQ R10, $5
	JLT  four
	JEQ  five
	WORD_TILE(half6, block6, WORDS6)
	SUBQ $6, R10
	JZ   end
	ADDQ $(6*WIDE_ROW), SI
	LEAQ (R8)(R8*2), R14
	LEAQ (R9)(R14*2), R9
	LEAQ (AX)(AX*2), R12
	LEAQ -64(DI)(R12*2), DI
	JMP  begin

five:
	WORD_TILE(half5, block5, WORDS5)
	JMP end

four:
	WORD_TILE(half4, block4, WORDS4)
	JMP end

three:
	WORD_TILE(half3, block3, WORDS3)
	JMP end

below3:
	CMPQ R10, $2
	JLT  one
	WORD_TILE(half2, block2, WORDS2)
	JMP end

one:
	WORD_TILE(half1, block1, WORDS1)

end:
	VZEROUPPER
	RET

// func widenRowAVX2(to *int16, q *int8, shares *int32, blocks int)
TEXT ·widenRowAVX2(SB), NOSPLIT, $0-32
	MOVQ to+0(FP), DI
	MOVQ q+8(FP), SI
	MOVQ shares+16(FP), R9
	MOVQ blocks+24(FP), CX

widen:
	VPBROADCASTW (R9), Y2
	VPMOVSXBW    (SI), Y0
	VPMOVSXBW    16(SI), Y1
	VPMULLW      Y2, Y0, Y0
	VPMULLW      Y2, Y1, Y1
	VMOVDQU      Y0, (DI)
	VMOVDQU      Y1, 32(DI)
	ADDQ         $4, R9
	ADDQ         $32, SI
	ADDQ         $64, DI
	DECQ         CX
	JNZ          widen
	VZEROUPPER
	RET

// func shareWordsAVX2(w *spanWeights, halves int)
TEXT ·shareWordsAVX2(SB), NOSPLIT, $0-16
	SHARES(half, NOP, VPADDW)

// func shareIntsAVX2(w *spanWeights, halves int)
TEXT ·shareIntsAVX2(SB), NOSPLIT, $0-16
	SHARES(half, AS_INTS, VPADDD)
