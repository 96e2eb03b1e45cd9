// Products of groups of many rows on Hopper, with wgmma: of bfloat16 (grouped_wgmma.cu), or of F8_E4M3
// (grouped_float8.cu). The rows of a group follow each other in memory, and inputs are one range.
//
// A part is 128 outputs, or 256 of codes of few rows, of up to MOST rows of a group; the rows that are multiplied are
// rounded up (roundedRows). Blocks stay on their multiprocessors: each takes one part after the other, which it finds by
// where the groups' rows end, and fetches ahead while it stores. In a block, a warp or two fetch weights and one rows
// (feed), and two warpgroups or four multiply, 64 outputs each. Weights come as they are stored, by bulk copies, and go
// from shared memory to registers, as operand A; rows come as boxes of a tensor map. The two blocks of a cluster take
// different outputs of the same rows; each fetches half of the rows for both. Weights do not wait for rows if it is known
// early where groups end.
//
// Where blocks of weights have scales (BY_BLOCK) rows are operand A: a warpgroup has 64 rows and all outputs of a part.
// Two warps fetch weights: one each tile's first record of a step, one the second.
#pragma once
#include "gemm_store.cuh"
#include "grouped.cuh"
#include "operand.cuh"

#define MOST_GROUPS 512 // as in grouped.go

// The copy engine takes boxes that begin at a multiple of 16 bytes: those of scales begin up to three rows before a
// part.
#define BEFORE 4

struct ManyArgs {
    TensorMap x[4]; // boxes of one to four times UNIT rows, or of half of that where a stage has one step
    GroupedArgs a;
    int steps; // of every group: one range
    int unused[5];
};

// ManyFloat8Args are those of F8_E4M3. x has boxes of 64 pairs of codes.
struct ManyFloat8Args : ManyArgs {
    TensorMap boxes[4];  // of scales of rows, where there are groups: for one to four times UNIT rows, and BEFORE
    const float *scales; // of rows, where each has one
    i64 unusedToo[7];
};

// Part is what a block multiplies next: rows from row0 on, TILES tiles from tile0 on, as placeOf numbers them; whether
// some group of these tiles has a bias.
struct Part {
    int group, row0, rows, tile0, biased;
};

// Kind says how a kernel computes: a stage has STEPS steps, of 64 inputs or, of F8_E4M3, 128. SCALED: as in operand.cuh.
// GROUPS_: warpgroups, each of 64 outputs.
template <bool F8_, int SCALED_, int MOST_, int STEPS_, int GROUPS_ = 2> struct Kind {
    static constexpr bool F8 = F8_, ROWS_FIRST = SCALED_ == BY_BLOCK; // rows are operand A
    static constexpr int SCALED = SCALED_, MOST = MOST_, STEPS = STEPS_;
    static constexpr int UNIT = ROWS_FIRST ? 64 : MOST == 64 ? 32 : MOST / 4; // rows that are multiplied are a multiple of it
    static constexpr int GROUPS = ROWS_FIRST ? MOST / 64 : GROUPS_, THREADS = 128 * GROUPS; // those that multiply
    static constexpr int TILES = ROWS_FIRST ? 8 : 4 * GROUPS; // of 16 outputs, of a part
    static constexpr int FEEDING = F8 && !ROWS_FIRST ? 2 : 3; // warps that fetch
    static constexpr int STEP_BYTES = (F8 ? 2 : 1) * RECORD; // of a tile's weights
};

