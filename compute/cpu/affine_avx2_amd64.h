// Tiles of affine types with AVX2, for one to four rows: the chain that matAffine defines goes on from dst[i][p].
//
//	q    rows of int8 from -127 to 127, ldq bytes apart, 32 for each block
//	sums rows of spanSums, lds bytes apart
//	w    panels, stride bytes apart: sections of 8 blocks, each its scales, then supers, then codes (affine.go)
//	dst  rows of float32, ldd bytes apart; the 16 outputs of panel p are at byte 64p of a row
//
// The including file defines for a type:
//
//	CODE_BYTES, SUPER_BYTES of a block of 32, and of a span of SPAN_MASK+1 blocks
//	SECTION_BYTES           of a whole section
//	STEP0, STEP1            how far scales go on after blocks at even and at odd places
//	SCALES_END              turns R13, the blocks of a section, into the bytes of their scales
//	MASK                    what Y8 is for A to D
//	A, B, C, D(v, o)        the levels of groups 4v to 4v+3 to Y13, for the 8 outputs o bytes on, and if they have 8 bits,
//	                        their distances from 128 to Y13 and its sizes to Y14; else Y14 passes on from A to B and from
//	                        C to D; may use Y15
//	FETCH(v, p)             fetches half v of the block at p
//	SCALES0, SCALES1(h, o)  S to Y13, twice as int16, of half h of a block at an even or an odd place, for the outputs from o
//	                        on; may use Y14
//	START(h)(...)           sets a row's low for half h of the block
//	DOT(q, low, high)       takes the levels to a row
//	MINS(h, o)              m to Y13, of a pair of groups
//	SUPERS(h, o)            D to Y13 and M to Y14
//	BLOCK                   how the sums of a block come about
//	LESS                    what is taken of a block's sums; MINS_END, what is of a span's
//
// VPMADDUBSW adds two products of an unsigned and a signed byte in 16 bits, and VPMADDWD takes two such sums times S. Eight
// steps with levels of 4 bits stay within 8·2·15·127 < 2¹⁵, four with 5 bits, two with 6, one with distances of 8. An offset
// begins each of the two sums with half of its product with the negated sum of the values, which stays within 2¹⁵ too; with levels of
// 6 bits it is taken like an m. The row's share T of a block is taken last, or multiplies S before.
//
// Loads are what there are most of, so values and masks are loaded once for all outputs.
//
// Registers: SI q of row 0, whose successors are DX, 2·DX and R15 on; R9, R14, R8 and AX the sums of the rows' spans, with up to two rows
// AX is the distance of rows in dst; BX codes; CX where scales begin and R12 those of the block; R13 supers; R10 the block in its
// section; R11 blocks left; DI dst. Y0-Y3 sums in 16 bits, or S·T for levels of 8, later sums with m; Y4-Y7 sums; Y8 MASK; Y9-Y12 values
// of the rows; Y13-Y15 scratch.

// ROWS hands F each row: its address in q, o bytes on, its sums, its registers for the values of two groups, low and high for outputs
// 0-7 and 8-15, and where its results go. Tiles of three and four rows take 8 outputs of a section, then the others; Y15 stands for
// what they lack.
#define ROWS1(F, o) F(o (SI), R9, Y9, Y11, Y0, Y1, Y4, Y5, (DI))
#define ROWS2(F, o) ROWS1(F, o); F(o (SI)(DX*1), R14, Y10, Y12, Y2, Y3, Y6, Y7, (DI)(AX*1))
#define ROWS3(F, o) \
	F(o (SI), R9, Y9, Y15, Y0, Y15, Y4, Y15, (CX)); \
	F(o (SI)(DX*1), R14, Y10, Y15, Y1, Y15, Y5, Y15, (CX)); \
	F(o (SI)(DX*2), R8, Y11, Y15, Y2, Y15, Y6, Y15, (CX))
#define ROWS4(F, o) ROWS3(F, o); F(o (SI)(R15*1), AX, Y12, Y15, Y3, Y15, Y7, Y15, (CX))

