// The kernel of gemm_turned.cuh for rows of bfloat16. turnedBF16 in turn.go names it.
#include "gemm_turned.cuh"

TURNED_KERNEL(gemm_wgmma_128x256_turned, false)
