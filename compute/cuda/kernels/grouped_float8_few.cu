// A mixture's experts for a few rows in F8_E4M3 on Hopper, each route by itself, as grouped_few.cu has them. FORMAT is
// FP8. Sums have the order of grouped_float8.cu.
//
// A warp takes one tile of 16 outputs of a route, whose weights come through a ring in shared memory of its own. wgmma
// multiplies the four tiles of a warpgroup with eight columns, of which each warp uses one. Blocks round rows
// themselves. In shared memory rows are in units of 16 inputs: [inputs/16, rows, 16], in the order of float8.cuh; to
// wgmma they are matrices of 8 rows of 16 bytes. Where there are fewer rows, such a matrix reaches into the next ones,
// and nothing uses what the rows that are not there give.
#include "float8.cuh"
#include "grouped.cuh"
#include "operand.cuh"

#define DEEP 2 // steps of 128 inputs of a stage

struct FewFloat8Args : FewArgs {
    int stages, unused; // stages: of a ring
};

// Tile is a warp's tile: where its weights come from, nil if there is none, and its ring.
struct Tile {
    static constexpr int STAGE = DEEP * 2 * RECORD; // bytes
    const u8 *from;
    u8 *ring;
    u32 full; // the stages' barriers
    int steps, stages;

    // The warp's lane 0 makes the barriers, which no other warp waits for.
    __device__ __forceinline__ Tile(u8 *ring, u8 *barriers, int in, int stages) : from(nullptr), ring(ring), full(sharedAddress(barriers)), steps(in / 128), stages(stages) {
        if (threadIdx.x % 32 == 0) {
#pragma unroll 1
            for (int s = 0; s < stages; s++)
                barrierInit(full + s * 8, 1);
            barriersReady();
            fenceShared();
        }
        __syncwarp();
    }

    // fetchStage has lane 0 fetch stage n of all to a stage of the ring, if there is such a one.
    __device__ __forceinline__ void fetchStage(int n, int stage) {
        int bytes = min(DEEP, steps - n * DEEP) * 2 * RECORD;
        if (threadIdx.x % 32 > 0 || bytes <= 0)
            return;
        barrierExpect(full + stage * 8, bytes);
        fetch(sharedAddress(ring) + stage * STAGE, from + (i64)n * STAGE, bytes, full + stage * 8, readOnce());
    }

    // begin fetches what the ring has room for.
    __device__ __forceinline__ void begin(const u8 *weights) {
        from = weights;
#pragma unroll 1
        for (int s = 0; s < stages; s++)
            fetchStage(s, s);
    }

    // multiply returns the sums of a lane's outputs, g and g+8, times scales. Those of lanes whose number in four is
    // column/2 are of use. `matrix` describes the warpgroup's rows, of `rows` that are in shared memory; scales are its
    // own row's.
    template <bool SCALED> __device__ __forceinline__ float2 multiply(u64 matrix, int rows, int column, const float *scales) {
        int lane = threadIdx.x % 32, stage = 0, n = 0; // n: of the stage, among all
        u32 parity = 0;
        Scaled o[2] = {}; // one is multiplied while the next is made
        float d[4], sum[2] = {};
        auto load = [&](Scaled &to, int j) { // step j of the stage
            if (!from)
                return;
            if (j == 0)
                barrierWait(full + stage * 8, parity);
            to.load(ring + stage * STAGE + j * 2 * RECORD, lane);
            if (j < DEEP - 1)
                return;
            __syncwarp();
            fetchStage(n++ + stages, stage);
            if (++stage == stages)
                stage = 0, parity ^= 1;
        };
        load(o[0], 0);
        int s = 0;
        auto step = [&](const Scaled &now, Scaled &next, int j) {
            wgmmaFence();
#pragma unroll
            for (int k = 0; k < 4; k++)
                wgmma<true, 8>(d, now.o.a[k], matrix + k * 2 * rows, (SCALED || s == 0) && k == 0);
            wgmmaCommit();
            matrix += 8 * rows;
            float scale = scales[SCALED ? s : 0];
            if (++s < steps)
                load(next, (j + 1) % DEEP);
            wgmmaWait<0>();
            settle(d);
#pragma unroll
            for (int h = 0; h < 2; h++) {
                float own = column % 2 ? d[h * 2 + 1] : d[h * 2];
                sum[h] = SCALED ? fmaf(own, now.scale[h] * scale, sum[h]) : own * now.scale[h] * scale;
            }
        };
#pragma unroll 1
        while (s < steps) {
            step(o[0], o[1], 0);
            if (s < steps)
                step(o[1], o[0], 1);
        }
        return make_float2(sum[0], sum[1]);
    }
};

