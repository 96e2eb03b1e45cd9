// The body that unpacks a part of a panel of an affine type for the tiles of AMX (affine_amx_amd64.h): levels less the offset, and for
// each half of a block its scales. What it needs of the type is what affine_vnni_amd64.h asks for.

	MOVQ levels+0(FP), DI
	MOVQ scales+8(FP), SI
	MOVQ mins+16(FP), DX
	MOVQ codes+24(FP), BX
	MOVQ packed+32(FP), R12
	MOVQ supers+40(FP), R14
	MOVQ blocks+48(FP), R11
	VPBROADCASTB offset+56(FP), Z26
	LEAQ (32*CODE_BYTES)(BX), R13 // the next part, or nearly so the next panel
	MASKS

loop:
	FETCH(0, (R13))
	FETCH(1, (R13))
	UNPACK_QUAD(0)
	UNPACK_QUAD(1)
	UNPACK_SCALES(0)
	UNPACK_SCALES(1)
	ADDQ  $512, DI
	ADDQ  $128, SI
	ADDQ  $128, DX
	ADDQ  $CODE_BYTES, BX
	ADDQ  $CODE_BYTES, R13
	ADDQ  $SCALE_BYTES, R12
	DECQ  R11
	TESTQ $7, R11
	JNZ   loop
	ADDQ  $SUPER_BYTES, R14
	TESTQ R11, R11
	JNZ   loop
	VZEROUPPER
	RET
