// Products of F8_E4M3 of up to 8 rows, on Hopper. Sums have the order of gemm_float8.cu; mma of F8_E4M3 would not give
// wgmma's bits, since Hopper computes it as mma of halves.
//
// A block has all rows, some tiles of 16 outputs, and a warp for each range of inputs of each of them. wgmma multiplies
// what each warp of a warpgroup has of 32 inputs of its range with the rows' inputs of all these ranges: of a warp's
// sums, those of its own range are of use. Most products have a block for each multiprocessor.
//
// Rows are whole in shared memory, in units of 16 inputs: [inputs/16, rows, 16], in the order of float8.cuh. To wgmma
// they are matrices of 8 rows of 16 bytes. Where there are fewer rows, such a matrix reaches into the next ones, and
// nothing uses what the rows that are not there give. Weights come through a ring of stages, of 128 inputs of each
// range. As many as fit are asked for before rows are there, but only a few at once: rows, and what the kernels before
// read, would wait behind megabytes of weights.
//
// SCALED: weights and rows have a scale for each 128 inputs. These are a product from zero, whose sums are added as
// addScaled does.
#include "float8.cuh"
#include "gemm_scaled.cuh"

#define MOST_WARPS 16 // that multiply

// Where rows come from: they are there in F8_E4M3; the block rounds rows of bfloat16, as float8_rows does; it
// normalises and rounds rows of float32, as float8_norm does.
enum { MADE, ROUNDED, NORMED };

struct Float8FewArgs {
    GemmArgs a;          // x: of ROUNDED, at 16 bytes
    const u8 *x;         // of MADE: [inputs/16, rows, 16]
    const float *scales; // of MADE: [rows]; SCALED: [inputs/128, rows]
    const float *wide, *gain; // of NORMED: [rows, ldWide] at 16 bytes, [16·tilesIn]
    int ldWide;
    float eps;
    int tiles, stages; // of a block
    int atOnce;        // stages that are on their way at once until the first of the ring have all been asked for
    int unused;
};

// Ranges are the ranges of so many records of a tile. A row has four units for each record.
template <int RANGES> struct Ranges {
    int records, longest, shortest;

    __device__ __forceinline__ Ranges(int records)
        : records(records), longest((records / 4 + RANGES - 1) / RANGES * 4), shortest(records / 4 / RANGES * 4) {}
    __device__ __forceinline__ int start(int range) const { return rangeStart(records, RANGES, range); }
    __device__ __forceinline__ int length(int range) const { return start(range + 1) - start(range); }

    // place is where unit u of a row is in shared memory, where each range has as much room as the longest.
    __device__ __forceinline__ int place(int u) const {
        int to = u;
#pragma unroll
        for (int r = 1; r < RANGES; r++)
            to += u >= start(r) * 4 ? (longest - length(r - 1)) * 4 : 0;
        return to;
    }
};

// mostOf is the largest number of so many threads, which all get. scratch is as sumOfBlock's.
__device__ __forceinline__ float mostOf(float x, int threads, float *scratch) {
    x = mostOfWarp(x);
    if (threadIdx.x % 32 == 0)
        scratch[threadIdx.x / 32] = x;
    barrierOf(1, threads);
    return mostInTurn(x, scratch, threads / 32);
}

// Scratch is for two sums or maxima of a block, each with a number of each warp. They take turns, so that no thread still
// reads one when it is written again.
typedef float Scratch[2][MOST_WARPS];

// ScalesOf are the scales of a block's rows, [8], or SCALED [inputs/128, 8].
template <bool SCALED> struct ScalesOf {
    float *at;

    // put stores that of a row, or of the 128 inputs of which unit u is a part, for `most`, their largest number.
    __device__ __forceinline__ void put(int row, int u, float most) const {
        if (SCALED ? u % 8 == 0 : u == 0)
            at[(SCALED ? u / 8 * 8 : 0) + row] = most / 448.f;
    }
};

