// Tiles of affine types with AVX-512 VNNI. For each span, row i and panel p they do
// dst[i][p] = fma(sum, d·D, dst[i][p]) and, for types with an m, dst[i][p] = fma(-least, d·M, dst[i][p]), where
// sum = Σ T·S·Σ q·(level - offset) over the groups and least = Σ m·T·Σq, in whole numbers (affine.go, matAffine).
//
//	q    rows of int8, ldq bytes apart
//	sums rows of spanSums, lds bytes apart
//	w    panels, stride bytes apart, of sections (affine.go)
//	dst  rows of float32, ldd bytes apart; the 16 outputs of panel p are at byte 64p of a row
//
// Four panels at a time are taken span by span. Their scales
// are first brought to one form in the frame, with the panels side by side:
//
//	    0  S times 1 to 8 [8][16 groups][4 panels][16] int16; of few rows only times 1
//	16384  m [8 pairs][4 panels][16][2] int16, with the offsets as m if each span has its own
//	18432  D [4 panels][16] float32
//	18688  M [4 panels][16] float32
//	18944  levels [8 blocks][8][4 panels][64] bytes, of types that keep them
//
// Then rows are taken by threes, or by twos and one at the end. Their integer sums stay in registers for a span, while the
// codes are in the first cache, and a part of the next section is fetched there with each block, one panel after another. If fewer than four panels are left, the last
// one is computed again in place of the others and not stored.
//
// The including file defines for the codes of a type:
//
//	CODE_BYTES        of a block
//	FETCH             fetches FETCH_LINES at DI, an eighth of a section
//	MASKS             sets Z29 to Z31
//	A, B, C, D(v, p)  Z27 = the levels of groups 4v to 4v+3 of the block at p; may use Z28
//	BLOCK             BLOCK32 or BLOCK16; and GROUP16 for groups of 16 values rather than 32
//	OFFSET_BITS       the logarithm of the offset, where there is one
//	FETCH_ROWS        the fewest rows for which the next section is fetched
//	MANY_ROWS         the fewest rows, at least 4, for which T·S is found in a table
//	TILES_MANY        their tiles, KEEP_LEVELS or UNPACK_AGAIN
//	FRAME             of the function, with room for what is kept
//
// Registers: SI q, R9 sums and BX codes of the block; CX, R12 and R13 offsets of panels 1 to 3, K2 to K4 whether there are such;
// R10 the frame's scales. Z0-Z11 sums of a group, Z12-Z23 of a span, by rows; Z24-Z26 q; Z27-Z28 levels.

#define TIMES_BYTES 2048
#define M_BYTES 16384
#define D_BYTES 18432
#define LEAST_BYTES 18688
#define LEVEL_BYTES 18944

// Codes of 4, of 2, of 6 and of 8 bits, and the last bit of those of 5 and 3 (affine.go, putCodes).
#define A4(v, p) VPANDQ 128*v p, Z30, Z27
#define B4(v, p) VPSRLW $4, 128*v p, Z27; VPANDQ Z30, Z27, Z27
#define C4(v, p) VPANDQ 128*v+64 p, Z30, Z27
#define D4(v, p) VPSRLW $4, 128*v+64 p, Z27; VPANDQ Z30, Z27, Z27
#define TABLE VPSHUFB Z27, Z31, Z27
#define A2(v, p) VPANDQ 64*v p, Z30, Z27
#define B2(v, p) VPSRLW $2, 64*v p, Z27; VPANDQ Z30, Z27, Z27
#define C2(v, p) VPSRLW $4, 64*v p, Z27; VPANDQ Z30, Z27, Z27
#define D2(v, p) VPSRLW $6, 64*v p, Z27; VPANDQ Z30, Z27, Z27
#define A6(v, p) VPANDQ 192*v p, Z30, Z27
#define B6(v, p) VPANDQ 192*v+64 p, Z30, Z27
#define C6(v, p) VPANDQ 192*v+128 p, Z30, Z27
#define D6(v, p) \
	VPSRLW     $2, 192*v p, Z27; \
	VPSRLW     $4, 192*v+64 p, Z28; \
	VPTERNLOGQ $0xd8, Z29, Z28, Z27; \
	VPSRLW     $6, 192*v+128 p, Z28; \
	VPTERNLOGQ $0xd8, Z31, Z28, Z27; \
	VPANDQ     Z30, Z27, Z27
