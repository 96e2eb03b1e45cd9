// Products of F8_E4M3 on Hopper: rows become F8_E4M3, too, and wgmma multiplies the two. FORMAT is FP8.
//
// A row's numbers are divided by a scale, 1/448 of the largest of the row (448 is the largest of F8_E4M3), and rounded.
// Where the weights have scales for groups of inputs, each 128 inputs of a row have a scale of their own.
//
// The order of a sum: where rows have one scale, a range of inputs is one chain of wgmma from zero, 32 inputs at a
// time, ascending, as in gemm.cuh. Where there are groups, 128 inputs are such a chain; the chains' sums are multiplied
// by scales and added as float32, ascending. Either way the ranges' sums are added in order. So a row gives the same bits
// whichever kernel computes it, beside however many other rows.
//
// Kernels for few rows (gemmRanges) have a block for each range; those for more rows are those of gemm_wgmma.cuh and,
// with groups, of gemm_scaled.cuh.
//
// Of each 16 inputs, rows are written in the order of weights (sixteenOf).
#include "float8.cuh"
#include "gemm_scaled.cuh"
#include "gemm_turned.cuh"

#define BLOCK 128 // inputs of a step: two records
#define TILES 4   // of weights that a block of gemmRanges has

// float8_rows makes F8_E4M3 of rows of bfloat16. [rows] blocks of a whole number of warps.
struct Float8RowsArgs {
    const bf16 *x; // [rows, ldx], at 16 bytes
    u8 *to;        // as x of Float8Args; where padded is 0, as x of Float8FewArgs
    float *scales;
    int ldx, in, padded, groups;
};

// sixteen reads 16 inputs, zeros past the last, and returns the largest absolute value.
__device__ __forceinline__ float sixteen(const Float8RowsArgs &a, int first, float (&v)[16]) {
    uint4 half[2] = {};
    if (first < a.in) {
        const uint4 *from = (const uint4 *)(a.x + (i64)blockIdx.x * a.ldx + first);
        half[0] = from[0], half[1] = from[1];
    }
    unpacked(half, v);
    return largest(v, 0);
}

// putSixteen writes 16 inputs, times by, as unit u of a row.
__device__ __forceinline__ void putSixteen(u8 *to, int padded, int row, int u, const float (&v)[16], float by) {
    if (padded)
        to += ((i64)(u / 8) * padded + row) * BLOCK + (u % 8 ^ row % 8) * 16;
    else
        to += ((i64)u * gridDim.x + row) * 16;
    *(uint4 *)to = sixteenOf(v, by);
}

// scaleAt is where the scale of 128 inputs of a row is, among them unit u.
__device__ __forceinline__ i64 scaleAt(int padded, int row, int u) { return (i64)(u / 8) * (padded ? padded : gridDim.x) + row; }

// mostOfBlock is the largest number of a block's threads, of whole warps; all get it. scratch is as sumOfBlock's.
__device__ __forceinline__ float mostOfBlock(float x, float *scratch) {
    x = mostOfWarp(x);
    if (threadIdx.x % 32 == 0)
        scratch[threadIdx.x / 32] = x;
    __syncthreads();
    return mostInTurn(x, scratch, blockDim.x / 32);
}

KERNEL __launch_bounds__(1024) float8_rows(const Float8RowsArgs a) {
    __shared__ float scratch[32];
    int row = blockIdx.x, units = a.in / 16;
    float v[16], w[16], most = LEAST;
    letNextBegin();
    waitForRows();
    float own = sixteen(a, threadIdx.x * 16, v);
    if (!a.groups) {
        most = fmaxf(most, own);
#pragma unroll 1
        for (int u = threadIdx.x + blockDim.x; u < units; u += blockDim.x)
            most = fmaxf(most, sixteen(a, u * 16, w));
        most = mostOfBlock(most, scratch);
        if (threadIdx.x == 0)
            a.scales[row] = most / 448.f;
    }
#pragma unroll 1
    for (int u = threadIdx.x; u < units; u += blockDim.x) { // eight neighbours have a block of 128 inputs
        if (u != threadIdx.x) // the first ones are in v
            own = sixteen(a, u * 16, v);
        if (a.groups) {
            most = fmaxf(mostOfEight(own), LEAST);
            if (u % 8 == 0)
                a.scales[scaleAt(a.padded, row, u)] = most / 448.f;
        }
        putSixteen(a.to, a.padded, row, u, v, 448.f / most);
    }
}

