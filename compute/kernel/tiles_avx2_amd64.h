// A tile of float weights with AVX2: dst[i][p] = sum over k of x[i][k] · w[p][k], one FMA chain for each output that
// begins with dst[i][p] or 0.
//
//	x    rows of float32, ldx bytes apart          row i:    x0 x1 x2 ...
//	w    panels, stride bytes apart, STEP bytes    panel p:  [16 outputs at k=0][16 outputs at k=1] ...
//	     for each k; outputs 8-15 are HALF bytes after outputs 0-7
//	dst  rows of float32, ldd bytes apart; the 16 outputs of panel p are at byte 64p of a row
//
// The including file defines STEP, HALF and WIDEN(address, register), which loads 8 weights as float32.
//
// One row takes 4 panels at a time, so that enough chains run side by side and the processor fetches as many streams of
// weights. Any number of rows takes 1 and fetches the weights AHEAD bytes on to the second cache.
//
// Registers: SI, AX rows 0, 3 of x; BX, R12 panels 0, 3; DI the row of dst; R9 rows; R10 panels left; R11 k left. Y0-Y11
// sums, Y12-Y13 weights, Y14 a value of x, Y15 all ones if sums begin with dst.

#define AHEAD 4096

// PANELS4 hands F each panel: its address, its byte in a row of dst, its two sums.
#define PANELS4(F) \
	F((BX), 0, Y0, Y1); \
	F((BX)(CX*1), 64, Y2, Y3); \
	F((BX)(CX*2), 128, Y4, Y5); \
	F((R12), 192, Y6, Y7)

#define LOAD_PANEL(w, o, a, b) VANDPS o(DI), Y15, a; VANDPS o+32(DI), Y15, b
#define STORE_PANEL(w, o, a, b) VMOVUPS a, o(DI); VMOVUPS b, o+32(DI)
#define FMA_PANEL(w, o, a, b) \
	WIDEN(w, Y12); \
	WIDEN(HALF w, Y13); \
	VFMADD231PS Y14, Y12, a; \
	VFMADD231PS Y14, Y13, b

// ROWS hands F each row: its address in x and its two sums.
#define ROWS1(F) F((SI), Y0, Y1)
#define ROWS2(F) ROWS1(F); F((SI)(DX*1), Y2, Y3)
#define ROWS3(F) ROWS2(F); F((SI)(DX*2), Y4, Y5)
#define ROWS4(F) ROWS3(F); F((AX), Y6, Y7)
#define ROWS5(F) ROWS4(F); F((SI)(DX*4), Y8, Y9)
#define ROWS6(F) ROWS5(F); F((AX)(DX*2), Y10, Y11)

#define LOAD_ROW(x, a, b) VANDPS (DI), Y15, a; VANDPS 32(DI), Y15, b; ADDQ R8, DI
#define STORE_ROW(x, a, b) VMOVUPS a, (DI); VMOVUPS b, 32(DI); ADDQ R8, DI
#define FMA_ROW(x, a, b) VBROADCASTSS x, Y14; VFMADD231PS Y14, Y12, a; VFMADD231PS Y14, Y13, b

#define ONE_PANEL(name, loop, ROWS) \
name: \
	ROWS(LOAD_ROW); \
loop: \
	WIDEN((BX), Y12); \
	WIDEN(HALF(BX), Y13); \
	PREFETCHT1 AHEAD(BX); \
	ROWS(FMA_ROW); \
	ADDQ $STEP, BX; \
	ADDQ $4, SI; \
	ADDQ $4, AX; \
	DECQ R11; \
	JNZ  loop; \
	MOVQ t_dst+0(FP), DI; \
	ROWS(STORE_ROW); \
	MOVQ $1, R11; \
	JMP  advance
