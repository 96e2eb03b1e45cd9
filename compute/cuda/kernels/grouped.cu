// Products of groups of rows, on any GPU. A block has a chunk of up to ROWS rows of one group and 16 outputs for each
// of its warps, for all inputs, with weights and rows in shared memory, which copies in the background fill ahead. Sums
// have the order of gemm.cuh.
#include "grouped.cuh"

#define DEPTH 64 // inputs of a step: a record's

// Chunk is some rows of one group: `rows` of them from row `first` of all groups' rows on.
struct Chunk {
    int group, first, rows;
};

// chunkOf finds chunk n, if each group's rows are cut into chunks of at most `most` rows; past the last chunk, one of
// no rows. A warp's lanes work together: each counts the chunks of one group.
__device__ __forceinline__ Chunk chunkOf(const GroupedArgs &a, int n, int most) {
    if (!a.ends) {
        int each = (a.rows + most - 1) / most, first = n % each * most;
        return {n / each, first, min(most, a.rows - first)};
    }
    constexpr int AT_ONCE = 4; // times 32 groups, whose ends are read at a time
    int lane = threadIdx.x % 32, before = 0, last = 0;
    for (int base = 0; base < a.groups; base += AT_ONCE * 32) {
        int ends[AT_ONCE];
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
            ends[i] = a.ends[min(base + i * 32 + lane, a.groups - 1)];
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            int end = ends[i], begin = __shfl_up_sync(~0u, end, 1);
            begin = lane > 0 ? begin : last;
            last = __shfl_sync(~0u, end, 31);
            int chunks = (end - begin + most - 1) / most, until = chunks;
            for (int d = 1; d < 32; d *= 2) { // until becomes the chunks of this group and those before it
                int other = __shfl_up_sync(~0u, until, d);
                until += lane >= d ? other : 0;
            }
            u32 past = __ballot_sync(~0u, before + until > n);
            if (past) {
                int w = __ffs(past) - 1;
                begin = __shfl_sync(~0u, begin, w), end = __shfl_sync(~0u, end, w);
                int first = begin + (n - before - __shfl_sync(~0u, until - chunks, w)) * most;
                return {base + i * 32 + w, first, min(most, end - first)};
            }
            before += __shfl_sync(~0u, until, 31);
        }
    }
    return {0, 0, 0};
}

// gate is activate, compiled once: it is called from many unrolled places.
__device__ __noinline__ float gate(int act, float x, float up) { return activate(act, x, up); }