// float8_norm normalises rows of float32, [rows, 16·k] at 16 bytes, as norm_wide does, and makes F8_E4M3 of them,
// without rounding to bfloat16 between. [rows] blocks of a thread for each 16 inputs.
struct Float8NormArgs {
    const float *x, *gain;
    u8 *to;
    float *scales;
    int ldx, in, padded, groups;
    float eps;
    int unused;
};
KERNEL __launch_bounds__(1024) float8_norm(const Float8NormArgs a) {
    __shared__ float scratch[2][32];
    int row = blockIdx.x, u = threadIdx.x;
    float4 x[4] = {}, gain[4] = {};
    letNextBegin();
    waitForRows();
    if (u * 16 < a.in)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            x[i] = ((const float4 *)(a.x + (i64)row * a.ldx))[u * 4 + i];
            gain[i] = ((const float4 *)a.gain)[u * 4 + i];
        }
    float squares = 0, most = LEAST, v[16];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        squares = fmaf(x[i].x, x[i].x, squares);
        squares = fmaf(x[i].y, x[i].y, squares);
        squares = fmaf(x[i].z, x[i].z, squares);
        squares = fmaf(x[i].w, x[i].w, squares);
    }
    float inv = rsqrtf(sumOfBlock(squares, scratch[0]) / a.in + a.eps);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        v[4 * i] = x[i].x * inv * gain[i].x, v[4 * i + 1] = x[i].y * inv * gain[i].y;
        v[4 * i + 2] = x[i].z * inv * gain[i].z, v[4 * i + 3] = x[i].w * inv * gain[i].w;
    }
#pragma unroll
    for (int i = 0; i < 16; i++)
        most = fmaxf(most, fabsf(v[i]));
    most = a.groups ? mostOfEight(most) : mostOfBlock(most, scratch[1]);
    if (u * 16 >= a.in)
        return;
    if (a.groups ? u % 8 == 0 : u == 0)
        a.scales[a.groups ? scaleAt(a.padded, row, u) : row] = most / 448.f;
    putSixteen(a.to, a.padded, row, u, v, 448.f / most);
}

// clusterGet reads a number from the shared memory of block `rank` of the cluster, where it has what this block has at
// an address.
__device__ __forceinline__ float clusterGet(u32 at, int rank) {
    float v;
    asm volatile("{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %1, %2;\n"
                 "ld.shared::cluster.f32 %0, [there];\n}"
                 : "=f"(v)
                 : "r"(at), "r"(rank)
                 : "memory");
    return v;
}

// Ring says how a kernel cuts its shared memory. A stage holds 128 inputs of N rows, of TILES tiles of weights, and the
// scales of these rows.
template <int N, int STAGES> struct Ring {
    static constexpr int ROWS_BYTES = N * BLOCK, WEIGHT_BYTES = TILES * 2 * RECORD, SCALE_BYTES = N * 4;
    // In shared memory, from its first multiple of 1024 on:
    static constexpr int WEIGHTS = STAGES * ROWS_BYTES, SCALES = WEIGHTS + STAGES * WEIGHT_BYTES;
    static constexpr int BARRIERS = SCALES + STAGES * SCALE_BYTES; // full, then empty
};