// QUAD_ALL, EACH_ALL and ENDS_ALL do their work for all outputs, the others for half of them. EACH hands F0 and F1 the rows after
// what GET gets.
#define EACH_ALL(GET, h, F0, F1, ROWS) GET(h, 0); ROWS(F0, 0); GET(h, 8); ROWS(F1, 0)
#define EACH_LEFT(GET, h, F0, F1, ROWS) GET(h, 0); ROWS(F0, 0)
#define EACH_RIGHT(GET, h, F0, F1, ROWS) GET(h, 8); ROWS(F0, 0)

#define ZERO_LOW(q, r, a, b, low0, low1, high0, high1, to) VPXOR low0, low0, low0; VPXOR low1, low1, low1
#define ZERO_HIGH(q, r, a, b, low0, low1, high0, high1, to) VPXOR high0, high0, high0; VPXOR high1, high1, high1
#define VALUES(q, r, a, b, low0, low1, high0, high1, to) VPBROADCASTD q, a; VPBROADCASTD 4+q, b
#define TAKE(q, r, a, b, low0, low1, high0, high1, to) VPBROADCASTD q, a; DOT(a, low0, high0)
#define TAKE_A0(q, r, a, b, low0, low1, high0, high1, to) DOT(a, low0, high0)
#define TAKE_A1(q, r, a, b, low0, low1, high0, high1, to) DOT(a, low1, high1)
#define TAKE_B0(q, r, a, b, low0, low1, high0, high1, to) DOT(b, low0, high0)
#define TAKE_B1(q, r, a, b, low0, low1, high0, high1, to) DOT(b, low1, high1)

// What low begins with: 0, S times T, or the part of an offset of 4 << shift or of 2 << shift.
#define SHARE(q, r, a, b, low0, low1, high0, high1, to) VPBROADCASTW spanSums_shares(r)(R10*4), a
#define SHARE_S0(q, r, a, b, low0, low1, high0, high1, to) VPMULLW a, Y13, low0
#define SHARE_S1(q, r, a, b, low0, low1, high0, high1, to) VPMULLW a, Y13, low1
#define OFFSET(from, shift, low0, low1) VPBROADCASTW from, low0; VPSLLW $shift, low0, low0; VMOVDQA low0, low1
#define OFFSET32(shift, r, low0, low1) OFFSET(spanSums_minus32(r)(R10*4), shift, low0, low1)
#define OFFSET16(h, shift, r, low0, low1) OFFSET(spanSums_minus16+4*h(r)(R10*8), shift, low0, low1)

// JOINS takes low times S and T.
#define SHARE_INT(q, r, a, b, low0, low1, high0, high1, to) VPBROADCASTD spanSums_shares(r)(R10*4), a
#define JOIN(a, low, high) VPMADDWD Y13, low, low; VPMULLD a, low, low; VPADDD low, high, high
#define JOIN0(q, r, a, b, low0, low1, high0, high1, to) JOIN(a, low0, high0)
#define JOIN1(q, r, a, b, low0, low1, high0, high1, to) JOIN(a, low1, high1)
#define JOINS(EACH, SCALES, h, ROWS) ROWS(SHARE_INT, 0); EACH(SCALES, h, JOIN0, JOIN1, ROWS)

// QUAD takes groups 4v to 4v+3 to the rows; MIDDLE comes after two of them.
#define QUAD_ALL(v, ROWS, EACH, SCALES, MIDDLE) \
	FETCH(v, +AHEAD(BX)); \
	ROWS(VALUES, 16*v); \
	A(v, 0); \
	ROWS(TAKE_A0, 0); \
	B(v, 0); \
	ROWS(TAKE_B0, 0); \
	A(v, 32); \
	ROWS(TAKE_A1, 0); \
	B(v, 32); \
	ROWS(TAKE_B1, 0); \
	MIDDLE(EACH, SCALES, v, ROWS); \
	ROWS(VALUES, 16*v+8); \
	C(v, 0); \
	ROWS(TAKE_A0, 0); \
	D(v, 0); \
	ROWS(TAKE_B0, 0); \
	C(v, 32); \
	ROWS(TAKE_A1, 0); \
	D(v, 32); \
	ROWS(TAKE_B1, 0)
