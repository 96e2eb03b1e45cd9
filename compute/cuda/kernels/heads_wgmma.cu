// Products of the heads of many rows on Hopper, with wgmma: every head has a weight of bfloat16 of its own. Sums have
// the order of gemm.cuh, so their bits are those of grouped.cu.
//
// A block has ROWS rows of a head, which a box of a tensor map brings for each 64 inputs, and their outputs, or some of
// them, OUTS at a time. Weights go from memory to registers, as operand A, as they are stored.
#include "grouped.cuh"
#include "wgmma.cuh"

#define ROWS 128
#define OUTS 128                // at a time
#define STEP_BYTES (ROWS * 128) // of 64 inputs
#define PITCH (OUTS * 2 + 16)   // bytes from one row's results to the next

struct HeadsArgs {
    TensorMap x; // boxes of ROWS rows, 64 inputs each
    GroupedArgs a;
    int unused[6];
};

// STEPS: of 64 inputs. [rows/ROWS, heads, n] blocks of 256 threads, any n: blocks of the same rows and head take turns
// at their outputs. Dynamic shared memory: headsShared in grouped.go.
template <int STEPS> __device__ __forceinline__ void heads(const HeadsArgs &h) {
    constexpr int AHEAD = STEPS < 4 ? STEPS : 4; // steps whose weights are on their way
    const GroupedArgs &a = h.a;
    extern __shared__ u8 unaligned[];
    u32 base = (sharedAddress(unaligned) + 1023) & ~1023u, results = base + STEPS * STEP_BYTES, full = results + ROWS * PITCH;
    u8 *shared = unaligned + (base - sharedAddress(unaligned));
    int thread = threadIdx.x, warp = thread / 32, lane = thread % 32, row0 = blockIdx.x * ROWS, head = blockIdx.y;
    letNextBegin();
    if (thread == 0) {
        barrierInit(full, 1);
        barriersReady();
    }
    const GroupedProduct &p = a.p[0];
    Group w = p.groups[head];
    Weights<BF16> weights[AHEAD];
    auto load = [&](int out0, int s) { weights[s % AHEAD].load(w.w + ((i64)(out0 / 16 + warp) * STEPS + s) * RECORD, lane); };
    int out0 = blockIdx.z * OUTS;
    if (out0 < w.outs)
#pragma unroll
        for (int s = 0; s < AHEAD; s++)
            load(out0, s);
    __syncthreads();
    if (!a.late)
        waitForRows();
    if (thread == 0) {
        barrierExpect(full, STEPS * STEP_BYTES);
        for (int s = 0; s < STEPS; s++)
            fetchBox(base + s * STEP_BYTES, h.x, row0, head * (a.inStep / 64) + s, full, false);
    }
    barrierWait(full, 0);
    while (out0 < w.outs) {
        float d[64] = {};
        int next = out0 + gridDim.z * OUTS;
#pragma unroll
        for (int s = 0; s < STEPS; s++) {
            wgmmaFence();
#pragma unroll
            for (int k = 0; k < 4; k++) {
                u32 wf[4];
                weights[s % AHEAD].tile(k, wf);
                wgmmaAdd<ROWS>(d, wf, describe(base + s * STEP_BYTES) + k * 2);
            }
            wgmmaCommit();
            if (s > 0 && s - 1 + AHEAD < STEPS) {
                wgmmaWait<1>(); // the weights of the step before have been read
                load(out0, s - 1 + AHEAD);
            }
        }
        wgmmaWait<0>();
        settle(d);
        if (next < w.outs)
#pragma unroll
            for (int s = 0; s < AHEAD; s++)
                load(next, s);
        __syncthreads(); // all have read the results before
        auto pair = [&](int i) { return packBF16((0.f + d[i]) * w.scale, (0.f + d[i + 1]) * w.scale); };
#pragma unroll
        for (int j = 0; j < ROWS / 8; j += 2)
            storeMatrices(results + ((j + lane / 16) * 8 + lane % 8) * PITCH + warp * 32 + lane / 8 % 2 * 16, pair(4 * j), pair(4 * j + 2), pair(4 * j + 4), pair(4 * j + 6));
        __syncthreads();
#pragma unroll
        for (int n = thread; n < ROWS * OUTS / 8; n += 256) {
            int row = n / (OUTS / 8), unit = n % (OUTS / 8);
            if (row0 + row < a.rows)
                *(uint4 *)((bf16 *)p.dst.at + (i64)(row0 + row) * p.dst.ld + head * a.outStep + out0 + unit * 8) =
                    *(const uint4 *)(shared + STEPS * STEP_BYTES + row * PITCH + unit * 16);
        }
        out0 = next;
    }
    if (a.late)
        waitForRows(); // what follows waits for this kernel, and so for the one in front
}

KERNEL __launch_bounds__(256, 2) heads_wgmma_128(const __grid_constant__ HeadsArgs h) { heads<2>(h); }
KERNEL __launch_bounds__(256, 1) heads_wgmma_512(const __grid_constant__ HeadsArgs h) { heads<8>(h); }
