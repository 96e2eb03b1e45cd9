// A mixture's experts for a few rows. A route is one expert of a row; each is computed by itself, in the order of rows
// and choices, so nothing has to be sorted by expert.
//
// A warp takes one tile of 16 outputs of a route, or a gate's and an up's, through a ring of STAGES parts of 128 inputs
// in shared memory of its own, as gemm_few.cu does. Inputs are one range. Tensor cores multiply eight columns, which
// all are the row; sums have the order of gemm.cuh, so their bits are those of grouped.cu, or of grouped.cu and
// combine.
#include "grouped.cuh"

#define PART (2 * RECORD) // bytes of a part's weights of one tile

struct FewArgs {
    Rows x, dst;               // few_gated: x [rows], dst [routes]; few_down: x [routes], dst [rows]
    const Group *gate, *up;    // [experts]; few_down has one weight, gate
    const int *ids, *slot;     // [rows, chosen], [rows]
    const float *weights;      // [rows, chosen]
    Rows shared, factor;       // as combine's in experts.cu
    int experts, chosen, act, mode; // mode of few_down: PLAIN, or ADD: added to dst, times scale
    float scale;
    int in; // inputs
};

// Chain is a warp's stream: where its weights come from, and its ring and row in shared memory.
template <int TILES, int STAGES> struct Chain {
    const u8 *w[TILES]; // of each tile, what this lane copies next
    u8 *ring;
    const u8 *row; // bfloat16, zeros up to a multiple of 128 inputs

    // bytes is the shared memory of a warp.
    static __device__ __forceinline__ int bytes(int in) { return STAGES * TILES * PART + (in + 127) / 128 * 256; }

    __device__ __forceinline__ Chain(u8 *shared) : ring(shared), row(shared + STAGES * TILES * PART) {}

    // begin copies the first parts, which w points to then.
    __device__ __forceinline__ void begin(int in) {
        int lane = threadIdx.x % 32, steps = (in + 63) / 64, bytesLeft = steps * RECORD - lane * 16;
        for (int s = 0; s < STAGES - 1 && s * 2 < steps; s++)
            copyWeights<PART>(sharedAddress(ring) + lane * 16 + s * TILES * PART, w, bytesLeft - s * PART, lane);
    }

    // copyRow copies the row.
    __device__ __forceinline__ void copyRow(const bf16 *x, int in) {
        for (int unit = threadIdx.x % 32; unit < (in + 127) / 128 * 16; unit += 32)
            copy16(sharedAddress(row) + unit * 16, unit * 8 < in ? x + unit * 8 : x, unit * 8 < in);
    }

    // run makes the sums, once begin and copyRow were called: of each tile lane 4g has those of outputs g and g+8 in
    // numbers 0 and 2 of d.
    __device__ __forceinline__ void run(float (&d)[TILES][1][4], int in) {
        int lane = threadIdx.x % 32, steps = (in + 63) / 64, parts = (steps + 1) / 2, bytesLeft = (steps - (STAGES - 1) * 2) * RECORD - lane * 16;
        u32 base = sharedAddress(ring) + lane * 16, to = base + (STAGES - 1) * TILES * PART;
        auto load = [&](bool more) {
            if (more) {
                copyWeights<PART>(to, w, bytesLeft, lane);
                bytesLeft -= PART;
                to = to == base + (STAGES - 1) * TILES * PART ? base : to + TILES * PART;
            }
            copyCommit();
        };
        for (int s = 0; s < STAGES - 1; s++)
            copyCommit();
        Weights<FORMAT> own[TILES];
        u32 named = sharedAddress(row) + lane / 8 * 16; // what this lane names of the row
        for (int s = 0; s < parts; s++) {
            copyWait<STAGES - 2>();
            __syncwarp();
            load(s + STAGES - 1 < parts);
            const u8 *stage = ring + s % STAGES * (TILES * PART);
            u32 x[1][4];
#pragma unroll
            for (int k = 0; k < 8; k++) {
                if (k % 4 == 0)
                    loadRecords<PART>(own, stage, k / 4, lane);
                if (k % 2 == 0) // all columns are the row
                    ldmatrix(x[0], named + s * 256 + k * 32);
                multiplyTiles(d, own, k % 4, x);
            }
            __syncwarp();
        }
    }
};

