// The body of the products of affine types with AMX; affine_amx_amd64.h draws the layout and holds the jobs.

	MOVQ p+0(FP), AX
	MOVQ tileProduct_work(AX), BX
	MOVQ tileProduct_rows(AX), SI
	MOVQ tileProduct_config(AX), AX
	TILE_CONFIG
	MOVQ $64, CX

	// The first pair of panels is unpacked before all steps. What is scaled first is no job.
	MOVQ p+0(FP), AX
	MOVQ tileProduct_unpack(AX), R9
	LEAQ ·unpackersAMX(SB), R10
	MOVQ (R10)(R9*8), R9
	MOVQ R9, tileProduct_unpack(AX)
	LEAQ SUPERS(BX), R9
	MOVQ R9, tileProduct_supers(AX)
	MOVQ R9, tileProduct_scaled(AX)
	MOVQ R9, tileProduct_current(AX)
	LEAQ ACC(BX), R13
	MOVQ R13, tileProduct_acc(AX)
	LEAQ ZEROS(BX), R13
	LEAQ NOWHERE(BX), R14
	MOVQ CX, R8
	MOVQ SI, DX

unpack:
	CALL chunk<>(SB)
	MOVQ p+0(FP), AX
	MOVQ tileProduct_chunk(AX), R9
	CMPQ R9, tileProduct_chunks(AX)
	JLT  unpack
	CALL next<>(SB)

step:
	JOB(0, 0, 1, 3, 4, SUMS, SUMS+3072, to1, to2, to3, to4)
	SCALE_SECOND
	JOB(1, 3, 4, 0, 1, SUMS+3072, SUMS, to5, to6, to7, to8)

	// The next step scales this one.
	MOVQ p+0(FP), AX
	MOVQ tileProduct_current(AX), DX
	MOVQ DX, tileProduct_scaled(AX)
	MOVQ SI, DX
	MOVQ tileProduct_acc(AX), R14
	ADDQ $2048, tileProduct_acc(AX)
	MOVQ R14, R13
	MOVQ CX, R8
	MOVQ $0, tileProduct_toSecond(AX)
	CMPQ tileProduct_begun(AX), $0
	JNE  begun
	LEAQ ZEROS(BX), R13

begun:
	CMPQ tileProduct_spans(AX), $1
	JNE  rows
	CMPQ tileProduct_direct(AX), $0
	JLE  rows
	MOVQ tileProduct_out(AX), R14
	MOVQ tileProduct_ldd(AX), R8
	MOVQ tileProduct_beside(AX), SI
	MOVQ SI, tileProduct_toSecond(AX)

	// The lines of dst that the next rows go to are fetched, to be written.
	CMPQ tileProduct_direct(AX), $1
	JEQ  rows
	MOVQ R14, DI
	ADDQ tileProduct_tileLdd(AX), DI
	MOVQ $4, SI

fetch:
	FETCH_TO_WRITE
	FETCH_TO_WRITE
	FETCH_TO_WRITE
	FETCH_TO_WRITE
	DECQ SI
	JNZ  fetch

// The next rows, the next pair of panels, or the next span.
rows:
	MOVQ tileProduct_tileLdd(AX), SI
	ADDQ SI, tileProduct_out(AX)
	LEAQ ROW_TILE_BYTES(DX), SI
	DECQ tileProduct_direct(AX)
	DECQ tileProduct_tilesLeft(AX)
	JGT  step

	MOVQ tileProduct_supers(AX), R9
	MOVQ R9, tileProduct_current(AX)
	MOVQ tileProduct_panel(AX), R9
	ADDQ $2, R9
	CMPQ R9, tileProduct_panels(AX)
	JLT  pair
	MOVQ tileProduct_rowStride(AX), R9
	ADDQ R9, tileProduct_rows(AX)
	LEAQ ACC(BX), R9
	MOVQ R9, tileProduct_acc(AX)
	MOVQ $1, tileProduct_begun(AX)
	XORQ R9, R9
	DECQ tileProduct_spans(AX)
	JLE  ended

pair:
	MOVQ    R9, tileProduct_panel(AX)
	MOVQ    tileProduct_rows(AX), SI
	MOVQ    tileProduct_tiles(AX), R10
	MOVQ    R10, tileProduct_tilesLeft(AX)
	LEAQ    2(R9), R10
	XORQ    R11, R11
	CMPQ    R10, tileProduct_panels(AX)
	CMOVQLE tileProduct_whole(AX), R11
	MOVQ    R11, tileProduct_direct(AX)
	SHLQ    $6, R9
	ADDQ    tileProduct_dst(AX), R9
	MOVQ    R9, tileProduct_out(AX)
	CALL    next<>(SB)
	JMP     step

ended:
	SCALE_BEGIN(0)
	TILE_STORE(3, SUMS+3072)
	TILE_STORE(4, SUMS+4096)
	TILE_STORE(2, SUMS+5120)
	SCALE16(SUMS)
	SCALE_SECOND
	SCALE_BEGIN(1)
	SCALE16(SUMS+3072)
	TILE_RELEASE
	VZEROUPPER
	RET
