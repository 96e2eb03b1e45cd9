// Products of many rows with one span of a panel, unpacked to spanWeights, with AVX2: dst[i] = fma(sum, d·D, dst[i]) and, for
// types with an m, then fma(-least, d·M, dst[i]).
//
//	q    rows of int8 or, of wide levels, of int16 (WIDE_ROW bytes apart), ldq bytes apart
//	sums rows of spanSums, lds bytes apart; at what byte of them the sums of pairs of groups begin
//	shares where the T of the span's blocks begin in the first row's sums
//	dst  rows of 16 float32, ldd bytes apart
//
// Registers of bytes: three rows of 16 outputs. Y0-Y5 sums in 16 bits, Y6-Y11 sums, Y12-Y13 levels, Y14-Y15 scratch. SI rows of q
// and CX walking them, R9 sums, R14 shares and then sums of pairs, DI dst; R13 weights, BX walking levels, R12 S·1 and R15 S·T of
// a block; R10 rows left, R11 blocks or pairs left.
//
// Registers of words: six rows of 8 outputs. Y0-Y11 sums: of a row, those of outputs 0, 1, 4, 5 and of 2, 3, 6, 7 in pairs;
// Y12-Y13 weights, Y14-Y15 scratch; R14 and R12 are R9 and DI of row 3, DX says which half of the outputs it is.

#define WIDE_ROW 576

// ROWS hands F each row: its number, values, sums of pairs, d, and place in dst, o bytes on, and its registers.
#define ROWS1(F, o) F(0, o(CX), (R14), spanSums_d(R9), (DI), Y0, Y1, Y6, Y7)
#define ROWS2(F, o) ROWS1(F, o); F(1, o(CX)(DX*1), (R14)(R8*1), spanSums_d(R9)(R8*1), (DI)(AX*1), Y2, Y3, Y8, Y9)
#define ROWS3(F, o) ROWS2(F, o); F(2, o(CX)(DX*2), (R14)(R8*2), spanSums_d(R9)(R8*2), (DI)(AX*2), Y4, Y5, Y10, Y11)

#define ZERO_HIGH(i, q, s, d, to, n0, n1, sum0, sum1) VPXOR sum0, sum0, sum0; VPXOR sum1, sum1, sum1
#define ZERO_LOW(i, q, s, d, to, n0, n1, sum0, sum1) VPXOR n0, n0, n0; VPXOR n1, n1, n1
#define FIRST(i, q, s, d, to, n0, n1, sum0, sum1) VPBROADCASTD q, Y14; VPMADDUBSW Y14, Y12, n0; VPMADDUBSW Y14, Y13, n1
#define ADD(i, q, s, d, to, n0, n1, sum0, sum1) \
	VPBROADCASTD q, Y14; \
	VPMADDUBSW   Y14, Y12, Y15; \
	VPMADDUBSW   Y14, Y13, Y14; \
	VPADDW       Y15, n0, n0; \
	VPADDW       Y14, n1, n1
// JOIN takes what half h of the block came to times S·T, which the row's T finds.
#define JOIN(TIMES, h, share, n0, n1, sum0, sum1) \
	MOVL   share, R15; \
	SHLQ   $6, R15; \
	ADDQ   R12, R15; \
	TIMES  512*h-64(R15), n0, n0; \
	TIMES  512*h-32(R15), n1, n1; \
	VPADDD n0, sum0, sum0; \
	VPADDD n1, sum1, sum1
#define JOIN0(i, q, s, d, to, n0, n1, sum0, sum1) JOIN(VPMADDWD, 0, s, n0, n1, sum0, sum1)
#define JOIN1(i, q, s, d, to, n0, n1, sum0, sum1) JOIN(VPMADDWD, 1, s, n0, n1, sum0, sum1)
#define PAIR(i, q, s, d, to, n0, n1, sum0, sum1) \
	VPBROADCASTD s, Y14; \
	VPMADDWD     Y14, Y12, Y15; \
	VPMADDWD     Y14, Y13, Y14; \
	VPADDD       Y15, n0, n0; \
	VPADDD       Y14, n1, n1