#define QUAD_HALF(o, v, ROWS, EACH, SCALES, MIDDLE) \
	A(v, o); \
	ROWS(TAKE, 16*v); \
	B(v, o); \
	ROWS(TAKE, 16*v+4); \
	MIDDLE(EACH, SCALES, v, ROWS); \
	C(v, o); \
	ROWS(TAKE, 16*v+8); \
	D(v, o); \
	ROWS(TAKE, 16*v+12)
#define QUAD_LEFT(v, ROWS, EACH, SCALES, MIDDLE) FETCH(v, +AHEAD(BX)); QUAD_HALF(0, v, ROWS, EACH, SCALES, MIDDLE)
#define QUAD_RIGHT(v, ROWS, EACH, SCALES, MIDDLE) QUAD_HALF(32, v, ROWS, EACH, SCALES, MIDDLE)
#define NOT_NOW(EACH, SCALES, v, ROWS)

// Blocks of one sum in 16 bits, of two and of four, and of none: BLOCK8.
#define BLOCK32(QUAD, EACH, SCALES, ROWS) \
	ROWS(START0, 0); \
	QUAD(0, ROWS, EACH, SCALES, NOT_NOW); \
	QUAD(1, ROWS, EACH, SCALES, NOT_NOW); \
	JOINS(EACH, SCALES, 0, ROWS)
#define HALVES(QUAD, EACH, SCALES, ROWS, MIDDLE) \
	ROWS(START0, 0); \
	QUAD(0, ROWS, EACH, SCALES, MIDDLE); \
	JOINS(EACH, SCALES, 0, ROWS); \
	ROWS(START1, 0); \
	QUAD(1, ROWS, EACH, SCALES, MIDDLE); \
	JOINS(EACH, SCALES, 1, ROWS)
#define BLOCK16(QUAD, EACH, SCALES, ROWS) HALVES(QUAD, EACH, SCALES, ROWS, NOT_NOW)
#define BETWEEN6(EACH, SCALES, v, ROWS) JOINS(EACH, SCALES, v, ROWS); ROWS(ZERO_LOW, 0)
#define BLOCK6(QUAD, EACH, SCALES, ROWS) HALVES(QUAD, EACH, SCALES, ROWS, BETWEEN6)
#define BLOCK8(QUAD, EACH, SCALES, ROWS) \
	ROWS(SHARE, 0); \
	EACH(SCALES, 0, SHARE_S0, SHARE_S1, ROWS); \
	QUAD(0, ROWS, EACH, SCALES, NOT_NOW); \
	QUAD(1, ROWS, EACH, SCALES, NOT_NOW)

// What sums of values are multiplied with, offsets and zero points for each block. Zero points are words in Y13 with nothing beside
// them.
#define TIMES_Y13(at, ADD, sum) VPBROADCASTD at, Y15; VPMADDWD Y13, Y15, Y15; ADD Y15, sum, sum
#define OFFSETS0(q, r, a, b, low0, low1, high0, high1, to) TIMES_Y13(spanSums_sums16(r)(R10*4), VPSUBD, high0)
#define OFFSETS1(q, r, a, b, low0, low1, high0, high1, to) TIMES_Y13(spanSums_sums16(r)(R10*4), VPSUBD, high1)
#define ZEROS0(q, r, a, b, low0, low1, high0, high1, to) TIMES_Y13(spanSums_sums32(r)(R10*2), VPSUBD, high0)
#define ZEROS1(q, r, a, b, low0, low1, high0, high1, to) TIMES_Y13(spanSums_sums32(r)(R10*2), VPSUBD, high1)
#define NO_LESS(EACH, ROWS)
#define LESS_OFFSET(EACH, ROWS) EACH(MINS, 0, OFFSETS0, OFFSETS1, ROWS)
#define LESS_ZERO(EACH, ROWS) EACH(MINS, 0, ZEROS0, ZEROS1, ROWS)

