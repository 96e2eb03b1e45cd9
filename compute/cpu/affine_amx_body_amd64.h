// The body of the tiles of affine types with AMX; affine_amx_amd64.h draws the layout.

	MOVQ config+88(FP), AX
	TILE_CONFIG
	MOVQ $64, CX
	MOVQ $32, DX
	MOVQ ldd+8(FP), R8

// 16 rows.
next:
	MOVQ q+16(FP), SI
	MOVQ sums+24(FP), R9
	MOVQ levels+32(FP), DI
	MOVQ scales+40(FP), R12
	MOVQ mins+48(FP), R13
	MOVQ buf+56(FP), BX
	MOVQ blocks+72(FP), R11
	EACH_ROW(CLEAR)
	MOVB accumulate+96(FP), AX
	TESTB AX, AX
	JZ   begin
	MOVQ dst+0(FP), R15
	MOVQ rows+64(FP), AX
	EACH_ROW(LOAD_ROW)

begin:
	SUBQ $BATCH, R11
	JLT  rest
	PRODUCTS
	MOVQ BX, R15

loop:
	SUBQ $BATCH, R11
	JLT  drain
	XORQ $4096, BX
	PRODUCTS_AND_SCALES
	MOVQ BX, R15
	JMP  loop

drain:
	SCALES4

// The blocks that do not fill a batch.
rest:
	ADDQ $BATCH, R11
	JZ   store
	MOVQ BX, R15

single:
	SINGLE
	ADDQ $512, SI
	ADDQ $512, DI
	ADDQ $128, R12
	ADDQ $128, R13
	ADDQ $256, R9
	DECQ R11
	JNZ  single

store:
	MOVQ dst+0(FP), DI
	MOVQ rows+64(FP), AX
	EACH_ROW(STORE_ROW)
	MOVQ DI, dst+0(FP)
	MOVQ AX, rows+64(FP)
	MOVQ all+80(FP), AX
	SHLQ $8, AX
	ADDQ AX, sums+24(FP)
	SHLQ $1, AX
	ADDQ AX, q+16(FP)
	JMP  next

done:
	TILE_RELEASE
	VZEROUPPER
	RET