// feedRing fetches steps `first` to end-1 of the weights of tiles from tile0 on, the first ones before rows are there, and
// of N rows from row0 on.
template <int N, int STAGES, bool GROUPED>
__device__ __forceinline__ void feedRing(const Float8Args &w, u32 base, int tile0, int row0, int first, int end) {
    using R = Ring<N, STAGES>;
    const GemmArgs &a = w.a;
    Cursor<STAGES> at = {0, 1};
    int lane = threadIdx.x % 32, ahead = min(STAGES, end - first);
    Place own = placeOf(a, tile0 + lane % TILES);
    const u8 *from = a.p[max(own.product, 0)].w + (i64)(own.product < 0 ? 0 : own.tile) * (a.tilesIn / 4) * RECORD;
    u64 policy = a.rows <= N ? readOnce() : readAgain();
    auto weights = [&](int b, int stage) {
        u32 full = base + R::BARRIERS + stage * 8;
        if (lane == 0)
            barrierExpect(full, R::ROWS_BYTES + R::WEIGHT_BYTES + (GROUPED ? R::SCALE_BYTES : 0));
        __syncwarp();
        if (lane < TILES)
            fetch(base + R::WEIGHTS + stage * R::WEIGHT_BYTES + lane * 2 * RECORD, from + (i64)b * 2 * RECORD, 2 * RECORD, full, policy);
    };
    for (int s = 0; s < ahead; s++)
        weights(first + s, s);
    waitForRows();
    for (int b = first; b < end; b++) {
        u32 full = base + R::BARRIERS + at.stage * 8;
        barrierWait(full + STAGES * 8, at.parity);
        if (b >= first + ahead)
            weights(b, at.stage);
        if (lane == 0) {
            i64 row = (i64)b * w.padded + row0;
            fetch(base + at.stage * R::ROWS_BYTES, w.x + row * BLOCK, R::ROWS_BYTES, full);
            if (GROUPED)
                fetch(base + R::SCALES + at.stage * R::SCALE_BYTES, w.scales + row, R::SCALE_BYTES, full);
        }
        at.next();
    }
}

// begin starts the products of a block of 128 inputs. fresh: sums begin with them.
template <int N> __device__ __forceinline__ void begin(float (&d)[N / 2], const Operand<true> &o, u32 rows, bool fresh) {
    u64 at = describe(ofWarp(rows));
    wgmmaFence();
#pragma unroll
    for (int k = 0; k < 4; k++)
        wgmma<true, N>(d, o.a[k], at + k * 2, fresh && k == 0);
    wgmmaCommit();
}

