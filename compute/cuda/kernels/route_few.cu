// A norm, the product that makes the logits of a router, and the choice of experts, as one kernel for a few rows, on
// Hopper. A cluster of BLOCKS blocks has a row: each block normalises it and computes every BLOCKS-th tile of logits,
// the first block chooses. Its bits are those of norm_wide, gemm_few.cu and route, one after the other.
#include "barrier.cuh"
#include "gemm.cuh"
#include "route.cuh"

#define BLOCKS 8    // of a cluster
#define THREADS 512 // as norm_wide has

struct RouteFewArgs {
    RouteArgs r;   // whose logits are not used
    Rows src, dst; // rows of float32, and what their norm yields, in bfloat16
    const float *gain, *bias; // [width] of the norm; [experts] of the product, or nil
    const u8 *w;              // [experts, width] in records
    int width, ranges;
    float eps;
    int tiles; // of the product
};

// [BLOCKS·rows] blocks. Dynamic shared memory: the weights of a block's tiles, then a row of bfloat16.
KERNEL __cluster_dims__(BLOCKS, 1, 1) __launch_bounds__(THREADS) route_few(const RouteFewArgs a) {
    extern __shared__ __align__(128) u8 shared[];
    __shared__ float scratch[THREADS / 32], sums[THREADS / 32][16];
    __shared__ float scores[2048]; // of the first block of a cluster: logits, then what routeRow needs
    int thread = threadIdx.x, warp = thread / 32, lane = thread % 32, rank = blockIdx.x % BLOCKS, row = blockIdx.x / BLOCKS;
    int steps = a.width / 64, own = (a.tiles - rank + BLOCKS - 1) / BLOCKS; // tiles rank, rank+BLOCKS, ...
#pragma unroll 1
    for (int i = 0; i < own; i++)
#pragma unroll 1
        for (int unit = thread; unit < steps * RECORD / 16; unit += THREADS)
            copy16(sharedAddress(shared) + i * steps * RECORD + unit * 16, a.w + (i64)(rank + i * BLOCKS) * steps * RECORD + unit * 16, true);
    copyCommit();
    u8 *x = shared + (a.tiles + BLOCKS - 1) / BLOCKS * steps * RECORD;
    letNextBegin();
    constexpr int KEPT = 2; // fours of numbers that a thread keeps in registers; others are read twice
    const float4 *src = (const float4 *)((const float *)a.src.at + (i64)row * a.src.ld), *gain = (const float4 *)a.gain;
    uint2 *dst = (uint2 *)((bf16 *)a.dst.at + (i64)row * a.dst.ld);
    int out = (rank + thread / 16 * BLOCKS) * 16 + thread % 16, fours = a.width / 4; // out: of a.r.experts
    float4 v[KEPT] = {}, g[KEPT] = {};
#pragma unroll
    for (int k = 0; k < KEPT; k++)
        if (thread + k * THREADS < fours)
            g[k] = gain[thread + k * THREADS];
    bool mine = thread < own * 16 && out < a.r.experts, slot = a.r.slot[row] >= 0;
    float bias = mine && a.bias ? a.bias[out] : 0.f;
    clusterSync(); // all blocks have begun, so their shared memory can be written
    waitForRows();
    float squares = 0;
    auto square = [&](const float4 &v) {
        squares = fmaf(v.x, v.x, squares);
        squares = fmaf(v.y, v.y, squares);
        squares = fmaf(v.z, v.z, squares);
        squares = fmaf(v.w, v.w, squares);
    };
#pragma unroll
    for (int k = 0; k < KEPT; k++)
        if (thread + k * THREADS < fours) {
            v[k] = src[thread + k * THREADS];
            square(v[k]);
        }
#pragma unroll 1
    for (int i = thread + KEPT * THREADS; i < fours; i += THREADS)
        square(src[i]);
    float inv = rsqrtf(sumOfBlock(squares, scratch) / a.width + a.eps);
    auto store = [&](int i, const float4 &v, const float4 &w) {
        uint2 y = make_uint2(packBF16(v.x * inv * w.x, v.y * inv * w.y), packBF16(v.z * inv * w.z, v.w * inv * w.w));
        ((uint2 *)x)[i] = y;
        if (rank == 0)
            dst[i] = y;
    };
#pragma unroll
    for (int k = 0; k < KEPT; k++)
        if (thread + k * THREADS < fours)
            store(thread + k * THREADS, v[k], g[k]);
#pragma unroll 1
    for (int i = thread + KEPT * THREADS; i < fours; i += THREADS)
        store(i, src[i], gain[i]);
    copyWait<0>();
    __syncthreads();
    if (warp < own * a.ranges) {
        int tile = warp / a.ranges, range = warp % a.ranges, end = rangeStart(steps, a.ranges, range + 1);
        float d[4] = {};
#pragma unroll 4
        for (int s = rangeStart(steps, a.ranges, range); s < end; s++) {
            Weights<FORMAT> w;
            w.load(shared + (tile * steps + s) * RECORD, lane);
#pragma unroll
            for (int k = 0; k < 4; k++) { // all columns are the row
                const u8 *from = x + s * 128 + k * 32 + lane % 4 * 4;
                u32 wf[4];
                w.tile(k, wf);
                mma(d, wf, *(const u32 *)from, *(const u32 *)(from + 16));
            }
        }
        if (lane % 4 == 0)
            sums[warp][lane / 4] = d[0], sums[warp][lane / 4 + 8] = d[2];
    }
    __syncthreads();
    if (mine) {
        float sum = 0;
#pragma unroll 1
        for (int range = 0; range < a.ranges; range++)
            sum = sum + sums[thread / 16 * a.ranges + range][thread % 16];
        sum = sum * UNIT;
        if (a.bias)
            sum = sum + bias;
        u32 to; // in the first block
        asm("mapa.shared::cluster.u32 %0, %1, 0;" : "=r"(to) : "r"(sharedAddress(scores + out)));
        asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(to), "f"(sum) : "memory");
    }
    clusterSync();
    if (rank == 0 && warp == 0)
        routeRow(a.r, row, slot, scores + a.r.experts, [&](int i) { return scores[i]; });
}