// Layout of shared memory, from its first multiple of 1024 on.
template <typename K> struct Layout {
    static constexpr int MOST = K::MOST;
    static constexpr int ROWS_BYTES = K::STEPS * MOST * 128, WEIGHT_BYTES = K::STEPS * K::TILES * K::STEP_BYTES; // of a stage
    static constexpr int STEP_SCALES = (MOST + BEFORE) * 4 / 128 * 128 + 128; // bytes of a step's scales of rows, aligned
    static constexpr int SCALE_BYTES = K::SCALED ? K::STEPS * STEP_SCALES : 0;  // of a stage
    // Of a warpgroup: sums that warps give each other, results, and `rare`; or 16 rows of 128 bytes of each warp.
    static constexpr int STAGED = K::ROWS_FIRST ? 8192 : 12288 + 16;
    static constexpr int TABLE = (2 * MOST_GROUPS + 1) * 4 + 12; // where groups end (rows) and begin (parts), aligned
    static constexpr int ROOM = MOST_SHARED - 1024 - 512 - K::GROUPS * STAGED - TABLE;
    static constexpr int FIT = ROOM / (ROWS_BYTES + WEIGHT_BYTES + SCALE_BYTES), STAGES = FIT < 12 ? FIT : 12;
    static_assert(STAGES >= 2);
    static constexpr int WEIGHTS = STAGES * ROWS_BYTES, SCALES = WEIGHTS + STAGES * WEIGHT_BYTES, RESULTS = SCALES + STAGES * SCALE_BYTES;
    static constexpr int ENDS = RESULTS + K::GROUPS * STAGED;
    static constexpr int FULL = ENDS + TABLE, EMPTY = FULL + STAGES * 8; // barriers of the stages
    static constexpr int TURN = EMPTY + STAGES * 8;                      // of the two warpgroups, if SCALED (gemm_scaled.cuh)
    static constexpr int PARTS = TURN + (K::SCALED ? 16 : 0);            // the Part that begins with a stage
    static_assert(PARTS + STAGES * (int)sizeof(Part) <= MOST_SHARED - 1024);
};

__device__ __forceinline__ void fetchScales(u32 to, const ManyArgs &w, int box, int row, int step, u32 barrier) {}

// fetchScales fetches the scales of rows for a step.
__device__ __forceinline__ void fetchScales(u32 to, const ManyFloat8Args &w, int box, int row, int step, u32 barrier) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(to),
                 "l"(&w.boxes[box]), "r"(row), "r"(step), "r"(barrier)
                 : "memory");
}

// roundedRows is how many rows of a part are multiplied.
template <typename K> __device__ __forceinline__ int roundedRows(int rows) { return (rows + K::UNIT - 1) / K::UNIT * K::UNIT; }

// elected says whether the thread is the one of its warp that begins copies; all its lanes ask. Behind it the compiler
// knows that there is one thread. Behind lane == 0 it does not, and makes a loop over lanes of each copy.
__device__ __forceinline__ bool elected() {
    u32 is;
    asm volatile("{\n.reg .b32 lane;\n.reg .pred p;\nelect.sync lane|p, -1;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(is));
    return is;
}

// fetchTiles begins a copy for each of the first COPIES lanes, from where it says: to `to`, and `apart` bytes on for each.
// One lane begins them all, and gets four addresses at a time.
template <int COPIES>
__device__ __forceinline__ void fetchTiles(u32 to, int apart, const u8 *from, int bytes, u32 barrier, u64 policy) {
    constexpr int AT_ONCE = 4;
    static_assert(COPIES % AT_ONCE == 0);
#pragma unroll
    for (int i = 0; i < COPIES; i += AT_ONCE) {
        const u8 *each[AT_ONCE];
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++)
            each[j] = (const u8 *)__shfl_sync(~0u, (u64)from, i + j);
        if (elected())
#pragma unroll
            for (int j = 0; j < AT_ONCE; j++)
                fetch(to + (i + j) * apart, each[j], bytes, barrier, policy);
        __syncwarp();
    }
}

