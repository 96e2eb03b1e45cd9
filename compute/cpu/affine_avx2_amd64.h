// Tiles of affine types with AVX2: dst[i][p] = chain over the groups of acc += sum(q[i]·(level[p] - offset))·(d[i]·s[p])
// and, for types with an m, acc -= m[p]·(d[i]·Σq[i]), for one or two rows.
//
//	q    rows of int8, ldq bytes apart, 32 for each block
//	sums rows of blockSums, lds bytes apart
//	w    panels, stride bytes apart: the codes of all blocks, their scales, those of some blocks (affine.go)
//	dst  rows of float32, ldd bytes apart; the 16 outputs of panel p are at byte 64p of a row
//
// The including file defines for a type:
//
//	CODE_BYTES, SCALE_BYTES, SUPER_BYTES  of a block, of its scales, of the scales of SUPER_MASK+1 blocks
//	A, B, C, D(v, o)              the levels of groups 4v to 4v+3 to Y12, for the 8 outputs o bytes on, and of levels of
//	                              8 bits the upper halves to Y13, else Y13 passes on from A to B and from C to D; may
//	                              use Y14 and Y15
//	FETCH(v, p)                   fetches half v of the block at p
//	DOT(q, r, low, high, sum)     takes the levels to a row
//	MIDDLE(q, r, low, high, sum)  comes after half of the values of a scale
//	JOIN(low, high)               the sum in 32 bits to low
//	OFFSET(o, r, low)             adds the product of the offset and the negated sum at o, where there is an offset
//	LESS(o, r, sum)               takes m times the sum at o off, where there is an m
//	SCALES(h, o)                  s to Y12 and m or the zero point to Y13, for half h of the block (0 if there are none) and the outputs from
//	                              o on; may use Y14
//	BLOCK                         BLOCK32 or BLOCK16
//
// VPMADDUBSW adds two products of an unsigned and a signed byte in 16 bits. Eight such steps with levels of 4 bits stay
// within 8·2·15·128 < 2¹⁵, four with 5 bits, two with 6. Levels of 8 bits go by halves of 4.
//
// Registers: SI q of row 0; R9 the block's sums of row 0; BX codes; R12 scales; R13 scales of SUPER_MASK+1 blocks; R11 blocks left.
// Y0-Y3 sums in 16 bits; Y4-Y7 those of upper halves, or what MIDDLE puts aside; Y8-Y11 sums; Y12-Y15 scratch.

// LEFT and RIGHT hand F each row for outputs 0-7 and 8-15: its address in q, o bytes on, its sums, and its registers.
#define LEFT1(F, o) F(o (SI), (R9), Y0, Y4, Y8)
#define LEFT2(F, o) LEFT1(F, o); F(o (SI)(DX*1), (R9)(R8*1), Y2, Y6, Y10)
#define RIGHT1(F, o) F(o (SI), (R9), Y1, Y5, Y9)
#define RIGHT2(F, o) RIGHT1(F, o); F(o (SI)(DX*1), (R9)(R8*1), Y3, Y7, Y11)

#define ZERO(q, r, low, high, sum) VPXOR sum, sum, sum
#define BEGIN(q, r, low, high, sum) VPXOR low, low, low; VPXOR high, high, high

#define END(at, less, r, low, high, sum) \
	JOIN(low, high); \
	OFFSET(at, r, low); \
	VCVTDQ2PS    low, low; \
	VBROADCASTSS r, Y15; \
	VMULPS       Y15, Y12, Y15; \
	VFMADD231PS  Y15, low, sum; \
	LESS(less, r, sum)
#define END_ALL(q, r, low, high, sum) END(28, 12, r, low, high, sum)
#define END_FIRST(q, r, low, high, sum) END(20, 4, r, low, high, sum)
#define END_LAST(q, r, low, high, sum) END(24, 8, r, low, high, sum)

// QUAD takes groups 4v to 4v+3 to the rows, FINISH the scales of half h. HALFWAY is what comes
// after two groups.
#define QUAD(v, LEFT, RIGHT, HALFWAY) \
	FETCH(v, (BX)(CX*1)); \
	A(v, 0); \
	LEFT(DOT, 16*v); \
	B(v, 0); \
	LEFT(DOT, 16*v+4); \
	A(v, 32); \
	RIGHT(DOT, 16*v); \
	B(v, 32); \
	RIGHT(DOT, 16*v+4); \
	HALFWAY(LEFT, RIGHT); \
	C(v, 0); \
	LEFT(DOT, 16*v+8); \
	D(v, 0); \
	LEFT(DOT, 16*v+12); \
	C(v, 32); \
	RIGHT(DOT, 16*v+8); \
	D(v, 32); \
	RIGHT(DOT, 16*v+12)
#define NOW(LEFT, RIGHT) LEFT(MIDDLE, 0); RIGHT(MIDDLE, 0)
#define NOT_NOW(LEFT, RIGHT)
#define FINISH(h, LEFT, RIGHT, END) \
	SCALES(h, 0); \
	LEFT(END, 0); \
	SCALES(h, 8); \
	RIGHT(END, 0)