// MINS_END gathers the sums with m of a span, which is a section, in low.
#define MINS16_0(q, r, a, b, low0, low1, high0, high1, to) TIMES_Y13(spanSums_sums16(r)(R10*4), VPADDD, low0)
#define MINS16_1(q, r, a, b, low0, low1, high0, high1, to) TIMES_Y13(spanSums_sums16(r)(R10*4), VPADDD, low1)
#define MINS32_0(q, r, a, b, low0, low1, high0, high1, to) TIMES_Y13(spanSums_sums32(r)(R10*4), VPADDD, low0)
#define MINS32_1(q, r, a, b, low0, low1, high0, high1, to) TIMES_Y13(spanSums_sums32(r)(R10*4), VPADDD, low1)
#define MINS_LOOP(mins, PAIR_BYTES, F0, F1, EACH, ROWS) \
	ROWS(ZERO_LOW, 0); \
	MOVQ CX, R12; \
	XORQ R10, R10; \
mins: \
	EACH(MINS, 0, F0, F1, ROWS); \
	INCQ R10; \
	ADDQ $PAIR_BYTES, R12; \
	CMPQ R12, R13; \
	JLT  mins; \
	XORQ R10, R10
#define MINS16_END(mins, EACH, ROWS) MINS_LOOP(mins, STEP0, MINS16_0, MINS16_1, EACH, ROWS)
#define MINS32_END(mins, EACH, ROWS) MINS_LOOP(mins, STEP0+STEP1, MINS32_0, MINS32_1, EACH, ROWS)
#define NO_MINS(mins, EACH, ROWS)

// ENDS takes the sums of a span to dst; CX is free by then.
#define ENDS_ALL(ROWS) EACH_ALL(SUPERS, 0, END0, END1, ROWS)
#define ENDS_LEFT(ROWS) MOVQ DI, CX; EACH_LEFT(SUPERS, 0, END_NEXT, NONE, ROWS)
#define ENDS_RIGHT(ROWS) LEAQ 32(DI), CX; EACH_RIGHT(SUPERS, 0, END_NEXT, NONE, ROWS)
#define END0(q, r, a, b, low0, low1, high0, high1, to) END(r, a, low0, high0, 0 to)
#define END1(q, r, a, b, low0, low1, high0, high1, to) END(r, a, low1, high1, 32 to)
#define END_NEXT(q, r, a, b, low0, low1, high0, high1, to) END(r, a, low0, high0, 0 to); ADDQ ldd+8(FP), CX
#define END(r, a, low, high, to) \
	VBROADCASTSS spanSums_d(r), a; \
	VMULPS       a, Y13, Y15; \
	VCVTDQ2PS    high, high; \
	VFMADD213PS  to, Y15, high; \
	END_M(a, low, high); \
	VMOVUPS      high, to
#define NO_END_M(a, low, high)
#define END_LESS(a, low, high) VMULPS a, Y14, Y15; VCVTDQ2PS low, low; VFNMADD231PS Y15, low, high

// How far ahead memory is fetched, in whole sections, so that each part is fetched beside the same part of an earlier section.
#define AHEAD (10240/SECTION_BYTES*SECTION_BYTES)

// NEXT goes on to the next block, or to the end of the span that this block was the last of.
#define NEXT(STEP, end) \
	ADDQ  $CODE_BYTES, BX; \
	ADDQ  $STEP, R12; \
	ADDQ  $32, SI; \
	INCQ  R10; \
	DECQ  R11; \
	JZ    end; \
	TESTQ $SPAN_MASK, R10; \
	JZ    end

// SECTION takes a section to dst.
#define SECTION(even, odd, end, mins, done, QUAD, EACH, ENDS, ROWS) \
	MOVQ    $8, R13; \
	CMPQ    R11, R13; \
	CMOVQLT R11, R13; \
	LEAQ    SPAN_MASK(R13), R10; \
	ANDQ    $~SPAN_MASK, R10; \
	IMULQ   $(SUPER_BYTES/(SPAN_MASK+1)), R10; \
	MOVQ    BX, CX; \
	MOVQ    BX, R12; \
	SCALES_END; \
	ADDQ    CX, R13; \
	LEAQ    63(R13)(R10*1), BX; \
	ANDQ    $~63, BX; \
	XORQ    R10, R10; \
	ROWS(ZERO_HIGH, 0); \