#define A8(v, p) VMOVDQU64 256*v p, Z27
#define B8(v, p) VMOVDQU64 256*v+64 p, Z27
#define C8(v, p) VMOVDQU64 256*v+128 p, Z27
#define D8(v, p) VMOVDQU64 256*v+192 p, Z27
#define LAST_BIT(o, p) KMOVQ o p, K1; VPADDB Z31, Z27, K1, Z27

#define BYTES_OF(mask, to) MOVL $mask, AX; VPBROADCASTD AX, to

// PANELS hands F each panel: its codes, scales or supers from r on, and its place in the frame's scales.
#define PANELS(F, r) F((r), 0); F((r)(CX*1), 64); F((r)(R12*1), 128); F((r)(R13*1), 192)

// Lines at DI, which are fetched into the first cache.
#define LINES_AT(p) PREFETCHT0 0 p; PREFETCHT0 64 p; PREFETCHT0 128 p; PREFETCHT0 192 p
#define LINES2 PREFETCHT0 (DI); PREFETCHT0 64(DI)
#define LINES4 LINES_AT((DI))
#define LINES5 LINES4; PREFETCHT0 256(DI)
#define LINES6 LINES5; PREFETCHT0 320(DI)
#define LINES7 LINES6; PREFETCHT0 384(DI)
#define LINES9 LINES7; PREFETCHT0 448(DI); PREFETCHT0 512(DI)

// ROWS hands F each row: the addresses of its sums and in dst, its sums of a group and of a span.
#define ROW0(F) F((R9), (DI), Z0, Z1, Z2, Z3, Z12, Z13, Z14, Z15)
#define ROW1(F) F((R9)(R8*1), (DI)(R14*1), Z4, Z5, Z6, Z7, Z16, Z17, Z18, Z19)
#define ROW2(F) F((R9)(R8*2), (DI)(R14*2), Z8, Z9, Z10, Z11, Z20, Z21, Z22, Z23)
#define ROWS1(F) ROW0(F)
#define ROWS2(F) ROW0(F); ROW1(F)
#define ROWS3(F) ROWS2(F); ROW2(F)

// NEXT_ROWS fetches the values and sums of a span of the next three rows.
#define NEXT_ROWS \
	LEAQ (SI)(DX*2), DI; \
	ADDQ DX, DI; \
	LINES_AT((DI)); \
	LINES_AT((DI)(DX*1)); \
	LINES_AT((DI)(DX*2)); \
	LEAQ (R9)(R8*2), DI; \
	ADDQ R8, DI; \
	LINES2; \
	PREFETCHT0 (DI)(R8*1); \
	PREFETCHT0 64(DI)(R8*1); \
	PREFETCHT0 (DI)(R8*2); \
	PREFETCHT0 64(DI)(R8*2)

// LOAD and DOT take four values of each row.
#define LOAD1(o) VPBROADCASTD o(SI), Z24
#define LOAD2(o) LOAD1(o); VPBROADCASTD o(SI)(DX*1), Z25
#define LOAD3(o) LOAD2(o); VPBROADCASTD o(SI)(DX*2), Z26
#define DOT1(n0, n1, n2) VPDPBUSD Z24, Z27, n0
#define DOT2(n0, n1, n2) DOT1(n0, n1, n2); VPDPBUSD Z25, Z27, n1
#define DOT3(n0, n1, n2) DOT2(n0, n1, n2); VPDPBUSD Z26, Z27, n2
#define STEP(LEVELS, v, LOAD, DOT, o) \
	LOAD(o); \
	LEVELS(v, (BX)); \
	DOT(Z0, Z4, Z8); \
	LEVELS(v, (BX)(CX*1)); \
	DOT(Z1, Z5, Z9); \
	LEVELS(v, (BX)(R12*1)); \
	DOT(Z2, Z6, Z10); \
	LEVELS(v, (BX)(R13*1)); \
	DOT(Z3, Z7, Z11)

