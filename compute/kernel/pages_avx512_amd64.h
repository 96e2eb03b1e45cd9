// Products of a few rows with KV panels where they lie, with AVX-512: dst[i][p] = sum over k of x[i][k] · w[p][k], one FMA
// chain for each output. panel.go draws the panels; at[p] is the byte of panel p after base.
//
//	keys     x  queries     k  dimensions    p  panels: 16 positions each
//	values   x  weights     k  positions     p  tiles: 16 dimensions each
//
// 1, 2 or 4 rows take four p at a time and 8 rows two. Rows up to the next of these numbers are read. While a panel is
// multiplied the one FAR places on in at is fetched: blocks lie anywhere, so that the processor does not foresee them.
//
// The including file defines, for its type, STEP, the bytes of 16 weights, and what is named below.
//
// Registers: SI, AX, R14 rows 0, 3, 6 of x; DX ldx; R8 to R11 panels; R12, R13, BX, CX those that are fetched; DI the byte in
// a panel. Z0-Z15 sums, Z24-Z27 weights, Z31 a value of x. Z16-Z23 and Z28-Z30 belong to the type.

#define FAR 4

#define ROW4(x, a, b, c, d) \
	VBROADCASTSS x, Z31; \
	VFMADD231PS  Z31, Z24, a; \
	VFMADD231PS  Z31, Z25, b; \
	VFMADD231PS  Z31, Z26, c; \
	VFMADD231PS  Z31, Z27, d
#define ROW2(x, a, b) \
	VBROADCASTSS x, Z31; \
	VFMADD231PS  Z31, Z24, a; \
	VFMADD231PS  Z31, Z25, b

// FMA multiplies the weights of step u with 1, 2, 4 or 8 rows.
#define FMA1(u) ROW4(4*u(SI), Z0, Z1, Z2, Z3)
#define FMA2(u) FMA1(u); ROW4(4*u(SI)(DX*1), Z4, Z5, Z6, Z7)
#define FMA4(u) \
	FMA2(u); \
	ROW4(4*u(SI)(DX*2), Z8, Z9, Z10, Z11); \
	ROW4(4*u(AX), Z12, Z13, Z14, Z15)
#define FMA8(u) \
	ROW2(4*u(SI), Z0, Z1); \
	ROW2(4*u(SI)(DX*1), Z2, Z3); \
	ROW2(4*u(SI)(DX*2), Z4, Z5); \
	ROW2(4*u(AX), Z6, Z7); \
	ROW2(4*u(SI)(DX*4), Z8, Z9); \
	ROW2(4*u(AX)(DX*2), Z10, Z11); \
	ROW2(4*u(R14), Z12, Z13); \
	ROW2(4*u(AX)(DX*4), Z14, Z15)

#define NEXT_X ADDQ $16, SI; ADDQ $16, AX

#define ZERO_SUMS \
	VPXORQ Z0, Z0, Z0; \
	VPXORQ Z1, Z1, Z1; \
	VPXORQ Z2, Z2, Z2; \
	VPXORQ Z3, Z3, Z3; \
	VPXORQ Z4, Z4, Z4; \
	VPXORQ Z5, Z5, Z5; \
	VPXORQ Z6, Z6, Z6; \
	VPXORQ Z7, Z7, Z7; \
	VPXORQ Z8, Z8, Z8; \
	VPXORQ Z9, Z9, Z9; \
	VPXORQ Z10, Z10, Z10; \
	VPXORQ Z11, Z11, Z11; \
	VPXORQ Z12, Z12, Z12; \
	VPXORQ Z13, Z13, Z13; \
	VPXORQ Z14, Z14, Z14; \
	VPXORQ Z15, Z15, Z15

// STORE writes a row of sums, if there is one left: R9 counts them.
#define STORE4(a, b, c, d) \
	VMOVUPS a, (DI); \
	VMOVUPS b, 64(DI); \
	VMOVUPS c, 128(DI); \
	VMOVUPS d, 192(DI); \
	ADDQ    R8, DI; \
	DECQ    R9; \
	JZ      stored
#define STORE2(a, b) \
	VMOVUPS a, (DI); \
	VMOVUPS b, 64(DI); \
	ADDQ    R8, DI; \
	DECQ    R9; \
	JZ      stored
