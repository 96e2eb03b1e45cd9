// Tiles of affine types with AVX2, for one or two rows: the chain that matAffine defines goes on from dst[i][p].
//
//	q    rows of int8 from -127 to 127, ldq bytes apart, 32 for each block
//	sums rows of spanSums, lds bytes apart
//	w    panels, stride bytes apart: sections of 8 blocks, each its codes, then scales, then supers (affine.go)
//	dst  rows of float32, ldd bytes apart; the 16 outputs of panel p are at byte 64p of a row
//
// The including file defines for a type:
//
//	CODE_BYTES, SUPER_BYTES       of a block of 32, and of a span of SPAN_MASK+1 blocks
//	SECTION_BYTES                 of a whole section
//	STEP0, STEP1                  how far scales go on after blocks at even and at odd places
//	SCALES_END                    turns R13, the blocks of a section, into the bytes of their scales
//	A, B, C, D(v, o)              the levels of groups 4v to 4v+3 to Y12, for the 8 outputs o bytes on, and if they have 8 bits,
//	                              their distances from 128 to Y12 and its sizes to Y13; else Y13 passes on from A to B and from
//	                              C to D; may use Y14 and Y15
//	FETCH(v, p)                   fetches half v of the block at p
//	SCALES0, SCALES1(h, o)        S to Y12, twice as int16, of half h of a block at an even or an odd place, for the outputs from o
//	                              on; may use Y13
//	START(h)(q, r, low, high, ..) sets a row's low for half h of the block
//	DOT(q, low, high)             takes the levels to a row
//	MINS(o)                       m to Y13, of a pair of groups
//	SUPERS(o)                     D to Y12 and M to Y13
//	BLOCK                         how the sums of a block come about
//	LESS0, LESS1                  what is taken of sums with m after blocks at even and at odd places
//
// VPMADDUBSW adds two products of an unsigned and a signed byte in 16 bits, and VPMADDWD takes two such sums times S. Eight
// steps with levels of 4 bits stay within 8·2·15·127 < 2¹⁵, four with 5 bits, two with 6, one with distances of 8. An offset
// begins each of the two sums with half of its product with the negated sum of the values, which stays within 2¹⁵ too; with levels of
// 6 bits it is taken like an m. The row's share T of a block is taken last, or multiplies S before.
//
// Registers: SI q of row 0; R9 and R14 the sums of the rows' spans; BX codes; R12 scales; R13 supers; CX how far ahead memory is
// fetched, whole sections; R10 the block in its section; R11 blocks left; DI dst. Y0-Y3 sums in 16 bits, or S for levels of 8; Y4-Y7 sums; Y8-Y11 sums with m; Y12-Y15 scratch.

// LEFT and RIGHT hand F each row for outputs 0-7 and 8-15: its address in q, o bytes on, its sums, its registers, and where
// its results go.
#define LEFT1(F, o) F(o (SI), R9, Y0, Y4, Y8, (DI))
#define LEFT2(F, o) LEFT1(F, o); F(o (SI)(DX*1), R14, Y2, Y6, Y10, (DI)(AX*1))
#define RIGHT1(F, o) F(o (SI), R9, Y1, Y5, Y9, 32(DI))
#define RIGHT2(F, o) RIGHT1(F, o); F(o (SI)(DX*1), R14, Y3, Y7, Y11, 32(DI)(AX*1))

#define ZERO(q, r, low, high, less, to) VPXOR high, high, high; VPXOR less, less, less
#define TAKE(q, r, low, high, less, to) DOT(q, low, high)

// What low begins with: 0, S times T, or the part of an offset of 4 << shift or of 2 << shift.
#define NOTHING(q, r, low, high, less, to) VPXOR low, low, low
#define SHARE_S(q, r, low, high, less, to) VPBROADCASTW spanSums_shares(r)(R10*4), low; VPMULLW Y12, low, low
#define OFFSET32(shift, r, low) VPBROADCASTW spanSums_minus32(r)(R10*4), low; VPSLLW $shift, low, low
#define OFFSET16(h, shift, r, low) VPBROADCASTW spanSums_minus16+4*h(r)(R10*8), low; VPSLLW $shift, low, low

// JOIN takes low times S and T, JOIN1 times T alone.
#define JOIN1(q, r, low, high, less, to) VPBROADCASTW spanSums_shares(r)(R10*4), Y13; VPMADDWD Y13, low, low; VPADDD low, high, high
#define JOIN(q, r, low, high, less, to) \
	VPBROADCASTD spanSums_shares(r)(R10*4), Y13; \
	VPMADDWD     Y12, low, low; \
	VPMULLD      Y13, low, low; \
	VPADDD       low, high, high
