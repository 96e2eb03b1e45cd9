// Products of F8_E4M3 whose weights and rows have a scale for each 128 inputs, by kernels of gemm_wgmma.cuh (SCALED).
//
// 128 inputs, a step, are one chain of wgmma from zero. Their sums are multiplied by both scales and added as float32,
// ascending, in ranges of inputs, whose sums are added in order. One warpgroup adds while another multiplies.
//
// BY_GROUP kernels have weights as operand A, as all others. A thread's sums of a step are of two outputs and of N/4 rows,
// and as many numbers as those rows come to scale them. BY_BLOCK kernels have rows as operand A. These give the same bits.
#pragma once
#include "gemm_wgmma.cuh"

// joinRange adds the sums of the ranges before to those of a range, and keeps the sums of all so far if more come. Four
// number i of a thread's is kept at sums(i).
template <int N, typename Sums> __device__ __forceinline__ void joinRange(float (&sum)[N], const Sums &sums, int range, int ranges) {
    if (range > 0)
#pragma unroll
        for (int i = 0; i < N / 4; i++) {
            four before = *sums(i);
#pragma unroll
            for (int e = 0; e < 4; e++)
                sum[i * 4 + e] = before.v[e] + sum[i * 4 + e];
        }
    if (range < ranges - 1)
#pragma unroll
        for (int i = 0; i < N / 4; i++)
            *sums(i) = {sum[i * 4], sum[i * 4 + 1], sum[i * 4 + 2], sum[i * 4 + 3]};
}

template <int N, int GROUPS, bool SPLIT, typename Args, typename All>
__device__ __forceinline__ void multiplyScaled(const Args &w, u8 *shared, u32 base, const All &parts) {
    using P = Plan<true, N, GROUPS, 1, SPLIT, false, BY_GROUP>;
    const GemmArgs &a = w.a;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = warp / 4, rank = clusterRank(), stage = 0;
    Span<true, SPLIT> own(a, rank);
    u32 parity = 0, sumsParity = 0, turn = group == 0; // turn: the parity of the warpgroup's next turn
    const u8 *weights = shared + P::WEIGHTS + (P::BOXED && a.mode == GATED ? warp % 2 * (P::TILES / 2) + warp / 2 : warp) * P::TILE_BYTES;
    constexpr bool TURNS = GROUPS == 2 && N == 128; // with fewer rows, waiting for a turn takes longer than it saves
    float d[N / 2], sum[N / 2];                     // of a step; of a range
    Scaled operands[2];                             // of a step: one is multiplied while the next is made
    auto load = [&](Scaled &o) {
        barrierWait(base + P::FULL + stage * 8, parity);
        o.load(weights + stage * P::WEIGHT_BYTES, lane);
    };
    // The sums of the ranges so far: `total`, in registers; or (AWAY) N/8 fours, KEPT of them in shared memory, the others
    // in memory. With SPLIT, a block has one range.
    constexpr bool TOTAL = !P::AWAY && !SPLIT;
    float total[TOTAL ? N / 2 : 1];
    u8 *staged = shared + P::RESULTS + group * (P::RESULT_BYTES / GROUPS); // of the warpgroup
    four *away = P::AWAY ? (four *)w.sums + (i64)blockIdx.x * (N / 8) * P::THREADS + threadIdx.x : nullptr;
    auto sums = [&](int i) { return i < P::KEPT ? (four *)staged + i * 128 + threadIdx.x % 128 : away + i * P::THREADS; };
    for (int t = blockIdx.x / CLUSTER; t < parts.count; t += gridDim.x / CLUSTER) {
        Part part;
        if (!P::AWAY)
            part = parts.at(t, rank);
        int row0 = part.row0 + (SPLIT && rank > 0 ? N - P::FINISHED : 0);
        Before<false> before = P::EARLY ? Before<false>(a, nullptr, part.tile0 + group * 4, row0) : Before<false>();
        load(operands[0]);
        for (int range = 0, s = 0; range < own.ranges; range++) {
            int end = own.end(a, range);
#pragma unroll
            for (int i = 0; i < N / 2; i++)
                sum[i] = 0;
            auto step = [&](const Scaled &now, Scaled &next) {
                u64 rows = describe(base + stage * P::ROWS_BYTES);
                if constexpr (TURNS) {
                    barrierWait(base + P::TURN + group * 8, turn);
                    turn ^= 1;
                }
                wgmmaFence();
#pragma unroll
                for (int k = 0; k < 4; k++)
                    wgmma<true, N>(d, now.o.a[k], rows + k * 2, k == 0);
                wgmmaCommit();
                int of = stage;
                if (++stage == P::STAGES)
                    stage = 0, parity ^= 1;
                if (++s < own.count)
                    load(next);
                wgmmaWait<0>();
                settle(d);
                if constexpr (TURNS)
                    if (lane == 0)
                        barrierArrive(base + P::TURN + (group ^ 1) * 8);
                addScaled<N>(sum, d, now, (const float *)(shared + P::SCALES + of * P::SCALE_BYTES), lane);
                __syncwarp();
                if (lane < P::BLOCKS) // tells each block that fetches for this stage
                    barrierArrive(base + P::EMPTY + of * 8, SPLIT ? rank : lane);
            };
#pragma unroll 1
            do { // ranges have a multiple of 2 steps
                step(operands[0], operands[1]);
                step(operands[1], operands[0]);
            } while (s < end);
            if constexpr (P::AWAY)
                joinRange(sum, sums, range, own.ranges);
            else if constexpr (TOTAL)
#pragma unroll
                for (int i = 0; i < N / 2; i++)
                    total[i] = (range == 0 ? 0.f : total[i]) + sum[i];
        }
        if constexpr (P::AWAY) {
            part = parts.at(t, rank);
            if (a.mode == GATED)
                leaveGates<false, N, P>(w, sum, shared, base, part, stage, parity);
            else
                leave<false, N, P>(w, sum, base, part, stage, parity);
        } else if constexpr (SPLIT) {
            auto more = [&] { return t + gridDim.x / CLUSTER < parts.count; };
            finishHalf<false, N, GROUPS, P>(w, shared, base, sum, total, before, own.ranges, rank, sumsParity, part, more, group, lane);
            sumsParity ^= 1;
        } else {
            if (!P::EARLY)
                before = Before<false>(a, nullptr, part.tile0 + group * 4, part.row0);
            store<false, N, P::BUFFERS>(a, before, part.tile0 + group * 4, part.row0, group, staged, [] {}, picked<N / 2>([&](int i) { return total[i]; }));
        }
    }
}

