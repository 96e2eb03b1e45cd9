// PAIRWISE folds the 16 lanes of y (0-7) and other (8-15) into the first of y with OP: j with j+8, then +4, +2, +1. y and
// x are one register; other and scratch are two names of another.
#define PAIRWISE(OP, y, x, other, scratch) \
	OP(other, y); \
	VEXTRACTF128 $1, y, scratch; \
	OP(scratch, x); \
	VPERMILPS    $0x4e, x, scratch; \
	OP(scratch, x); \
	VPERMILPS    $0xb1, x, scratch; \
	OP(scratch, x)

#define ADD(a, b) VADDPS a, b, b
#define MAX(a, b) VMAXPS a, b, b