// feed is the work of a warp that fetches rows, or weights. Where two fetch weights, each has half of the tiles or, of
// ROWS_FIRST, a record of each step and tile: copies of one warp begin 50 to 60 ns after each other. With the first stage
// of a part one that fetches weights tells which part that is.
template <typename K, bool OF_ROWS, int HALF = 0, typename Args>
__device__ __forceinline__ void feed(const Args &w, u8 *shared, u32 base, int parts, int outBlocks) {
    using L = Layout<K>;
    constexpr int MOST = K::MOST, STEPS = K::STEPS, TILES = K::TILES, COPIES = K::F8 ? TILES : TILES / 2; // of a stage
    constexpr int WEIGHT_BYTES = K::ROWS_FIRST ? RECORD : K::STEP_BYTES; // of a tile, at once
    static_assert(!K::ROWS_FIRST || STEPS == 1);
    const GroupedArgs &a = w.a;
    const int *ends = (const int *)(shared + L::ENDS), *begins = ends + MOST_GROUPS;
    int lane = threadIdx.x % 32, rank = clusterRank(), stage = 0, group = 0;
    int tile = HALF * COPIES % TILES + lane; // of the part's
    u32 full = base + L::FULL, empty = base + L::EMPTY, parity = 1;
    Part next;
    const u8 *nextFrom = nullptr;
    u64 nextPolicy = 0;
    auto find = [&](int t) { // the next part, and where this lane's tile of it lies
        int block = t / outBlocks;
        while (block >= begins[group + 1])
            group++;
        int row0 = (group > 0 ? ends[group - 1] : 0) + (block - begins[group]) * MOST;
        // Blocks of an expert's rows that there are more of read its weights, too.
        nextPolicy = begins[group + 1] - begins[group] == 1 ? readOnce() : readAgain();
        next = {group, row0, min(MOST, ends[group] - row0), ((t - block * outBlocks) * CLUSTER + rank) * TILES, 0};
        Place at = placeOf(a, next.tile0 + tile % TILES);
        const Group &of = a.p[max(at.product, 0)].groups[group];
        nextFrom = of.w + (i64)(at.product < 0 ? 0 : at.tile) * w.steps * K::STEP_BYTES;
        next.biased = of.bias != nullptr;
    };
    int t = blockIdx.x / CLUSTER;
    if (OF_ROWS)
        waitForRows();
    if (t < parts)
        find(t);
    for (; t < parts; t += gridDim.x / CLUSTER) {
        Part part = next;
        part.biased = __any_sync(~0u, next.biased);
        const u8 *from = nextFrom;
        u64 policy = nextPolicy;
        int n = roundedRows<K>(part.rows), box = n / K::UNIT - 1;
        const TensorMap &map = w.x[box];
        for (int s = 0; s < w.steps; s += STEPS) {
            barrierWait(empty + stage * 8, parity);
            int steps = min(STEPS, w.steps - s);
            if (elected()) {
                if (!OF_ROWS && HALF == 0 && s == 0)
                    *(Part *)(shared + L::PARTS + stage * sizeof(Part)) = part;
                int rows = STEPS * n * 128 + (K::SCALED ? steps * (n + BEFORE) * 4 : 0);
                barrierExpect(full + stage * 8, OF_ROWS ? rows : COPIES * steps * WEIGHT_BYTES);
            }
            __syncwarp();
            if (!OF_ROWS)
                fetchTiles<COPIES>(base + L::WEIGHTS + stage * L::WEIGHT_BYTES + HALF * COPIES * STEPS * WEIGHT_BYTES, STEPS * WEIGHT_BYTES,
                                   from + (i64)s * K::STEP_BYTES + (K::ROWS_FIRST ? HALF * WEIGHT_BYTES : 0), steps * WEIGHT_BYTES, full + stage * 8, policy);
            u32 to = base + stage * L::ROWS_BYTES;
            if (OF_ROWS && elected()) {
                if constexpr (STEPS > 1) // a block fetches half of the steps for both
                    fetchBox(to + rank * n * 128, map, part.row0, s + rank, full + stage * 8, true);
                else // or half of the rows
                    fetchBox(to + rank * n / 2 * 128, map, part.row0 + rank * n / 2, s, full + stage * 8, true);
                for (int j = 0; K::SCALED && j < steps; j++)
                    fetchScales(base + L::SCALES + stage * L::SCALE_BYTES + j * L::STEP_SCALES, w, box, part.row0 / BEFORE * BEFORE, s + j, full + stage * 8);
            }
            if (++stage == L::STAGES)
                stage = 0, parity ^= 1;
            if (s == 0 && t + gridDim.x / CLUSTER < parts)
                find(t + gridDim.x / CLUSTER);
        }
    }
    letNextBegin();
}

// biasOf is the bias of output `out` of a group, or 0: what is added to sums times UNIT, which makes +0 of -0.
__device__ __forceinline__ float biasOf(const Group &g, int out) { return g.bias && out < g.outs ? 0.f + g.bias[out] : 0.f; }

