// The body of a product with keys; pages_avx512_amd64.h draws the layout. The type defines:
//
//	WIDEN(w, z, s)     loads 16 weights from address w to z; s is the panel's register of scales
//	SCALES(w, s)       loads the scales at address w to s, if the type has any
//	FETCH(p)           fetches the lines of four steps from address p on
//	SPAN(name, SCALES) begins a span of k that share scales: sets COUNT to its steps over four, and moves DI to its weights
//	TILES              of a span

#define KEYS4(u) \
	WIDEN(STEP*u(R8)(DI*1), Z24, Z16); \
	WIDEN(STEP*u(R9)(DI*1), Z25, Z17); \
	WIDEN(STEP*u(R10)(DI*1), Z26, Z18); \
	WIDEN(STEP*u(R11)(DI*1), Z27, Z19)
#define KEYS2(u) \
	WIDEN(STEP*u(R8)(DI*1), Z24, Z16); \
	WIDEN(STEP*u(R9)(DI*1), Z25, Z17)
#define SCALES2 SCALES((R8)(DI*1), Y16, Z16); SCALES((R9)(DI*1), Y17, Z17)
#define SCALES4 SCALES2; SCALES((R10)(DI*1), Y18, Z18); SCALES((R11)(DI*1), Y19, Z19)
#define FETCH2 FETCH(R12); FETCH(R13)
#define FETCH4 FETCH2; FETCH(BX); FETCH(CX)

#define KEYS_LOOP(span, second, loop, SCALED, FETCHED, KEYS, FMA, COUNT) \
span: \
	SPAN(second, loop, SCALED, COUNT); \
loop: \
	FETCHED; \
	KEYS(0); \
	FMA(0); \
	KEYS(1); \
	FMA(1); \
	KEYS(2); \
	FMA(2); \
	KEYS(3); \
	FMA(3); \
	ADDQ $(4*STEP), DI; \
	NEXT_X; \
	ADDQ $16, R14; \
	DECQ COUNT; \
	JNZ  loop; \
	SUBQ $TILES, left-8(SP); \
	JNZ  span

	BEGIN
	MOVQ t_ldx+24(FP), DX

panels:
	MOVQ t_tiles+56(FP), DI
	MOVQ DI, left-8(SP)
	MOVQ t_at+40(FP), R14
	MOVQ t_base+32(FP), DI
	MOVQ (R14), R8
	MOVQ 8(R14), R9
	ADDQ DI, R8
	ADDQ DI, R9
	MOVQ (8*FAR)(R14), R12
	MOVQ (8*FAR+8)(R14), R13
	ADDQ DI, R12
	ADDQ DI, R13
	MOVQ t_x+16(FP), SI
	LEAQ (SI)(DX*2), AX
	ADDQ DX, AX
	ZERO_SUMS
	CMPQ t_rows+64(FP), $4
	JGT  eight
	MOVQ 16(R14), R10
	MOVQ 24(R14), R11
	MOVQ (8*FAR+16)(R14), BX
	MOVQ (8*FAR+24)(R14), CX
	ADDQ DI, R10
	ADDQ DI, R11
	ADDQ DI, BX
	ADDQ DI, CX
	XORQ DI, DI
	CMPQ t_rows+64(FP), $2
	JGT  four
	JEQ  two
	KEYS_LOOP(span1, second1, loop1, SCALES4, FETCH4, KEYS4, FMA1, R15)
	JMP  store4

two:
	KEYS_LOOP(span2, second2, loop2, SCALES4, FETCH4, KEYS4, FMA2, R15)
	JMP  store4

four:
	KEYS_LOOP(span4, second4, loop4, SCALES4, FETCH4, KEYS4, FMA4, R15)

store4:
	MOVQ t_dst+0(FP), DI
	MOVQ t_ldd+8(FP), R8
	MOVQ t_rows+64(FP), R9
	ADDQ $256, t_dst+0(FP)
	ADDQ $32, t_at+40(FP)
	MOVQ $4, R10
	STORE4(Z0, Z1, Z2, Z3)
	STORE4(Z4, Z5, Z6, Z7)
	STORE4(Z8, Z9, Z10, Z11)
	STORE4(Z12, Z13, Z14, Z15)

eight:
	XORQ DI, DI
	LEAQ (AX)(DX*2), R14
	ADDQ DX, R14
	KEYS_LOOP(span8, second8, loop8, SCALES2, FETCH2, KEYS2, FMA8, CX)
	MOVQ t_dst+0(FP), DI
	MOVQ t_ldd+8(FP), R8
	MOVQ t_rows+64(FP), R9
	ADDQ $128, t_dst+0(FP)
	ADDQ $16, t_at+40(FP)
	MOVQ $2, R10
	STORE2(Z0, Z1)
	STORE2(Z2, Z3)
	STORE2(Z4, Z5)
	STORE2(Z6, Z7)
	STORE2(Z8, Z9)
	STORE2(Z10, Z11)
	STORE2(Z12, Z13)
	STORE2(Z14, Z15)

stored:
	SUBQ R10, t_n+48(FP)
	JG   panels
	VZEROUPPER
	RET

#undef KEYS4
#undef KEYS2
#undef SCALES2
#undef SCALES4
#undef FETCH2
#undef FETCH4
#undef KEYS_LOOP
#undef BEGIN
#undef STEP
#undef TILES
#undef WIDEN
#undef SCALES
#undef FETCH
#undef SPAN
