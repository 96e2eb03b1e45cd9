// Unpacks one span of a panel to spanWeights; affine_avx2_amd64.h draws the layouts.

	MOVQ to+0(FP), R14
	MOVQ codes+8(FP), BX
	MOVQ scales+16(FP), R12
	MOVQ supers+24(FP), R13
	MOVQ stride+32(FP), CX
	MOVQ blocks+40(FP), R11
	VMOVDQU MASK<>(SB), Y8
	LEAQ spanWeights_pairs(R14), R8
	LEAQ spanWeights_s(R14), R9
	LEAQ spanWeights_levels(R14), DI
	PREFETCHT1 (R13)(CX*1)
	SUPERS(0, 0)
	VMOVUPS Y13, (R14)
	KEEP_M(spanWeights_m)
	SUPERS(0, 8)
	VMOVUPS Y13, 32(R14)
	KEEP_M(spanWeights_m+32)

even:
	PREFETCHT1 (R12)(CX*1)
	UNPACK(SCALES0)
	PAIR0
	ADDQ $CODE_BYTES, BX
	ADDQ $STEP0, R12
	DECQ R11
	JZ   end
	PREFETCHT1 (R12)(CX*1)
	UNPACK(SCALES1)
	PAIR1
	ADDQ $CODE_BYTES, BX
	ADDQ $STEP1, R12
	DECQ R11
	JNZ  even

end:
	VZEROUPPER
	RET