even: \
	PREFETCHT0 AHEAD(R12); \
	BLOCK(QUAD, EACH, SCALES0, ROWS); \
	LESS(EACH, ROWS); \
	NEXT(STEP0, end); \
odd: \
	PREFETCHT0 AHEAD(R12); \
	BLOCK(QUAD, EACH, SCALES1, ROWS); \
	LESS(EACH, ROWS); \
	NEXT(STEP1, end); \
	JMP even; \
end: \
	MINS_END(mins, EACH, ROWS); \
	PREFETCHT0 AHEAD(R13); \
	ENDS(ROWS); \
	TESTQ R11, R11; \
	JZ    done; \
	ROWS(ZERO_HIGH, 0); \
	ADDQ  $SUPER_BYTES, R13; \
	TESTQ $1, R10; \
	JNZ   odd; \
	TESTQ $7, R10; \
	JNZ   even; \
done:

// As many lines as half a block has.
#define LINE(v, p) PREFETCHT0 CODE_BYTES/2*v p
#define LINES2(v, p) LINE(v, p); PREFETCHT0 CODE_BYTES/2*v+64 p
#define LINES3(v, p) LINES2(v, p); PREFETCHT0 CODE_BYTES/2*v+128 p
#define LINES4(v, p) LINES3(v, p); PREFETCHT0 CODE_BYTES/2*v+192 p

// Codes of 4, of 2, of 6 and of 8 bits, and the last bit of those of 5 and 3 (affine.go, putCodes).
#define BITS(from, down, mask, to) VMOVDQU from(BX), to; VPSRLW $down, to, to; VPAND mask, to, to
#define A4(v, o) VMOVDQU 128*v+o(BX), Y14; VPAND Y8, Y14, Y13
#define B4(v, o) VPSRLW $4, Y14, Y13; VPAND Y8, Y13, Y13
#define C4(v, o) VMOVDQU 128*v+64+o(BX), Y14; VPAND Y8, Y14, Y13
#define D4(v, o) B4(v, o)
#define A2(v, o) VPAND 64*v+o(BX), Y8, Y13
#define B2(v, o) BITS(64*v+o, 2, Y8, Y13)
#define C2(v, o) BITS(64*v+o, 4, Y8, Y13)
#define D2(v, o) BITS(64*v+o, 6, Y8, Y13)
#define A6(v, o) VPAND 192*v+o(BX), Y8, Y13
#define B6(v, o) VPAND 192*v+64+o(BX), Y8, Y13
#define C6(v, o) VPAND 192*v+128+o(BX), Y8, Y13
#define D6(v, o) \
	BITS(192*v+o, 2, highest<>(SB), Y13); \
	BITS(192*v+64+o, 4, middle<>(SB), Y14); \
	BITS(192*v+128+o, 6, lowest<>(SB), Y15); \
	VPOR Y14, Y13, Y13; \
	VPOR Y15, Y13, Y13
#define LAST_BIT(from, value) \
	VPBROADCASTD from(BX), Y15; \
	VPSHUFB      spread<>(SB), Y15, Y15; \
	VPAND        each<>(SB), Y15, Y15; \
	VPCMPEQB     each<>(SB), Y15, Y15; \
	VPAND        value<>(SB), Y15, Y15; \
	VPOR         Y15, Y13, Y13
#define TABLE(table) VMOVDQU table<>(SB), Y15; VPSHUFB Y13, Y15, Y13
#define SIZES(table) TABLE(table); VPABSB Y13, Y14
#define A4_IQ(v, o) A4(v, o); SIZES(iq4)
#define B4_IQ(v, o) BITS(128*v+o, 4, Y8, Y13); SIZES(iq4)
#define C4_IQ(v, o) C4(v, o); SIZES(iq4)
#define D4_IQ(v, o) BITS(128*v+64+o, 4, Y8, Y13); SIZES(iq4)
#define BYTES8(from) VPXOR from(BX), Y8, Y13; VPABSB Y13, Y14
#define A8(v, o) BYTES8(256*v+o)
#define B8(v, o) BYTES8(256*v+64+o)
#define C8(v, o) BYTES8(256*v+128+o)
#define D8(v, o) BYTES8(256*v+192+o)

