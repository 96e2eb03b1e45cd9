// The body of the products of affine types with AMX; affine_amx_amd64.h draws the layout and holds the jobs.

	MOVQ   p+0(FP), DX
	MOVQ   tileProduct_config(DX), AX
	TILE_CONFIG
	MOVQ   $64, CX
	MOVQ   tileProduct_unpack(DX), AX
	LEAQ   ·unpackersAMX(SB), R10
	MOVQ   (R10)(AX*8), AX
	MOVQ   AX, unpack-16(SP)
	MOVQ   tileProduct_work(DX), BX
	MOVQ   tileProduct_rows(DX), R9
	MOVQ   R9, tileProduct_rowsAt(DX)
	MOVQ   R9, DX
	LEAQ   NOWHERE(BX), R13           // what is scaled first is no job
	MOVQ   R13, R14
	MOVQ   CX, R8
	VPXORQ Z30, Z30, Z30
	VPXORQ Z31, Z31, Z31

span:
	LEAQ ACC(BX), R9
	MOVQ R9, acc-8(SP)
	MOVQ p+0(FP), AX
	MOVQ $0, tileProduct_panel(AX)
	MOVQ tileProduct_w(AX), R9
	MOVQ R9, tileProduct_at(AX)

// Two panels or one: tileProduct_at is the first, at its codes, scales and supers of this span.
panels:
	MOVQ  p+0(FP), AX
	MOVQ  tileProduct_rowsAt(AX), SI
	MOVQ  $0, tileProduct_pair(AX)
	MOVQ  tileProduct_panel(AX), R9
	SHLQ  $6, R9
	ADDQ  tileProduct_dst(AX), R9
	MOVQ  R9, tileProduct_out(AX)
	LEAQ  LEVELS(BX), DI

unpack:
	MOVQ    p+0(FP), AX
	MOVQ    tileProduct_at(AX), R12
	MOVQ    R12, R15
	MOVQ    R12, R9
	ADDQ    tileProduct_codesAt(AX), R15
	ADDQ    tileProduct_supersAt(AX), R9
	ADDQ    tileProduct_scalesAt(AX), R12
	MOVQ    tileProduct_stride(AX), R10
	ADDQ    R10, tileProduct_at(AX)
	SUPERS

// What the next span needs, or the panels after these, is fetched to the second cache: codes while these are unpacked if
// there is one job for each panel, else in the jobs after it.
	MOVQ tileProduct_blocks(AX), R11
	CMPQ R11, $8
	JGT  more
	MOVQ tileProduct_aheadScales(AX), R10
	PREFETCHT1 (R12)(R10*1)
	PREFETCHT1 64(R12)(R10*1)
	MOVQ tileProduct_aheadSupers(AX), R10
	PREFETCHT1 (R9)(R10*1)
	MOVQ tileProduct_aheadCodes(AX), R10
	JMP  blocks

more:
	MOVQ tileProduct_scaleBytes(AX), R10
	PREFETCHT1 (R12)(R10*1)
	PREFETCHT1 64(R12)(R10*1)
	MOVQ tileProduct_superBytes(AX), R10
	PREFETCHT1 (R9)(R10*1)
	MOVQ tileProduct_codeBytes(AX), R10
	MOVQ $8, R11

blocks:
	CMPQ tileProduct_pairs(AX), $1
	JLT  single
	JEQ  pair
	XORQ R10, R10

pair:
	PAIR(UNPACK)
	JMP  ended

single:
	SINGLE(UNPACK)
	JMP  ended

// This job fetches its part of the codes that are unpacked next in its place: of the next panels, the next span, or what
// comes after all panels.
product:
	MOVQ  tileProduct_at(AX), R10
	ADDQ  tileProduct_codesAt(AX), R10
	MOVQ  tileProduct_panel(AX), R9
	ADDQ  $2, R9
	CMPQ  R9, tileProduct_panels(AX)
	JLT   place
	MOVQ  tileProduct_at(AX), R10
	CMPQ  tileProduct_blocks(AX), $8
	JLE   place
	MOVQ  tileProduct_w(AX), R10
	ADDQ  tileProduct_codesAt(AX), R10
	ADDQ  tileProduct_codeBytes(AX), R10

