// PAIRWISE folds the 16 lanes of z into its first with OP: j with j+8, then +4, +2, +1. z, y and x are one register.
#define PAIRWISE(OP, z, y, x, scratchY, scratchX) \
	VEXTRACTF64X4 $1, z, scratchY; \
	OP(scratchY, y); \
	VEXTRACTF128  $1, y, scratchX; \
	OP(scratchX, x); \
	VPERMILPS     $0x4e, x, scratchX; \
	OP(scratchX, x); \
	VPERMILPS     $0xb1, x, scratchX; \
	OP(scratchX, x)

#define ADD(a, b) VADDPS a, b, b
#define MAX(a, b) VMAXPS a, b, b
