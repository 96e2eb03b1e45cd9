// The body of a tile of an affine type with NEON; affine_neon_arm64.h draws the layout and holds the loop.

	MOVD dst+0(FP), R0
	MOVD ldd+8(FP), R1
	MOVD q+16(FP), R11
	MOVD ldq+24(FP), R8
	MOVD sums+32(FP), R2
	MOVD lds+40(FP), R10
	MOVD codes+48(FP), R19
	MOVD sc+56(FP), R20
	MOVD rows+64(FP), R24
	MOVD blocks+72(FP), R22
	MOVD first+80(FP), R26
	MOVD mins+88(FP), R9
	LSL  $MINUS_SHIFT, R26, R25
	ADD  $MINUS, R25
	LSL  $2, R26
	MOVD R20, R21
	MOVD $span-384(SP), R23
	ADD  R8, R11, R12
	ADD  R8, R12, R13
	ADD  R8, R13, R14
	ADD  R8, R14, R15
	ADD  R8, R15, R16
	ADD  R10, R2, R3
	ADD  R10, R3, R4
	ADD  R10, R4, R5
	ADD  R10, R5, R6
	ADD  R10, R6, R7
	CONSTANTS
	CMP  $2, R24
	BEQ  r2
	BLT  r1
	CMP  $4, R24
	BEQ  r4
	BLT  r3
	TILES56
	TILE(r1, r1k, r1m, r1e, ROWS1)
	TILE(r2, r2k, r2m, r2e, ROWS2)
	TILE(r3, r3k, r3m, r3e, ROWS3)
	TILE(r4, r4k, r4m, r4e, ROWS4)