place:
	LEAQ  LEVELS(BX), R9
	CMPQ  DI, R9
	JEQ   part
	ADDQ  tileProduct_stride(AX), R10

part:
	MOVQ  tileProduct_fetchLines(AX), R12
	MOVQ  tileProduct_pair(AX), R9
	DECQ  R9
	IMULQ R12, R9
	SHLQ  $8, R9
	ADDQ  R9, R10
	PAIR(READY)

// The job's sums are stored. The next one scales them.
ended:
	VMOVUPS 8256(DI), Z30
	VMOVUPS 8320(DI), Z31
	KEEP_MINS
	MOVQ    SI, DX
	MOVQ    acc-8(SP), R14
	ADDQ    $2048, acc-8(SP)
	MOVQ    R14, R13
	MOVQ    CX, R8
	MOVQ    p+0(FP), AX
	CMPQ    tileProduct_codesAt(AX), $0
	JNE     notFirst
	LEAQ    ZEROS(BX), R13

notFirst:
	CMPQ  tileProduct_blocks(AX), $8
	JGT   notLast
	MOVQ  tileProduct_pair(AX), R9
	CMPQ  R9, tileProduct_whole(AX)
	JGE   notLast
	MOVQ  tileProduct_out(AX), R14
	MOVQ  tileProduct_ldd(AX), R8

// The second panel, the next rows, the next panels, or the next span.
notLast:
	ADDQ $64, tileProduct_out(AX)
	LEAQ LEVELS(BX), R9
	CMPQ DI, R9
	JNE  rows
	MOVQ tileProduct_panel(AX), R9
	INCQ R9
	CMPQ R9, tileProduct_panels(AX)
	JGE  rows
	ADDQ $LEVELS_BYTES, DI
	CMPQ tileProduct_pair(AX), $0
	JEQ  unpack
	JMP  product

rows:
	MOVQ tileProduct_pair(AX), R9
	INCQ R9
	CMPQ R9, tileProduct_pairs(AX)
	JGE  nextPanels
	MOVQ R9, tileProduct_pair(AX)
	IMULQ tileProduct_pairLdd(AX), R9
	MOVQ tileProduct_panel(AX), R10
	SHLQ $6, R10
	ADDQ R10, R9
	ADDQ tileProduct_dst(AX), R9
	MOVQ R9, tileProduct_out(AX)
	ADDQ $(2*ROW_TILE_BYTES), SI
	LEAQ LEVELS(BX), DI
	JMP  product

nextPanels:
	MOVQ tileProduct_panel(AX), R9
	ADDQ $2, R9
	MOVQ R9, tileProduct_panel(AX)
	CMPQ R9, tileProduct_panels(AX)
	JLT  panels
	MOVQ tileProduct_codeBytes(AX), R9
	ADDQ R9, tileProduct_codesAt(AX)
	MOVQ tileProduct_scaleBytes(AX), R9
	ADDQ R9, tileProduct_scalesAt(AX)
	MOVQ tileProduct_superBytes(AX), R9
	ADDQ R9, tileProduct_supersAt(AX)
	MOVQ tileProduct_rowStride(AX), R9
	ADDQ R9, tileProduct_rowsAt(AX)
	SUBQ $8, tileProduct_blocks(AX)
	JGT  span

	FOUR_FIRST(0)
	FOUR_FIRST(4)
	FOUR_FIRST(8)
	FOUR_FIRST(12)
	CMPQ tileProduct_pairs(AX), $0
	JEQ  done
	FOUR_LAST(16)
	FOUR_LAST(20)
	FOUR_LAST(24)
	FOUR_LAST(28)

done:
	TILE_RELEASE
	VZEROUPPER
	RET