// KEEP is STEP and puts the levels into the frame, at R14; KEPT takes them from there, at BX.
#define KEEP(LEVELS, v, LOAD, DOT, o) \
	LOAD(o); \
	LEVELS(v, (BX)); \
	VMOVDQA64 Z27, 64*(o)(R14); \
	DOT(Z0, Z4, Z8); \
	LEVELS(v, (BX)(CX*1)); \
	VMOVDQA64 Z27, 64*(o)+64(R14); \
	DOT(Z1, Z5, Z9); \
	LEVELS(v, (BX)(R12*1)); \
	VMOVDQA64 Z27, 64*(o)+128(R14); \
	DOT(Z2, Z6, Z10); \
	LEVELS(v, (BX)(R13*1)); \
	VMOVDQA64 Z27, 64*(o)+192(R14); \
	DOT(Z3, Z7, Z11)
#define KEPT(LEVELS, v, LOAD, DOT, o) \
	LOAD(o); \
	VMOVDQA64 64*(o)(BX), Z27; \
	DOT(Z0, Z4, Z8); \
	VMOVDQA64 64*(o)+64(BX), Z27; \
	DOT(Z1, Z5, Z9); \
	VMOVDQA64 64*(o)+128(BX), Z27; \
	DOT(Z2, Z6, Z10); \
	VMOVDQA64 64*(o)+192(BX), Z27; \
	DOT(Z3, Z7, Z11)
#define QUAD(v, LOAD, DOT, TAKE) \
	TAKE(A, v, LOAD, DOT, 16*v); \
	TAKE(B, v, LOAD, DOT, 16*v+4); \
	TAKE(C, v, LOAD, DOT, 16*v+8); \
	TAKE(D, v, LOAD, DOT, 16*v+12)

// BEGIN sets the sums of a group to the offset times -Σq; END adds T·S times them to those of the span. T is at t.
#define BEGIN(o, s, n0, n1, n2, n3) \
	VPSLLD.BCST.Z $OFFSET_BITS, o s, K5, n0; \
	VMOVDQA64     n0, n1; \
	VMOVDQA64     n0, n2; \
	VMOVDQA64     n0, n3
#define BEGIN_FIRST(s, d, n0, n1, n2, n3, z0, z1, z2, z3) BEGIN(0, s, n0, n1, n2, n3)
#define BEGIN_LAST(s, d, n0, n1, n2, n3, z0, z1, z2, z3) BEGIN(4, s, n0, n1, n2, n3)
#define END(o, t, n, z) \
	VPMOVSXWD    o(R10), Z28; \
	VPMULLD      Z28, n, n; \
	VPMULLD.BCST t, n, n; \
	VPADDD       n, z, z
#define FIRST(s, d, n0, n1, n2, n3, z0, z1, z2, z3) \
	END(0, SHARE s, n0, z0); \
	END(32, SHARE s, n1, z1); \
	END(64, SHARE s, n2, z2); \
	END(96, SHARE s, n3, z3)
#define LAST(s, d, n0, n1, n2, n3, z0, z1, z2, z3) \
	END(128, SHARE s, n0, z0); \
	END(160, SHARE s, n1, z1); \
	END(192, SHARE s, n2, z2); \
	END(224, SHARE s, n3, z3)

// END_MANY finds T·S in the frame.
#define TIMES(s) MOVL SHARE s, AX; SHLQ $11, AX
#define END_MANY(o, n, z) \
	VPMOVSXWD o-TIMES_BYTES(R10)(AX*1), Z28; \
	VPMULLD   Z28, n, n; \
	VPADDD    n, z, z
#define FIRST_MANY(s, d, n0, n1, n2, n3, z0, z1, z2, z3) \
	TIMES(s); \
	END_MANY(0, n0, z0); \
	END_MANY(32, n1, z1); \
	END_MANY(64, n2, z2); \
	END_MANY(96, n3, z3)
#define LAST_MANY(s, d, n0, n1, n2, n3, z0, z1, z2, z3) \
	TIMES(s); \
	END_MANY(128, n0, z0); \
	END_MANY(160, n1, z1); \
	END_MANY(192, n2, z2); \
	END_MANY(224, n3, z3)

#define BLOCK32(ROWS, LOAD, DOT, TAKE, FIRST, LAST) \
	ROWS(BEGIN_FIRST); \
	QUAD(0, LOAD, DOT, TAKE); \
	QUAD(1, LOAD, DOT, TAKE); \
	ROWS(FIRST); \
	ADDQ $128, R10; \
	ADDQ $4, R9
