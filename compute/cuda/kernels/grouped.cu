// Products in which groups of rows have weights of their own: experts of a mixture, heads, adapters. Sums have the
// order of gemm.cuh, so that a row gives the same bits beside however many other rows.
#include "gemm.cuh"

#define DEPTH 64

// Group is the weight of one group, [outs, in] in records. w nil: the group has no product.
struct Group {
    const u8 *w;
    const float *bias; // [outs] or nil
    int outs, in;
    float scale; // times sums and bias
    int unused;
};

// GroupedProduct is one weight of every group, and where inputs come from and results go.
struct GroupedProduct {
    const bf16 *x;
    const Group *groups; // [GroupedArgs.groups]
    Rows dst;
    int ldx;
    int blocks; // of blockIdx.x: they take a group's outputs in turn
};

// The rows of group g follow those of group g-1 and end at ends[g]; where ends is nil, every group has all rows.
struct GroupedArgs {
    const int *ends;
    const int *from, *to; // of each row of a group, the row of x and of dst; nil: its own number
    int groups, rows, products;
    int inStep, outStep; // columns from one group's inputs and outputs to the next group's
    int mode;            // PLAIN or ADD
    int pads;            // 1: outputs past the last of a tile's 16 become zeros
    int aligned;         // 1: the inputs of every group begin at a multiple of 16 bytes
    float scale;         // of ADD
    int unused;
    GroupedProduct p[MAX_PRODUCTS];
};

// Chunk is some rows of one group.
struct Chunk {
    int group, first, rows;
};

// chunkOf finds chunk n of at most most rows, or one of no rows past the last. A warp's lanes work together.
__device__ __forceinline__ Chunk chunkOf(const GroupedArgs &a, int n, int most) {
    if (!a.ends) {
        int each = (a.rows + most - 1) / most, first = n % each * most;
        return {n / each, first, min(most, a.rows - first)};
    }
    int lane = threadIdx.x % 32, before = 0;
    for (int base = 0; base < a.groups; base += 32) {
        int g = base + lane, begin = g > 0 && g < a.groups ? a.ends[g - 1] : 0, end = g < a.groups ? a.ends[g] : begin;
        int chunks = (end - begin + most - 1) / most, until = chunks;
        for (int d = 1; d < 32; d *= 2) {
            int other = __shfl_up_sync(~0u, until, d);
            until += lane >= d ? other : 0;
        }
        u32 past = __ballot_sync(~0u, before + until > n);
        if (past) {
            int w = __ffs(past) - 1;
            begin = __shfl_sync(~0u, begin, w), end = __shfl_sync(~0u, end, w);
            int first = begin + (n - before - __shfl_sync(~0u, until - chunks, w)) * most;
            return {base + w, first, min(most, end - first)};
        }
        before += __shfl_sync(~0u, until, 31);
    }
    return {0, 0, 0};
}