// roundRows makes the rows of ROUNDED, and their scales.
template <bool SCALED, typename R>
__device__ __forceinline__ void roundRows(const Float8FewArgs &w, const R &ranges, int threads, u8 *to, const ScalesOf<SCALED> &scales, Scratch &scratch) {
    constexpr int KEPT = 4; // units of a row that a thread has at most
#pragma unroll 1
    for (int row = 0; row < w.a.rows; row++) {
        const uint4 *from = (const uint4 *)(w.a.x + (i64)row * w.a.ldx);
        uint4 x[KEPT][2];
        float most = LEAST, v[16];
#pragma unroll
        for (int k = 0; k < KEPT; k++) {
            int u = threadIdx.x + k * threads;
            if (u < w.a.tilesIn)
                x[k][0] = from[2 * u], x[k][1] = from[2 * u + 1];
        }
        if constexpr (!SCALED) {
#pragma unroll
            for (int k = 0; k < KEPT; k++)
                if ((int)threadIdx.x + k * threads < w.a.tilesIn) {
                    unpacked(x[k], v);
                    most = largest(v, most);
                }
            most = mostOf(most, threads, scratch[row % 2]);
            scales.put(row, threadIdx.x, most);
        }
#pragma unroll
        for (int k = 0; k < KEPT; k++) {
            int u = threadIdx.x + k * threads;
            if (u < w.a.tilesIn) { // whole groups of eight units
                unpacked(x[k], v);
                if constexpr (SCALED) {
                    most = mostOfEight(largest(v, LEAST));
                    scales.put(row, u, most);
                }
                *(uint4 *)(to + (ranges.place(u) * w.a.rows + row) * 16) = sixteenOf(v, 448.f / most);
            }
        }
    }
}

// NormRows makes the rows of NORMED, of which a thread has 16 numbers.
struct NormRows {
    float4 gain[4];
    bool mine;

    // Gains are there before rows are.
    __device__ __forceinline__ NormRows(const Float8FewArgs &w) : mine(threadIdx.x < w.a.tilesIn) {
        if (mine)
#pragma unroll
            for (int i = 0; i < 4; i++)
                gain[i] = ((const float4 *)w.gain)[threadIdx.x * 4 + i];
    }

    template <bool SCALED, typename R>
    __device__ __forceinline__ void make(const Float8FewArgs &w, const R &ranges, int threads, u8 *to, const ScalesOf<SCALED> &scales, Scratch &scratch) {
#pragma unroll 1
        for (int row = 0; row < w.a.rows; row++) {
            float4 x[4] = {};
            if (mine)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    x[i] = ((const float4 *)(w.wide + (i64)row * w.ldWide))[threadIdx.x * 4 + i];
            float squares = 0, most = LEAST, v[16];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                squares = fmaf(x[i].x, x[i].x, squares);
                squares = fmaf(x[i].y, x[i].y, squares);
                squares = fmaf(x[i].z, x[i].z, squares);
                squares = fmaf(x[i].w, x[i].w, squares);
            }
            squares = sumOfWarp(squares);
            if (threadIdx.x % 32 == 0)
                scratch[0][threadIdx.x / 32] = squares;
            barrierOf(1, threads);
            float inv = rsqrtf(sumInTurn(0, scratch[0], threads / 32) / (w.a.tilesIn * 16) + w.eps);
            if (mine) {
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    v[4 * i] = x[i].x * inv * gain[i].x, v[4 * i + 1] = x[i].y * inv * gain[i].y;
                    v[4 * i + 2] = x[i].z * inv * gain[i].z, v[4 * i + 3] = x[i].w * inv * gain[i].w;
                }
                most = largest(v, most);
            }
            if constexpr (!SCALED)
                most = mostOf(most, threads, scratch[1]);
            else if (mine) // whole groups of eight threads
                most = mostOfEight(most);
            if (mine || !SCALED)
                scales.put(row, threadIdx.x, most);
            if (SCALED)
                barrierOf(1, threads); // squares are read, before those of the next row are written
            if (mine)
                *(uint4 *)(to + (ranges.place(threadIdx.x) * w.a.rows + row) * 16) = sixteenOf(v, 448.f / most);
        }
    }
};

