// Products of groups of many rows on Hopper, of bfloat16: grouped_wgmma.cuh. Sums have the order of gemm.cuh, so their
// bits are those of grouped.cu.
#include "grouped_wgmma.cuh"

template <int N, typename K, bool GATE, typename Args>
__device__ __forceinline__ void multiplyPart(const Args &w, u8 *shared, u32 base, Cursor<Layout<K>::STAGES> &at, const Part &part, u32 &turn) {
    using L = Layout<K>;
    constexpr int STEPS = K::STEPS;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, stage = at.stage;
    u32 full = base + L::FULL, empty = base + L::EMPTY, parity = at.parity;
    const u8 *weights = shared + L::WEIGHTS + warp * STEPS * RECORD;
    float d[N / 2];
#pragma unroll
    for (int i = 0; i < N / 2; i++)
        d[i] = 0;
    u32 wf[2][4][4]; // operands of a step: one is multiplied while the next is made
    Weights<FORMAT> codes;
    auto load = [&](u32(&wf)[4][4], int j, bool wait) { // makes operands of step j of the stage
        if (wait)
            barrierWait(full + stage * 8, parity);
        codes.load(weights + stage * L::WEIGHT_BYTES + j * RECORD, lane);
#pragma unroll
        for (int k = 0; k < 4; k++) {
            codes.tile(k, wf[k]);
#pragma unroll
            for (int i = 0; i < 4; i++)
                asm volatile("" : "+r"(wf[k][i])); // here and not later
        }
    };
    auto release = [&](int stage) { // tells both blocks of the cluster, since they fetch it for each other
        if (lane < CLUSTER)
            barrierArrive(empty + stage * 8, lane);
    };
    auto before = [&] { return stage == 0 ? L::STAGES - 1 : stage - 1; };
    load(wf[0], 0, false);
    int s = 0;
    auto step = [&](const u32(&now)[4][4], u32(&next)[4][4], int j) {
        u64 rows = describe(ofWarp(base + stage * L::ROWS_BYTES + j * N * 128));
        wgmmaFence();
#pragma unroll
        for (int k = 0; k < 4; k++)
            wgmmaAdd<N>(d, now[k], rows + k * 2);
        wgmmaCommit();
        wgmmaWait<1>();
        if (j == 0 && s > 0)
            release(before());
        if (j == STEPS - 1 && ++stage == L::STAGES)
            stage = 0, parity ^= 1;
        if (++s < w.steps)
            load(next, (j + 1) % STEPS, (j + 1) % STEPS == 0);
    };
#pragma unroll 1
    while (s + 1 < w.steps) {
        step(wf[0], wf[1], 0);
        step(wf[1], wf[0], 1 % STEPS);
    }
    if (s < w.steps) { // an odd number
        step(wf[0], wf[1], 0);
        if (STEPS > 1 && ++stage == L::STAGES)
            stage = 0, parity ^= 1;
    }
    wgmmaWait<0>();
#pragma unroll
    for (int i = 0; i < N / 2; i++)
        asm volatile("" : "+f"(d[i])::"memory"); // as settle
    release(before());
    at = {stage, parity};
    u8 *staged = shared + L::RESULTS + warp / 4 * L::STAGED;
    if constexpr (GATE)
        storeGated<N>(w.a, staged, d, part, warp / 4);
    else
        storePlain<N>(w.a, staged, d, part, warp / 4);
}

GROUPED_KERNEL(grouped_wgmma_256, ManyArgs, false, false, 256, 1)
GROUPED_KERNEL(grouped_wgmma_128, ManyArgs, false, false, 128, 2)
#if FORMAT != 0 // more warps make bfloat16 of codes
GROUPED_KERNEL(grouped_wgmma_64, ManyArgs, false, false, 64, 2, 4)
#endif