// leaveRows is leave and leaveGates for sums whose rows are operand A: of rows g and g+8 of a warp's 16 a thread has
// outputs 2t and 2t+1 of each eight.
template <typename P, typename Args>
__device__ __forceinline__ void leaveRows(const Args &w, float (&sum)[64], u32 base, const Part &part, int &stage, u32 &parity) {
    const GemmArgs &a = w.a;
    const Leaving<P> leaving(a);
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, own = warp / 2, row = warp % 2 * 16; // own: its chunk of rows
    bool gated = a.mode == GATED, biased = false;
    for (int i = 0; i < a.products; i++)
        biased = biased || a.p[i].bias;
#pragma unroll
    for (int i = 0; i < 64; i++)
        sum[i] = summed(sum[i]);
    if (biased)
#pragma unroll
        for (int j = 0; j < 16; j++) {
            Place at = placeOf(a, part.tile0 + (gated ? j / 8 + j / 2 % 4 * 2 : j / 2));
            int o = at.tile * 16 + j % 2 * 8 + lane % 4 * 2;
            const Product &p = a.p[max(at.product, 0)];
#pragma unroll
            for (int e = 0; e < 4; e++)
                if (p.bias)
                    sum[j * 4 + e] = sum[j * 4 + e] + (at.product >= 0 && o + e % 2 < p.outs ? p.bias[o + e % 2] : 0.f);
        }
    if (gated)
#pragma unroll
        for (int i = 0; i < 64; i++)
            sum[i] = rounded(sum[i]);
    bool plain = a.act == SILU || a.act == GELU_TANH;
#pragma unroll 1
    for (int n = 0; n < leaving.stages; n++) {
        barrierWait(base + P::FULL + stage * 8, parity);
        u32 at = leaving.at(base, stage, own % leaving.chunks) + row * 128;
        auto put = [&](int j, const float *x) { // outputs from 8j on: eight numbers
            u32 to = at + j / 8 * CHUNK * 128 + lane % 16 * 128 + (j % 8 + lane / 16 ^ lane % 8) * 16;
            storeUpright(to, packBF16(x[0], x[1]), packBF16(x[2], x[3]), packBF16(x[4], x[5]), packBF16(x[6], x[7]));
        };
        if (own / leaving.chunks != n)
            ;
        else if (leaving.wide) {
            at += lane / 4 * 128 + lane % 2 * 8;
#pragma unroll
            for (int i = 0; i < 64; i += 2) {
                int unit = i / 4 % 4 * 2 + lane % 4 / 2 ^ lane / 4;
                storeShared(at + i / 16 * CHUNK * 128 + i / 2 % 2 * 1024 + unit * 16, sum[i] * a.scale, sum[i + 1] * a.scale);
            }
        } else if (!gated) {
#pragma unroll
            for (int i = 0; i < 64; i += 8) {
#pragma unroll
                for (int e = 0; e < 8; e++)
                    sum[i + e] = sum[i + e] * a.scale;
                put(i / 4, sum + i);
            }
        } else {
            if (plain)
#pragma unroll
                for (int i = 0; i < 32; i += 8) {
                    float g[8];
#pragma unroll
                    for (int e = 0; e < 8; e++)
                        g[e] = sum[i + e];
                    plain = gatePlain(a.act == SILU ? SILU : GELU_TANH, g, sum + 32 + i) && plain;
                    put(i / 4, g);
                }
            if (__any_sync(~0u, !plain))
#pragma unroll 1
                for (int m = 0; m < 4; m++) {
                    float g[8], u[8];
#pragma unroll
                    for (int of = 0; of < 4; of++)
                        if (of == m)
#pragma unroll
                            for (int e = 0; e < 8; e++)
                                g[e] = sum[of * 8 + e], u[e] = sum[32 + of * 8 + e];
                    gate(a.act, g, u);
                    put(m * 2, g);
                }
        }
        fenceShared();
        __syncwarp();
        if (lane == 0)
            barrierArrive(base + P::LEFT + stage * 8);
        if (++stage == P::STAGES)
            stage = 0, parity ^= 1;
    }
}