// Ring is a block's ring of stages of weights, in shared memory, and its barriers.
struct Ring {
    u32 at, full, empty;
    int stages, bytes; // bytes: of a stage
};

// Stage is a position in a ring whose size is known only when the kernel runs (Cursor).
struct Stage {
    int n;
    u32 parity;

    __device__ __forceinline__ void next(const Ring &ring) {
        if (++n == ring.stages)
            n = 0, parity ^= 1;
    }
};

// feed is the work of the warp that fetches: lane n fetches what warp n multiplies.
template <int RANGES> __device__ __forceinline__ void feed(const Float8FewArgs &w, const Ranges<RANGES> &ranges, const Ring &ring) {
    int lane = threadIdx.x % 32, range = lane % RANGES, steps = ranges.longest / 2;
    int records = lane < w.tiles * RANGES ? ranges.length(range) : 0;
    Place own = placeOf(w.a, blockIdx.x * w.tiles + lane / RANGES);
    const u8 *from = w.a.p[max(own.product, 0)].w + ((i64)(own.product < 0 ? 0 : own.tile) * ranges.records + ranges.start(range)) * RECORD;
    Stage at = {0, 1};
    u64 policy = readOnce();
#pragma unroll 1
    for (int b = 0; b < steps; b++) {
        if (b >= w.atOnce && b < ring.stages)
            barrierWait(ring.full + (b - w.atOnce) * 8, 0);
        barrierWait(ring.empty + at.n * 8, at.parity);
        bool there = 2 * b < records;
        int warps = __popc(__ballot_sync(~0u, there));
        u32 full = ring.full + at.n * 8;
        if (lane == 0)
            barrierExpect(full, warps * 2 * RECORD);
        __syncwarp();
        if (there)
            fetch(ring.at + at.n * ring.bytes + lane * 2 * RECORD, from + (i64)b * 2 * RECORD, 2 * RECORD, full, policy);
        at.next(ring);
    }
}

