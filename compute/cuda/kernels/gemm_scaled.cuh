// Products of F8_E4M3 whose weights and rows have a scale for each 128 inputs, by kernels of gemm_wgmma.cuh (SCALED).
//
// 128 inputs, a step, are one chain of wgmma from zero. Their sums are multiplied by both scales and added as float32,
// ascending, in ranges of inputs, whose sums are added in order. Two warpgroups take turns: one adds while the other
// multiplies.
#pragma once
#include "gemm_wgmma.cuh"

template <int N, int GROUPS, bool SPLIT, typename Args, typename All>
__device__ __forceinline__ void multiplyScaled(const Args &w, u8 *shared, u32 base, const All &parts) {
    using P = Plan<true, N, GROUPS, 1, SPLIT, false, true>;
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
            if constexpr (P::AWAY) {
                if (range > 0)
#pragma unroll
                    for (int i = 0; i < N / 8; i++) {
                        four before = *sums(i);
#pragma unroll
                        for (int e = 0; e < 4; e++)
                            sum[i * 4 + e] = before.v[e] + sum[i * 4 + e];
                    }
                if (range < own.ranges - 1)
#pragma unroll
                    for (int i = 0; i < N / 8; i++)
                        *sums(i) = {sum[i * 4], sum[i * 4 + 1], sum[i * 4 + 2], sum[i * 4 + 3]};
            } else if constexpr (TOTAL)
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

#define SCALED_KERNEL(NAME, N, GROUPS, SPLIT)                                                                          \
    KERNEL __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(128 * GROUPS + 128, 1)                                    \
        NAME(const __grid_constant__ ArgsOf<true>::type w) {                                                           \
        gemmWgmma<true, N, GROUPS, 1, SPLIT, false, true>(w);                                                          \
    }
