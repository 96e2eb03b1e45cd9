// Tiles of affine types with AVX-512 VNNI: dst[i][p] = chain over the groups of
// acc += sum(q[i]·(level[p] - offset))·(d[i]·s[p]) and, for types with an m, acc -= m[p]·(d[i]·Σq[i]).
//
//	q    rows of int8, ldq bytes apart, 32 for each block
//	sums rows of blockSums, lds bytes apart
//	w    panels, stride bytes apart: the codes of all blocks, their scales, those of some blocks (affine.go)
//	dst  rows of float32, ldd bytes apart; the 16 outputs of panel p are at byte 64p of a row
//
// The including file defines for a type:
//
//	CODE_BYTES, SCALE_BYTES, SUPER_BYTES  of a block, of its scales, of the scales of SUPER_MASK+1 blocks
//	MASKS                                 sets Z28 and Z30, for codes of 6 bits Z29 and Z31
//	A, B, C, D(v, p, raw, out)            the levels of groups 4v to 4v+3 of the block at p; raw passes on from A to B
//	                                      and from C to D; may use Z27
//	FETCH(v, p)                           fetches half v of the block at p
//	SCALES(h, p, d, s, m)                 s, and m or the zero point, of half h (0 if there are none) of the block; may use Z27
//	BEGIN(o, n)                           0, or where there is an offset, its product with the negated sum at o+16
//	CORRECT(o, m, n)                      adds the product of the zero point and the negated sum at o; may use Z26
//	LESS(o, m, sum)                       takes m times the sum at o off, where there is an m
//	BLOCK, PANEL_BLOCK                    BLOCK32 and PANEL_BLOCK32, or BLOCK16 and PANEL_BLOCK16
//
// One row takes 4 panels at a time: the processor fetches four streams of weights faster than one. Up to six rows take 2
// or 1, and fetch the next panels to the second cache meanwhile.
//
// Registers: SI, AX rows 0 and 3 of q; R9 the block's sums of row 0, DI walks them; BX the first panel, R13 the one that is
// fetched; R12 scales; R14 scales of SUPER_MASK+1 blocks; R11 blocks left. Z0-Z11 integer sums, Z12-Z23 sums, Z24-Z25 levels or s,
// Z26-Z27 scratch, Z29 and Z31 raw words or m.

// ROWS hands F each row: its address in q, o bytes on, and for panels 0 and 1 its integer sums and its sums.
#define ROWS1(F, o) F(o (SI), Z0, Z1, Z12, Z13)
#define ROWS2(F, o) ROWS1(F, o); F(o (SI)(DX*1), Z2, Z3, Z14, Z15)
#define ROWS3(F, o) ROWS2(F, o); F(o (SI)(DX*2), Z4, Z5, Z16, Z17)
#define ROWS4(F, o) ROWS3(F, o); F(o (AX), Z6, Z7, Z18, Z19)
#define ROWS5(F, o) ROWS4(F, o); F(o (SI)(DX*4), Z8, Z9, Z20, Z21)
#define ROWS6(F, o) ROWS5(F, o); F(o (AX)(DX*2), Z10, Z11, Z22, Z23)

// One panel. BEGIN and END macros are for groups of 32, and for the first and the last of 16.
#define ZERO1(q, n, n1, sum, sum1) VPXORQ sum, sum, sum
#define BEGIN_ALL1(q, n, n1, sum, sum1) BEGIN(28(DI), n); ADDQ R8, DI
#define BEGIN_FIRST1(q, n, n1, sum, sum1) BEGIN(20(DI), n); ADDQ R8, DI
#define BEGIN_LAST1(q, n, n1, sum, sum1) BEGIN(24(DI), n); ADDQ R8, DI
#define DOT1(q, n, n1, sum, sum1) VPDPBUSD.BCST q, Z24, n
#define END1(o, n, sum) \
	CORRECT(16+o(DI), Z29, n); \
	VMULPS.BCST (DI), Z24, Z26; \
	VCVTDQ2PS   n, n; \
	VFMADD231PS Z26, n, sum; \
	LESS(o(DI), Z29, sum); \
	ADDQ        R8, DI
#define END_ALL1(q, n, n1, sum, sum1) END1(12, n, sum)
#define END_FIRST1(q, n, n1, sum, sum1) END1(4, n, sum)
#define END_LAST1(q, n, n1, sum, sum1) END1(8, n, sum)
#define STORE1(q, n, n1, sum, sum1) VMOVUPS sum, (DI); ADDQ ldd+8(FP), DI
#define LEVELS1(A, v) A(v, (BX), Z29, Z24)
#define FETCH1(v) FETCH(v, (R13))
#define SCALES1(h) SCALES(h, (R12), (R14), Z24, Z29)