// gemmRanges is for few rows. A block takes 64 outputs of N rows and one of RANGES ranges of inputs; the blocks of a
// cluster take the ranges of the same outputs, and read each other's sums to add them in order. Four warps multiply, a
// fifth fetches. Blocks of 160 threads: RANGES·(rows/N)·(outputs/64), the last two rounded up, ranges first.
template <int N, int RANGES, int STAGES, bool GROUPED> __device__ __forceinline__ void gemmRanges(const Float8Args &w) {
    using R = Ring<N, STAGES>;
    constexpr int PITCH = 64 + 4;
    static_assert(N * PITCH * 4 <= R::SCALES, "sums take the place of rows and weights");
    const GemmArgs &a = w.a;
    extern __shared__ u8 unaligned[];
    __shared__ float weightScales[64];
    u32 base = sharedAddress(unaligned), skip = (1024 - base % 1024) % 1024;
    base += skip;
    u8 *shared = unaligned + skip;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, rank = blockIdx.x % RANGES;
    int rowBlocks = (a.rows + N - 1) / N, unit = blockIdx.x / RANGES, row0 = unit % rowBlocks * N, tile0 = unit / rowBlocks * 4;
    int steps = a.tilesIn / 4;
    int first = rangeStart(steps, RANGES, rank) / 2, last = rangeStart(steps, RANGES, rank + 1) / 2;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) {
            barrierInit(base + R::BARRIERS + s * 8, 1);
            barrierInit(base + R::BARRIERS + (STAGES + s) * 8, 4);
        }
        barriersReady();
    }
    __syncthreads();
    if (warp == 4) {
        feedRing<N, STAGES, GROUPED>(w, base, tile0, row0, first, last);
        letNextBegin();
    } else {
        if (!GROUPED && threadIdx.x < 64) {
            Place at = placeOf(a, tile0 + threadIdx.x / 16);
            int out = at.tile * 16 + threadIdx.x % 16;
            weightScales[threadIdx.x] = at.product >= 0 && out < a.p[at.product].outs ? weightScale(a, at.product, out) : 0.f;
        }
        waitForRows();
        Cursor<STAGES> at = {0, 0};
        float sum[N / 2] = {}, d[N / 2];
        auto records = [&] { return shared + R::WEIGHTS + at.stage * R::WEIGHT_BYTES + warp * 2 * RECORD; };
        auto arrived = [&] { barrierWait(base + R::BARRIERS + at.stage * 8, at.parity); };
        auto release = [&](int stage) {
            __syncwarp();
            if (lane == 0)
                barrierArrive(base + R::BARRIERS + (STAGES + stage) * 8);
        };
        if constexpr (GROUPED) {
            Scaled o;
#pragma unroll 1
            for (int b = first; b < last; b++) {
                arrived();
                o.load(records(), lane);
                begin<N>(d, o.o, base + at.stage * R::ROWS_BYTES, true);
                wgmmaWait<0>();
                settle(d);
                addScaled<N>(sum, d, o, (const float *)(shared + R::SCALES + at.stage * R::SCALE_BYTES), lane);
                release(at.stage);
                at.next();
            }
        } else {
            Operand<true> o[2]; // one is multiplied while the next is made
            int b = first;
            auto step = [&](const Operand<true> &now, Operand<true> &next) {
                begin<N>(d, now, base + at.stage * R::ROWS_BYTES, b == first);
                wgmmaWait<1>();
                if (b > first)
                    release(at.stage == 0 ? STAGES - 1 : at.stage - 1);
                at.next();
                if (++b < last) {
                    arrived();
                    next.load(records(), lane);
                }
            };
            arrived();
            o[0].load(records(), lane);
#pragma unroll 1
            while (b < last) { // ranges are a multiple of 256 inputs
                step(o[0], o[1]);
                step(o[1], o[0]);
            }
            wgmmaWait<0>();
            settle(d);
#pragma unroll
            for (int i = 0; i < N / 2; i++)
                sum[i] = d[i];
        }
        barrierOf(1, 128); // all have read rows and weights
        float *to = (float *)shared + lane % 4 * 2 * PITCH + warp * 16 + lane / 4;
#pragma unroll
        for (int i = 0; i < N / 2; i++)
            to[(i / 4 * 8 + i % 2) * PITCH + i / 2 % 2 * 8] = sum[i];
        barrierOf(1, 128);
    }
    if (RANGES > 1)
        clusterSync();
    if (warp < 4) {
        bool gated = a.mode == GATED;
        int outs = gated ? 32 : 64, rows = min(N, a.rows - row0);
        auto total = [&](int row, int out) {
            u32 at = base + (row * PITCH + out) * 4;
            float sum = 0;
#pragma unroll
            for (int r = 0; r < RANGES; r++)
                sum = sum + clusterGet(at, RANGES > 1 ? r : 0);
            return GROUPED ? sum : sum * weightScales[out] * w.scales[row0 + row];
        };
        for (int n = rank * 128 + threadIdx.x; n < rows * outs; n += RANGES * 128) {
            int row = n / outs, out = n % outs;
            if (gated)
                out = out / 16 * 32 + out % 16;
            Place at = placeOf(a, tile0 + out / 16);
            if (at.product >= 0)
                finish(a, at, out % 16, row0 + row, total(row, out), gated ? total(row, out + 16) : 0);
        }
    }
    if (RANGES > 1) // a block's sums must stay until the others have read them; relaxed, since nothing was written
        asm volatile("barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

// RESIDENT is how many blocks a multiprocessor is to have room for. Sizes are those of float8Kernels in float8.go.
#define GROUPS_KERNEL(N, RANGES, STAGES, RESIDENT)                                                                     \
    KERNEL __cluster_dims__(RANGES, 1, 1) __launch_bounds__(160, RESIDENT)                                             \
        gemm_float8_groups_##N##_##RANGES(const __grid_constant__ Float8Args w) {                                      \
        gemmRanges<N, RANGES, STAGES, true>(w);                                                                        \
    }