// touch reads the table of n experts, so that it is in the cache once the choice is known.
__device__ __forceinline__ void touch(const Group *groups, int n) {
    for (int at = threadIdx.x * 128; at < n * (int)sizeof(Group); at += blockDim.x * 128) {
        asm volatile("{\n.reg .b32 unused;\nld.global.u32 unused, [%0];\n}" ::"l"((const u8 *)groups + at));
    }
}

// few_gated: act(gate)·up of each route. [tiles, routes] blocks of a warp.
KERNEL few_gated(const FewArgs a) {
    using C = Chain<2, FORMAT == BF16 ? 4 : 6>;
    extern __shared__ __align__(128) u8 shared[];
    touch(a.gate, a.experts);
    touch(a.up, a.experts);
    waitForRows();
    letNextBegin(); // not before the choice is there: few_down reads it before it waits
    int route = blockIdx.y, tile = blockIdx.x, lane = threadIdx.x, expert = a.ids[route];
    if (expert < 0)
        return;
    C chain(shared);
    const Group &gate = a.gate[expert], &up = a.up[expert];
    i64 from = (i64)tile * ((a.in + 63) / 64) * RECORD + lane * 16;
    chain.w[0] = gate.w + from, chain.w[1] = up.w + from;
    chain.begin(a.in);
    chain.copyRow((const bf16 *)a.x.at + (i64)(route / a.chosen) * a.x.ld, a.in);
    float d[2][1][4] = {};
    chain.run(d, a.in);
    if (lane % 4 == 0)
        for (int i = 0; i < 2; i++) {
            int o = tile * 16 + lane / 4 + i * 8;
            float v = 0.f + d[0][0][i * 2], u = 0.f + d[1][0][i * 2];
            if (gate.bias && o < gate.outs)
                v = v + gate.bias[o];
            if (up.bias && o < up.outs)
                u = u + up.bias[o];
            put(a.dst, route, o, o < gate.outs ? activate(a.act, v, u) : 0);
        }
}

// few_down: the weighted sum of what each row's experts yield, as combine's. [tiles, rows] blocks of a warp for each
// choice. It follows few_gated, perhaps with others between, which lets no other kernel begin before experts are chosen.
// So blocks may read the choice before waitForRows, and fetch their first weights while few_gated still runs.
KERNEL few_down(const FewArgs a) {
    using C = Chain<1, FORMAT == BF16 ? 3 : 4>;
    extern __shared__ __align__(128) u8 shared[];
    __shared__ float sums[32][16];
    letNextBegin();
    int row = blockIdx.y, tile = blockIdx.x, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (a.slot[row] < 0) {
        waitForRows();
        return;
    }
    int route = row * a.chosen + warp;
    const Group &w = a.gate[__ldcg(a.ids + route)];
    C chain(shared + warp * C::bytes(a.in));
    chain.w[0] = w.w + (i64)tile * ((a.in + 63) / 64) * RECORD + lane * 16;
    chain.begin(a.in);
    waitForRows();
    chain.copyRow((const bf16 *)a.x.at + (i64)route * a.x.ld, a.in);
    float d[1][1][4] = {};
    chain.run(d, a.in);
    if (lane % 4 == 0)
        for (int i = 0; i < 2; i++) {
            int o = tile * 16 + lane / 4 + i * 8;
            float v = 0.f + d[0][0][i * 2];
            if (w.bias && o < w.outs)
                v = v + w.bias[o];
            sums[warp][lane / 4 + i * 8] = fromBF16(toBF16(v));
        }
    __syncthreads();
    int col = tile * 16 + threadIdx.x;
    if (threadIdx.x >= 16 || col >= w.outs)
        return;
    float v = a.shared.at ? get(a.shared, row, col) : 0;
    if (a.factor.at)
        v = v * sigmoid(get(a.factor, row, 0));
    for (int i = 0; i < a.chosen; i++)
        v = fmaf(a.weights[row * a.chosen + i], sums[i][threadIdx.x], v);
    put(a.dst, row, col, a.mode == ADD ? fmaf(a.scale, v, get(a.dst, row, col)) : v);
}
