// A tile of float weights with NEON: dst[i][p] = sum over k of x[i][k] · w[p][k], one FMA chain for each output that begins with
// dst[i][p] or 0.
//
//	x    rows of float32, ldx bytes apart          row i:    x0 x1 x2 ...
//	w    panels, stride bytes apart                panel p:  [16 outputs at k=0][16 outputs at k=1] ...
//	dst  rows of float32, ldd bytes apart; the 16 outputs of panel p are at byte 64p of a row
//
// One row takes 4 panels at a time, so that enough chains run side by side. Any number of rows takes 1.
//
// Registers: R0 the panel's outputs of the first row, R1 ldd, R2 x, R3 ldx, R4 the panel, R5 stride, R6 rows, R7 panels left, R8 k,
// R9 groups left; R11-R16 rows of x or, for one row, R11-R14 panels and R15 x; R17 the row of dst, R19 the panel's weights, R20 k
// left and then the panels done. V0-V3 weights, V4 a value of x, V7 all ones if sums begin with dst, V8-V31 sums.

	MOVD  t_dst+0(FP), R0
	MOVD  t_ldd+8(FP), R1
	MOVD  t_x+16(FP), R2
	MOVD  t_ldx+24(FP), R3
	MOVD  t_w+32(FP), R4
	MOVD  t_stride+40(FP), R5
	MOVD  t_rows+48(FP), R6
	MOVD  t_panels+56(FP), R7
	MOVD  t_k+64(FP), R8
	MOVD  t_groups+72(FP), R9
	MOVBU t_accumulate+80(FP), R10
	NEG   R10, R10
	VDUP  R10, V7.D2

next:
	MOVD R0, R17
	MOVD R8, R20
	CMP  $1, R6
	BEQ  single
	MOVD R4, R19
	MOVD R2, R11
	ADD  R3, R11, R12
	ADD  R3, R12, R13
	ADD  R3, R13, R14
	ADD  R3, R14, R15
	ADD  R3, R15, R16
	CMP  $4, R6
	BEQ  r4
	BGT  r5or6
	CMP  $3, R6
	BEQ  r3
	JMP  r2

r5or6:
	CMP $6, R6
	BEQ r6
	JMP r5

single:
	MOVD R4, R19
	MOVD R2, R11
	CMP  $4, R7
	BLT  r1
	MOVD R4, R11
	ADD  R5, R11, R12
	ADD  R5, R12, R13
	ADD  R5, R13, R14
	MOVD R2, R15
	PANELS4(LOAD_PANEL)

singleLoop:
	FMOVS.P 4(R15), F4
	PANELS4(FMA_PANEL)
	SUBS $1, R20, R20
	BNE  singleLoop
	MOVD R0, R17
	PANELS4(STORE_PANEL)
	MOVD $4, R20
	JMP  advance

	ONE_PANEL(r1, r1k, ROWS1)
	ONE_PANEL(r2, r2k, ROWS2)
	ONE_PANEL(r3, r3k, ROWS3)
	ONE_PANEL(r4, r4k, ROWS4)
	ONE_PANEL(r5, r5k, ROWS5)
	ONE_PANEL(r6, r6k, ROWS6)

// R20 panels are done.
advance:
	ADD  R20<<6, R0
	MADD R20, R4, R5, R4
	SUBS R20, R7, R7
	BNE  next

// The next rows, and the first panel again.
	MOVD t_panels+56(FP), R7
	MOVD t_w+32(FP), R4
	SUB  R7<<6, R0
	MADD R6, R0, R1, R0
	MADD R6, R2, R3, R2
	SUBS $1, R9, R9
	BNE  next
	RET
