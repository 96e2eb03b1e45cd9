// Products of more than 16 rows of bfloat16 on Hopper: the kernels of gemm_wgmma.cuh by outputs and rows of a part.
// Names and sizes are those of warpgroupKernels in products.go.
#include "gemm_wgmma.cuh"

WGMMA_KERNEL(gemm_wgmma_128x256, false, 256, 2, 1, false)
WGMMA_KERNEL(gemm_wgmma_128x224, false, 224, 2, 1, false)
WGMMA_KERNEL(gemm_wgmma_128x192, false, 192, 2, 1, false)
WGMMA_KERNEL(gemm_wgmma_128x160, false, 160, 2, 1, false)
WGMMA_KERNEL(gemm_wgmma_128x128, false, 128, 2, 2, false)
WGMMA_KERNEL(gemm_wgmma_128x64, false, 64, 2, 2, false)
WGMMA_KERNEL(gemm_wgmma_128x32, false, 32, 2, 2, false)
#if FORMAT != 0 // more warps make bfloat16 of codes
WGMMA_KERNEL(gemm_wgmma_256x32, false, 32, 4, 2, false)
#endif
WGMMA_KERNEL(gemm_wgmma_64x128, false, 128, 1, 2, false)
WGMMA_KERNEL(gemm_wgmma_64x64, false, 64, 1, 2, false)
WGMMA_KERNEL(gemm_wgmma_128x256_split, false, 256, 2, 1, true)
WGMMA_KERNEL(gemm_wgmma_128x192_split, false, 192, 2, 1, true)
WGMMA_KERNEL(gemm_wgmma_64x192_split, false, 192, 1, 1, true)
WGMMA_KERNEL(gemm_wgmma_128x128_split, false, 128, 2, 2, true)
WGMMA_KERNEL(gemm_wgmma_64x128_split, false, 128, 1, 2, true)
WGMMA_KERNEL(gemm_wgmma_64x64_split, false, 64, 1, 2, true)
WGMMA_KERNEL(gemm_wgmma_64x32_split, false, 32, 1, 4, true)
