// Products of up to 4 rows on Hopper, of large weights of 8 bits and more. Sums have the order of gemm.cuh.
//
// A block has all rows, some tiles of 16 outputs, and a warp for each range of inputs of each of them; a multiprocessor
// has one block at most. Rows are whole in shared memory. Weights come through a ring of stages, of STEPS records for
// each warp: one more warp fetches them, as many as fit before rows are there, but only some at once, since
// rows, and what the kernels before read, would wait behind megabytes of weights.
#include "gemm.cuh"
#include "wgmma.cuh"

#define MOST_WARPS 15 // that multiply

struct GemmRingArgs {
    GemmArgs a;        // x at 16 bytes, and ldx a multiple of 8; softcap of ADD is 0
    int tiles, stages; // of a block
    int atOnce;        // stages that are on their way at once until the first of the ring have all been asked for
    int unused;
};

// fetchParts fetches the records of all warps that multiply, one warp's by each lane: from their place in the weights, by
// way of the stages of a ring that begins at `to`. `full` and `empty` are the stages' barriers.
template <int STEPS>
__device__ __forceinline__ void fetchParts(const GemmRingArgs &w, const u8 *from, int records, u32 to, u32 stageBytes, u32 full, u32 empty) {
    constexpr int PART = STEPS * RECORD;
    u32 parity = 1;
    u64 policy = readOnce();
    // A warp that has parts lacks no more than there are stages (arrangeRing), so all arrivals at `empty` come.
    int longest = __reduce_max_sync(~0u, (records + STEPS - 1) / STEPS), stage = 0;
#pragma unroll 1
    for (int s = 0; s < longest; s++) {
        if (s >= w.atOnce && s < w.stages)
            barrierWait(full + (s - w.atOnce) * 8, 0);
        barrierWait(empty + stage * 8, parity);
        int bytes = max(min(STEPS, records - s * STEPS), 0) * RECORD;
        int all = __reduce_add_sync(~0u, bytes);
        if (threadIdx.x % 32 == 0)
            barrierExpect(full + stage * 8, all);
        __syncwarp();
        if (bytes > 0)
            fetch(to + stage * stageBytes, from + (i64)s * PART, bytes, full + stage * 8, policy);
        if (++stage == w.stages)
            stage = 0, parity ^= 1;
    }
}