#define LESS_OFFSET(i, q, s, d, to, n0, n1, sum0, sum1) VPSUBD n0, sum0, sum0; VPSUBD n1, sum1, sum1
#define SUM8(d, to, o, sum) \
	VCVTDQ2PS   sum, sum; \
	VMULPS      o(R13), d, Y15; \
	VMOVUPS     o to, Y12; \
	VFMADD231PS Y15, sum, Y12; \
	VMOVUPS     Y12, o to
#define SUM(i, q, s, d, to, n0, n1, sum0, sum1) VBROADCASTSS d, Y14; SUM8(Y14, to, 0, sum0); SUM8(Y14, to, 32, sum1)
#define LEAST8(d, to, o, n) \
	VCVTDQ2PS    n, n; \
	VMULPS       spanWeights_m+o(R13), d, Y15; \
	VMOVUPS      o to, Y12; \
	VFNMADD231PS Y15, n, Y12; \
	VMOVUPS      Y12, o to
#define LEAST(i, q, s, d, to, n0, n1, sum0, sum1) VBROADCASTSS d, Y14; LEAST8(Y14, to, 0, n0); LEAST8(Y14, to, 32, n1)

#define LEVELS(g) VMOVDQU 64*g(BX), Y12; VMOVDQU 64*g+32(BX), Y13
#define GROUP(g, ROWS, F) LEVELS(g); ROWS(F, 4*g)

// A block whose sums in 16 bits are of 32, of 16 or of 8 values.
#define BLOCK32(ROWS) \
	GROUP(0, ROWS, FIRST); \
	GROUP(1, ROWS, ADD); \
	GROUP(2, ROWS, ADD); \
	GROUP(3, ROWS, ADD); \
	GROUP(4, ROWS, ADD); \
	GROUP(5, ROWS, ADD); \
	GROUP(6, ROWS, ADD); \
	GROUP(7, ROWS, ADD); \
	ROWS(JOIN0, 0); \
	ADDQ $512, R12
#define BLOCK16(ROWS) \
	GROUP(0, ROWS, FIRST); \
	GROUP(1, ROWS, ADD); \
	GROUP(2, ROWS, ADD); \
	GROUP(3, ROWS, ADD); \
	ROWS(JOIN0, 0); \
	GROUP(4, ROWS, FIRST); \
	GROUP(5, ROWS, ADD); \
	GROUP(6, ROWS, ADD); \
	GROUP(7, ROWS, ADD); \
	ROWS(JOIN1, 0); \
	ADDQ $1024, R12
#define BLOCK8(ROWS) \
	GROUP(0, ROWS, FIRST); \
	GROUP(1, ROWS, ADD); \
	ROWS(JOIN0, 0); \
	GROUP(2, ROWS, FIRST); \
	GROUP(3, ROWS, ADD); \
	ROWS(JOIN0, 0); \
	GROUP(4, ROWS, FIRST); \
	GROUP(5, ROWS, ADD); \
	ROWS(JOIN1, 0); \
	GROUP(6, ROWS, FIRST); \
	GROUP(7, ROWS, ADD); \
	ROWS(JOIN1, 0); \
	ADDQ $1024, R12

// With AVX-VNNI, whose VPDPBUSD adds up four products in 32 bits: sums of 32 or of 16 values. The assembler knows it with an
// EVEX prefix only; here it takes Y12 and Y13 times Y14 to the row's n0 and n1.
#define DPBUSD_Y14(y, to) BYTE $0xc4; BYTE $0xc2; BYTE $(0x7d-8*y); BYTE $0x50; BYTE $(0xc6+8*(to))
#define DOT(i, q, s, d, to, n0, n1, sum0, sum1) VPBROADCASTD q, Y14; DPBUSD_Y14(12, 2*i); DPBUSD_Y14(13, 2*i+1)
#define FIRST_DOT(i, q, s, d, to, n0, n1, sum0, sum1) \
	VPXOR n0, n0, n0; \
	VPXOR n1, n1, n1; \
	DOT(i, q, s, d, to, n0, n1, sum0, sum1)