// storePlain stores the sums of a warpgroup's 64 outputs as bfloat16, CHUNK rows at a time: through shared memory,
// [CHUNK][64] twice, units of 16 bytes swizzled, so that neighbouring threads store neighbouring outputs.
template <int N> __device__ __forceinline__ void storePlain(const GroupedArgs &a, u8 *staged, float (&d)[N / 2], const Part &part, int warpgroup) {
    int thread = threadIdx.x % 128, warp = thread / 32, lane = thread % 32, tile0 = part.tile0 + warpgroup * 4;
    // Where storeMatrices stores for this lane: row lane%8 of eight number lane/16, outputs from lane/8%2·8 on.
    u32 to = sharedAddress(staged) + (lane / 16 * 8 + lane % 8) * 128 + (warp * 2 + lane / 8 % 2 ^ lane % 8) * 16;
    Place own = placeOf(a, tile0 + warp);
    float bias[2] = {};
    if (part.biased && own.product >= 0)
#pragma unroll
        for (int i = 0; i < 2; i++)
            bias[i] = biasOf(a.p[own.product].groups[part.group], own.tile * 16 + lane / 4 + i * 8);
    int unit = thread % 8, first = thread / 8; // a thread stores 8 outputs of every 16th row
    Place at = placeOf(a, tile0 + unit / 2);
    const Rows &dst = a.p[max(at.product, 0)].dst;
    bf16 *results = (bf16 *)dst.at + (i64)(part.row0 + first) * dst.ld + at.tile * 16 + unit % 2 * 8;
    const u8 *from = staged + first * 128 + (unit ^ first % 8) * 16;
#pragma unroll
    for (int c = 0; c < N / CHUNK; c++) {
        int buffer = c % 2 * CHUNK * 128;
#pragma unroll
        for (int i = 0; i < 16; i += 8) {
            u32 words[4];
#pragma unroll
            for (int j = 0; j < 4; j++)
                words[j] = packBF16(fmaf(d[c * 16 + i + j * 2], UNIT, bias[j % 2]), fmaf(d[c * 16 + i + j * 2 + 1], UNIT, bias[j % 2]));
            storeMatrices(to + buffer + i * 2 * 128, words[0], words[1], words[2], words[3]);
        }
        barrierOf(1 + warpgroup, 128);
#pragma unroll
        for (int row = c * CHUNK; row < (c + 1) * CHUNK; row += 16, results += 16 * dst.ld)
            if (at.product >= 0 && row + first < part.rows)
                *(uint4 *)results = *(const uint4 *)(from + row % (2 * CHUNK) * 128);
    }
    if (N / CHUNK % 2) // the next part begins with the same buffer
        barrierOf(1 + warpgroup, 128);
}

// storeGated makes act(gate)·up of a warpgroup's sums and stores that, CHUNK rows at a time. A gate's warp and an up's,
// which are neighbours, give each other half of their sums, [2][4 warps][2][32 lanes] of four: then each has both for 16
// rows of every chunk. Results go through [2][CHUNK][32] of bfloat16, units of 16 bytes swizzled.
template <int N> __device__ __forceinline__ void storeGated(const GroupedArgs &a, u8 *staged, float (&d)[N / 2], const Part &part, int warpgroup) {
    constexpr int GIVEN = 4096, RESULTS = 2 * GIVEN, RESULT_BYTES = CHUNK * 64;
    int *rare = (int *)(staged + RESULTS + 2 * RESULT_BYTES); // whether some result is not plain; 0 between parts
    int thread = threadIdx.x % 128, warp = thread / 32, lane = thread % 32, unit = thread % 4, row = thread / 4;
    int tile0 = part.tile0 + warpgroup * 4, up = warp % 2;
    int o = placeOf(a, tile0 + warp).tile * 16 + lane / 4;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float bias = part.biased ? biasOf(a.p[up].groups[part.group], o + h * 8) : 0.f;
#pragma unroll
        for (int i = 0; i < N / 2; i++)
            if (i / 2 % 2 == h)
                d[i] = fmaf(d[i], UNIT, bias);
    }
    four *give = (four *)staged + warp * 64 + lane;
    const four *take = (const four *)staged + (warp ^ 1) * 64 + lane;
