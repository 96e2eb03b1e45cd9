// A tile of float weights with AVX-512: dst[i][p] = sum over k of x[i][k] · w[p][k], one FMA chain for each output
// that begins with dst[i][p] or 0.
//
//	x    rows of float32, ldx bytes apart          row i:    x0 x1 x2 ...
//	w    panels, stride bytes apart, STEP bytes    panel p:  [16 outputs at k=0][16 outputs at k=1] ...
//	     for each k
//	dst  rows of float32, ldd bytes apart; the 16 outputs of panel p are at byte 64p of a row
//
// The including file defines STEP and WIDEN(address, register), which loads the 16 weights of one k as float32.
//
// One or two rows take 8 or 4 panels at a time, so that enough chains run side by side and the processor fetches as many
// streams of weights. Any number of rows takes 2 or 1 and fetches the weights AHEAD bytes on to the second cache.
//
// Registers: SI, AX, R14 rows 0, 3, 6 of x; BX, R12, R13 panels 0, 3, 6; DI the row of dst; R9 rows; R10 panels left;
// R11 k left. Z0-Z15 sums, Z28-Z29 weights, Z30-Z31 values of x; K1 is all ones if sums begin with dst.

#define AHEAD 4096

// PANELS hands F each panel: its address, its byte in a row of dst, its sums for row 0 and row 1.
#define PANELS4(F) \
	F((BX), 0, Z0, Z8); \
	F((BX)(CX*1), 64, Z1, Z9); \
	F((BX)(CX*2), 128, Z2, Z10); \
	F((R12), 192, Z3, Z11)
#define PANELS8(F) \
	PANELS4(F); \
	F((BX)(CX*4), 256, Z4, Z12); \
	F((R12)(CX*2), 320, Z5, Z13); \
	F((R13), 384, Z6, Z14); \
	F((R12)(CX*4), 448, Z7, Z15)

#define LOAD_A(w, o, a, b) VMOVUPS.Z o(DI), K1, a
#define LOAD_B(w, o, a, b) VMOVUPS.Z o(DI), K1, b
#define STORE_A(w, o, a, b) VMOVUPS a, o(DI)
#define STORE_B(w, o, a, b) VMOVUPS b, o(DI)
#define FMA_A(w, o, a, b) WIDEN(w, Z28); VFMADD231PS Z30, Z28, a
#define FMA_AB(w, o, a, b) WIDEN(w, Z28); VFMADD231PS Z30, Z28, a; VFMADD231PS Z31, Z28, b

#define ONE_ROW(name, loop, PANELS, n) \
name: \
	PANELS(LOAD_A); \
loop: \
	VBROADCASTSS (SI), Z30; \
	PANELS(FMA_A); \
	ADDQ $STEP, BX; \
	ADDQ $STEP, R12; \
	ADDQ $STEP, R13; \
	ADDQ $4, SI; \
	DECQ R11; \
	JNZ  loop; \
	PANELS(STORE_A); \
	MOVQ $n, R11; \
	JMP  advance

#define TWO_ROWS(name, loop, PANELS, n) \
name: \
	PANELS(LOAD_A); \
	ADDQ R8, DI; \
	PANELS(LOAD_B); \
loop: \
	VBROADCASTSS (SI), Z30; \
	VBROADCASTSS (SI)(DX*1), Z31; \
	PANELS(FMA_AB); \
	ADDQ $STEP, BX; \
	ADDQ $STEP, R12; \
	ADDQ $STEP, R13; \
	ADDQ $4, SI; \
	DECQ R11; \
	JNZ  loop; \
	PANELS(STORE_B); \
	SUBQ R8, DI; \
	PANELS(STORE_A); \
	MOVQ $n, R11; \
	JMP  advance

// ROWS hands F each row: its address in x, its sums for panel 0 and panel 1.
#define ROWS1(F) F((SI), Z0, Z1)
#define ROWS2(F) ROWS1(F); F((SI)(DX*1), Z2, Z3)
#define ROWS3(F) ROWS2(F); F((SI)(DX*2), Z4, Z5)
#define ROWS4(F) ROWS3(F); F((AX), Z6, Z7)
#define ROWS5(F) ROWS4(F); F((SI)(DX*4), Z8, Z9)
#define ROWS6(F) ROWS5(F); F((AX)(DX*2), Z10, Z11)
#define ROWS7(F) ROWS6(F); F((R14), Z12, Z13)
#define ROWS8(F) ROWS7(F); F((AX)(DX*4), Z14, Z15)

#define LOAD1(x, a, b) VMOVUPS.Z (DI), K1, a; ADDQ R8, DI
#define LOAD2(x, a, b) VMOVUPS.Z (DI), K1, a; VMOVUPS.Z 64(DI), K1, b; ADDQ R8, DI
#define STORE1(x, a, b) VMOVUPS a, (DI); ADDQ R8, DI
#define STORE2(x, a, b) VMOVUPS a, (DI); VMOVUPS b, 64(DI); ADDQ R8, DI
#define FMA1(x, a, b) VFMADD231PS.BCST x, Z28, a
#define FMA2(x, a, b) VBROADCASTSS x, Z31; VFMADD231PS Z31, Z28, a; VFMADD231PS Z31, Z29, b

#define NEXT_K(loop) \
	ADDQ $STEP, BX; \
	ADDQ $4, SI; \
	ADDQ $4, AX; \
	ADDQ $4, R14; \
	DECQ R11; \
	JNZ  loop; \
	MOVQ t_dst+0(FP), DI

#define ONE_PANEL(name, loop, ROWS) \
name: \
	ROWS(LOAD1); \
loop: \
	WIDEN((BX), Z28); \
	PREFETCHT1 AHEAD(BX); \
	ROWS(FMA1); \
	NEXT_K(loop); \
	ROWS(STORE1); \
	MOVQ $1, R11; \
	JMP  advance

#define TWO_PANELS(name, loop, ROWS) \
name: \
	ROWS(LOAD2); \
loop: \
	WIDEN((BX), Z28); \
	WIDEN((BX)(CX*1), Z29); \
	PREFETCHT1 AHEAD(BX); \
	PREFETCHT1 AHEAD(BX)(CX*1); \
	ROWS(FMA2); \
	NEXT_K(loop); \
	ROWS(STORE2); \
	MOVQ $2, R11; \
	JMP  advance
