// The end of a function that multiplies pairs of bfloat16 with AVX-512, from where it is known that rows are many or panels few: the including
// file has defined TWO_PANELS and ONE_PANEL, tiles of up to 6 rows, which leave how many panels they did in R11 and go to advance.

	CMPQ R10, $2
	JLT  one
	CMPQ R9, $6
	JEQ  r6p2
	CMPQ R9, $4
	JGT  r5p2
	JEQ  r4p2
	CMPQ R9, $2
	JLT  r1p2
	JEQ  r2p2
	JMP  r3p2

one:
	CMPQ R9, $6
	JEQ  r6p1
	CMPQ R9, $4
	JGT  r5p1
	JEQ  r4p1
	CMPQ R9, $2
	JLT  r1p1
	JEQ  r2p1
	JMP  r3p1

	TWO_PANELS(r1p2, r1p2k, ROWS1)
	TWO_PANELS(r2p2, r2p2k, ROWS2)
	TWO_PANELS(r3p2, r3p2k, ROWS3)
	TWO_PANELS(r4p2, r4p2k, ROWS4)
	TWO_PANELS(r5p2, r5p2k, ROWS5)
	TWO_PANELS(r6p2, r6p2k, ROWS6)
	ONE_PANEL(r1p1, r1p1k, ROWS1)
	ONE_PANEL(r2p1, r2p1k, ROWS2)
	ONE_PANEL(r3p1, r3p1k, ROWS3)
	ONE_PANEL(r4p1, r4p1k, ROWS4)
	ONE_PANEL(r5p1, r5p1k, ROWS5)
	ONE_PANEL(r6p1, r6p1k, ROWS6)

// R11 panels are done.
advance:
	SUBQ  R11, R10
	JZ    end
	MOVQ  R11, R12
	SHLQ  $6, R12
	ADDQ  R12, t_dst+0(FP)
	IMULQ CX, R11
	ADDQ  R11, t_w+32(FP)
	JMP   next

end:
	VZEROUPPER
	RET