// gemmFew computes the products. [tiles/w.tiles] blocks of whole warpgroups that multiply, the last of which may have
// warps without a tile, and of a warp that fetches. Dynamic shared memory: as float8Few.arrange has it.
template <int RANGES, int FROM, bool SCALED> __device__ __forceinline__ void gemmFew(const Float8FewArgs &w) {
    constexpr int COLUMNS = RANGES < 4 ? RANGES : 4, N = 8 * COLUMNS; // COLUMNS: ranges of a warpgroup
    const GemmArgs &a = w.a;
    extern __shared__ __align__(128) u8 shared[];
    __shared__ float weightScales[MOST_WARPS * 16], scaleOfRow[8];
    __shared__ Scratch scratch;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, tile0 = blockIdx.x * w.tiles;
    int threads = blockDim.x - 32, warps = w.tiles * RANGES; // that multiply; that have a tile
    Ranges<RANGES> ranges(a.tilesIn / 4);
    int steps = ranges.longest / 2, apart = ranges.longest * 4 * a.rows; // apart: units from a range's rows to the next
    float(*sums)[8][16] = (float(*)[8][16])shared; // [warps]
    u8 *weights = shared + warps * 512, *rows = weights + w.stages * warps * 2 * RECORD;
    u32 rowsThere = sharedAddress(rows) + RANGES * apart * 16 + 128; // a barrier; 128: that a matrix may reach into
    Ring ring = {sharedAddress(weights), rowsThere + 8, rowsThere + 8 + w.stages * 8, w.stages, warps * 2 * RECORD};
    ScalesOf<SCALED> rowScales = {SCALED ? (float *)(rows + RANGES * apart * 16 + 128 + 8 + w.stages * 16) : scaleOfRow};
    if (threadIdx.x == 0) {
#pragma unroll 1
        for (int s = 0; s < ring.stages; s++) {
            barrierInit(ring.full + s * 8, 1);
            barrierInit(ring.empty + s * 8, warps);
        }
        barrierInit(rowsThere, 1);
        barriersReady();
    }
    __syncthreads();
    letNextBegin(); // its first weights fill the time in which blocks of this one end
    if (threadIdx.x >= threads) {
        feed(w, ranges, ring);
        return;
    }
#pragma unroll 1
    for (int i = threadIdx.x; i < (SCALED ? 0 : w.tiles * 16); i += threads) {
        Place at = placeOf(a, tile0 + i / 16);
        int out = at.tile * 16 + i % 16;
        weightScales[i] = at.product >= 0 && out < a.p[at.product].outs ? weightScale(a, at.product, out) : 0.f;
    }
    if constexpr (FROM == NORMED) {
        NormRows norm(w);
        waitForRows();
        norm.make(w, ranges, threads, rows, rowScales, scratch);
    } else {
        waitForRows();
        if (FROM == ROUNDED)
            roundRows(w, ranges, threads, rows, rowScales, scratch);
    }
    if (FROM == MADE) {
        if (warp == 0) {
            int record = a.rows * 64; // bytes of 64 inputs of all rows
            if (lane == 0)
                barrierExpect(rowsThere, ranges.records * record);
            __syncwarp();
            if (lane < RANGES)
                fetch(sharedAddress(rows) + lane * apart * 16, w.x + ranges.start(lane) * record, ranges.length(lane) * record, rowsThere);
            if (!SCALED && lane < a.rows)
                scaleOfRow[lane] = w.scales[lane];
        }
        if (SCALED)
#pragma unroll 1
            for (int i = threadIdx.x; i < a.tilesIn / 8 * a.rows; i += threads)
                rowScales.at[i / a.rows * 8 + i % a.rows] = w.scales[i];
        barrierWait(rowsThere, 0);
    } else {
        fenceShared();
    }
    barrierOf(1, threads);
    // Without swizzle, a descriptor says how far the next 16 inputs are, and how far the next matrix of 8 rows, which
    // is that of the next range.
    bool idle = warp >= warps;
    int range = warp % RANGES, column = range % COLUMNS;
    u64 matrix = (u64)((sharedAddress(rows) >> 4) + (range - column) * apart) | (u64)a.rows << 16 | (u64)apart << 32;
    float d[N / 2], own[4];
    // pick is what d has of the warp's own range.
    auto pick = [&](const float(&d)[N / 2], int i) {
        float x = d[i];
#pragma unroll
        for (int c = 1; c < COLUMNS; c++)
            x = column == c ? d[4 * c + i] : x;
        return x;
    };
    typedef typename OperandOf<SCALED>::type StepWeights;
    StepWeights o[2] = {}; // one is multiplied while the next is made
    Stage at = {0, 0};
    auto load = [&](StepWeights &to) {
        if (idle)
            return;
        barrierWait(ring.full + at.n * 8, at.parity);
        to.load(weights + at.n * ring.bytes + warp * 2 * RECORD, lane);
        __syncwarp();
        if (lane == 0)
            barrierArrive(ring.empty + at.n * 8);
        at.next(ring);
    };
    int b = 0;
    load(o[0]);
    if constexpr (SCALED) {
        const float *scales = rowScales.at + ranges.start(range) / 2 * 8 + lane % 4 * 2;
#pragma unroll
        for (int i = 0; i < 4; i++)
            own[i] = 0;
        auto step = [&](const StepWeights &now, StepWeights &next) {
            u32 low = ofWarp(matrix);
            u64 high = (u64)ofWarp(matrix >> 32) << 32;
            wgmmaFence();
#pragma unroll
            for (int k = 0; k < 4; k++)
                wgmma<true, N>(d, now.o.a[k], high | low + k * 2 * a.rows, k == 0);
            wgmmaCommit();
            matrix += 8 * a.rows;
            bool mine = 2 * b < ranges.length(range);
            float2 scale = *(const float2 *)(scales + (mine ? b * 8 : 0));
            if (++b < steps)
                load(next);
            wgmmaWait<0>();
            settle(d);
#pragma unroll
            for (int i = 0; i < 4; i++)
                own[i] = mine ? fmaf(pick(d, i), now.scale[i / 2] * (i % 2 ? scale.y : scale.x), own[i]) : own[i];
        };
#pragma unroll 1
        while (b < steps) { // ranges are a multiple of 256 inputs
            step(o[0], o[1]);
            step(o[1], o[0]);
        }
    } else {
        auto step = [&](const StepWeights &now, StepWeights &next) {
            u32 low = ofWarp(matrix);
            u64 high = (u64)ofWarp(matrix >> 32) << 32;
            wgmmaFence();
#pragma unroll
            for (int k = 0; k < 4; k++)
                wgmma<true, N>(d, now.a[k], high | low + k * 2 * a.rows, b == 0 && k == 0);
            wgmmaCommit();
            wgmmaWait<1>();
            matrix += 8 * a.rows;
            if (++b < steps)
                load(next);
        };
        // Where ranges are not equal, the warps of the longer ones go on once the others have their sums.
        for (int end = ranges.shortest / 2;; end = steps) {
#pragma unroll 1
            while (b < end) { // ranges are a multiple of 256 inputs
                step(o[0], o[1]);
                step(o[1], o[0]);
            }
            wgmmaWait<0>();
            settle(d);
            if (2 * b <= ranges.length(range))
#pragma unroll
                for (int i = 0; i < 4; i++)
                    own[i] = pick(d, i);
            if (b == steps)
                break;
        }
    }
    if (!idle)
#pragma unroll
        for (int i = 0; i < 4; i++)
            sums[warp][lane % 4 * 2 + i % 2][lane / 4 + i / 2 * 8] = own[i];
    barrierOf(1, threads);
    bool gated = a.mode == GATED;
    int outs = gated ? w.tiles * 8 : w.tiles * 16;
    auto total = [&](int row, int out) {
        float sum = 0;
#pragma unroll
        for (int r = 0; r < RANGES; r++)
            sum = sum + sums[out / 16 * RANGES + r][row][out % 16];
        return SCALED ? sum : sum * weightScales[out] * scaleOfRow[row];
    };
#pragma unroll 1
    for (int n = threadIdx.x; n < a.rows * outs; n += threads) {
        int row = n / outs, out = n % outs;
        if (gated)
            out = out / 16 * 32 + out % 16;
        Place at = placeOf(a, tile0 + out / 16);
        if (at.product >= 0)
            finish(a, at, out % 16, row, total(row, out), gated ? total(row, out + 16) : 0);
    }
}

#define FEW_KERNEL(NAME, RANGES, FROM, SCALED)                                                                         \
    KERNEL __launch_bounds__(32 * MOST_WARPS + 32) NAME(const __grid_constant__ Float8FewArgs w) { gemmFew<RANGES, FROM, SCALED>(w); }
#define FEW_KERNELS(NAME, RANGES, SCALED)                                                                              \
    FEW_KERNEL(gemm_float8_##NAME##_##RANGES, RANGES, MADE, SCALED)                                                    \
    FEW_KERNEL(gemm_float8_##NAME##_##RANGES##_rounds, RANGES, ROUNDED, SCALED)                                        \
    FEW_KERNEL(gemm_float8_##NAME##_##RANGES##_norms, RANGES, NORMED, SCALED)
FEW_KERNELS(few, 1, false)
FEW_KERNELS(few, 2, false)
FEW_KERNELS(few, 4, false)
FEW_KERNELS(few, 8, false)
FEW_KERNELS(few_groups, 1, true)
FEW_KERNELS(few_groups, 2, true)