#define BLOCK32(LEFT, RIGHT) \
	LEFT(BEGIN, 0); \
	RIGHT(BEGIN, 0); \
	QUAD(0, LEFT, RIGHT, NOT_NOW); \
	NOW(LEFT, RIGHT); \
	QUAD(1, LEFT, RIGHT, NOT_NOW); \
	FINISH(0, LEFT, RIGHT, END_ALL)
#define BLOCK16(LEFT, RIGHT) \
	LEFT(BEGIN, 0); \
	RIGHT(BEGIN, 0); \
	QUAD(0, LEFT, RIGHT, NOW); \
	FINISH(0, LEFT, RIGHT, END_FIRST); \
	LEFT(BEGIN, 0); \
	RIGHT(BEGIN, 0); \
	QUAD(1, LEFT, RIGHT, NOW); \
	FINISH(1, LEFT, RIGHT, END_LAST)

#define TILE(loop, LEFT, RIGHT) \
	LEFT(ZERO, 0); \
	RIGHT(ZERO, 0); \
loop: \
	PREFETCHT1 (R12)(CX*1); \
	BLOCK(LEFT, RIGHT); \
	ADDQ    $CODE_BYTES, BX; \
	ADDQ    $SCALE_BYTES, R12; \
	ADDQ    $32, SI; \
	ADDQ    $32, R9; \
	DECQ    R11; \
	TESTQ   $SUPER_MASK, R11; \
	JNZ     loop; \
	ADDQ    $SUPER_BYTES, R13; \
	TESTQ   R11, R11; \
	JNZ     loop; \
	MOVQ    dst+0(FP), DI; \
	VMOVUPS Y8, (DI); \
	VMOVUPS Y9, 32(DI)

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
#define HALVES8 VPSRLW $4, Y12, Y13; VPAND nibbles<>(SB), Y12, Y12; VPAND nibbles<>(SB), Y13, Y13
#define LOW8(table, from) VMOVDQU from(BX), Y12; VPAND nibbles<>(SB), Y12, Y12; TABLE(table); HALVES8
#define HIGH8(table, from) BITS(from, 4, nibbles, Y12); TABLE(table); HALVES8
#define A8(v, o) VMOVDQU 256*v+o(BX), Y12; HALVES8
#define B8(v, o) VMOVDQU 256*v+64+o(BX), Y12; HALVES8
#define C8(v, o) VMOVDQU 256*v+128+o(BX), Y12; HALVES8
#define D8(v, o) VMOVDQU 256*v+192+o(BX), Y12; HALVES8

// Levels of up to 4 bits, of up to 6, and of 8.
#define DOT6(q, low) VPBROADCASTD q, Y14; VPMADDUBSW Y14, Y12, Y15; VPADDW Y15, low, low
#define DOT8(q, low, high) DOT6(q, low); VPMADDUBSW Y14, Y13, Y15; VPADDW Y15, high, high
#define NO_MIDDLE(q, r, low, high, sum)
#define MIDDLE6(low, high) VPMADDWD ones<>(SB), low, high; VPXOR low, low, low
#define JOIN4(low) VPMADDWD ones<>(SB), low, low
#define JOIN6(low, high) VPMADDWD ones<>(SB), low, low; VPADDD high, low, low
#define JOIN8(low, high) VPMADDWD ones<>(SB), high, high; VPSLLD $4, high, high; JOIN6(low, high)

// Types with an m, types with an offset of 1<<shift, and types with zero points.
#define NO_OFFSET(at, r, low)
#define LESS_M(at, r, sum) VBROADCASTSS at r, Y15; VFNMADD231PS Y15, Y13, sum
#define OFFSET_OF(shift, at, r, low) VPBROADCASTD at r, Y15; VPSLLD $shift, Y15, Y15; VPADDD Y15, low, low
#define LESS_NOTHING(at, r, sum)
#define OFFSET_ZERO(at, r, low) VPBROADCASTD at r, Y15; VPMULLD Y13, Y15, Y15; VPADDD Y15, low, low

// The layouts of scales (affine.go, scaleLayout).
#define FLOATS(o) VMOVUPS 4*o(R12), Y12
#define ZERO_POINTS(o) VMOVUPS 4*o(R13), Y12; VPMOVZXBD 64+o(R13), Y13
#define HALVES(o) VCVTPH2PS 2*o(R12), Y12
#define HALF_PAIRS(o) VCVTPH2PS 2*o(R12), Y12; VCVTPH2PS 32+2*o(R12), Y13
#define INT8S(from, o) VPMOVSXBD from+o(R12), Y12; VCVTPH2PS 2*o(R13), Y14; VCVTDQ2PS Y12, Y12; VMULPS Y14, Y12, Y12
#define INT8_PAIRS(from, o) \
	VPMOVSXBD from+o(R12), Y12; \
	VCVTPH2PS 2*o(R13), Y14; \
	VCVTDQ2PS Y12, Y12; \
	VMULPS    Y14, Y12, Y12; \
	VPMOVZXBD from+16+o(R12), Y13; \
	VCVTPH2PS 32+2*o(R13), Y14; \
	VCVTDQ2PS Y13, Y13; \
	VMULPS    Y14, Y13, Y13