// Levels of up to 6 bits, and distances of 8.
#define DOT6(q, low, high) VPMADDUBSW q, Y13, Y15; VPADDW Y15, low, low
#define DOT8(q, low, high) \
	VPSIGNB    Y13, q, Y15; \
	VPMADDUBSW Y15, Y14, Y15; \
	VPMADDWD   low, Y15, Y15; \
	VPADDD     Y15, high, high

// The layouts of scales and supers (affine.go, scaleLayout).
#define INT8S(h, o) VPBROADCASTQ 16*h+o(R12), Y13; VPSHUFB toTops<>(SB), Y13, Y13; VPSRAW $8, Y13, Y13
#define UINT8S(o) VPBROADCASTQ o(R12), Y13; VPSHUFB toWords<>(SB), Y13, Y13
// Words of the upper 8 bits of S and below them the lower 4 bits, those of both groups.
#define INT12S(at, lowAt) \
	VPBROADCASTQ at(R12), Y13; \
	VPBROADCASTQ lowAt(R12), Y14; \
	VPBLENDD     $0xcc, Y14, Y13, Y13; \
	VPSHUFB      toPairs<>(SB), Y13, Y13
#define INT12S_EVEN(o) \
	INT12S(o, 32+o); \
	VPAND      notSecond<>(SB), Y13, Y13; \
	VMOVDQU    sixteenAndOne<>(SB), Y14; \
	VPMADDUBSW Y13, Y14, Y13
#define INT12S_ODD(o) INT12S(o, 16+o); VPSRAW $4, Y13, Y13
#define ONES VMOVDQU ones<>(SB), Y13
#define SHORT_MINS(o) VMOVDQU 48+4*o(R12), Y13
#define BYTE_MINS(o) VPMOVZXBW 32+2*o(R12), Y13
#define PAIR_OF_S(shift, o) \
	VMOVQ      o(R12), X13; \
	VMOVQ      16+o(R12), X14; \
	VPUNPCKLBW X14, X13, X13; \
	VPMOVSXBW  X13, Y13; \
	VPSLLW     $shift, Y13, Y13
#define ZEROS(o) VPMOVZXBD 64+o(R13), Y13
#define ZEROS8(o) VPMOVZXBD 64+o(R13), Y13; VPADDW minus128<>(SB), Y13, Y13
#define FLOATS(o) VMOVUPS 4*o(R13), Y13
#define FLOAT_PAIRS(o) VMOVUPS 4*o(R13), Y13; VMOVUPS 64+4*o(R13), Y14
#define HALF_PAIRS(o) VCVTPH2PS 2*o(R13), Y13; VCVTPH2PS 32+2*o(R13), Y14

// For affine_unpack_avx2_amd64.h, which keeps levels at DI, S at R9, what sums of pairs of groups are multiplied with at R8, and
// the floats of the span at R14.
#define UNPACK1(F, v, n, o) F(v, o); VMOVDQU Y13, (256*v+64*n+o)(DI)
#define UNPACK_QUAD(v) \
	FETCH(v, (BX)(CX*1)); \
	UNPACK1(A, v, 0, 0); \
	UNPACK1(B, v, 1, 0); \
	UNPACK1(A, v, 0, 32); \
	UNPACK1(B, v, 1, 32); \
	UNPACK1(C, v, 2, 0); \
	UNPACK1(D, v, 3, 0); \
	UNPACK1(C, v, 2, 32); \
	UNPACK1(D, v, 3, 32)
#define KEEP_S(SCALES, h) SCALES(h, 0); VMOVDQU Y13, 64*h(R9); SCALES(h, 8); VMOVDQU Y13, 64*h+32(R9)
#define UNPACK_TOP(F, v, n, o) F(v, o); VPXOR tops<>(SB), Y13, Y13; VMOVDQU Y13, 256*v+64*n+o(DI)
#define UNPACK_TOPS(v) \
	FETCH(v, (BX)(CX*1)); \
	UNPACK_TOP(A, v, 0, 0); \
	UNPACK_TOP(B, v, 1, 0); \
	UNPACK_TOP(A, v, 0, 32); \
	UNPACK_TOP(B, v, 1, 32); \
	UNPACK_TOP(C, v, 2, 0); \
	UNPACK_TOP(D, v, 3, 0); \
	UNPACK_TOP(C, v, 2, 32); \
	UNPACK_TOP(D, v, 3, 32)