// Two panels.
#define ZERO2(q, n, n1, sum, sum1) VPXORQ sum, sum, sum; VPXORQ sum1, sum1, sum1
#define BEGIN2(o, n, n1) BEGIN(o(DI), n); VMOVDQA64 n, n1; ADDQ R8, DI
#define BEGIN_ALL2(q, n, n1, sum, sum1) BEGIN2(28, n, n1)
#define BEGIN_FIRST2(q, n, n1, sum, sum1) BEGIN2(20, n, n1)
#define BEGIN_LAST2(q, n, n1, sum, sum1) BEGIN2(24, n, n1)
#define DOT2(q, n, n1, sum, sum1) VPBROADCASTD q, Z26; VPDPBUSD Z26, Z24, n; VPDPBUSD Z26, Z25, n1
#define END2(o, n, n1, sum, sum1) \
	CORRECT(16+o(DI), Z29, n); \
	CORRECT(16+o(DI), Z31, n1); \
	VBROADCASTSS (DI), Z26; \
	VMULPS       Z26, Z24, Z27; \
	VMULPS       Z26, Z25, Z26; \
	VCVTDQ2PS    n, n; \
	VCVTDQ2PS    n1, n1; \
	VFMADD231PS  Z27, n, sum; \
	VFMADD231PS  Z26, n1, sum1; \
	LESS(o(DI), Z29, sum); \
	LESS(o(DI), Z31, sum1); \
	ADDQ         R8, DI
#define END_ALL2(q, n, n1, sum, sum1) END2(12, n, n1, sum, sum1)
#define END_FIRST2(q, n, n1, sum, sum1) END2(4, n, n1, sum, sum1)
#define END_LAST2(q, n, n1, sum, sum1) END2(8, n, n1, sum, sum1)
#define STORE2(q, n, n1, sum, sum1) VMOVUPS sum, (DI); VMOVUPS sum1, 64(DI); ADDQ ldd+8(FP), DI
#define LEVELS2(A, v) LEVELS1(A, v); A(v, (BX)(CX*1), Z31, Z25)
#define FETCH2(v) FETCH1(v); FETCH(v, (R13)(CX*1))
#define SCALES2(h) SCALES1(h); SCALES(h, (R12)(CX*1), (R14)(CX*1), Z25, Z31)

// QUAD takes groups 4v to 4v+3 to the rows.
#define QUAD(v, LEVELS, FETCHES, ROWS, DOT) \
	FETCHES(v); \
	LEVELS(A, v); \
	ROWS(DOT, 16*v); \
	LEVELS(B, v); \
	ROWS(DOT, 16*v+4); \
	LEVELS(C, v); \
	ROWS(DOT, 16*v+8); \
	LEVELS(D, v); \
	ROWS(DOT, 16*v+12)
// WALK hands F each row with its sums at DI.
#define WALK(ROWS, F) MOVQ R9, DI; ROWS(F, 0)
#define BLOCK32(LEVELS, FETCHES, SCALES, ROWS, DOT, BEGIN_ALL, END_ALL, BEGIN_FIRST, END_FIRST, BEGIN_LAST, END_LAST) \
	WALK(ROWS, BEGIN_ALL); \
	QUAD(0, LEVELS, FETCHES, ROWS, DOT); \
	QUAD(1, LEVELS, FETCHES, ROWS, DOT); \
	SCALES(0); \
	WALK(ROWS, END_ALL)
#define BLOCK16(LEVELS, FETCHES, SCALES, ROWS, DOT, BEGIN_ALL, END_ALL, BEGIN_FIRST, END_FIRST, BEGIN_LAST, END_LAST) \
	WALK(ROWS, BEGIN_FIRST); \
	QUAD(0, LEVELS, FETCHES, ROWS, DOT); \
	SCALES(0); \
	WALK(ROWS, END_FIRST); \
	WALK(ROWS, BEGIN_LAST); \
	QUAD(1, LEVELS, FETCHES, ROWS, DOT); \
	SCALES(1); \
	WALK(ROWS, END_LAST)

#define NEXT_BLOCK(loop) \
	ADDQ  $CODE_BYTES, BX; \
	ADDQ  $CODE_BYTES, R13; \
	ADDQ  $SCALE_BYTES, R12; \
	ADDQ  $32, SI; \
	ADDQ  $32, R9; \
	DECQ  R11; \
	TESTQ $SUPER_MASK, R11; \
	JNZ   loop; \
	ADDQ  $SUPER_BYTES, R14; \
	TESTQ R11, R11; \
	JNZ   loop; \
	MOVQ  dst+0(FP), DI