// Row is a row of bfloat16, of which a thread of `threads`, all lanes of whole warps, has some units of 16 inputs: the
// first one in registers.
struct Row {
    const uint4 *x;
    uint4 first[2];
    int units, thread, threads;

    __device__ __forceinline__ Row(const Rows &of, i64 row, int in, int thread, int threads)
        : x((const uint4 *)((const bf16 *)of.at + row * of.ld)), units(in / 16), thread(thread), threads(threads) {
        read(thread, first);
    }

    __device__ __forceinline__ void read(int u, uint4 (&half)[2]) const {
        if (u < units)
            half[0] = x[u * 2], half[1] = x[u * 2 + 1];
    }
};

// roundRow writes a row as row `row` of so many in shared memory, and its scales. mostOfAll makes the largest number of
// all threads'.
template <bool SCALED, typename Most>
__device__ __forceinline__ void roundRow(const Row &x, u8 *to, int row, int rows, float *scales, const Most &mostOfAll) {
    float v[16], most = LEAST;
    auto read = [&](int u) {
        uint4 half[2] = {x.first[0], x.first[1]};
        if (u != x.thread)
            x.read(u, half);
        unpacked(half, v);
        return largest(v, LEAST);
    };
    if constexpr (!SCALED) {
#pragma unroll 1
        for (int u = x.thread; u < x.units; u += x.threads)
            most = fmaxf(most, read(u));
        most = mostOfAll(most);
        if (x.thread == 0)
            scales[0] = most / 448.f;
    }
#pragma unroll 1
    for (int u = x.thread; u < x.units; u += x.threads) { // eight neighbours have 128 inputs
        float own = read(u);
        if constexpr (SCALED) {
            most = mostOfEight(own);
            if (u % 8 == 0)
                scales[u / 8] = most / 448.f;
        }
        *(uint4 *)(to + (u * rows + row) * 16) = sixteenOf(v, 448.f / most);
    }
}

// matrixAt describes matrices of 8 rows of `rows`, to wgmma: without swizzle it says how far the next 16 inputs are.
__device__ __forceinline__ u64 matrixAt(u8 *at, int rows) { return (u64)(sharedAddress(at) >> 4 & 0x3fff) | (u64)rows << 16; }

