// The body of a tile of an affine type with AVX-512 VNNI; affine_vnni_amd64.h draws the layout and holds the loops.

	MOVQ ldd+8(FP), R14
	MOVQ ldq+24(FP), DX
	MOVQ lds+40(FP), R8
	LEAQ scratch-FRAME(SP), AX
	ADDQ $63, AX
	ANDQ $~63, AX
	MOVQ AX, frame-8(SP)
	MASKS
	KXORW K5, K5, K5
	CMPQ  offset+112(FP), $0
	JEQ   offsetSet
	KXNORW K5, K5, K5

offsetSet:

	// How many eighths of a panel's next section are fetched with each block.
	MOVQ rows+64(FP), R15
	MOVQ $4, AX
	CMPQ R15, $3
	JLE  fetchesSet
	MOVQ $2, AX
	CMPQ R15, $12
	JLE  fetchesSet
	MOVQ $1, AX

fetchesSet:
	MOVQ AX, fetches-136(SP)

nextPanels:
	XORL  CX, CX
	XORL  R12, R12
	XORL  R13, R13
	KXORW K2, K2, K2
	KXORW K3, K3, K3
	KXORW K4, K4, K4
	MOVQ  panels+72(FP), AX
	CMPQ  AX, $2
	JLT   panelsSet
	MOVQ  stride+56(FP), CX
	MOVQ  CX, R12
	MOVQ  CX, R13
	KXNORW K2, K2, K2
	CMPQ  AX, $3
	JLT   panelsSet
	ADDQ  CX, R12
	MOVQ  R12, R13
	KXNORW K3, K3, K3
	CMPQ  AX, $4
	JLT   panelsSet
	ADDQ  CX, R13
	KXNORW K4, K4, K4

panelsSet:
	MOVQ w+48(FP), AX
	MOVQ AX, codes-16(SP)
	MOVQ $0, done-72(SP)

nextSection:
	MOVQ    blocks+80(FP), R11
	SUBQ    done-72(SP), R11
	MOVQ    codes-16(SP), SI
	MOVQ    SI, DI
	ADDQ    section+96(FP), DI
	MOVQ    DI, nextSection-24(SP)
	XORL    BX, BX
	CMPQ    R11, $8
	JGT     fetchSet

	// What comes next are the next panels.
	MOVQ stride+56(FP), DI
	SHLQ $2, DI
	ADDQ w+48(FP), DI
	CMPQ panels+72(FP), $4
	JGT  fetchSet
	MOVQ $32, BX

fetchSet:
	CMPQ rows+64(FP), $FETCH_ROWS
	JGE  fetchedSet
	MOVQ $32, BX

fetchedSet:
	MOVQ    DI, fetch-128(SP)
	MOVQ    BX, fetched-112(SP)
	MOVQ    SI, scales-32(SP)
	MOVQ    lastHead+128(FP), DI
	CMPQ    R11, $8
	CMOVQGE head+120(FP), DI
	ADDQ    DI, codes-16(SP)

nextSpan:
	MOVQ    blocks+80(FP), R11
	SUBQ    done-72(SP), R11
	MOVQ    span+88(FP), AX
	CMPQ    R11, AX
	CMOVQGT AX, R11
	MOVQ    R11, now-80(SP)
#ifndef GROUP16
	CMPQ    layout+104(FP), $const_zeroPoints
	JEQ     pairsSet
	INCQ    R11
	SHRQ    $1, R11

pairsSet:
#endif
	MOVQ R11, pairs-40(SP)
	MOVQ R11, R9
	MOVQ frame-8(SP), R10
	MOVQ scales-32(SP), SI
	MOVQ layout+104(FP), AX
	CALL scalesVNNI<>(SB)
	CMPQ rows+64(FP), $MANY_ROWS
	JLT  scalesSet
	MOVQ pairs-40(SP), R9
	CALL timesVNNI<>(SB)