#define ONE_PANEL(name, loop, ROWS) \
name: \
	ROWS(ZERO1, 0); \
loop: \
	BLOCK(LEVELS1, FETCH1, SCALES1, ROWS, DOT1, BEGIN_ALL1, END_ALL1, BEGIN_FIRST1, END_FIRST1, BEGIN_LAST1, END_LAST1); \
	ADDQ $32, AX; \
	NEXT_BLOCK(loop); \
	ROWS(STORE1, 0); \
	MOVQ $1, R11; \
	JMP  advance

#define TWO_PANELS(name, loop, ROWS) \
name: \
	ROWS(ZERO2, 0); \
loop: \
	PREFETCHT1 (R12)(CX*2); \
	BLOCK(LEVELS2, FETCH2, SCALES2, ROWS, DOT2, BEGIN_ALL2, END_ALL2, BEGIN_FIRST2, END_FIRST2, BEGIN_LAST2, END_LAST2); \
	ADDQ $32, AX; \
	NEXT_BLOCK(loop); \
	ROWS(STORE2, 0); \
	MOVQ $2, R11; \
	JMP  advance

// PANELS4 hands F each of four panels: its codes, its scales, those of some blocks, its integer sum and its sum. AX is three
// strides.
#define PANELS4(F, v) \
	F(v, (BX), (R12), (R14), Z0, Z12); \
	F(v, (BX)(CX*1), (R12)(CX*1), (R14)(CX*1), Z1, Z13); \
	F(v, (BX)(CX*2), (R12)(CX*2), (R14)(CX*2), Z2, Z14); \
	F(v, (BX)(AX*1), (R12)(AX*1), (R14)(AX*1), Z3, Z15)
#define ZERO_PANEL(v, p, s, d, n, sum) VPXORQ sum, sum, sum
#define BEGIN_PANELS(o) BEGIN(o(R9), Z0); VMOVDQA64 Z0, Z1; VMOVDQA64 Z0, Z2; VMOVDQA64 Z0, Z3
#define AB_PANEL(v, p, s, d, n, sum) A(v, p, Z29, Z24); VPDPBUSD Z26, Z24, n; B(v, p, Z29, Z24); VPDPBUSD Z25, Z24, n
#define CD_PANEL(v, p, s, d, n, sum) C(v, p, Z29, Z24); VPDPBUSD Z26, Z24, n; D(v, p, Z29, Z24); VPDPBUSD Z25, Z24, n
#define END_PANEL(o, h, p, d, n, sum) \
	SCALES(h, p, d, Z24, Z29); \
	CORRECT(16+o(R9), Z29, n); \
	VMULPS.BCST (R9), Z24, Z24; \
	VCVTDQ2PS   n, n; \
	VFMADD231PS Z24, n, sum; \
	LESS(o(R9), Z29, sum)
#define END_ALL_PANEL(v, p, s, d, n, sum) END_PANEL(12, 0, s, d, n, sum)
#define END_FIRST_PANEL(v, p, s, d, n, sum) END_PANEL(4, 0, s, d, n, sum)
#define END_LAST_PANEL(v, p, s, d, n, sum) END_PANEL(8, 1, s, d, n, sum)
#define PANEL_QUAD(v) \
	VPBROADCASTD 16*v(SI), Z26; \
	VPBROADCASTD 16*v+4(SI), Z25; \
	PANELS4(AB_PANEL, v); \
	VPBROADCASTD 16*v+8(SI), Z26; \
	VPBROADCASTD 16*v+12(SI), Z25; \
	PANELS4(CD_PANEL, v)
#define PANEL_BLOCK32 \
	BEGIN_PANELS(28); \
	PANEL_QUAD(0); \
	PANEL_QUAD(1); \
	PANELS4(END_ALL_PANEL, 0)
#define PANEL_BLOCK16 \
	BEGIN_PANELS(20); \
	PANEL_QUAD(0); \
	PANELS4(END_FIRST_PANEL, 0); \
	BEGIN_PANELS(24); \
	PANEL_QUAD(1); \
	PANELS4(END_LAST_PANEL, 0)

// For affine_unpack_body_amd64.h. Z24 and Z25 are levels, or s and m.
#define UNPACK(A, v, o) A(v, (BX), Z29, Z24); VPSUBB Z26, Z24, Z25; VMOVDQU64 Z25, (256*v+o)(DI)
#define UNPACK_QUAD(v) UNPACK(A, v, 0); UNPACK(B, v, 64); UNPACK(C, v, 128); UNPACK(D, v, 192)
#define UNPACK_SCALES(h) SCALES(h, (R12), (R14), Z24, Z25); VMOVUPS Z24, (64*h)(SI); VMOVUPS Z25, (64*h)(DX)

