// Products of more than 16 rows, where gemm_wgmma.cu does not compute them: on other GPUs than Hopper, and of shapes
// that it does not take.
//
// A block computes OUTS outputs of ROWS rows for all inputs, with weights and rows in shared memory, which copies in
// the background fill STAGES-1 steps of 64 inputs ahead. Its warps share them: each has 16·TILES of the outputs and a
// share, 1/ACROSS, of the rows. Sums have the order of gemm.cuh.
#include "gemm.cuh"

#define DEPTH 64 // inputs of a step: a record's

// [outputs/OUTS · rows/ROWS] blocks, both rounded up, of 32·ACROSS·OUTS/16/TILES threads. Dynamic shared memory:
// STAGES·(OUTS/16·RECORD + ROWS·128) bytes, or ROWS·(OUTS+4)·4 if that is more.
template <int OUTS, int ROWS, int TILES, int ACROSS, int STAGES> __device__ __forceinline__ void gemm(const GemmArgs &a) {
    constexpr int THREADS = 32 * ACROSS * OUTS / 16 / TILES, WEIGHTS = OUTS / 16 * RECORD, STAGE = WEIGHTS + ROWS * DEPTH * 2, GROUP = 16;
    constexpr int COLS = ROWS / 8 / ACROSS; // of a warp
    extern __shared__ __align__(128) u8 shared[];
    int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
    int warpRow = warp % ACROSS * COLS * 8, warpTile = warp / ACROSS * TILES;

    // Blocks that run at the same time share weights and rows in the cache: blocks are numbered through bands of GROUP
    // blocks of rows, and within a band, all its rows come before the next outputs.
    int rowBlocks = (a.rows + ROWS - 1) / ROWS, outBlocks = gridDim.x / rowBlocks;
    int band = blockIdx.x / (GROUP * outBlocks), bandRows = min(GROUP, rowBlocks - band * GROUP);
    int inBand = blockIdx.x - band * GROUP * outBlocks;
    int row0 = (band * GROUP + inBand % bandRows) * ROWS, tile0 = inBand / bandRows * (OUTS / 16);

    // What a thread copies next, and to where: units of 16 bytes of weights, zeros where no product has such outputs,
    // and units of rows, zeros past the last row. Unit u of row r is at place u ^ r%8 of its row, so that eight rows'
    // lie in different banks.
    constexpr int UNITS = RECORD / 16, WEIGHT_UNITS = (WEIGHTS / 16 + THREADS - 1) / THREADS;
    int steps = a.tilesIn / 4, left = a.rows - row0 - thread / 8; // rows from the thread's first on
    const u8 *w[WEIGHT_UNITS];
    bool there[WEIGHT_UNITS];
#pragma unroll
    for (int i = 0; i < WEIGHT_UNITS; i++) {
        int unit = thread + i * THREADS;
        Place at = placeOf(a, tile0 + unit / UNITS);
        there[i] = at.product >= 0;
        w[i] = a.p[max(at.product, 0)].w + (there[i] ? (i64)at.tile * steps * RECORD + unit % UNITS * 16 : 0);
    }
    const bf16 *x = a.x + (i64)(row0 + thread / 8) * a.ldx + thread % 8 * 8;
    u32 base = sharedAddress(shared), to = base;
    u32 toRows = WEIGHTS + thread / 8 * 128 + ((thread % 8) ^ (thread / 8 % 8)) * 16;
    auto load = [&](bool more) {
        if (more) {
#pragma unroll
            for (int i = 0; i < WEIGHT_UNITS; i++) {
                if (WEIGHTS / 16 % THREADS == 0 || thread + i * THREADS < WEIGHTS / 16)
                    copy16(to + (thread + i * THREADS) * 16, w[i], there[i]);
                w[i] += RECORD;
            }
#pragma unroll
            for (int i = 0; i < ROWS * 8 / THREADS; i++)
                copy16(to + toRows + i * THREADS * 16, x + (i64)i * (THREADS / 8) * a.ldx, i * (THREADS / 8) < left);
            x += DEPTH;
            to = to == base + (STAGES - 1) * STAGE ? base : to + STAGE;
        }
        copyCommit();
    };

    float sum[TILES][COLS][4] = {}, d[TILES][COLS][4] = {}; // of the ranges before, and of this one
    int range = 1, border = rangeStart(steps, a.ranges, 1);
    for (int s = 0; s < STAGES - 1; s++)
        load(s < steps);
    for (int step = 0; step < steps; step++) {
        copyWait<STAGES - 2>();
        __syncthreads();
        load(step + STAGES - 1 < steps);
        if (step == border) { // the next range's chain starts from zero
#pragma unroll
            for (int i = 0; i < TILES; i++)
#pragma unroll
                for (int j = 0; j < COLS; j++)
#pragma unroll
                    for (int e = 0; e < 4; e++) {
                        sum[i][j][e] = sum[i][j][e] + d[i][j][e];
                        d[i][j][e] = 0;
                    }
            border = rangeStart(steps, a.ranges, ++range);
        }
        u32 at = step % STAGES * STAGE;
        Weights<FORMAT> own[TILES];
#pragma unroll
        for (int i = 0; i < TILES; i++)
            own[i].load(shared + at + (warpTile + i) * RECORD, lane);
#pragma unroll
        for (int k = 0; k < 4; k++) {
            u32 wf[TILES][4], xf[COLS][2];
#pragma unroll
            for (int i = 0; i < TILES; i++)
                own[i].tile(k, wf[i]);
#pragma unroll
            for (int j = 0; j + 1 < COLS; j += 2) {
                int row = warpRow + j * 8 + lane / 16 * 8 + lane % 8, unit = k * 2 + lane / 8 % 2;
                u32 f[4];
                ldmatrix(f, base + at + WEIGHTS + row * 128 + (unit ^ (row % 8)) * 16);
                xf[j][0] = f[0], xf[j][1] = f[1], xf[j + 1][0] = f[2], xf[j + 1][1] = f[3];
            }
#pragma unroll
            for (int i = 0; i < TILES; i++)
#pragma unroll
                for (int j = 0; j < COLS; j++)
                    mma(d[i][j], wf[i], xf[j][0], xf[j][1]);
        }
    }
    copyWait<0>();
    __syncthreads();

    // Sums go through shared memory, [ROWS][PITCH], so that neighbouring threads store neighbouring outputs.
    constexpr int PITCH = OUTS + 4;
    float *sums = (float *)shared;
#pragma unroll
    for (int i = 0; i < TILES; i++)
#pragma unroll
        for (int j = 0; j < COLS; j++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                sums[(warpRow + j * 8 + lane % 4 * 2 + e % 2) * PITCH + (warpTile + i) * 16 + lane / 4 + e / 2 * 8] = sum[i][j][e] + d[i][j][e];
    __syncthreads();
    int out = thread % OUTS;
    Place at = placeOf(a, tile0 + out / 16);
    if (at.product < 0 || a.mode == GATED && at.product == 1)
        return;
    for (int row = thread / OUTS; row < ROWS; row += THREADS / OUTS)
        finish(a, at, out % 16, row0 + row, sums[row * PITCH + out], a.mode == GATED ? sums[row * PITCH + out + 16] : 0);
}

#define GEMM(OUTS, ROWS, TILES, ACROSS, STAGES)                                                             \
    KERNEL __launch_bounds__(2 * ACROSS * OUTS / TILES) gemm_##OUTS##x##ROWS(const GemmArgs a) {             \
        gemm<OUTS, ROWS, TILES, ACROSS, STAGES>(a);                                                         \
    }
// As `blockings` and `codeBlockings` in products.go have them.
#if FORMAT == 0 // BF16
GEMM(32, 32, 1, 2, 10)
GEMM(64, 32, 1, 2, 8)
GEMM(32, 64, 1, 4, 8)
GEMM(64, 64, 1, 2, 6)
GEMM(32, 128, 1, 4, 4)
GEMM(64, 128, 2, 4, 4)
GEMM(128, 128, 4, 4, 4)
#else // each warp makes bfloat16 of the codes that it multiplies: warps have fewer outputs, and more rows
GEMM(32, 32, 1, 2, 8)
GEMM(64, 32, 1, 2, 8)
GEMM(128, 32, 1, 1, 6)
GEMM(32, 64, 1, 4, 6)
GEMM(64, 64, 1, 2, 6)
GEMM(128, 64, 1, 1, 6)
GEMM(32, 128, 1, 4, 4)
GEMM(64, 128, 1, 2, 4)
GEMM(128, 128, 2, 2, 4)
#endif