scalesSet:
	MOVQ SI, scales-32(SP)
	MOVQ done-72(SP), AX
	MOVQ AX, R9
	SHRQ $3, R9
	IMULQ $spanSums__size, R9
	ADDQ sums+32(FP), R9
	MOVQ R9, spanSums-64(SP)
	MOVQ AX, SI
	SHLQ $5, SI
	ADDQ q+16(FP), SI
	MOVQ SI, rowQ-88(SP)
	ANDQ $7, AX
	LEAQ spanSums_sums16(R9)(AX*4), R11
#ifdef GROUP16
	LEAQ spanSums_shares(R9)(AX*4), R10
	MOVQ R10, firstShare-152(SP)
	LEAQ spanSums_minus16(R9)(AX*8), R9
#else
	CMPQ layout+104(FP), $const_zeroPoints
	JEQ  sumsSet
	LEAQ spanSums_sums32(R9), R11

sumsSet:
	LEAQ spanSums_minus32(R9)(AX*4), R9
#endif
	MOVQ R11, pairSums-48(SP)
	MOVQ R9, minus-96(SP)
	MOVQ $0, row-56(SP)
	MOVQ dst+0(FP), DI
	MOVQ DI, rowDst-120(SP)
	MOVQ rows+64(FP), R15
	MOVQ R15, left-104(SP)

rows:
	MOVQ rowQ-88(SP), SI
	MOVQ codes-16(SP), BX
	MOVQ minus-96(SP), R9
	ADDQ row-56(SP), R9
#ifdef GROUP16
	MOVQ firstShare-152(SP), R10
	ADDQ row-56(SP), R10
	MOVQ R10, shares-144(SP)
#endif
	MOVQ frame-8(SP), R10
	MOVQ now-80(SP), R11
	MOVQ R15, AX
	MOVQ fetched-112(SP), R15
	CMPQ rows+64(FP), $MANY_ROWS
	JLT  few
	CMPQ AX, $4
	JLE  nextFetched
	NEXT_ROWS

nextFetched:
	TILES_MANY

few:
	CMPQ AX, $4
	JEQ  two
	CMPQ AX, $2
	JGT  three
	JEQ  two
	TILE(one, one1, one2, one3, one4, one5, one6, one7, one8, 1, ROWS1, LOAD1, DOT1, STEP, FIRST, LAST, CODE_BYTES)
	TILE(two, two1, two2, two3, two4, two5, two6, two7, two8, 2, ROWS2, LOAD2, DOT2, STEP, FIRST, LAST, CODE_BYTES)
	TILE(three, three1, three2, three3, three4, three5, three6, three7, three8, 3, ROWS3, LOAD3, DOT3, STEP, FIRST, LAST, CODE_BYTES)

// R15 rows are done.
nextRows:
	MOVQ  R15, AX
	IMULQ R8, AX
	ADDQ  AX, row-56(SP)
	MOVQ  R15, AX
	IMULQ DX, AX
	ADDQ  AX, rowQ-88(SP)
	MOVQ  R15, AX
	IMULQ R14, AX
	ADDQ  AX, rowDst-120(SP)
	MOVQ  left-104(SP), AX
	SUBQ  R15, AX
	MOVQ  AX, left-104(SP)
	MOVQ  AX, R15
	JNZ   rows

	MOVQ  now-80(SP), AX
	ADDQ  AX, done-72(SP)
	IMULQ $CODE_BYTES, AX
	ADDQ  AX, codes-16(SP)
	MOVQ  done-72(SP), AX
	CMPQ  AX, blocks+80(FP)
	JGE   panelsDone
	TESTQ $7, AX
	JNZ   nextSpan
	MOVQ  nextSection-24(SP), AX
	MOVQ  AX, codes-16(SP)
	JMP   nextSection

panelsDone:
	SUBQ $4, panels+72(FP)
	JLE  end
	ADDQ $256, dst+0(FP)
	MOVQ stride+56(FP), AX
	SHLQ $2, AX
	ADDQ AX, w+48(FP)
	JMP  nextPanels

end:
	VZEROUPPER
	RET
