// Products of groups of rows, on any GPU. A block has a chunk of up to ROWS rows of one group and 16 outputs for each
// of its warps, for all inputs, with weights and rows in shared memory, which copies in the background fill ahead. Sums
// have the order of gemm.cuh.
#include "grouped.cuh"

#define DEPTH 64       // inputs of a step: a record's
#define MOST_STEPS 256 // of a range: mostChain of products.go

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

// copyInputs copies 8 inputs of a row, from number k + col on, to byte `to` of shared memory, whose address is base; in
// the background where inputs are aligned. x is where number col of the row is, nil if there is no row: then, and past
// the last of `in` inputs, zeros are stored.
__device__ __forceinline__ void copyInputs(const GroupedArgs &a, const GroupedProduct &p, u8 *shared, u32 base, u32 to, const bf16 *x, int k, int col, int in) {
    bool there = x && k + col < in;
    if (a.aligned) // else a number at a time
        copy16(base + to, there ? x + k : p.x, there);
    else
        for (int j = 0; j < 8; j++)
            ((bf16 *)(shared + to))[j] = there && k + col + j < in ? x[k + j] : 0;
}

// loadRows loads the rows of step s of a stage, [ROWS, 64] from shared memory, as operand B: xf[j][h] is half h, 32
// inputs, of eight rows from row 8j on. Stages are in bytes; named is where, in stage 0, the row lies that this lane
// names to ldmatrix of the first eight. Units of 16 bytes of a row are swizzled.
template <int ROWS, int COLS> __device__ __forceinline__ void loadRows(u32 (&xf)[COLS][2][4], u32 named, int stage, int s, int lane) {
#pragma unroll
    for (int j = 0; j < COLS; j++)
#pragma unroll
        for (int h = 0; h < 2; h++)
            ldmatrix(xf[j][h], named + stage + (s * ROWS + j * 8) * 128 + ((h * 4 + lane / 8) ^ (lane % 8)) * 16);
}

// multiplyStep adds to d, [16 outputs, 8·COLS rows], the products of a step's 64 inputs: of the weights of a record,
// operand A, and the rows that loadRows loaded, 16 inputs at a time.
template <int COLS> __device__ __forceinline__ void multiplyStep(float (&d)[COLS][4], const Weights<FORMAT> &weights, const u32 (&xf)[COLS][2][4]) {
#pragma unroll
    for (int k = 0; k < 4; k++) {
        u32 wf[4];
        weights.tile(k, wf);
#pragma unroll
        for (int j = 0; j < COLS; j++)
            mma(d[j], wf, xf[j][k / 2][k % 2 * 2], xf[j][k / 2][k % 2 * 2 + 1]);
    }
}

// addRange adds the sums d of a range to those before it, and makes d zero for the next range's chain.
template <int COLS> __device__ __forceinline__ void addRange(float (&sum)[COLS][4], float (&d)[COLS][4]) {
#pragma unroll
    for (int j = 0; j < COLS; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            sum[j][e] = sum[j][e] + d[j][e];
            d[j][e] = 0;
        }
}

// finishSums makes d the sums of all ranges, with the bias of `mine`, the weight of the warp's tile: d is the last
// range's, sum has those before. A lane has in d[j] the outputs g (e = 0, 1) and g+8 (2, 3) of the tile, of rows 2t
// (e = 0, 2) and 2t+1 (1, 3) of eight rows from row 8j on.
template <int COLS> __device__ __forceinline__ void finishSums(const float (&sum)[COLS][4], float (&d)[COLS][4], const Group &mine, int g, int tile, int outs) {
#pragma unroll
    for (int j = 0; j < COLS; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            int o = tile * 16 + g + e / 2 * 8;
            d[j][e] = (sum[j][e] + d[j][e]) * UNIT;
            if (mine.bias && o < outs)
                d[j][e] = d[j][e] + mine.bias[o];
        }
}