#define JOIN0_DOT(i, q, s, d, to, n0, n1, sum0, sum1) JOIN(VPMULLD, 0, s, n0, n1, sum0, sum1)
#define JOIN1_DOT(i, q, s, d, to, n0, n1, sum0, sum1) JOIN(VPMULLD, 1, s, n0, n1, sum0, sum1)
#define DOTS32(ROWS) \
	GROUP(0, ROWS, FIRST_DOT); \
	GROUP(1, ROWS, DOT); \
	GROUP(2, ROWS, DOT); \
	GROUP(3, ROWS, DOT); \
	GROUP(4, ROWS, DOT); \
	GROUP(5, ROWS, DOT); \
	GROUP(6, ROWS, DOT); \
	GROUP(7, ROWS, DOT); \
	ROWS(JOIN0_DOT, 0); \
	ADDQ $512, R12
#define DOTS16(ROWS) \
	GROUP(0, ROWS, FIRST_DOT); \
	GROUP(1, ROWS, DOT); \
	GROUP(2, ROWS, DOT); \
	GROUP(3, ROWS, DOT); \
	ROWS(JOIN0_DOT, 0); \
	GROUP(4, ROWS, FIRST_DOT); \
	GROUP(5, ROWS, DOT); \
	GROUP(6, ROWS, DOT); \
	GROUP(7, ROWS, DOT); \
	ROWS(JOIN1_DOT, 0); \
	ADDQ $1024, R12

#define TILE(block, pair, offset, BLOCK, ROWS) \
	ROWS(ZERO_HIGH, 0); \
block: \
	BLOCK(ROWS); \
	ADDQ $512, BX; \
	ADDQ $32, CX; \
	ADDQ $4, R14; \
	DECQ R11; \
	JNZ  block; \
	MOVQ at+88(FP), R14; \
	ADDQ R9, R14; \
	MOVQ pairs+80(FP), R11; \
	LEAQ spanWeights_pairs(R13), BX; \
	ROWS(ZERO_LOW, 0); \
pair: \
	LEVELS(0); \
	ROWS(PAIR, 0); \
	ADDQ $64, BX; \
	ADDQ $4, R14; \
	DECQ R11; \
	JNZ  pair; \
	CMPQ mins+96(FP), $0; \
	JEQ  offset; \
	ROWS(SUM, 0); \
	ROWS(LEAST, 0); \
	JMP  next; \
offset: \
	ROWS(LESS_OFFSET, 0); \
	ROWS(SUM, 0)

#define BYTES(BLOCK) \
	MOVQ dst+0(FP), DI; \
	MOVQ ldd+8(FP), AX; \
	MOVQ q+16(FP), SI; \
	MOVQ ldq+24(FP), DX; \
	MOVQ sums+32(FP), R9; \
	MOVQ lds+40(FP), R8; \
	MOVQ w+56(FP), R13; \
	MOVQ rows+64(FP), R10; \
	JMP  begin; \
next: \
	SUBQ $3, R10; \
	JLE  end; \
	LEAQ (DX)(DX*2), CX; \
	ADDQ CX, SI; \
	LEAQ (R8)(R8*2), CX; \
	ADDQ CX, R9; \
	ADDQ CX, shares+48(FP); \
	LEAQ (AX)(AX*2), CX; \
	ADDQ CX, DI; \
begin: \
	MOVQ SI, CX; \
	LEAQ spanWeights_levels(R13), BX; \
	LEAQ spanWeights_shares(R13), R12; \
	MOVQ shares+48(FP), R14; \
	MOVQ blocks+72(FP), R11; \
	CMPQ R10, $2; \
	JEQ  two; \
	JLT  one; \
	TILE(block3, pair3, offset3, BLOCK, ROWS3); \
	JMP  next; \
two: \
	TILE(block2, pair2, offset2, BLOCK, ROWS2); \
	JMP  next; \
one: \
	TILE(block1, pair1, offset1, BLOCK, ROWS1); \
	JMP  next; \
end: \
	VZEROUPPER; \
	RET