// A block has 16·WARPS outputs of up to ROWS rows of one group, a warp 16 of the outputs. [blocks of all products,
// n, m] blocks of 32·WARPS threads, n·m at least the chunks. Dynamic shared memory: STAGES·(WARPS·RECORD+ROWS·128) bytes.
template <int ROWS, int WARPS, int STAGES> __device__ __forceinline__ void grouped(const GroupedArgs &a) {
    constexpr int THREADS = 32 * WARPS, WEIGHTS = WARPS * RECORD, STAGE = WEIGHTS + ROWS * DEPTH * 2, COLS = ROWS / 8;
    constexpr int UNITS = (ROWS * 8 + THREADS - 1) / THREADS; // of 16 bytes of rows, of a thread
    extern __shared__ __align__(128) u8 shared[];
    int thread = threadIdx.x, warp = thread / 32, lane = thread % 32, g = lane / 4, t = lane % 4;
    Chunk c = chunkOf(a, blockIdx.z * gridDim.y + blockIdx.y, ROWS);
    if (c.group >= a.groups || c.rows <= 0)
        return;
    int product = 0, block = blockIdx.x;
    while (block >= a.p[product].blocks)
        block -= a.p[product++].blocks;
    const GroupedProduct &p = a.p[product];
    Group w = p.groups[c.group];
    if (!w.w)
        return;
    const bf16 *x[UNITS]; // nil: no row
#pragma unroll
    for (int i = 0; i < UNITS; i++) {
        int row = (thread + i * THREADS) / 8;
        x[i] = row < c.rows ? p.x + (i64)(a.from ? a.from[c.first + row] : c.first + row) * p.ldx + (i64)c.group * a.inStep : 0;
    }
    u32 base = sharedAddress(shared);
    int tiles = (w.outs + 15) / 16, steps = (w.in + DEPTH - 1) / DEPTH;
    for (int tile0 = block * WARPS; tile0 < tiles; tile0 += p.blocks * WARPS) {
        auto load = [&](int step) {
            int stage = step % STAGES * STAGE;
            if (step < steps) {
#pragma unroll
                for (int unit = thread; unit < WEIGHTS / 16; unit += THREADS) {
                    int tile = tile0 + unit / (RECORD / 16);
                    bool there = tile < tiles;
                    copy16(base + stage + unit * 16, there ? w.w + ((i64)tile * steps + step) * RECORD + unit % (RECORD / 16) * 16 : w.w, there);
                }
#pragma unroll
                for (int i = 0; i < UNITS; i++) {
                    int n = thread + i * THREADS, row = n / 8, k = step * DEPTH + n % 8 * 8;
                    u32 to = stage + WEIGHTS + row * 128 + ((n % 8) ^ (row % 8)) * 16;
                    if (row >= ROWS)
                        continue;
                    bool there = x[i] && k < w.in;
                    if (a.aligned)
                        copy16(base + to, there ? x[i] + k : p.x, there);
                    else
                        for (int j = 0; j < 8; j++)
                            ((bf16 *)(shared + to))[j] = there && k + j < w.in ? x[i][k + j] : 0;
                }
            }
            copyCommit();
        };
        float sum[COLS][4] = {}, d[COLS][4] = {};
        int ranges = (steps + 127) / 128, range = 1, border = rangeStart(steps, ranges, 1);
        __syncthreads(); // the tiles before are read
        for (int s = 0; s < STAGES - 1; s++)
            load(s);
        for (int step = 0; step < steps; step++) {
            copyWait<STAGES - 2>();
            __syncthreads();
            load(step + STAGES - 1);
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
            const u8 *stage = shared + step % STAGES * STAGE;
            Weights<FORMAT> weights;
            weights.template load<false>(stage + warp * RECORD, lane);
#pragma unroll
            for (int k = 0; k < 4; k++) {
                u32 wf[4];
                weights.tile(k, wf);
#pragma unroll
                for (int j = 0; j < COLS; j++) {
                    const u8 *row = stage + WEIGHTS + (j * 8 + g) * 128 + t * 4;
                    mma(d[j], wf, *(const u32 *)(row + ((k * 2) ^ g) * 16), *(const u32 *)(row + ((k * 2 + 1) ^ g) * 16));
                }
            }
        }
        copyWait<0>();
        // Lane 4g+t has outputs g and g+8 of rows 2t and 2t+1 of each eight.
#pragma unroll
        for (int j = 0; j < COLS; j++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                int row = j * 8 + 2 * t + e % 2, o = (tile0 + warp) * 16 + g + e / 2 * 8;
                if (row >= c.rows || tile0 + warp >= tiles || o >= w.outs && !a.pads)
                    continue;
                i64 to = a.to ? a.to[c.first + row] : c.first + row;
                int col = c.group * a.outStep + o;
                float v = sum[j][e] + d[j][e];
                if (o >= w.outs)
                    v = 0;
                else if (w.bias)
                    v = v + w.bias[o];
                v = v * w.scale;
                put(p.dst, to, col, a.mode == ADD ? get(p.dst, to, col) + v * a.scale : v);
            }
    }
}

KERNEL __launch_bounds__(128) grouped_8(const GroupedArgs a) { grouped<8, 4, 6>(a); }
KERNEL __launch_bounds__(128) grouped_32(const GroupedArgs a) { grouped<32, 4, 5>(a); }
KERNEL __launch_bounds__(256) grouped_64(const GroupedArgs a) { grouped<64, 8, 4>(a); }