#pragma unroll
    for (int c = 0; c < N / CHUNK; c++) { // a gate's warp keeps the first 8 of 16 sums, an up's the others
        int buffer = c % 2 * (GIVEN / 16);
#pragma unroll
        for (int j = 0; j < 2; j++) {
            four v;
#pragma unroll
            for (int e = 0; e < 4; e++)
                v.v[e] = up ? d[c * 16 + j * 4 + e] : d[c * 16 + 8 + j * 4 + e];
            give[buffer + j * 32] = v;
        }
        barrierOf(5 + threadIdx.x / 64, 64); // others are of warpgroups
#pragma unroll
        for (int j = 0; j < 2; j++) {
            four v = take[buffer + j * 32];
#pragma unroll
            for (int e = 0; e < 4; e++) {
                float &gate = d[c * 16 + j * 4 + e], &other = d[c * 16 + 8 + j * 4 + e];
                gate = up ? v.v[e] : gate, other = up ? other : v.v[e];
            }
        }
    }
    Place at = placeOf(a, tile0 + unit / 2 * 2);
    const Rows &dst = a.p[0].dst;
    bf16 *results = (bf16 *)dst.at + (i64)(part.row0 + row) * dst.ld + at.tile * 16 + unit % 2 * 8;
    int made = up * 16 + lane / 16 * 8 + lane % 8; // the row that the lane stores to shared memory
    u32 write = sharedAddress(staged) + RESULTS + made * 64 + (warp / 2 * 2 + lane / 8 % 2 ^ made / 2 % 4) * 16;
    const u8 *read = staged + RESULTS + row * 64 + (unit ^ row / 2 % 4) * 16;
    auto put = [&](int c, const float(&g)[8]) {
        int buffer = c % 2 * RESULT_BYTES;
        storeMatrices(write + buffer, packBF16(g[0], g[1]), packBF16(g[2], g[3]), packBF16(g[4], g[5]), packBF16(g[6], g[7]));
        barrierOf(1 + warpgroup, 128);
        if (at.product >= 0 && c * CHUNK + row < part.rows)
            *(uint4 *)(results + (i64)(c * CHUNK) * dst.ld) = *(const uint4 *)(read + buffer);
    };
    bool plain = true;
    auto make = [&](int act) {
#pragma unroll
        for (int c = 0; c < N / CHUNK; c++) {
            float g[8], u[8];
#pragma unroll
            for (int i = 0; i < 8; i++)
                g[i] = d[c * 16 + i], u[i] = d[c * 16 + 8 + i];
            if (!gatePlain(act, g, u))
                *rare = 1;
            put(c, g);
        }
    };
    if (a.act == SILU)
        make(SILU);
    else if (a.act == SWIGLU_CLAMPED)
        make(SWIGLU_CLAMPED);
    else
        plain = false;
    plain = plain && *rare == 0;
    barrierOf(1 + warpgroup, 128); // before *rare is set again
    if (plain)
        return;
#pragma unroll 1
    for (int c = 0; c < N / CHUNK; c++) {
        float g[8], u[8];
#pragma unroll
        for (int of = 0; of < N / CHUNK; of++)
            if (of == c)
#pragma unroll
                for (int i = 0; i < 8; i++)
                    g[i] = d[of * 16 + i], u[i] = d[of * 16 + 8 + i];
#pragma unroll 1
        for (int i = 0; i < 8; i++)
            g[i] = activate(a.act, g[i], u[i]);
        put(c, g);
    }
    barrierOf(1 + warpgroup, 128);
    *rare = 0;
}

// multiplyPart multiplies and stores a part, of which N rows are multiplied. Its first stage is full. turn is the parity
// of the warpgroup's next turn (gemm_scaled.cuh).
template <int N, typename K, bool GATE, typename Args>
__device__ __forceinline__ void multiplyPart(const Args &w, u8 *shared, u32 base, Cursor<Layout<K>::STAGES> &at, const Part &part, u32 &turn);

// multiplyRowsPart is multiplyPart of ROWS_FIRST kernels.
template <typename K, bool GATE, typename Args>
__device__ __forceinline__ void multiplyRowsPart(const Args &w, u8 *shared, u32 base, Cursor<Layout<K>::STAGES> &at, const Part &part);

// multiply is the work of the warpgroups that multiply.
template <typename K, bool GATE, typename Args> __device__ __forceinline__ void multiply(const Args &w, u8 *shared, u32 base, int parts) {
    using L = Layout<K>;
    constexpr int MOST = K::MOST;
    Cursor<L::STAGES> at = {0, 0};
    u32 turn = threadIdx.x < 128;
    for (int t = blockIdx.x / CLUSTER; t < parts; t += gridDim.x / CLUSTER) {
        barrierWait(base + L::FULL + at.stage * 8, at.parity);
        Part part = *(const Part *)(shared + L::PARTS + at.stage * sizeof(Part));
        if constexpr (K::ROWS_FIRST) {
            multiplyRowsPart<K, GATE>(w, shared, base, at, part);
        } else {
            constexpr int EACH = K::UNIT;
            static_assert(MOST == 2 * EACH || MOST == 4 * EACH);
            switch (roundedRows<K>(part.rows)) {
            case EACH:
                multiplyPart<EACH, K, GATE>(w, shared, base, at, part, turn);
                break;
            case 2 * EACH:
                multiplyPart<2 * EACH, K, GATE>(w, shared, base, at, part, turn);
                break;
            case 3 * EACH:
                if constexpr (MOST > 2 * EACH)
                    multiplyPart<3 * EACH, K, GATE>(w, shared, base, at, part, turn);
                break;
            default:
                if constexpr (MOST > 2 * EACH)
                    multiplyPart<MOST, K, GATE>(w, shared, base, at, part, turn);
            }
        }
    }
}