// passSums leaves the sums d of an odd warp for the even warp before it, the gate's, in shared memory: number i of this
// lane at theirs[i·32], which is the same for both warps. All of the block's threads call it.
template <int COLS> __device__ __forceinline__ void passSums(float *theirs, int warp, float (&d)[COLS][4]) {
    __syncthreads(); // all steps are read
    if (warp % 2)
#pragma unroll
        for (int i = 0; i < COLS * 4; i++)
            theirs[i * 32] = d[i / 4][i % 4];
    __syncthreads();
}

// storeResults stores a lane's results, as finishSums leaves them, as a.mode says: of tile number `tile` of w's `tiles`
// tiles, and of the rows of chunk c. Of GATED, d has the results of gates already.
template <int COLS>
__device__ __forceinline__ void storeResults(const GroupedArgs &a, const Chunk &c, const GroupedProduct &p, const Group &w, int g, int t, int tile, int tiles,
                                      const float (&d)[COLS][4]) {
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
}

// A warp has 16 outputs; of GATED, neighbouring warps have those of a gate and of what it gates. [b, n, m] blocks of
// 32·WARPS threads: b is the sum of all products' tiles/WARPS, each rounded up, of GATED 2·tiles/WARPS; n·m is at least
// the number of chunks. A stage of shared memory has STEPS steps: records [WARPS, STEPS], then rows [STEPS, ROWS, 64].
// Dynamic shared memory: STAGES·STEPS·(WARPS·RECORD + ROWS·128) bytes.
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
    int block = blockIdx.x, product = 0;
    while (!gated && block * WARPS >= a.p[product].tiles)
        block -= (a.p[product++].tiles + WARPS - 1) / WARPS;
    const GroupedProduct &p = a.p[product];
    Group w = p.groups[c.group], up = gated ? a.p[1].groups[c.group] : w;
    if (!w.w)
        return;
    int tiles = (w.outs + 15) / 16, steps = (w.in + DEPTH - 1) / DEPTH, tile0 = gated ? block * (WARPS / 2) : block * WARPS;
    if (tile0 >= tiles)
        return;
    // What a thread copies next: of its warp's tile 16 bytes of every 512, from `from` on, then zeros once bytesLeft
    // are copied; of rows, units of 8 inputs from x on, which is nil where there is no row.
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
                copyInputs(a, p, shared, base, to, x[i], k, col, w.in);
            }
        }
        copyCommit();
    };
    float sum[COLS][4] = {}, d[COLS][4] = {};
    int ranges = (steps + MOST_STEPS - 1) / MOST_STEPS, range = 1, border = rangeStart(steps, ranges, 1);
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
            addRange(sum, d);
            border = rangeStart(steps, ranges, ++range);
        }
        int stage = step / STEPS % STAGES * STAGE;
#pragma unroll
        for (int s = 0; s < STEPS; s++) {
            Weights<FORMAT> weights;
            weights.load(shared + stage + warp * PART + s * RECORD, lane);
            u32 xf[COLS][2][4];
            loadRows<ROWS>(xf, named, stage, s, lane);
            multiplyStep(d, weights, xf);
        }
    }
    copyWait<0>();
    int tile = tile0 + (gated ? warp / 2 : warp);
    Group mine = gated && warp % 2 ? up : w;
    finishSums(sum, d, mine, g, tile, w.outs);
    if (gated) { // a gate's warp gets what it gates from the warp beside it
        float *theirs = (float *)shared + warp / 2 * COLS * 128 + lane;
        passSums(theirs, warp, d);
        if (warp % 2)
            return;
#pragma unroll
        for (int i = 0; i < COLS * 4; i++)
            d[i / 4][i % 4] = gate(a.act, d[i / 4][i % 4], theirs[i * 32]);
    }
    storeResults(a, c, p, w, g, t, tile, tiles, d);
    if (a.late)
        waitForRows(); // what follows waits for this kernel, and so for the one in front
}

// As `groupings` in grouped.go has them.
KERNEL __launch_bounds__(128) grouped_8(const GroupedArgs a) { grouped<8, 4, 3, 2>(a); }
KERNEL __launch_bounds__(128) grouped_32(const GroupedArgs a) { grouped<32, 4, 5, 1>(a); }
KERNEL __launch_bounds__(256) grouped_64(const GroupedArgs a) { grouped<64, 8, 4, 1>(a); }