#define BLOCK16(ROWS, LOAD, DOT, TAKE, FIRST, LAST) \
	ROWS(BEGIN_FIRST); \
	QUAD(0, LOAD, DOT, TAKE); \
	MOVQ R9, DI; \
	MOVQ shares-144(SP), R9; \
	ROWS(FIRST); \
	MOVQ DI, R9; \
	ROWS(BEGIN_LAST); \
	QUAD(1, LOAD, DOT, TAKE); \
	MOVQ R9, DI; \
	MOVQ shares-144(SP), R9; \
	ROWS(LAST); \
	LEAQ 8(DI), R9; \
	ADDQ $4, shares-144(SP); \
	ADDQ $256, R10

#define ZERO(s, d, n0, n1, n2, n3, z0, z1, z2, z3) \
	VPXORQ z0, z0, z0; \
	VPXORQ z1, z1, z1; \
	VPXORQ z2, z2, z2; \
	VPXORQ z3, z3, z3
#define ZERO_LEAST(s, d, n0, n1, n2, n3, z0, z1, z2, z3) ZERO(s, d, z0, z1, z2, z3, n0, n1, n2, n3)

// LEAST adds m times Σq of a pair of groups.
#define LEAST(s, d, n0, n1, n2, n3, z0, z1, z2, z3) \
	VPBROADCASTD s, Z28; \
	VPDPWSSD     Z24, Z28, n0; \
	VPDPWSSD     Z25, Z28, n1; \
	VPDPWSSD     Z26, Z28, n2; \
	VPDPWSSD     Z27, Z28, n3
#define LESS(s, d, n0, n1, n2, n3, z0, z1, z2, z3) \
	VPSUBD n0, z0, z0; \
	VPSUBD n1, z1, z1; \
	VPSUBD n2, z2, z2; \
	VPSUBD n3, z3, z3

// SCALED adds a span's sums to what is in dst, FRESH those of the first span to 0, and OFF takes the span's least off.
#define SCALED4(o, d, z) VCVTDQ2PS z, z; VMULPS o+D_BYTES(R10), Z24, Z25; VFMADD213PS d, Z25, z
#define FRESH4(o, z) VCVTDQ2PS z, z; VMULPS o+D_BYTES(R10), Z24, Z25; VFMADD213PS Z26, Z25, z
#define FRESH(s, d, n0, n1, n2, n3, z0, z1, z2, z3) \
	VBROADCASTSS spanSums_d s, Z24; \
	VPXORQ       Z26, Z26, Z26; \
	FRESH4(0, z0); \
	FRESH4(64, z1); \
	FRESH4(128, z2); \
	FRESH4(192, z3)
#define SCALED(s, d, n0, n1, n2, n3, z0, z1, z2, z3) \
	VBROADCASTSS spanSums_d s, Z24; \
	VMOVUPS.Z    64 d, K2, Z26; \
	VMOVUPS.Z    128 d, K3, Z27; \
	VMOVUPS.Z    192 d, K4, Z28; \
	SCALED4(0, 0 d, z0); \
	SCALED4(64, Z26, z1); \
	SCALED4(128, Z27, z2); \
	SCALED4(192, Z28, z3)
#define OFF4(o, n, z) VCVTDQ2PS n, n; VMULPS o+LEAST_BYTES(R10), Z24, Z25; VFNMADD231PS Z25, n, z
#define OFF(s, d, n0, n1, n2, n3, z0, z1, z2, z3) \
	VBROADCASTSS spanSums_d s, Z24; \
	OFF4(0, n0, z0); \
	OFF4(64, n1, z1); \
	OFF4(128, n2, z2); \
	OFF4(192, n3, z3)
#define STORE(s, d, n0, n1, n2, n3, z0, z1, z2, z3) \
	VMOVUPS z0, 0 d; \
	VMOVUPS z1, K2, 64 d; \
	VMOVUPS z2, K3, 128 d; \
	VMOVUPS z3, K4, 192 d

// TILE takes a span of some rows. R15 is set to their number; the other names are labels.
#define TILE(name, loop, fetch, block, pairs, join, store, fresh, scaled, rows, ROWS, LOAD, DOT, TAKE, FIRST, LAST, bytes) \
name: \
	ROWS(ZERO); \
	PCALIGN $64; \
