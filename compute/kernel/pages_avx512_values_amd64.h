// The body of a product with values; pages_avx512_amd64.h draws the layout. The type defines:
//
//	BLOCK4, BLOCK2      begin a panel of four or two tiles; R8 is its address, R12 that of the one to fetch, R9 is free
//	LOAD4(u), LOAD2(u)  load the weights of step u to Z24 on; R8 is the address of step 0
//	FETCH4, FETCH2      fetch the lines of four steps
//	NEXT                moves on by four steps
//	TILE                the bytes of a tile

#define VALUES_LOOP(block, loop, BLOCK, LOAD, FMA, FETCHED) \
block: \
	MOVQ (R13), R8; \
	MOVQ (8*FAR)(R13), R12; \
	ADDQ R11, R8; \
	ADDQ R11, R12; \
	ADDQ $8, R13; \
	MOVQ $4, CX; \
	BLOCK; \
loop: \
	FETCHED; \
	LOAD(0); \
	FMA(0); \
	LOAD(1); \
	FMA(1); \
	LOAD(2); \
	FMA(2); \
	LOAD(3); \
	FMA(3); \
	NEXT; \
	NEXT_X; \
	ADDQ $16, R14; \
	DECQ CX; \
	JNZ  loop; \
	DECQ BX; \
	JNZ  block

	BEGIN
	MOVQ t_ldx+24(FP), DX
	MOVQ t_base+32(FP), R11

tiles:
	MOVQ t_at+40(FP), R13
	MOVQ t_n+48(FP), BX
	MOVQ t_x+16(FP), SI
	LEAQ (SI)(DX*2), AX
	ADDQ DX, AX
	ZERO_SUMS
	MOVQ t_rows+64(FP), CX
	CMPQ CX, $4
	JGT  eight
	CMPQ CX, $2
	JGT  four
	JEQ  two
	VALUES_LOOP(block1, loop1, BLOCK4, LOAD4, FMA1, FETCH4)
	JMP  store4

two:
	VALUES_LOOP(block2, loop2, BLOCK4, LOAD4, FMA2, FETCH4)
	JMP  store4

four:
	VALUES_LOOP(block4, loop4, BLOCK4, LOAD4, FMA4, FETCH4)

store4:
	MOVQ t_dst+0(FP), DI
	MOVQ t_ldd+8(FP), R8
	MOVQ t_rows+64(FP), R9
	MOVQ $4, R10
	STORE4(Z0, Z1, Z2, Z3)
	STORE4(Z4, Z5, Z6, Z7)
	STORE4(Z8, Z9, Z10, Z11)
	STORE4(Z12, Z13, Z14, Z15)

eight:
	LEAQ (AX)(DX*2), R14
	ADDQ DX, R14
	VALUES_LOOP(block8, loop8, BLOCK2, LOAD2, FMA8, FETCH2)
	MOVQ t_dst+0(FP), DI
	MOVQ t_ldd+8(FP), R8
	MOVQ t_rows+64(FP), R9
	MOVQ $2, R10
	STORE2(Z0, Z1)
	STORE2(Z2, Z3)
	STORE2(Z4, Z5)
	STORE2(Z6, Z7)
	STORE2(Z8, Z9)
	STORE2(Z10, Z11)
	STORE2(Z12, Z13)
	STORE2(Z14, Z15)

// R10 tiles are done. The last ones may be computed twice, to be of that number.
stored:
	MOVQ  t_tiles+56(FP), CX
	SUBQ  R10, CX
	JLE   end
	MOVQ  CX, t_tiles+56(FP)
	CMPQ  CX, R10
	CMOVQLT CX, R10
	MOVQ  R10, CX
	SHLQ  $6, CX
	ADDQ  CX, t_dst+0(FP)
	IMULQ $TILE, R10
	ADDQ  R10, R11
	JMP   tiles

end:
	VZEROUPPER
	RET

#undef VALUES_LOOP
#undef BEGIN
#undef TILE
#undef LOAD4
#undef LOAD2
#undef BLOCK4
#undef BLOCK2
#undef FETCH4
#undef FETCH2
#undef NEXT