#define ONE_S(SCALES) KEEP_S(SCALES, 0); ADDQ $64, R9
#define TWO_S(SCALES) KEEP_S(SCALES, 0); KEEP_S(SCALES, 1); ADDQ $128, R9
#define UNPACK_BYTES(SCALES) UNPACK_QUAD(0); UNPACK_QUAD(1); ADDQ $512, DI; UNPACK_S(SCALES)
// Levels of 8 bits as bytes, from their distances.
#define UNPACK_BYTES8(SCALES) UNPACK_TOPS(0); UNPACK_TOPS(1); ADDQ $512, DI; ONE_S(SCALES)

// Levels of 8 bits become int16, those of outputs 0, 1, 4 and 5 of eight before those of 2, 3, 6 and 7: distances times S, or
// less zero points. Y0-Y3 are S, or the zero points less 128.
#define WIDEN(F, v, n, o, low, high) \
	F(v, o); \
	VPUNPCKLBW Y13, Y13, Y14; \
	VPUNPCKHBW Y13, Y13, Y15; \
	VPSRAW     $8, Y14, Y14; \
	VPSRAW     $8, Y15, Y15; \
	WHOLE(low, Y14, Y14); \
	WHOLE(high, Y15, Y15); \
	VMOVDQU    Y14, (512*v+128*n+2*o)(DI); \
	VMOVDQU    Y15, (512*v+128*n+2*o+32)(DI)
#define WIDEN2(F, v, n) WIDEN(F, v, n, 0, Y0, Y1); WIDEN(F, v, n, 32, Y2, Y3)
#define WIDEN_QUAD(v) FETCH(v, (BX)(CX*1)); WIDEN2(A, v, 0); WIDEN2(B, v, 1); WIDEN2(C, v, 2); WIDEN2(D, v, 3)
#define UNPACK_WORDS(SCALES) WHOLES(SCALES); WIDEN_QUAD(0); WIDEN_QUAD(1); ADDQ $1024, DI
#define SPREAD(y, low, high) VPUNPCKLDQ y, y, low; VPUNPCKHDQ y, y, high
#define SPREAD_S(SCALES) SCALES(0, 0); SPREAD(Y13, Y0, Y1); SCALES(0, 8); SPREAD(Y13, Y2, Y3)
#define SPREAD_ZEROS(SCALES) ZEROS8(0); TWICE; SPREAD(Y13, Y0, Y1); ZEROS8(8); TWICE; SPREAD(Y13, Y2, Y3)

// What sums of pairs are multiplied with: m, the offset 1 << shift times S, or the zero point.
#define NO_PAIRS
#define PAIRS_OF_M MINS(0, 0); VMOVDQU Y13, (R8); MINS(0, 8); VMOVDQU Y13, 32(R8); ADDQ $64, R8
#define PAIRS_OF_S(shift) PAIRS_OF(shift, 0); PAIRS_OF(shift, 8); ADDQ $64, R8
#define PAIRS_OF(shift, o) \
	SCALES0(0, o); \
	VMOVDQU  Y13, Y15; \
	SCALES1(0, 16+o); \
	VPBLENDW $0xaa, Y13, Y15, Y13; \
	VPSLLW   $shift, Y13, Y13; \
	VMOVDQU  Y13, 4*o(R8)
#define TWICE VPSLLD $16, Y13, Y14; VPBLENDW $0xaa, Y14, Y13, Y13
#define PAIRS_OF_ZERO ZEROS(0); VMOVDQU Y13, (R8); ZEROS(8); VMOVDQU Y13, 32(R8); ADDQ $64, R8
#define PAIRS_OF_ZEROS ZEROS(0); TWICE; VMOVDQU Y13, (R8); ZEROS(8); TWICE; VMOVDQU Y13, 32(R8); ADDQ $64, R8
#define NO_M(o)
#define STORE_M(o) VMOVUPS Y14, o(R14)