// WORDS hands F each row: its values, o bytes on, d, its place in dst, and its registers.
#define WORDS1(F, o) F(o(CX), spanSums_d(R9), (DI), Y0, Y1)
#define WORDS2(F, o) WORDS1(F, o); F(WIDE_ROW+o(CX), spanSums_d(R9)(R8*1), (DI)(AX*1), Y2, Y3)
#define WORDS3(F, o) WORDS2(F, o); F(2*WIDE_ROW+o(CX), spanSums_d(R9)(R8*2), (DI)(AX*2), Y4, Y5)
#define WORDS4(F, o) WORDS3(F, o); F(3*WIDE_ROW+o(CX), spanSums_d(R14), (R12), Y6, Y7)
#define WORDS5(F, o) WORDS4(F, o); F(4*WIDE_ROW+o(CX), spanSums_d(R9)(R8*4), (DI)(AX*4), Y8, Y9)
#define WORDS6(F, o) WORDS5(F, o); F(5*WIDE_ROW+o(CX), spanSums_d(R14)(R8*2), (R12)(AX*2), Y10, Y11)

#define ZERO_WORDS(q, d, to, a, b) VPXOR a, a, a; VPXOR b, b, b
#define ADD_WORDS(q, d, to, a, b) \
	VPBROADCASTQ q, Y14; \
	VPMADDWD     Y14, Y12, Y15; \
	VPMADDWD     Y14, Y13, Y14; \
	VPADDD       Y15, a, a; \
	VPADDD       Y14, b, b
#define SUM_WORDS(q, d, to, a, b) \
	VPHADDD      b, a, a; \
	VBROADCASTSS d, Y14; \
	VCVTDQ2PS    a, a; \
	VMULPS       Y12, Y14, Y14; \
	VMOVUPS      to, Y15; \
	VFMADD231PS  Y14, a, Y15; \
	VMOVUPS      Y15, to
#define WORD_GROUP(g, WORDS) VMOVDQU 128*g(BX), Y12; VMOVDQU 128*g+32(BX), Y13; WORDS(ADD_WORDS, 8*g)

#define WORD_TILE(half, block, WORDS) \
half: \
	WORDS(ZERO_WORDS, 0); \
	MOVQ SI, CX; \
	MOVQ blocks+48(FP), R11; \
block: \
	WORD_GROUP(0, WORDS); \
	WORD_GROUP(1, WORDS); \
	WORD_GROUP(2, WORDS); \
	WORD_GROUP(3, WORDS); \
	WORD_GROUP(4, WORDS); \
	WORD_GROUP(5, WORDS); \
	WORD_GROUP(6, WORDS); \
	WORD_GROUP(7, WORDS); \
	ADDQ $1024, BX; \
	ADDQ $64, CX; \
	DECQ R11; \
	JNZ  block; \
	VMOVUPS (R13), Y12; \
	WORDS(SUM_WORDS, 0); \
	ADDQ $32, DI; \
	ADDQ $32, R12; \
	ADDQ $32, R13; \
	MOVQ w+32(FP), BX; \
	ADDQ $(spanWeights_levels+64), BX; \
	XORQ $1, DX; \
	JNZ  half

// SHARES makes S·T of S, for the halves of a span's blocks.
#define TIMES(T, ADD) ADD Y0, Y2, Y2; ADD Y1, Y3, Y3; VMOVDQU Y2, 64*T-64(R8); VMOVDQU Y3, 64*T-32(R8)
#define AS_INTS VPSRAD $16, Y0, Y0; VPSRAD $16, Y1, Y1
#define SHARES(half, AS, ADD) \
	MOVQ w+0(FP), R13; \
	MOVQ halves+8(FP), R11; \
	LEAQ spanWeights_s(R13), R9; \
	LEAQ spanWeights_shares(R13), R8; \
half: \
	VMOVDQU (R9), Y0; \
	VMOVDQU 32(R9), Y1; \
	AS; \
	VPXOR Y2, Y2, Y2; \
	VPXOR Y3, Y3, Y3; \
	TIMES(1, ADD); \
	TIMES(2, ADD); \
	TIMES(3, ADD); \
	TIMES(4, ADD); \
	TIMES(5, ADD); \
	TIMES(6, ADD); \
	TIMES(7, ADD); \
	TIMES(8, ADD); \
	ADDQ $64, R9; \
	ADDQ $512, R8; \
	DECQ R11; \
	JNZ  half; \
	VZEROUPPER; \
	RET