// multiplyRows is multiply of BY_BLOCK kernels. Each warpgroup has 64 rows, as operand A, and all outputs of a part: what a
// thread adds of a row in a step has one scale, or two, and not one for each row. Two warpgroups begin two steps at once,
// so that one's sums are added while the next is multiplied. Three have no registers for that, but one adds while others
// multiply.
template <int N, int GROUPS, typename Args, typename All>
__device__ __forceinline__ void multiplyRows(const Args &w, u8 *shared, u32 base, const All &parts) {
    using P = Plan<true, N, GROUPS, 1, false, false, BY_BLOCK>;
    constexpr int AT_ONCE = GROUPS == 2 ? 2 : 1; // steps
    static_assert(N == 64 * GROUPS);
    const GemmArgs &a = w.a;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = warp / 4, rank = clusterRank(), stage = 0, row = warp * 16 + lane / 4;
    Span<true, false> own(a, rank);
    u32 parity = 0;
    float d[AT_ONCE][64], sum[64]; // of a step each; of a range
    BlockScales scales[AT_ONCE];
    u8 *staged = shared + P::RESULTS + group * (P::RESULT_BYTES / GROUPS); // of the warpgroup
    four *away = (four *)w.sums + (i64)blockIdx.x * 16 * P::THREADS + threadIdx.x;
    auto sums = [&](int i) { return i < P::KEPT ? (four *)staged + i * 128 + threadIdx.x % 128 : away + i * P::THREADS; };
    auto begin = [&](float(&d)[64], BlockScales &scales) {
        barrierWait(base + P::FULL + stage * 8, parity);
        u32 weights = P::WEIGHTS + stage * P::WEIGHT_BYTES;
        beginRows(d, base + stage * P::ROWS_BYTES + group * (P::ROWS_BYTES / GROUPS), base + weights);
        scales.load((const float *)(shared + P::SCALES + stage * P::SCALE_BYTES) + row, shared + weights, shared + weights + 4 * RECORD);
    };
    auto next = [&] {
        if (++stage == P::STAGES)
            stage = 0, parity ^= 1;
    };
    for (int t = blockIdx.x / CLUSTER; t < parts.count; t += gridDim.x / CLUSTER) {
        for (int range = 0, s = 0; range < own.ranges; range++) {
            int end = own.end(a, range);
#pragma unroll
            for (int i = 0; i < 64; i++)
                sum[i] = 0;
            auto add = [&](float(&d)[64], const BlockScales &by, int stage) {
                settle(d);
#pragma unroll
                for (int i = 0; i < 64; i++)
                    sum[i] = fmaf(d[i], by.by[i / 32][i / 2 % 2], sum[i]);
                __syncwarp();
                if (lane < P::BLOCKS) // tells each block that fetches for this stage
                    barrierArrive(base + P::EMPTY + stage * 8, lane);
            };
#pragma unroll 1
            for (; s < end; s += AT_ONCE) { // ranges have a multiple of 2 steps
                begin(d[0], scales[0]);
                if constexpr (AT_ONCE > 1) {
                    int first = stage;
                    next();
                    begin(d[1], scales[1]);
                    wgmmaWait<1>();
                    add(d[0], scales[0], first);
                }
                wgmmaWait<0>();
                add(d[AT_ONCE - 1], scales[AT_ONCE - 1], stage);
                next();
            }
            joinRange(sum, sums, range, own.ranges);
        }
        leaveRows<P>(w, sum, base, parts.at(t, rank), stage, parity);
    }
}

#define SCALED_KERNEL(NAME, N, GROUPS, SPLIT, SCALED)                                                                  \
    KERNEL __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(128 * GROUPS + 128, 1)                                    \
        NAME(const __grid_constant__ ArgsOf<true>::type w) {                                                           \
        gemmWgmma<true, N, GROUPS, 1, SPLIT, false, SCALED>(w);                                                        \
    }
#define GROUPS_WGMMA(NAME, N, GROUPS, SPLIT) SCALED_KERNEL(NAME, N, GROUPS, SPLIT, BY_GROUP)
#define BLOCKS_WGMMA(NAME, N) SCALED_KERNEL(NAME, N, N / 64, false, BY_BLOCK)