#define JOINS(SCALES, F, h, LEFT, RIGHT) SCALES(h, 0); LEFT(F, 0); SCALES(h, 8); RIGHT(F, 0)

// Types without an m gather low times S of a block in less, and take that times T.
#define GATHER(q, r, low, high, less, to) VPMADDWD Y12, low, low; VPADDD low, less, less
#define SHARE(q, r, low, high, less, to) \
	VPBROADCASTD spanSums_shares(r)(R10*4), Y13; \
	VPMULLD      Y13, less, less; \
	VPADDD       less, high, high; \
	VPXOR        less, less, less

// QUAD takes groups 4v to 4v+3 to the rows; MIDDLE comes after two of them.
#define QUAD(SCALES, v, LEFT, RIGHT, MIDDLE) \
	FETCH(v, (BX)(CX*1)); \
	A(v, 0); \
	LEFT(TAKE, 16*v); \
	B(v, 0); \
	LEFT(TAKE, 16*v+4); \
	A(v, 32); \
	RIGHT(TAKE, 16*v); \
	B(v, 32); \
	RIGHT(TAKE, 16*v+4); \
	MIDDLE(SCALES, v, LEFT, RIGHT); \
	C(v, 0); \
	LEFT(TAKE, 16*v+8); \
	D(v, 0); \
	LEFT(TAKE, 16*v+12); \
	C(v, 32); \
	RIGHT(TAKE, 16*v+8); \
	D(v, 32); \
	RIGHT(TAKE, 16*v+12)
#define NOT_NOW(SCALES, v, LEFT, RIGHT)

// Blocks of one sum in 16 bits, of two and of four, and of none: BLOCK8.
#define BLOCK32(SCALES, F, LEFT, RIGHT) \
	LEFT(START0, 0); \
	RIGHT(START0, 0); \
	QUAD(SCALES, 0, LEFT, RIGHT, NOT_NOW); \
	QUAD(SCALES, 1, LEFT, RIGHT, NOT_NOW); \
	JOINS(SCALES, F, 0, LEFT, RIGHT)
#define HALF(SCALES, v, START, F, LEFT, RIGHT, MIDDLE) \
	LEFT(START, 0); \
	RIGHT(START, 0); \
	QUAD(SCALES, v, LEFT, RIGHT, MIDDLE); \
	JOINS(SCALES, F, v, LEFT, RIGHT)
#define BLOCK16_M(SCALES, LEFT, RIGHT) \
	HALF(SCALES, 0, START0, JOIN, LEFT, RIGHT, NOT_NOW); \
	HALF(SCALES, 1, START1, JOIN, LEFT, RIGHT, NOT_NOW)
#define BLOCK_APART(SCALES, LEFT, RIGHT, MIDDLE) \
	HALF(SCALES, 0, START0, GATHER, LEFT, RIGHT, MIDDLE); \
	HALF(SCALES, 1, START1, GATHER, LEFT, RIGHT, MIDDLE); \
	LEFT(SHARE, 0); \
	RIGHT(SHARE, 0)
#define BLOCK16(SCALES, LEFT, RIGHT) BLOCK_APART(SCALES, LEFT, RIGHT, NOT_NOW)
#define BETWEEN6(SCALES, v, LEFT, RIGHT) JOINS(SCALES, GATHER, v, LEFT, RIGHT); LEFT(NOTHING, 0); RIGHT(NOTHING, 0)
#define BLOCK6(SCALES, LEFT, RIGHT) BLOCK_APART(SCALES, LEFT, RIGHT, BETWEEN6)
#define BLOCK8(SCALES, LEFT, RIGHT) \
	SCALES(0, 0); \
	LEFT(SHARE_S, 0); \
	SCALES(0, 8); \
	RIGHT(SHARE_S, 0); \
	QUAD(SCALES, 0, LEFT, RIGHT, NOT_NOW); \
	QUAD(SCALES, 1, LEFT, RIGHT, NOT_NOW)