loop: \
	CMPQ  R15, $32; \
	JGE   block; \
	MOVQ  R15, DI; \
	ANDL  $7, DI; \
	IMULQ $(64*FETCH_LINES), DI; \
	MOVQ  R15, AX; \
	SHRQ  $3, AX; \
	IMULQ stride+56(FP), AX; \
	ADDQ  AX, DI; \
	ADDQ  fetch-128(SP), DI; \
	MOVQ  fetches-136(SP), AX; \
	ADDQ  AX, R15; \
fetch: \
	FETCH; \
	ADDQ  $(64*FETCH_LINES), DI; \
	DECQ  AX; \
	JNZ   fetch; \
block: \
	BLOCK(ROWS, LOAD, DOT, TAKE, FIRST, LAST); \
	ADDQ  $32, SI; \
	ADDQ  $bytes, BX; \
	ADDQ  $2048, R14; \
	DECQ  R11; \
	JNZ   loop; \
	MOVQ  frame-8(SP), R10; \
	CMPQ  layout+104(FP), $const_int12Mins; \
	JLT   join; \
	ROWS(ZERO_LEAST); \
	MOVQ  pairs-40(SP), R11; \
	MOVQ  pairSums-48(SP), R9; \
	ADDQ  row-56(SP), R9; \
pairs: \
	VMOVDQU64 M_BYTES+0(R10), Z24; \
	VMOVDQU64 M_BYTES+64(R10), Z25; \
	VMOVDQU64 M_BYTES+128(R10), Z26; \
	VMOVDQU64 M_BYTES+192(R10), Z27; \
	ROWS(LEAST); \
	ADDQ  $256, R10; \
	ADDQ  $4, R9; \
	DECQ  R11; \
	JNZ   pairs; \
	MOVQ  frame-8(SP), R10; \
	CMPQ  layout+104(FP), $const_zeroPoints; \
	JNE   join; \
	ROWS(LESS); \
join: \
	MOVQ  ldd+8(FP), R14; \
	MOVQ  rowDst-120(SP), DI; \
	MOVQ  spanSums-64(SP), R9; \
	ADDQ  row-56(SP), R9; \
	CMPQ  done-72(SP), $0; \
	JEQ   fresh; \
	ROWS(SCALED); \
	JMP   scaled; \
fresh: \
	ROWS(FRESH); \
scaled: \
	CMPQ  layout+104(FP), $const_int12Mins; \
	JLT   store; \
	CMPQ  layout+104(FP), $const_zeroPoints; \
	JEQ   store; \
	ROWS(OFF); \
store: \
	ROWS(STORE); \
	MOVQ  R15, fetched-112(SP); \
	MOVQ  $rows, R15; \
	JMP   nextRows

// The tiles of many rows. KEEP_LEVELS is for types that take long to unpack: the first three rows keep the levels for the others.
#define UNPACK_AGAIN \
	CMPQ AX, $4; \
	JEQ  two; \
	CMPQ AX, $2; \
	JEQ  two; \
	TILE(many, m1, m2, m3, m4, m5, m6, m7, m8, 3, ROWS3, LOAD3, DOT3, STEP, FIRST_MANY, LAST_MANY, CODE_BYTES)
#define KEEP_LEVELS \
	LEAQ LEVEL_BYTES(R10), R14; \
	CMPQ row-56(SP), $0; \
	JEQ  keep; \
	MOVQ R14, BX; \
	CMPQ AX, $4; \
	JEQ  keptTwo; \
	CMPQ AX, $2; \
	JGT  keptThree; \
	TILE(keptTwo, m1, m2, m3, m4, m5, m6, m7, m8, 2, ROWS2, LOAD2, DOT2, KEPT, FIRST, LAST, 2048); \
	TILE(keptThree, n1, n2, n3, n4, n5, n6, n7, n8, 3, ROWS3, LOAD3, DOT3, KEPT, FIRST_MANY, LAST_MANY, 2048); \
	TILE(keep, k1, k2, k3, k4, k5, k6, k7, k8, 3, ROWS3, LOAD3, DOT3, KEEP, FIRST_MANY, LAST_MANY, CODE_BYTES)
