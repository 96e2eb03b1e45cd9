// Weights from a checkpoint's order, row after row, to records of BF16 (weights.cuh).
#include "common.cuh"

// weightAt is where one weight is, in values.
__device__ __forceinline__ i64 weightAt(int tilesIn, int out, int in) {
    i64 tile = (i64)(out / 16) * tilesIn + in / 16;
    int lane = out % 8 * 4 + in % 8 / 2, part = (out % 16) / 8 + (in % 16) / 8 * 2;
    return tile * 256 + lane * 8 + part * 2 + in % 2;
}

// Rows first to first+rows-1 of a weight of in inputs, as float32 (0), bfloat16 (1) or IEEE half (2). Outputs past
// the last and inputs past in are left as they are: zero. [rows] blocks.
struct PackArgs {
    bf16 *to;
    const void *from;
    int first, in, tilesIn, type;
};
KERNEL pack(const PackArgs a) {
    i64 row = (i64)blockIdx.x * a.in;
    for (int i = threadIdx.x; i < a.in; i += blockDim.x) {
        bf16 v;
        if (a.type == 0)
            v = toBF16(((const float *)a.from)[row + i]);
        else if (a.type == 1)
            v = ((const bf16 *)a.from)[row + i];
        else {
            float f;
            asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(((const u16 *)a.from)[row + i]));
            v = toBF16(f);
        }
        a.to[weightAt(a.tilesIn, a.first + blockIdx.x, i)] = v;
    }
}
