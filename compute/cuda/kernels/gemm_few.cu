// Products of up to 16 rows: x, [rows, inputs], times each weight, [outputs, inputs], transposed.
//
// A block has one tile of 16 outputs, or a gate's and an up's, and WARPS warps for each range of inputs, which have
// TILES of its tiles each. Each warp streams its weights through a ring of parts of STEPS·64 inputs in shared memory.
// Sums have the order of gemm.cuh.
#include "ahead.cuh"

// WHOLE says that a stage has room for all 8·COLS rows, those that are not there among them, whose results nothing
// needs. Otherwise it has room for `rows` of them.
constexpr bool WHOLE = FORMAT == BF16;

// rows is 8·COLS at most. [tiles/(TILES·WARPS)] blocks of WARPS warps for each range. Dynamic shared memory:
// ranges·WARPS·STAGES·(TILES·PART + rows·PITCH) or more, of WHOLE with 8·COLS for rows.

template <int COLS, int TILES, int STAGES, int STEPS, int WARPS = 1> __device__ __forceinline__ void gemmFew(const GemmArgs &a) {
    constexpr int PART = STEPS * RECORD, WEIGHTS = TILES * PART; // bytes of a part's weights: of one tile, and of all
    constexpr int PITCH = STEPS * 128 + 16;                      // bytes from one of its rows to the next
    constexpr int UNITS = STEPS * 8, ROWS = 32 / UNITS;          // of 16 bytes, of a row; rows that are copied at once
    constexpr bool AHEAD = SMALL && COLS == 1;                   // numbers are made a record ahead
    extern __shared__ __align__(128) u8 shared[];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, range = warp / WARPS, g = lane / 4, t = lane % 4;
    const int stageBytes = WEIGHTS + (WHOLE ? COLS * 8 : a.rows) * PITCH;
    // In steps of 64 inputs:
    int first = rangeStart(a.tilesIn / 4, a.ranges, range), end = rangeStart(a.tilesIn / 4, a.ranges, range + 1);
    int parts = (end - first + STEPS - 1) / STEPS;
    u8 *ring = shared + warp * STAGES * stageBytes;
    // What a lane copies next, and to where: 16 bytes of every 512 of each tile's weights, and one unit of every
    // ROWS-th row. Both are zeros past the last input.
    Place at[TILES];
    const u8 *w[TILES];
#pragma unroll
    for (int i = 0; i < TILES; i++) {
        at[i] = placeOf(a, (blockIdx.x * WARPS + warp % WARPS) * TILES + i);
        w[i] = a.p[at[i].product].w + ((i64)at[i].tile * (a.tilesIn / 4) + first) * RECORD + lane * 16;
    }
    const bf16 *x = a.x + (i64)(lane / UNITS) * a.ldx + first * 64 + lane % UNITS * 8;
    int bytesLeft = (end - first) * RECORD - lane * 16, unitsLeft = (end - first) * 8 - lane % UNITS;
    u32 base = sharedAddress(ring) + lane * 16, to = base, last = base + (STAGES - 1) * stageBytes;
    u32 toRows = WEIGHTS + lane / UNITS * PITCH + lane % UNITS * 16 - lane * 16;
    auto load = [&](bool more, bool withWeights) {
        if (more) {
            if (withWeights)
                copyWeights<PART, true>(to, w, bytesLeft, lane);
            // Other warps of the multiprocessor read the rows too.
#pragma unroll
            for (int i = 0; i < COLS * 8; i += ROWS)
                if (WHOLE ? i < a.rows : i + lane / UNITS < a.rows)
                    copy16Shared(to + toRows + i * PITCH, x + (i64)i * a.ldx, unitsLeft > 0);
            x += STEPS * 64, bytesLeft -= PART, unitsLeft -= UNITS;
            to = to == last ? base : to + stageBytes;
        }
        copyCommit();
    };
    // Where ldmatrix finds the row that this lane names of each eight: the last row stands for those that are not
    // there.
    u32 named[COLS];
#pragma unroll
    for (int c = 0; c < COLS; c++)
        named[c] = WEIGHTS + min(c * 8 + lane % 8, a.rows - 1) * PITCH + lane / 8 * 16;
    float d[TILES][COLS][4] = {};
    Weights<FORMAT> own[TILES];
    // The first weights are copied while the kernel before still makes the rows.
#pragma unroll 1
    for (int s = 0; s < STAGES - 1; s++)
        if (s < parts)
            copyWeights<PART, true>(base + s * stageBytes, w, bytesLeft - s * PART, lane);
    waitForRows();
#pragma unroll 1
    for (int s = 0; s < STAGES - 1; s++)
        load(s < parts, false);
    if constexpr (AHEAD) {
        load(STAGES - 1 < parts, true);
        Ahead<TILES> ahead;
        int stage = 0;
        auto read = [&](int n) { ahead.template read<PART>(n, ring + stage, sharedAddress(ring) + stage + named[0], lane); };
        copyWait<STAGES - 1>();
        __syncwarp();
        read(0);
        read(1);
        ahead.make();
#pragma unroll 1
        for (int s = 0; s < parts; s++)
#pragma unroll
            for (int n = 0; n < STEPS; n++) {
                if (n == STEPS - 2) { // all of the part has been read: what is read from here on is of the next one
                    copyWait<STAGES - 2>();
                    __syncwarp();
                    load(s + STAGES < parts, true);
                    if (s + STAGES >= parts - 1) // all copies are under way: the next kernel's come after them
                        letNextBegin();
                    stage = stage == (STAGES - 1) * stageBytes ? 0 : stage + stageBytes;
                }
                read((n + 2) % STEPS);
                ahead.multiply(n, d, blockIdx.z);
            }
    } else {
#pragma unroll 1
        for (int s = 0; s < parts; s++) {
            copyWait<STAGES - 2>();
            __syncwarp();
            if (s + STAGES - 1 >= parts) // all copies are under way: the next kernel's come after them
                letNextBegin();
            load(s + STAGES - 1 < parts, true);
            const u8 *stage = ring + s % STAGES * stageBytes;
            u32 x[COLS][4];
#pragma unroll
            for (int k = 0; k < 4 * STEPS; k++) {
                if (k % 4 == 0)
                    loadRecords<PART>(own, stage, k / 4, lane);
#pragma unroll
                for (int c = 0; c < COLS; c++)
                    if constexpr (WHOLE) {
                        const u8 *from = stage + WEIGHTS + (c * 8 + g) * PITCH + k * 32 + t * 4;
                        x[c][k % 2 * 2] = *(const u32 *)from;
                        x[c][k % 2 * 2 + 1] = *(const u32 *)(from + 16);
                    } else if (k % 2 == 0) {
                        ldmatrix(x[c], sharedAddress(stage) + named[c] + k * 32);
                    }
                multiplyTiles(d, own, k % 4, x);
            }
            __syncwarp();
        }
    }
    // The ranges' sums are added through shared memory, [warps][VALUES of a lane][32 lanes], in order.
    constexpr int VALUES = TILES * COLS * 4;
    float *sums = (float *)shared, *all = &d[0][0][0];
    copyWait<0>();
    __syncthreads();
#pragma unroll
    for (int i = 0; i < VALUES; i++)
        sums[(warp * VALUES + i) * 32 + lane] = all[i];
    __syncthreads();
#pragma unroll 1
    for (int n = threadIdx.x; n < 16 * a.rows; n += blockDim.x) {
        int out = n % 16, row = n / 16; // held by lane out%8·4 + row%8/2, as d[..][row / 8][out / 8 * 2 + row % 2]
        int of = row / 8 * 128 + out / 8 * 64 + row % 2 * 32 + out % 8 * 4 + row % 8 / 2;
        float sum = 0, up = 0;
#pragma unroll 1
        for (int w = 0; w < (int)blockDim.x / 32; w += WARPS) {
            sum = sum + sums[w * VALUES * 32 + of];
            up = up + sums[((w + WARPS - 1) * VALUES + (TILES - 1) * COLS * 4) * 32 + of];
        }
        finish(a, WARPS == 1 ? at[0] : placeOf(a, blockIdx.x * (TILES * WARPS)), out, row, sum, up);
    }
}

// STAGES and STEPS are as measured, and as `fews` in products.go has them. With more parts of packed weights, what is
// asked for before the rows are there keeps the kernels before waiting for theirs.
#if FORMAT == 0 // BF16
KERNEL gemm_8(const GemmArgs a) { gemmFew<1, 1, 6, 2>(a); }
KERNEL gemm_8_gated(const GemmArgs a) { gemmFew<1, 1, 4, 2, 2>(a); }
KERNEL gemm_16(const GemmArgs a) { gemmFew<2, 1, 5, 2>(a); }
#else
KERNEL gemm_8(const GemmArgs a) { gemmFew<1, 1, 4, SMALL ? 4 : 2>(a); }
KERNEL gemm_8_gated(const GemmArgs a) { gemmFew<1, 2, SMALL ? 2 : 4, SMALL ? 4 : 2>(a); }
KERNEL gemm_16(const GemmArgs a) { gemmFew<2, 1, 4, 2>(a); }
#endif
KERNEL gemm_16_gated(const GemmArgs a) { gemmFew<2, 2, 4, 2>(a); }