#define GROUPS_ROWS(N, STAGES, RESIDENT)                                                                               \
    GROUPS_KERNEL(N, 1, STAGES, RESIDENT) GROUPS_KERNEL(N, 2, STAGES, RESIDENT)
GROUPS_ROWS(8, 7, 3)
GROUPS_ROWS(16, 6, 3)
GROUPS_ROWS(32, 5, 3)

#define FEW_KERNEL(N, RANGES, STAGES, RESIDENT)                                                                        \
    KERNEL __cluster_dims__(RANGES, 1, 1) __launch_bounds__(160, RESIDENT)                                             \
        gemm_float8_##N##_##RANGES(const __grid_constant__ Float8Args w) {                                             \
        gemmRanges<N, RANGES, STAGES, false>(w);                                                                       \
    }
#define FEW_ROWS(N, STAGES, RESIDENT)                                                                                  \
    FEW_KERNEL(N, 1, STAGES, RESIDENT) FEW_KERNEL(N, 2, STAGES, RESIDENT)                                              \
    FEW_KERNEL(N, 4, STAGES, RESIDENT) FEW_KERNEL(N, 8, STAGES, RESIDENT)
FEW_ROWS(8, 5, 4)
FEW_ROWS(16, 6, 3)
FEW_ROWS(32, 5, 3)

WGMMA_KERNEL(gemm_float8_128x256, true, 256, 2, 1, false)
WGMMA_KERNEL(gemm_float8_128x192, true, 192, 2, 1, false)
WGMMA_KERNEL(gemm_float8_128x160, true, 160, 2, 1, false)
TURNED_KERNEL(gemm_float8_128x256_turned, true)
WGMMA_KERNEL(gemm_float8_128x128, true, 128, 2, 1, false)
WGMMA_KERNEL(gemm_float8_128x64, true, 64, 2, 1, false)
WGMMA_KERNEL(gemm_float8_128x32, true, 32, 2, 1, false)
WGMMA_KERNEL(gemm_float8_64x128, true, 128, 1, 1, false)
WGMMA_KERNEL(gemm_float8_64x64, true, 64, 1, 1, false)
WGMMA_KERNEL(gemm_float8_128x192_split, true, 192, 2, 1, true)
WGMMA_KERNEL(gemm_float8_64x192_split, true, 192, 1, 1, true)
WGMMA_KERNEL(gemm_float8_128x128_split, true, 128, 2, 1, true)
WGMMA_KERNEL(gemm_float8_64x128_split, true, 128, 1, 1, true)
WGMMA_KERNEL(gemm_float8_64x64_split, true, 64, 1, 1, true)
WGMMA_KERNEL(gemm_float8_64x32_split, true, 32, 1, 1, true)
GROUPS_WGMMA(gemm_float8_groups_128x128, 128, 2, false)
GROUPS_WGMMA(gemm_float8_groups_128x64, 64, 2, false)
GROUPS_WGMMA(gemm_float8_groups_128x32, 32, 2, false)
GROUPS_WGMMA(gemm_float8_groups_64x64, 64, 1, false)
GROUPS_WGMMA(gemm_float8_groups_128x128_split, 128, 2, true)
GROUPS_WGMMA(gemm_float8_groups_64x128_split, 128, 1, true)
GROUPS_WGMMA(gemm_float8_groups_64x64_split, 64, 1, true)
GROUPS_WGMMA(gemm_float8_groups_64x32_split, 32, 1, true)
BLOCKS_WGMMA(gemm_float8_blocks_128x192, 192)
BLOCKS_WGMMA(gemm_float8_blocks_128x128, 128)