// [tiles/w.tiles] blocks of w.tiles·ranges warps that multiply, and of the one that fetches. Dynamic shared memory: as
// arrangeRing has it.
template <int STEPS> __device__ __forceinline__ void gemmRing(const GemmRingArgs &w) {
    constexpr int PART = STEPS * RECORD; // bytes of a stage's weights of a warp
    const GemmArgs &a = w.a;
    extern __shared__ __align__(128) u8 shared[];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, tile0 = blockIdx.x * w.tiles;
    int warps = w.tiles * a.ranges, threads = warps * 32; // that multiply
    int pitch = a.tilesIn * 32 + 16;                      // bytes from a row to the next
    float(*sums)[8][16] = (float(*)[8][16])shared;        // [warps][rows][outputs of the tile]
    u8 *rows = shared + warps * 512;
    u32 rowsThere = sharedAddress(rows) + 8 * ((a.rows * pitch + 7) / 8);
    u32 full = rowsThere + 8, empty = full + w.stages * 8; // barriers of each stage
    u8 *ring = shared + (empty - sharedAddress(shared) + w.stages * 8 + 127) / 128 * 128;
    // What a warp multiplies, and what the lane of that number fetches for it.
    int own = warp == warps ? min(lane, warps - 1) : warp, range = own % a.ranges;
    Place at = placeOf(a, tile0 + own / a.ranges);
    int first = rangeStart(a.tilesIn / 4, a.ranges, range);
    int records = at.product < 0 ? 0 : rangeStart(a.tilesIn / 4, a.ranges, range + 1) - first, parts = (records + STEPS - 1) / STEPS;
    const u8 *from = a.p[max(at.product, 0)].w + ((i64)at.tile * (a.tilesIn / 4) + first) * RECORD;
    u32 stageBytes = warps * PART;
    if (warp == warps) {
        if (lane >= warps)
            records = 0;
        int there = __popc(__ballot_sync(~0u, records > 0));
        if (lane == 0) {
            barrierInit(rowsThere, 1);
#pragma unroll 1
            for (int i = 0; i < w.stages; i++) {
                barrierInit(full + i * 8, 1);
                barrierInit(empty + i * 8, there);
            }
            barriersReady();
        }
    }
    __syncthreads();
    if (warp == warps) {
        fetchParts<STEPS>(w, from, records, sharedAddress(ring) + own * PART, stageBytes, full, empty);
        return;
    }
    waitForRows();
    letNextBegin();
    if (threadIdx.x == 0) {
        barrierExpect(rowsThere, a.rows * a.tilesIn * 32);
#pragma unroll 1
        for (int r = 0; r < a.rows; r++)
            fetch(sharedAddress(rows) + r * pitch, a.x + (i64)r * a.ldx, a.tilesIn * 32, rowsThere);
    }
    barrierWait(rowsThere, 0);
    bool gated = a.mode == GATED;
    int outs = gated ? w.tiles * 8 : w.tiles * 16; // results of a row
    // What a thread's first result is added to comes beside the weights.
    float had = 0;
    if (a.mode == ADD && threadIdx.x < a.rows * outs) {
        Place at = placeOf(a, tile0 + threadIdx.x % outs / 16);
        int o = at.tile * 16 + threadIdx.x % 16;
        if (at.product >= 0 && o < a.p[at.product].outs)
            had = get(a.p[at.product].dst, threadIdx.x / outs, o);
    }
    // Where ldmatrix finds the row that this lane names: the last row stands for those that are not there.
    u32 named = sharedAddress(rows) + min(lane % 8, a.rows - 1) * pitch + lane / 8 * 16 + first * 128;
    float d[1][1][4] = {};
    Weights<FORMAT> weights[1];
    u32 x[1][4]; // operand B of 32 inputs
    int stage = 0;
    u32 parity = 0;
#pragma unroll 1
    for (int s = 0; s < parts; s++) {
        const u8 *part = ring + stage * stageBytes + own * PART;
        barrierWait(full + stage * 8, parity);
#pragma unroll
        for (int n = 0; n < STEPS; n++) {
            if (s * STEPS + n >= records)
                break;
            loadRecords<PART>(weights, part, n, lane);
#pragma unroll
            for (int k = 0; k < 4; k++) {
                if (k % 2 == 0)
                    ldmatrix(x[0], named + (n * 4 + k) * 32);
                multiplyTiles(d, weights, k, x);
            }
        }
        named += STEPS * 128;
        __syncwarp();
        if (lane == 0)
            barrierArrive(empty + stage * 8);
        if (++stage == w.stages)
            stage = 0, parity ^= 1;
    }
    // The ranges' sums are added through shared memory, in order.
#pragma unroll
    for (int i = 0; i < 4; i++)
        sums[warp][lane % 4 * 2 + i % 2][lane / 4 + i / 2 * 8] = d[0][0][i];
    barrierOf(1, threads);
    auto total = [&](int row, int out) {
        float sum = 0;
#pragma unroll 1
        for (int r = 0; r < a.ranges; r++)
            sum = sum + sums[out / 16 * a.ranges + r][row][out % 16];
        return sum;
    };
#pragma unroll 1
    for (int n = threadIdx.x; n < a.rows * outs; n += threads) {
        int row = n / outs, out = n % outs;
        if (gated)
            out = out / 16 * 32 + out % 16;
        Place at = placeOf(a, tile0 + out / 16);
        if (at.product < 0)
            continue;
        if (a.mode == ADD) {
            int o = at.tile * 16 + out % 16;
            const Product &p = a.p[at.product];
            if (o >= p.outs)
                continue;
            float sum = total(row, out) * UNIT;
            if (p.bias)
                sum = sum + p.bias[o];
            sum = sum * a.scale;
            put(p.dst, row, o, (n == threadIdx.x ? had : get(p.dst, row, o)) + sum);
        } else
            finish(a, at, out % 16, row, total(row, out), gated ? total(row, out + 16) : 0);
    }
}

// STEPS are ringedSteps of gemm_ring.go.
KERNEL __launch_bounds__(32 * MOST_WARPS + 32) gemm_ring(const __grid_constant__ GemmRingArgs w) { gemmRing<4>(w); }
KERNEL __launch_bounds__(32 * MOST_WARPS + 32) gemm_ring_gated(const __grid_constant__ GemmRingArgs w) { gemmRing<FORMAT == BF16 ? 2 : 4>(w); }