// Sums with m, for each block or for each two; with zero points, which are words in Y13 with nothing beside them.
#define LESS_PAIR(at) VPBROADCASTD at, Y15; VPMADDWD Y13, Y15, Y15
#define TAKE_M16(q, r, low, high, less, to) LESS_PAIR(spanSums_sums16(r)(R10*4)); VPADDD Y15, less, less
#define TAKE_M32(q, r, low, high, less, to) LESS_PAIR(spanSums_sums32(r)(R10*2)); VPADDD Y15, less, less
#define TAKE_ZERO(q, r, low, high, less, to) LESS_PAIR(spanSums_sums32(r)(R10*2)); VPSUBD Y15, high, high
#define TAKE_OFFSET(q, r, low, high, less, to) LESS_PAIR(spanSums_sums16(r)(R10*4)); VPSUBD Y15, high, high
#define LESS_EACH(TAKE, LEFT, RIGHT) MINS(0); LEFT(TAKE, 0); MINS(8); RIGHT(TAKE, 0)
#define NO_LESS(LEFT, RIGHT)
#define LESS16(LEFT, RIGHT) LESS_EACH(TAKE_M16, LEFT, RIGHT)
#define LESS32(LEFT, RIGHT) LESS_EACH(TAKE_M32, LEFT, RIGHT)
#define LESS_OFFSET(LEFT, RIGHT) LESS_EACH(TAKE_OFFSET, LEFT, RIGHT)
#define LESS_ZERO(LEFT, RIGHT) LESS_EACH(TAKE_ZERO, LEFT, RIGHT)

// END takes the sums of a span to dst.
#define END(q, r, low, high, less, to) \
	VBROADCASTSS spanSums_d(r), Y15; \
	VMULPS       Y15, Y12, low; \
	VMOVUPS      to, Y14; \
	VCVTDQ2PS    high, high; \
	VFMADD231PS  low, high, Y14; \
	END_M(less); \
	VMOVUPS      Y14, to; \
	ZERO(q, r, low, high, less, to)
#define NO_END_M(less)
#define END_LESS(less) VMULPS Y15, Y13, Y15; VCVTDQ2PS less, less; VFNMADD231PS Y15, less, Y14

// How far ahead memory is fetched: a section's part is fetched beside that of a section before it.
#define AHEAD (2*SECTION_BYTES)

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

#define TILE(section, even, odd, end, LEFT, RIGHT) \
	LEFT(ZERO, 0); \
	RIGHT(ZERO, 0); \
section: \
	MOVQ    $8, R13; \
	CMPQ    R11, R13; \
	CMOVQLT R11, R13; \
	IMUL3Q  $CODE_BYTES, R13, R12; \
	ADDQ    BX, R12; \
	SCALES_END; \
	ADDQ    R12, R13; \
	XORQ    R10, R10; \
even: \
	PREFETCHT1 (R12)(CX*1); \
	BLOCK(SCALES0, LEFT, RIGHT); \
	LESS0(LEFT, RIGHT); \
	NEXT(STEP0, end); \
odd: \
	PREFETCHT1 (R12)(CX*1); \
	BLOCK(SCALES1, LEFT, RIGHT); \
	LESS1(LEFT, RIGHT); \
	NEXT(STEP1, end); \
	JMP even; \
end: \
	PREFETCHT1 (R13)(CX*1); \
	SUPERS(0); \
	LEFT(END, 0); \
	SUPERS(8); \
	RIGHT(END, 0); \
	TESTQ R11, R11; \
	JZ    advance; \
	ADDQ  $SUPER_BYTES, R13; \
	TESTQ $1, R10; \
	JNZ   odd; \
	TESTQ $7, R10; \
	JNZ   even; \
	ADDQ  $(SECTION_BYTES-8*CODE_BYTES), BX; \
	ADDQ  $spanSums__size, R9; \
	ADDQ  $spanSums__size, R14; \
	JMP   section

// As many lines as half a block has.
#define LINE(v, p) PREFETCHT1 CODE_BYTES/2*v p
#define LINES2(v, p) LINE(v, p); PREFETCHT1 CODE_BYTES/2*v+64 p
#define LINES3(v, p) LINES2(v, p); PREFETCHT1 CODE_BYTES/2*v+128 p
#define LINES4(v, p) LINES3(v, p); PREFETCHT1 CODE_BYTES/2*v+192 p