// A multiple of CLUSTER blocks of THREADS + 128 threads.
template <typename K, bool GATE, typename Args> __device__ __forceinline__ void groupedWgmma(const Args &w) {
    using L = Layout<K>;
    constexpr int MOST = K::MOST;
    extern __shared__ u8 unaligned[];
    u32 base = sharedAddress(unaligned), skip = (1024 - base % 1024) % 1024;
    base += skip;
    u8 *shared = unaligned + skip;
    int *ends = (int *)(shared + L::ENDS), *begins = ends + MOST_GROUPS;
    if (threadIdx.x == 0) {
        for (int i = 1; GATE && !K::ROWS_FIRST && i <= K::GROUPS; i++)
            *(int *)(shared + L::RESULTS + i * L::STAGED - 16) = 0;
        for (int s = 0; s < L::STAGES; s++) {
            barrierInit(base + L::FULL + s * 8, K::FEEDING);
            barrierInit(base + L::EMPTY + s * 8, CLUSTER * K::THREADS / 32);
        }
        for (int g = 0; K::SCALED && g < 2; g++)
            barrierInit(base + L::TURN + g * 8, 4);
        barriersReady();
    }
    if (!w.a.known)
        waitForRows();
    for (int i = threadIdx.x; i < w.a.groups; i += blockDim.x)
        ends[i] = __ldcg(w.a.ends + i);
    __syncthreads();
    if (threadIdx.x < 32) { // how many parts of the same outputs come before each group's
        int lane = threadIdx.x, before = 0;
        for (int base = 0; base < w.a.groups; base += 32) {
            int g = base + lane;
            int n = g < w.a.groups ? (ends[g] - (g > 0 ? ends[g - 1] : 0) + MOST - 1) / MOST : 0, until = n;
            for (int d = 1; d < 32; d *= 2) { // until becomes the parts of this group and those before it
                int other = __shfl_up_sync(~0u, until, d);
                until += lane >= d ? other : 0;
            }
            if (g < w.a.groups)
                begins[g] = before + until - n;
            before += __shfl_sync(~0u, until, 31);
        }
        if (lane == 0)
            begins[w.a.groups] = before;
    }
    clusterSync();
    int tiles = 0;
    for (int i = 0; i < w.a.products; i++)
        tiles += w.a.p[i].tiles;
    int outBlocks = (tiles + K::TILES * CLUSTER - 1) / (K::TILES * CLUSTER), parts = begins[w.a.groups] * outBlocks;
    if (threadIdx.x >= K::THREADS) {
        fewerRegisters<56>();
        if (threadIdx.x < K::THREADS + 32)
            feed<K, false>(w, shared, base, parts, outBlocks);
        else if (threadIdx.x < K::THREADS + 64)
            feed<K, true>(w, shared, base, parts, outBlocks);
        else if (K::FEEDING == 3 && threadIdx.x < K::THREADS + 96)
            feed<K, false, 1>(w, shared, base, parts, outBlocks);
    } else {
        moreRegisters<K::GROUPS == 2 ? 224 : K::GROUPS == 3 ? 152 : 104>();
        waitForRows();
        multiply<K, GATE>(w, shared, base, parts);
    }
    clusterSync(); // a block's shared memory must stay until the other copies nothing to it
}

#define GROUPED(NAME, ARGS, GATE, ...)                                                                                 \
    KERNEL __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(Kind<__VA_ARGS__>::THREADS + 128, 1)                      \
        NAME(const __grid_constant__ ARGS w) {                                                                         \
        groupedWgmma<Kind<__VA_ARGS__>, GATE>(w);                                                                      \
    }
#define GROUPED_KERNEL(NAME, ARGS, ...) GROUPED(NAME, ARGS, false, __VA_ARGS__) GROUPED(NAME##_gated, ARGS, true, __VA_ARGS__)
