// A mixture's experts for a few rows. A route is one expert of a row; each is computed by itself, in the order of rows
// and choices, so nothing has to be sorted by expert.
//
// A warp takes one tile of 16 outputs of a route, or a gate's and an up's, through a ring of STAGES parts of STEPS·64
// inputs in shared memory of its own, as gemm_few.cu does. Inputs are one range. Tensor cores multiply eight columns,
// which all are the row; sums have the order of gemm.cuh, so their bits are those of grouped.cu, or of grouped.cu and
// combine.
#include "ahead.cuh"
#include "grouped.cuh"

// Chain is a warp's stream: where its weights come from, its ring in shared memory, and the row there, which the WARPS
// warps of a block may share.
template <int TILES, int STAGES, int STEPS, int WARPS = 1> struct Chain {
    static constexpr int PART = STEPS * RECORD; // bytes of a part's weights of one tile
    static constexpr int FIRST = SMALL ? STAGES : STAGES - 1; // parts that are on their way before the first is read
    const u8 *w[TILES];                                       // of each tile, what this lane copies next
    u8 *ring, *row; // row: bfloat16, zeros up to a multiple of STEPS·64 inputs
    int parts, bytesLeft; // bytesLeft: of a tile, from w on

    // bytes is the shared memory of WARPS warps: a ring of each, then the row.
    static __device__ __forceinline__ int bytes(int in) { return WARPS * STAGES * TILES * PART + partsOf(in) * STEPS * 128; }
    static __device__ __forceinline__ int partsOf(int in) { return (in + STEPS * 64 - 1) / (STEPS * 64); }

    // warp is the chain's number among those that share the row.
    __device__ __forceinline__ Chain(u8 *shared, int in, int warp = 0)
        : ring(shared + warp * STAGES * TILES * PART), row(shared + WARPS * STAGES * TILES * PART), parts(partsOf(in)), bytesLeft((in + 63) / 64 * RECORD - threadIdx.x % 32 * 16) {}

    __device__ __forceinline__ void copyPart(int stage) {
        copyWeights<PART, false>(sharedAddress(ring) + threadIdx.x % 32 * 16 + stage * TILES * PART, w, bytesLeft, threadIdx.x % 32);
        bytesLeft -= PART;
    }

    // copyRow begins to copy the row, of which each warp copies its share.
    __device__ __forceinline__ void copyRow(const bf16 *x, int in) {
        for (int unit = threadIdx.x % (32 * WARPS); unit < parts * STEPS * 8; unit += 32 * WARPS)
            copy16(sharedAddress(row) + unit * 16, unit * 8 < in ? x + unit * 8 : x, unit * 8 < in);
    }

    // begin begins to copy the first parts, once w points to them, and beside the first one the row x, if that is there.
    __device__ __forceinline__ void begin(const bf16 *x, int in) {
#pragma unroll
        for (int s = 0; s < FIRST; s++) {
            if (s < parts)
                copyPart(s);
            if (s == 0 && x)
                copyRow(x, in);
            copyCommit();
        }
    }

    // run makes the sums, once begin and copyRow were called: of each tile lane 4g has those of outputs g and g+8 in
    // numbers 0 and 2 of d.
    __device__ __forceinline__ void run(float (&d)[TILES][1][4]) {
        int lane = threadIdx.x % 32;
        u32 named = sharedAddress(row) + lane / 8 * 16; // what this lane names of the row
        if constexpr (SMALL) {
            Ahead<TILES> ahead;
            int stage = 0;
            auto read = [&](int n) { ahead.template read<PART>(n, ring + stage * TILES * PART, named, lane); };
            copyWait<FIRST - 1>();
            if constexpr (WARPS > 1)
                __syncthreads(); // others' shares of the row are there
            else
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
                        if (s + STAGES < parts)
                            copyPart(stage);
                        copyCommit();
                        stage = stage == STAGES - 1 ? 0 : stage + 1;
                        if (s < parts - 1)
                            named += STEPS * 128;
                    }
                    read((n + 2) % STEPS);
                    ahead.multiply(n, d, blockIdx.z);
                }
        } else {
            static_assert(WARPS == 1);
            Weights<FORMAT> own[TILES];
            for (int s = 0, stage = 0; s < parts; s++) {
                copyWait<STAGES - 2>();
                __syncwarp();
                if (s + STAGES - 1 < parts)
                    copyPart(stage == 0 ? STAGES - 1 : stage - 1);
                copyCommit();
                u32 x[1][4];
#pragma unroll
                for (int k = 0; k < 4 * STEPS; k++) {
                    if (k % 4 == 0)
                        loadRecords<PART>(own, ring + stage * TILES * PART, k / 4, lane);
                    if (k % 2 == 0) // all columns are the row
                        ldmatrix(x[0], named + k * 32);
                    multiplyTiles(d, own, k % 4, x);
                }
                __syncwarp();
                stage = stage == STAGES - 1 ? 0 : stage + 1;
                named += STEPS * 128;
            }
        }
    }
};