// As many lines as half a block has.
#define LINE(v, p) PREFETCHT1 CODE_BYTES/2*v p
#define LINES2(v, p) LINE(v, p); PREFETCHT1 CODE_BYTES/2*v+64 p
#define LINES3(v, p) LINES2(v, p); PREFETCHT1 CODE_BYTES/2*v+128 p
#define LINES4(v, p) LINES3(v, p); PREFETCHT1 CODE_BYTES/2*v+192 p

// Codes of 4, of 2, of 6 and of 8 bits, and the last bit of those of 5 and 3 (affine.go, putCodes).
#define A4(v, p, raw, out) VMOVDQU64 128*v p, raw; VPANDQ Z28, raw, out
#define B4(v, p, raw, out) VPSRLW $4, raw, out; VPANDQ Z28, out, out
#define C4(v, p, raw, out) VMOVDQU64 128*v+64 p, raw; VPANDQ Z28, raw, out
#define D4(v, p, raw, out) B4(v, p, raw, out)
#define TABLE(out) VPSHUFB out, Z30, out
#define A2(v, p, raw, out) VMOVDQU64 64*v p, raw; VPANDQ Z28, raw, out
#define B2(v, p, raw, out) VPSRLW $2, raw, out; VPANDQ Z28, out, out
#define C2(v, p, raw, out) VMOVDQU64 64*v p, raw; VPSRLW $4, raw, out; VPANDQ Z28, out, out
#define D2(v, p, raw, out) VPSRLW $6, raw, out; VPANDQ Z28, out, out
#define A6(v, p, raw, out) VPANDQ 192*v p, Z28, out
#define B6(v, p, raw, out) VPANDQ 192*v+64 p, Z28, out
#define C6(v, p, raw, out) VPANDQ 192*v+128 p, Z28, out
#define D6(v, p, raw, out) \
	VPSRLW     $2, 192*v p, out; \
	VPANDQ     Z29, out, out; \
	VPSRLW     $4, 192*v+64 p, Z27; \
	VPTERNLOGQ $0xf8, Z30, Z27, out; \
	VPSRLW     $6, 192*v+128 p, Z27; \
	VPTERNLOGQ $0xf8, Z31, Z27, out
#define A8(v, p, raw, out) VMOVDQU64 256*v p, out
#define B8(v, p, raw, out) VMOVDQU64 256*v+64 p, out
#define C8(v, p, raw, out) VMOVDQU64 256*v+128 p, out
#define D8(v, p, raw, out) VMOVDQU64 256*v+192 p, out
#define LAST_BIT(o, p, out) KMOVQ o p, K1; VPADDB Z30, out, K1, out

#define BYTES_OF(mask, to) MOVL $mask, AX; VPBROADCASTD AX, to

// The layouts of scales (affine.go, scaleLayout).
#define FLOATS(p, s) VMOVUPS p, s
#define ZERO_POINTS(d, s, m) VMOVUPS d, s; VPMOVZXBD 64 d, m
#define HALVES(p, s) VCVTPH2PS p, s
#define HALF_PAIRS(p, s, m) VCVTPH2PS p, s; VCVTPH2PS 32 p, m
#define INT8S(o, p, d, s) VPMOVSXBD o p, s; VCVTPH2PS d, Z27; VCVTDQ2PS s, s; VMULPS Z27, s, s
#define INT8_PAIRS(o, p, d, s, m) \
	VPMOVSXBD o p, s; \
	VCVTPH2PS d, Z27; \
	VCVTDQ2PS s, s; \
	VMULPS    Z27, s, s; \
	VPMOVZXBD 16+o p, m; \
	VCVTPH2PS 32 d, Z27; \
	VCVTDQ2PS m, m; \
	VMULPS    Z27, m, m

// Types with an m, types with an offset of 1<<shift, and types with zero points.
#define BEGIN_ZERO(o, n) VPXORQ n, n, n
#define LESS_M(o, m, sum) VFNMADD231PS.BCST o, m, sum
#define BEGIN_OFFSET(shift, o, n) VPSLLD.BCST $shift, o, n
#define LESS_NOTHING(o, m, sum)
#define CORRECT_NOTHING(o, m, n)
#define CORRECT_ZERO(o, m, n) VPMULLD.BCST o, m, Z26; VPADDD Z26, n, n
