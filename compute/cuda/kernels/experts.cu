// Mixtures of experts: the choice of experts, the order of routes, and the sum of what experts yield. A route is one of
// a row's choices. Tensors of routes have a row for each: sorted by expert, and within an expert by row, so that the
// products of grouped.cu read each expert's weights once. No result depends on the company of a row.
#include "route.cuh"

// route chooses the experts of each row: a warp has one. Dynamic shared memory: 2·experts + groups numbers for each
// warp.
KERNEL route(const RouteArgs a) {
    extern __shared__ float scores[];
    letNextBegin();
    waitForRows();
    int warp = threadIdx.x / 32, row = blockIdx.x * (blockDim.x / 32) + warp;
    if (row < a.rows)
        routeRow(a, row, a.slot[row] >= 0, scores + warp * (2 * a.experts + a.groups), [&](int i) { return get(a.logits, row, i); });
}

// route_order sorts n routes by expert. [experts] blocks of ORDER_THREADS: each reads all ids, counts those of lower
// experts and its own, and places its own.
struct OrderArgs {
    const int *ids; // [n] at a multiple of 16 bytes
    int *at;        // [n] of each route, its place
    int *from;      // [n] of each place, the row of the batch
    int *ends;      // [experts] where each expert's places end
    int n, chosen;
};
#define ORDER_THREADS 512

KERNEL __launch_bounds__(ORDER_THREADS) route_order(const OrderArgs a) {
    __shared__ int lesses[ORDER_THREADS / 32], equals[ORDER_THREADS / 32]; // of each warp
    letNextBegin();
    waitForRows();
    int expert = blockIdx.x, thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
    // A thread takes neighbouring routes, a multiple of 4.
    int each = (a.n + ORDER_THREADS * 4 - 1) / (ORDER_THREADS * 4) * 4, first = thread * each, end = min(first + each, a.n);
    int less = 0, equal = 0;
#pragma unroll 4
    for (int i = first; i < end; i += 4) {
        int4 ids = *(const int4 *)(a.ids + i);
        int four[4] = {ids.x, ids.y, ids.z, ids.w};
#pragma unroll
        for (int j = 0; j < 4; j++) {
            less += i + j < end && four[j] >= 0 && four[j] < expert;
            equal += i + j < end && four[j] == expert;
        }
    }
    less = __reduce_add_sync(~0u, less);
    int until = equal;
    for (int d = 1; d < 32; d *= 2) { // until becomes the sum of this lane's and those before it
        int other = __shfl_up_sync(~0u, until, d);
        until += lane >= d ? other : 0;
    }
    if (lane == 31)
        lesses[warp] = less, equals[warp] = until;
    __syncthreads();
    int place = until - equal, all = 0;
#pragma unroll
    for (int w = 0; w < ORDER_THREADS / 32; w++) {
        place += lesses[w] + (w < warp ? equals[w] : 0);
        all += lesses[w] + equals[w];
    }
    if (thread == 0)
        a.ends[expert] = all;
#pragma unroll 4
    for (int i = first; i < end; i += 4) {
        if (equal == 0)
            break;
        int4 ids = *(const int4 *)(a.ids + i);
        int four[4] = {ids.x, ids.y, ids.z, ids.w};
#pragma unroll
        for (int j = 0; j < 4; j++)
            if (i + j < end && four[j] == expert) {
                a.at[i + j] = place;
                a.from[place++] = (i + j) / a.chosen;
                equal--;
            }
    }
}

// spread copies each row to the places of its routes. [rows] blocks.
struct SpreadArgs {
    const bf16 *x; // [rows, ldx]
    bf16 *dst;     // [routes, lddst]
    const int *at, *slot;
    int ldx, lddst, cols, chosen; // cols: a multiple of 8
};
KERNEL spread(const SpreadArgs a) {
    waitForRows();
    letNextBegin(); // not before routes are ordered: products read where experts' rows end before they wait
    i64 row = blockIdx.x;
    if (a.slot[row] < 0)
        return;
    const int *at = a.at + row * a.chosen;
    for (int i = threadIdx.x; i < a.cols / 8; i += blockDim.x) {
        uint4 v = *(const uint4 *)(a.x + row * a.ldx + i * 8);
        for (int c = 0; c < a.chosen; c++)
            *(uint4 *)(a.dst + (i64)at[c] * a.lddst + i * 8) = v;
    }
}

// combine adds what the experts of each row yield, times their weights, best first, to sigmoid(factor)·shared; and, if
// adds, that times scale to dst. shared and factor may be nil; shared may be dst. [rows, columns/8/threads] blocks: a
// thread has 8 columns.
struct CombineArgs {
    Rows dst, src, shared, factor; // src: [routes, cols] of bfloat16, by place
    const int *at, *slot;
    const float *weights;
    int cols, chosen, adds;
    float scale;
};
KERNEL combine(const CombineArgs a) {
    letNextBegin();
    waitForRows();
    i64 row = blockIdx.x;
    int col = (blockIdx.y * blockDim.x + threadIdx.x) * 8, n = min(8, a.cols - col);
    if (n <= 0 || a.slot[row] < 0)
        return;
    float v[8] = {}, old[8] = {}, factor = 1;
    bool vector = n == 8 && a.dst.wide; // dst is read and written 16 bytes at a time
    if (a.shared.at) {
#pragma unroll
        for (int j = 0; j < 8; j++)
            if (j < n)
                v[j] = get(a.shared, row, col + j);
    }
    if (a.factor.at) {
        factor = sigmoid(get(a.factor, row, 0));
#pragma unroll
        for (int j = 0; j < 8; j++)
            v[j] = v[j] * factor;
    }
    float4 *dst = (float4 *)((float *)a.dst.at + row * a.dst.ld + col);
    if (a.adds && vector) {
        *(float4 *)old = dst[0];
        *(float4 *)(old + 4) = dst[1];
    } else if (a.adds)
#pragma unroll
        for (int j = 0; j < 8; j++)
            if (j < n)
                old[j] = get(a.dst, row, col + j);
    const int *at = a.at + row * a.chosen;
    const float *weights = a.weights + row * a.chosen;
#pragma unroll 8
    for (int i = 0; i < a.chosen; i++) {
        uint4 x = *(const uint4 *)((const bf16 *)a.src.at + (i64)at[i] * a.src.ld + col);
        u32 words[4] = {x.x, x.y, x.z, x.w};
        float weight = weights[i];
#pragma unroll
        for (int j = 0; j < 8; j++)
            v[j] = fmaf(weight, fromBF16((bf16)(words[j / 2] >> j % 2 * 16)), v[j]);
    }
    if (a.adds)
#pragma unroll
        for (int j = 0; j < 8; j++)
            v[j] = fmaf(a.scale, v[j], old[j]);
    if (vector) {
        dst[0] = *(float4 *)v;
        dst[1] = *(float4 *)(v + 4);
    } else
#pragma unroll
        for (int j = 0; j < 8; j++)
            if (j < n)
                put(a.dst, row, col + j, v[j]);
}