// few_gated: act(gate)·up of each route. [tiles, routes] blocks of a warp, or of two: where records are small, making
// bfloat16 of them takes a warp long, and a gate's and an up's tile have a warp each.
KERNEL few_gated(const FewArgs a) {
    constexpr int WARPS = SMALL ? 2 : 1;
    using C = Chain<2 / WARPS, FORMAT == BF16 ? 4 : SMALL ? 2 : 6, SMALL ? 8 : 2, WARPS>;
    extern __shared__ __align__(128) u8 shared[];
    __shared__ float ups[16];
    touch(a.gate, a.experts);
    touch(a.up, a.experts);
    waitForRows();
    letNextBegin(); // not before the choice is there: few_down reads it before it waits
    int route = blockIdx.y, tile = blockIdx.x, warp = threadIdx.x / 32, lane = threadIdx.x % 32, expert = a.ids[route];
    if (expert < 0)
        return;
    C chain(shared, a.in, warp);
    const Group &gate = a.gate[expert], &up = a.up[expert];
    i64 from = (i64)tile * ((a.in + 63) / 64) * RECORD + lane * 16;
    if constexpr (WARPS == 1)
        chain.w[0] = gate.w + from, chain.w[1] = up.w + from;
    else
        chain.w[0] = (warp == 0 ? gate : up).w + from;
    chain.begin((const bf16 *)a.x.at + (i64)(route / a.chosen) * a.x.ld, a.in);
    float d[2 / WARPS][1][4] = {};
    chain.run(d);
    auto sum = [&](int i) { return summed(d[1 / WARPS][0][i * 2]); }; // of an up's tile
    if (WARPS == 2) {
        if (warp == 1 && lane % 4 == 0)
            ups[lane / 4] = sum(0), ups[lane / 4 + 8] = sum(1);
        __syncthreads();
    }
    if (warp == 0 && lane % 4 == 0)
        for (int i = 0; i < 2; i++) {
            int o = tile * 16 + lane / 4 + i * 8;
            float v = summed(d[0][0][i * 2]), u = WARPS == 2 ? ups[lane / 4 + i * 8] : sum(i);
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
    using C = Chain<1, FORMAT == BF16 || SMALL ? 3 : 4, SMALL ? 4 : 2>;
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
    C chain(shared + warp * C::bytes(a.in), a.in);
    chain.w[0] = w.w + (i64)tile * ((a.in + 63) / 64) * RECORD + lane * 16;
    chain.begin(nullptr, a.in);
    waitForRows();
    chain.copyRow((const bf16 *)a.x.at + (i64)route * a.x.ld, a.in);
    copyCommit();
    copyWait<0>();
    float d[1][1][4] = {};
    chain.run(d);
    if (lane % 4 == 0)
        for (int i = 0; i < 2; i++) {
            int o = tile * 16 + lane / 4 + i * 8;
            float v = summed(d[0][0][i * 2]);
            if (w.bias && o < w.outs)
                v = v + w.bias[o];
            sums[warp][lane / 4 + i * 8] = fromBF16(toBF16(v));
        }
    __syncthreads();
    sumExperts(a, row, tile * 16, w.outs, sums);
}