// Codes of 4, of 2, of 6 and of 8 bits, and the last bit of those of 5 and 3 (affine.go, putCodes).
#define BITS(from, down, mask, to) VMOVDQU from(BX), to; VPSRLW $down, to, to; VPAND mask<>(SB), to, to
#define A4(v, o) VMOVDQU 128*v+o(BX), Y13; VPAND nibbles<>(SB), Y13, Y12
#define B4(v, o) VPSRLW $4, Y13, Y12; VPAND nibbles<>(SB), Y12, Y12
#define C4(v, o) VMOVDQU 128*v+64+o(BX), Y13; VPAND nibbles<>(SB), Y13, Y12
#define D4(v, o) B4(v, o)
#define A2(v, o) VMOVDQU 64*v+o(BX), Y12; VPAND lowest<>(SB), Y12, Y12
#define B2(v, o) BITS(64*v+o, 2, lowest, Y12)
#define C2(v, o) BITS(64*v+o, 4, lowest, Y12)
#define D2(v, o) BITS(64*v+o, 6, lowest, Y12)
#define LOW6(from) VMOVDQU from(BX), Y12; VPAND sixes<>(SB), Y12, Y12
#define A6(v, o) LOW6(192*v+o)
#define B6(v, o) LOW6(192*v+64+o)
#define C6(v, o) LOW6(192*v+128+o)
#define D6(v, o) \
	BITS(192*v+o, 2, highest, Y12); \
	BITS(192*v+64+o, 4, middle, Y13); \
	BITS(192*v+128+o, 6, lowest, Y14); \
	VPOR Y13, Y12, Y12; \
	VPOR Y14, Y12, Y12
#define LAST_BIT(from, value) \
	VPBROADCASTD from(BX), Y14; \
	VPSHUFB      spread<>(SB), Y14, Y14; \
	VPAND        each<>(SB), Y14, Y14; \
	VPCMPEQB     each<>(SB), Y14, Y14; \
	VPAND        value<>(SB), Y14, Y14; \
	VPOR         Y14, Y12, Y12
#define TABLE(table) VMOVDQU table<>(SB), Y14; VPSHUFB Y12, Y14, Y12
#define SIZES(table) TABLE(table); VPABSB Y12, Y13
#define A4_IQ(v, o) A4(v, o); SIZES(iq4)
#define B4_IQ(v, o) BITS(128*v+o, 4, nibbles, Y12); SIZES(iq4)
#define C4_IQ(v, o) C4(v, o); SIZES(iq4)
#define D4_IQ(v, o) BITS(128*v+64+o, 4, nibbles, Y12); SIZES(iq4)
#define BYTES8(from) VMOVDQU from(BX), Y12; VPXOR tops<>(SB), Y12, Y12; VPABSB Y12, Y13
#define A8(v, o) BYTES8(256*v+o)
#define B8(v, o) BYTES8(256*v+64+o)
#define C8(v, o) BYTES8(256*v+128+o)
#define D8(v, o) BYTES8(256*v+192+o)

// Levels of up to 6 bits, and distances of 8.
#define DOT6(q, low, high) VPBROADCASTD q, Y14; VPMADDUBSW Y14, Y12, Y15; VPADDW Y15, low, low
#define DOT8(q, low, high) \
	VPBROADCASTD q, Y14; \
	VPSIGNB      Y12, Y14, Y14; \
	VPMADDUBSW   Y14, Y13, Y14; \
	VPMADDWD     low, Y14, Y14; \
	VPADDD       Y14, high, high

// The layouts of scales and supers (affine.go, scaleLayout).
#define INT8S(h, o) VPBROADCASTQ 16*h+o(R12), Y12; VPSHUFB toTops<>(SB), Y12, Y12; VPSRAW $8, Y12, Y12
#define UINT8S(o) VPBROADCASTQ o(R12), Y12; VPSHUFB toWords<>(SB), Y12, Y12
// Words of the upper 8 bits of S and below them the lower 4 bits, those of both groups.
#define INT12S(at, lowAt) \
	VPBROADCASTQ at(R12), Y12; \
	VPBROADCASTQ lowAt(R12), Y13; \
	VPBLENDD     $0xcc, Y13, Y12, Y12; \
	VPSHUFB      toPairs<>(SB), Y12, Y12
#define INT12S_EVEN(o) \
	INT12S(o, 32+o); \
	VPAND      notSecond<>(SB), Y12, Y12; \
	VMOVDQU    sixteenAndOne<>(SB), Y13; \
	VPMADDUBSW Y12, Y13, Y12
#define INT12S_ODD(o) INT12S(o, 16+o); VPSRAW $4, Y12, Y12
#define ONES VMOVDQU ones<>(SB), Y12
#define SHORT_MINS(o) VMOVDQU 48+4*o(R12), Y13
#define BYTE_MINS(o) VPMOVZXBW 32+2*o(R12), Y13
#define PAIR_OF_S(shift, o) \
	VMOVQ      o(R12), X12; \
	VMOVQ      16+o(R12), X13; \
	VPUNPCKLBW X13, X12, X13; \
	VPMOVSXBW  X13, Y13; \
	VPSLLW     $shift, Y13, Y13