// A warp has 16 outputs; of GATED, neighbouring warps have those of a gate and of what it gates. [b, n, m] blocks of
// 32·WARPS threads: b is the sum of all products' tiles/WARPS, each rounded up, of GATED 2·tiles/WARPS; n·m is at least
// the number of chunks. A stage has STEPS steps. Dynamic shared memory: STAGES·STEPS·(WARPS·RECORD + ROWS·128) bytes.
template <int ROWS, int WARPS, int STAGES, int STEPS> __device__ __forceinline__ void grouped(const GroupedArgs &a) {
    constexpr int THREADS = 32 * WARPS, PART = STEPS * RECORD, WEIGHTS = WARPS * PART, STAGE = WEIGHTS + STEPS * ROWS * 128, COLS = ROWS / 8;
    constexpr int UNITS = (STEPS * ROWS * 8 + THREADS - 1) / THREADS; // of 16 bytes of rows that a thread copies
    extern __shared__ __align__(128) u8 shared[];
    int thread = threadIdx.x, warp = thread / 32, lane = thread % 32, g = lane / 4, t = lane % 4;
    bool early = !a.ends; // which group a block has is known, and weights are fetched before rows are there
    letNextBegin();
    if (!early)
        waitForRows();
    Chunk c = chunkOf(a, blockIdx.z * gridDim.y + blockIdx.y, ROWS);
    if (c.group >= a.groups || c.rows <= 0)
        return;
    bool gated = a.mode == GATED;
    int product = 0, block = blockIdx.x;
    while (!gated && block * WARPS >= a.p[product].tiles)
        block -= (a.p[product++].tiles + WARPS - 1) / WARPS;
    const GroupedProduct &p = a.p[product];
    Group w = p.groups[c.group], up = gated ? a.p[1].groups[c.group] : w;
    if (!w.w)
        return;
    int tiles = (w.outs + 15) / 16, steps = (w.in + DEPTH - 1) / DEPTH, tile0 = gated ? block * (WARPS / 2) : block * WARPS;
    if (tile0 >= tiles)
        return;
    // What a thread copies next: 16 bytes of every 512 of its warp's tile, zeros past the last, and units of rows, nil
    // where there is no row.
    int own = tile0 + (gated ? warp / 2 : warp), bytesLeft = own < tiles ? steps * RECORD - lane * 16 : 0;
    const u8 *from = (gated && warp % 2 ? up.w : w.w) + (own < tiles ? (i64)own * steps * RECORD + lane * 16 : 0);
    const bf16 *x[UNITS];
#pragma unroll
    for (int i = 0; i < UNITS; i++) {
        int n = thread + i * THREADS, row = n / 8 % ROWS;
        x[i] = row < c.rows ? p.x + (i64)(a.from ? a.from[c.first + row] : c.first + row) * p.ldx + (i64)c.group * a.inStep + n / 8 / ROWS * DEPTH + n % 8 * 8 : 0;
    }
    u32 base = sharedAddress(shared);
    auto loadWeights = [&](int part) {
        u32 to = base + part % STAGES * STAGE + warp * PART + lane * 16;
#pragma unroll
        for (int j = 0; j < (PART + 511) / 512; j++)
            if (PART % 512 == 0 || j < PART / 512 || lane < PART % 512 / 16)
                copy16(to + j * 512, j * 512 < bytesLeft ? from + j * 512 : w.w, j * 512 < bytesLeft);
        from += PART, bytesLeft -= PART;
    };
    auto load = [&](int part, bool withWeights) {
        int stage = part % STAGES * STAGE;
        if (part * STEPS < steps) {
            if (withWeights)
                loadWeights(part);
#pragma unroll
            for (int i = 0; i < UNITS; i++) {
                int n = thread + i * THREADS, row = n / 8 % ROWS, k = part * STEPS * DEPTH, col = n / 8 / ROWS * DEPTH + n % 8 * 8;
                u32 to = stage + WEIGHTS + n / 8 * 128 + ((n % 8) ^ (row % 8)) * 16;
                if (STEPS * ROWS * 8 % THREADS != 0 && n >= STEPS * ROWS * 8)
                    continue;
                bool there = x[i] && k + col < w.in;
                if (a.aligned) // else a number at a time
                    copy16(base + to, there ? x[i] + k : p.x, there);
                else
                    for (int j = 0; j < 8; j++)
                        ((bf16 *)(shared + to))[j] = there && k + col + j < w.in ? x[i][k + j] : 0;
            }
        }
        copyCommit();
    };
    float sum[COLS][4] = {}, d[COLS][4] = {};
    int ranges = (steps + 127) / 128, range = 1, border = rangeStart(steps, ranges, 1);
    for (int s = 0; s < STAGES - 1; s++)
        if (s * STEPS < steps)
            loadWeights(s);
    if (early && !a.late)
        waitForRows();
    for (int s = 0; s < STAGES - 1; s++)
        load(s, false);
    u32 named = base + WEIGHTS + lane % 8 * 128; // the row that this lane names, of each eight
    for (int step = 0; step < steps; step += STEPS) {
        copyWait<STAGES - 2>();
        __syncthreads();
        load(step / STEPS + STAGES - 1, true);
        if (step == border) { // the next range's chain starts from zero
#pragma unroll
            for (int j = 0; j < COLS; j++)
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    sum[j][e] = sum[j][e] + d[j][e];
                    d[j][e] = 0;
                }
            border = rangeStart(steps, ranges, ++range);
        }
        int stage = step / STEPS % STAGES * STAGE;
#pragma unroll
        for (int s = 0; s < STEPS; s++) {
            Weights<FORMAT> weights;
            weights.template load<false>(shared + stage + warp * PART + s * RECORD, lane);
            u32 xf[COLS][2][4];
#pragma unroll
            for (int j = 0; j < COLS; j++)
#pragma unroll
                for (int h = 0; h < 2; h++)
                    ldmatrix(xf[j][h], named + stage + (s * ROWS + j * 8) * 128 + ((h * 4 + lane / 8) ^ (lane % 8)) * 16);
#pragma unroll
            for (int k = 0; k < 4; k++) {
                u32 wf[4];
                weights.tile(k, wf);
#pragma unroll
                for (int j = 0; j < COLS; j++)
                    mma(d[j], wf, xf[j][k / 2][k % 2 * 2], xf[j][k / 2][k % 2 * 2 + 1]);
            }
        }
    }
    copyWait<0>();
    int tile = tile0 + (gated ? warp / 2 : warp);
    Group mine = gated && warp % 2 ? up : w;
#pragma unroll
    for (int j = 0; j < COLS; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            int o = tile * 16 + g + e / 2 * 8;
            d[j][e] = sum[j][e] + d[j][e];
            if (mine.bias && o < w.outs)
                d[j][e] = d[j][e] + mine.bias[o];
        }
    if (gated) { // a gate's warp gets what it gates from the warp beside it
        float *theirs = (float *)shared + warp / 2 * COLS * 128 + lane;
        __syncthreads(); // all steps are read
        if (warp % 2)
#pragma unroll
            for (int i = 0; i < COLS * 4; i++)
                theirs[i * 32] = d[i / 4][i % 4];
        __syncthreads();
        if (warp % 2)
            return;
#pragma unroll
        for (int i = 0; i < COLS * 4; i++)
            d[i / 4][i % 4] = gate(a.act, d[i / 4][i % 4], theirs[i * 32]);
    }
    // A lane stores outputs g and g+8 of rows 2t and 2t+1 of each eight.
#pragma unroll
    for (int j = 0; j < COLS; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            int row = j * 8 + 2 * t + e % 2, o = tile * 16 + g + e / 2 * 8;
            if (row >= c.rows || tile >= tiles || o >= w.outs && !a.pads)
                continue;
            i64 to = a.to ? a.to[c.first + row] : c.first + row;
            int col = c.group * a.outStep + o;
            float v = o < w.outs ? d[j][e] * w.scale : 0;
            put(p.dst, to, col, a.mode == ADD ? get(p.dst, to, col) + v * a.scale : v);
        }
    if (a.late)
        waitForRows(); // what follows waits for this kernel, and so for the one in front
}

// As `groupings` in grouped.go has them.
KERNEL __launch_bounds__(128) grouped_8(const GroupedArgs a) { grouped<8, 4, 3, 2>(a); }
KERNEL __launch_bounds__(128) grouped_32(const GroupedArgs a) { grouped<32, 4, 5, 1>(a); }
KERNEL __launch_bounds__(256) grouped_64(const GroupedArgs a) { grouped<64, 8, 4, 1>(a); }
