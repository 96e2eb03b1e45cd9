// Tiles of affine types with AMX: 16 rows of x times the 16 outputs of a panel. One instruction (TDPBSSD) multiplies a group of
// 32 or 16 inputs exactly, to int32; the sums are stored and scaled by AVX-512 as the other kernels do it:
// acc += sum·(d[i]·s[p]) and, for types with an m, acc -= m[p]·(d[i]·Σq[i]). The integer products of the next four groups
// run beside the scaling of the last four.
//
//	q      for each 16 rows and block: [16][32] int8
//	sums   for each 16 rows and block: their d, d·Σq of the first 16 values, of the last 16, and of all; [16] float32 each
//	levels of a part of a panel, less the offset, for each block: [8][16][4] int8, so that 16 outputs take 4 inputs a line
//	scales of a panel, for each block: s of the first and of the last 16 inputs, [16] float32 each; mins likewise m
//	buf    8 KB at a multiple of 8 KB: two times four results of [16][16] int32
//	dst    rows of float32, ldd bytes apart; what they hold is added to if accumulate is set
//	blocks of the part; all is how many there are from one 16 rows of q and sums to the next
//
// The including file defines:
//
//	Q_AT(g)             group g of a batch in q
//	B_BYTES             of a group in levels: 512 or 256
//	S_BYTES             from the scales of a group to those of the next: 128, or 64
//	BATCH               blocks of a batch, which has 4 groups: 4 or 2
//	AT(g)               the sums of group g of a batch, from R9 on
//	SUM(g)              where Σq stands in them
//	LEAST(o, p), LESS(sum, m, acc)  load m; take m times the sum off
//
// Registers: SI, DX q and 32; DI, CX levels and 64; BX, R15 buffers of this batch and of the last one; R12, R13
// scales and mins; R9 sums; R11 blocks left; R8 ldd. Z0-Z15 sums of rows 0 to 15, Z16 s, Z17 m, Z18-Z21 scratch. Tiles 0-3 integer
// sums, 4-5 q, 6-7 levels.

#define TILE_CONFIG LONG $0x4978e2c4; BYTE $0x00 // LDTILECFG (AX)
#define TILE_RELEASE LONG $0x4978e2c4; BYTE $0xc0
#define TILE_ZERO(to) LONG $0x497be2c4; BYTE $(0xc0+8*to)
#define TILE_ROWS(to, o) LONG $0x4b7be2c4; BYTE $(0x84+8*to); BYTE $0x16; LONG $(o)   // TILELOADD o(SI)(DX*1), to
#define TILE_LEVELS(to, o) LONG $0x4b7be2c4; BYTE $(0x84+8*to); BYTE $0x0f; LONG $(o) // TILELOADD o(DI)(CX*1), to
#define TILE_STORE(from, o) LONG $0x4b7ae2c4; BYTE $(0x84+8*from); BYTE $0x0b; LONG $(o) // TILESTORED from, o(BX)(CX*1)
#define TILE_DOT46(to) LONG $0x5e4be2c4; BYTE $(0xc4+8*to) // TDPBSSD tmm6, tmm4, to
#define TILE_DOT57(to) LONG $0x5e43e2c4; BYTE $(0xc5+8*to)

#define PRODUCT46(g) TILE_ZERO(g); TILE_ROWS(4, Q_AT(g)); TILE_LEVELS(6, B_BYTES*g); TILE_DOT46(g); TILE_STORE(g, 1024*g)
#define PRODUCT57(g) TILE_ZERO(g); TILE_ROWS(5, Q_AT(g)); TILE_LEVELS(7, B_BYTES*g); TILE_DOT57(g); TILE_STORE(g, 1024*g)
#define PRODUCTS \
	PRODUCT46(0); \
	PRODUCT57(1); \
	PRODUCT46(2); \
	PRODUCT57(3); \
	ADVANCE_PRODUCTS
#define ADVANCE_PRODUCTS ADDQ $(512*BATCH), SI; ADDQ $(4*B_BYTES), DI

#define SCALE_ROW(g, i, n, s, acc) \
	VMULPS.BCST (AT(g)+4*i)(R9), Z16, s; \
	VCVTDQ2PS   (1024*g+64*i)(R15), n; \
	VFMADD231PS s, n, acc; \
	LESS((AT(g)+SUM(g)+4*i)(R9), Z17, acc)
#define SCALE(g) \
	VMOVUPS (S_BYTES*g)(R12), Z16; \
	LEAST((S_BYTES*g)(R13), Z17); \
	SCALE_ROW(g, 0, Z18, Z19, Z0); \
	SCALE_ROW(g, 1, Z20, Z21, Z1); \
	SCALE_ROW(g, 2, Z18, Z19, Z2); \
	SCALE_ROW(g, 3, Z20, Z21, Z3); \
	SCALE_ROW(g, 4, Z18, Z19, Z4); \
	SCALE_ROW(g, 5, Z20, Z21, Z5); \
	SCALE_ROW(g, 6, Z18, Z19, Z6); \
	SCALE_ROW(g, 7, Z20, Z21, Z7); \
	SCALE_ROW(g, 8, Z18, Z19, Z8); \
	SCALE_ROW(g, 9, Z20, Z21, Z9); \
	SCALE_ROW(g, 10, Z18, Z19, Z10); \
	SCALE_ROW(g, 11, Z20, Z21, Z11); \
	SCALE_ROW(g, 12, Z18, Z19, Z12); \
	SCALE_ROW(g, 13, Z20, Z21, Z13); \
	SCALE_ROW(g, 14, Z18, Z19, Z14); \
	SCALE_ROW(g, 15, Z20, Z21, Z15)
#define SCALES4 \
	SCALE(0); \
	SCALE(1); \
	SCALE(2); \
	SCALE(3); \
	ADVANCE_SCALES
#define ADVANCE_SCALES ADDQ $(4*S_BYTES), R12; ADDQ $(4*S_BYTES), R13; ADDQ $(256*BATCH), R9
// The products of a batch run beside the scaling of the one before.
#define PRODUCTS_AND_SCALES \
	PRODUCT46(0); \
	SCALE(0); \
	PRODUCT57(1); \
	SCALE(1); \
	PRODUCT46(2); \
	SCALE(2); \
	PRODUCT57(3); \
	SCALE(3); \
	ADVANCE_PRODUCTS; \
	ADVANCE_SCALES

#define NO_LEAST(o, m)
#define LOAD_LEAST(o, m) VMOVUPS o, m
#define NO_LESS(sum, m, acc)
#define LESS_M(sum, m, acc) VFNMADD231PS.BCST sum, m, acc

#define CLEAR(acc) VPXORQ acc, acc, acc
#define LOAD_ROW(acc) VMOVUPS (R15), acc; ADDQ R8, R15; DECQ AX; JZ begin
#define STORE_ROW(acc) VMOVUPS acc, (DI); ADDQ R8, DI; DECQ AX; JZ done
#define EACH_ROW(F) \
	F(Z0); F(Z1); F(Z2); F(Z3); F(Z4); F(Z5); F(Z6); F(Z7); F(Z8); F(Z9); F(Z10); F(Z11); F(Z12); F(Z13); F(Z14); F(Z15)