#define ZEROS(o) VPMOVZXBD 64+o(R13), Y13
#define ZEROS8(o) VPMOVZXBD 64+o(R13), Y13; VPADDW minus128<>(SB), Y13, Y13
#define FLOATS(o) VMOVUPS 4*o(R13), Y12
#define FLOAT_PAIRS(o) VMOVUPS 4*o(R13), Y12; VMOVUPS 64+4*o(R13), Y13
#define HALF_PAIRS(o) VCVTPH2PS 2*o(R13), Y12; VCVTPH2PS 32+2*o(R13), Y13

// For affine_unpack_avx2_amd64.h, which keeps levels at DI, S at R9, what sums of pairs of groups are multiplied with at R8, and
// the floats of the span at R14.
#define UNPACK1(F, v, n, o) F(v, o); VMOVDQU Y12, (256*v+64*n+o)(DI)
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
#define KEEP_S(SCALES, h) SCALES(h, 0); VMOVDQU Y12, 64*h(R9); SCALES(h, 8); VMOVDQU Y12, 64*h+32(R9)
#define UNPACK_TOP(F, v, n, o) F(v, o); VPXOR tops<>(SB), Y12, Y12; VMOVDQU Y12, 256*v+64*n+o(DI)
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
	VPUNPCKLBW Y12, Y12, Y13; \
	VPUNPCKHBW Y12, Y12, Y14; \
	VPSRAW     $8, Y13, Y13; \
	VPSRAW     $8, Y14, Y14; \
	WHOLE(low, Y13, Y13); \
	WHOLE(high, Y14, Y14); \
	VMOVDQU    Y13, (512*v+128*n+2*o)(DI); \
	VMOVDQU    Y14, (512*v+128*n+2*o+32)(DI)
#define WIDEN2(F, v, n) WIDEN(F, v, n, 0, Y0, Y1); WIDEN(F, v, n, 32, Y2, Y3)
#define WIDEN_QUAD(v) FETCH(v, (BX)(CX*1)); WIDEN2(A, v, 0); WIDEN2(B, v, 1); WIDEN2(C, v, 2); WIDEN2(D, v, 3)
#define UNPACK_WORDS(SCALES) WHOLES(SCALES); WIDEN_QUAD(0); WIDEN_QUAD(1); ADDQ $1024, DI
#define SPREAD(y, low, high) VPUNPCKLDQ y, y, low; VPUNPCKHDQ y, y, high
#define SPREAD_S(SCALES) SCALES(0, 0); SPREAD(Y12, Y0, Y1); SCALES(0, 8); SPREAD(Y12, Y2, Y3)
#define SPREAD_ZEROS(SCALES) ZEROS8(0); TWICE; SPREAD(Y13, Y0, Y1); ZEROS8(8); TWICE; SPREAD(Y13, Y2, Y3)

// What sums of pairs are multiplied with: m, the offset 1 << shift times S, or the zero point.
#define NO_PAIRS
#define PAIRS_OF_M MINS(0); VMOVDQU Y13, (R8); MINS(8); VMOVDQU Y13, 32(R8); ADDQ $64, R8
#define PAIRS_OF_S(shift) PAIRS_OF(shift, 0); PAIRS_OF(shift, 8); ADDQ $64, R8
#define PAIRS_OF(shift, o) \
	SCALES0(0, o); \
	VMOVDQU  Y12, Y14; \
	SCALES1(0, 16+o); \
	VPBLENDW $0xaa, Y12, Y14, Y12; \
	VPSLLW   $shift, Y12, Y12; \
	VMOVDQU  Y12, 4*o(R8)
#define TWICE VPSLLD $16, Y13, Y14; VPBLENDW $0xaa, Y14, Y13, Y13
#define PAIRS_OF_ZERO ZEROS(0); VMOVDQU Y13, (R8); ZEROS(8); VMOVDQU Y13, 32(R8); ADDQ $64, R8
#define PAIRS_OF_ZEROS ZEROS(0); TWICE; VMOVDQU Y13, (R8); ZEROS(8); TWICE; VMOVDQU Y13, 32(R8); ADDQ $64, R8
#define NO_M(o)
#define STORE_M(o) VMOVUPS Y13, o(R14)