// fewGated: act(gate)·up of each route. [tiles/2, routes] blocks of four warps: a gate's tile and an up's, and the
// next ones. Shared memory: the rings, the row and what a matrix may reach into, scales, barriers.
template <bool SCALED> __device__ __forceinline__ void fewGated(const FewFloat8Args &a) {
    constexpr int WARPS = 4;
    extern __shared__ __align__(128) u8 shared[];
    __shared__ float ups[WARPS / 2][16], mosts[WARPS];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, route = blockIdx.y, place = blockIdx.x * (WARPS / 2) + warp / 2;
    u8 *row = shared + WARPS * a.stages * Tile::STAGE;
    float *scales = (float *)(row + a.in + 128);
    u8 *barriers = (u8 *)scales + (a.in / 128 + 1) / 2 * 8;
    Tile tile(shared + warp * a.stages * Tile::STAGE, barriers + warp * a.stages * 8, a.in, a.stages);
    touch(a.gate, a.experts);
    touch(a.up, a.experts);
    waitForRows();
    letNextBegin(); // not before the choice is there: few_down reads it before it waits
    int expert = a.ids[route];
    if (expert < 0)
        return;
    const Group &gate = a.gate[expert], &up = a.up[expert];
    Row x(a.x, route / a.chosen, a.in, threadIdx.x, WARPS * 32); // not behind all of the weights
    if (place * 16 < gate.outs)
        tile.begin((warp % 2 ? up : gate).w + (i64)place * tile.steps * 2 * RECORD);
    roundRow<SCALED>(x, row, 0, 1, scales, [&](float most) {
        most = mostOfWarp(most);
        if (lane == 0)
            mosts[warp] = most;
        __syncthreads();
        return mostInTurn(most, mosts, WARPS);
    });
    fenceShared();
    __syncthreads();
    float2 sums = tile.multiply<SCALED>(matrixAt(row, 1), 1, 0, scales);
    if (warp % 2 && lane % 4 == 0)
        ups[warp / 2][lane / 4] = sums.x, ups[warp / 2][lane / 4 + 8] = sums.y;
    __syncthreads();
    if (warp % 2 == 0 && lane % 4 == 0)
        for (int i = 0; i < 2; i++) {
            int o = place * 16 + lane / 4 + i * 8;
            if (place * 16 >= gate.outs)
                return;
            float v = summed(i ? sums.y : sums.x), u = summed(ups[warp / 2][lane / 4 + i * 8]);
            if (gate.bias && o < gate.outs)
                v = v + gate.bias[o];
            if (up.bias && o < up.outs)
                u = u + up.bias[o];
            put(a.dst, route, o, o < gate.outs ? activate(a.act, v, u) : 0);
        }
}

// fewDown: the weighted sum of what each row's experts yield, as few_down's of grouped_few.cu, which says what blocks
// may do before waitForRows. [tiles, rows] blocks of a warp for each choice, rounded up to whole warpgroups.
template <bool SCALED> __device__ __forceinline__ void fewDown(const FewFloat8Args &a) {
    extern __shared__ __align__(128) u8 shared[];
    __shared__ float sums[16][16];
    letNextBegin();
    int row = blockIdx.y, warp = threadIdx.x / 32, lane = threadIdx.x % 32, groups = (a.in / 128 + 1) / 2 * 2;
    u8 *rows = shared + a.chosen * a.stages * Tile::STAGE;
    float *scales = (float *)(rows + a.in * a.chosen + 128); // [chosen, groups]
    u8 *barriers = (u8 *)(scales + a.chosen * groups);
    if (a.slot[row] < 0) {
        waitForRows();
        return;
    }
    bool idle = warp >= a.chosen;
    int own = idle ? 0 : warp, route = row * a.chosen + own;
    const Group &w = a.gate[__ldcg(a.ids + route)];
    Tile tile(shared + own * a.stages * Tile::STAGE, barriers + own * a.stages * 8, a.in, idle ? 0 : a.stages);
    if (!idle)
        tile.begin(w.w + (i64)blockIdx.x * tile.steps * 2 * RECORD);
    waitForRows();
    if (!idle)
        roundRow<SCALED>(Row(a.x, route, a.in, lane, 32), rows, own, a.chosen, scales + own * groups, mostOfWarp);
    fenceShared();
    __syncthreads();
    float2 sum = tile.multiply<SCALED>(matrixAt(rows + warp / 4 * 64, a.chosen), a.chosen, warp % 4, scales + own * groups);
    if (!idle && lane % 4 == warp % 4 / 2)
        for (int i = 0; i < 2; i++) {
            int o = blockIdx.x * 16 + lane / 4 + i * 8;
            float v = summed(i ? sum.y : sum.x);
            if (w.bias && o < w.outs)
                v = v + w.bias[o];
            sums[warp][lane / 4 + i * 8] = fromBF16(toBF16(v));
        }
    __syncthreads();
    sumExperts(a, row, blockIdx.x * 16, w.outs, sums);
}

KERNEL __launch_bounds__(128) few_float8_gated(const FewFloat8Args a) { fewGated<false>(a); }
KERNEL __launch_bounds__(128) few_float8_groups_gated(const FewFloat8Args a) { fewGated<true>(a); }
KERNEL __launch_bounds__(512) few_float8_down(const FewFloat8Args a) { fewDown<false>(a); }
KERNEL __launch_bounds__(512) few_float8_groups_down(const FewFloat8Args a) { fewDown<true>(a); }
