// Products of more than 16 rows on Hopper, with wgmma: of bfloat16, or of F8_E4M3. Sums have the order of gemm.cuh, or,
// of F8_E4M3, that of gemm_float8.cu.
//
// The results are cut into parts: 64·GROUPS outputs of N rows. Blocks stay on their multiprocessors: each takes one
// part after the other, and fetches ahead while it stores. In a block, one warp fetches weights and another one rows
// (feed), since a warp begins a copy only each 50 ns; GROUPS warpgroups multiply, 64 outputs each (multiply); where
// results leave as boxes (AWAY) another warp stores (drain). They hand each other the stages of a ring in shared memory.
// Weights come as they are stored, by bulk copies, and go from shared memory to registers, as operand A. Rows are operand
// B, rows of 128 bytes: of bfloat16 boxes of a tensor map, of F8_E4M3 as they were written. Where blocks of weights have
// scales (BY_BLOCK) it is the other way round: a part is 128 outputs of 64·GROUPS rows, and a warpgroup has 64 rows.
//
// The two blocks of a cluster take different outputs of the same rows; each fetches half of the rows for both. Where
// there are too few parts for all multiprocessors, they take half of the ranges of inputs of one part each (SPLIT).
// Then each gives the other its sums of half of the rows, and stores the other half.
//
// Results of up to 128 rows, and of SPLIT, are stored by the warps that made them (gemm_store.cuh). Others leave through
// stages that are free, from where the copy engine stores them as boxes, or adds them to rows, while the next part is
// multiplied (AWAY).
#pragma once
#include "gemm_store.cuh"
#include "operand.cuh"

// x has boxes of 64 inputs of some rows. `to` is for AWAY kernels: boxes of results, of 128 bytes by CHUNK rows; the
// tiles of all products but the last are whole boxes.
struct WgmmaArgs {
    TensorMap x, to[MAX_PRODUCTS];
    GemmArgs a;
    float *sums; // [blocks, 256, 128]: where kernels of more than 192 rows keep sums of ranges
};

struct Float8Args {
    GemmArgs a;
    const u8 *x;         // [inputs/128, padded, 128]: unit u of 16 bytes of row r is at place u ^ r%8 of its 8
    const float *scales; // of rows: [padded], or, with groups, [inputs/128, padded]
    float *sums;         // as those of WgmmaArgs
    int padded;          // rows that there is room for, a multiple of 256
    int groups;          // BY_GROUP, BY_BLOCK, or 0
};

// Float8BoxArgs are those of kernels of F8_E4M3 in this file. weights and `to` are for AWAY kernels:
// boxes of two records of four tiles, and of results, as in WgmmaArgs.
struct Float8Boxes {
    TensorMap weights[MAX_PRODUCTS], to[MAX_PRODUCTS];
};
struct Float8BoxArgs : Float8Boxes, Float8Args {};

// fetchRows fetches some steps of rows from row0 on; if both, for both blocks of the cluster.

__device__ __forceinline__ void fetchRows(const WgmmaArgs &w, u32 to, int rows, int steps, int row0, int step, u32 barrier, bool both) {
    fetchBox(to, w.x, row0, step, barrier, both);
}

__device__ __forceinline__ void fetchRows(const Float8Args &w, u32 to, int rows, int steps, int row0, int step, u32 barrier, bool both) {
    for (int s = 0; s < steps; s++) {
        const u8 *from = w.x + ((i64)(step + s) * w.padded + row0) * 128;
        if (both)
            fetchBoth(to + s * rows * 128, from, rows * 128, barrier);
        else
            fetch(to + s * rows * 128, from, rows * 128, barrier);
    }
}

__device__ __forceinline__ const float *scalesOf(const WgmmaArgs &w) { return nullptr; }
__device__ __forceinline__ const float *scalesOf(const Float8Args &w) { return w.scales; }

// ArgsOf is a kernel's parameter. Those of TURNED kernels are in gemm_turned.cuh.
template <bool F8, bool TURNED = false> struct ArgsOf {
    typedef WgmmaArgs type;
};
template <> struct ArgsOf<true> {
    typedef Float8BoxArgs type;
};

// fetchWeights copies a box of records: of some tiles from `tile` on, and records from `record` on.
__device__ __forceinline__ void fetchWeights(u32 to, const TensorMap &map, int tile, int record, u32 barrier, u64 policy) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint"
                 " [%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(to), "l"(&map), "r"(0), "r"(record), "r"(tile), "r"(barrier), "l"(policy)
                 : "memory");
}

// Plan says how a kernel cuts its work and its shared memory. A stage has STEPS steps. TURNED: gemm_turned.cuh; SCALED:
// gemm_scaled.cuh, BY_GROUP or BY_BLOCK.
template <bool F8, int N, int GROUPS, int STEPS, bool SPLIT, bool TURNED = false, int SCALED = 0> struct Plan {
    // Registers hold the sums of one range alone; results leave as boxes.
    static constexpr bool AWAY = !SPLIT && (N > 128 || SCALED && N == 128);
    static constexpr bool ROWS_FIRST = SCALED == BY_BLOCK; // rows are operand A, weights B
    static constexpr int OUTS = ROWS_FIRST ? 128 : 64 * GROUPS, TILES = OUTS / 16, THREADS = 128 * GROUPS; // threads that multiply
    static constexpr int BLOCKS = SPLIT ? 1 : CLUSTER; // of a cluster with different outputs
    static constexpr int RECORDS = F8 ? 2 : 1, TILE_BYTES = STEPS * RECORDS * RECORD; // of a tile and a stage
    static constexpr int ROWS_BYTES = STEPS * N * 128, WEIGHT_BYTES = TILES * TILE_BYTES; // of a stage
    static constexpr int SCALE_BYTES = SCALED ? N * 4 : 0; // of a stage: its rows' scales
    // With SPLIT, a block stores FINISHED rows of a part: all, if they are one chunk. The other block gives it its sums of
    // these, of one range, or of up to two (TWO). Results are staged in the same place or, where a thread's would take too
    // many registers meanwhile, beside it.
    static constexpr bool TWO = SPLIT && F8 && !SCALED && (N <= 128 || GROUPS == 1), BESIDE = SPLIT && N > 128;
    static constexpr int FINISHED = SPLIT && N > CHUNK ? N / 2 : N, GIVEN_BYTES = SPLIT ? (TWO ? 2 : 1) * FINISHED * OUTS * 4 : 0;
    static constexpr int BUFFERS = FINISHED == CHUNK || BESIDE ? 1 : 2; // of results, of each warpgroup
    static constexpr bool EARLY = N <= 64; // there are registers for what results take besides sums
    // The next kernel begins on multiprocessors that are done, while others still have a last part: of few rows it
    // fetches what it can then.
    static constexpr bool SOON = !F8 && FORMAT == BF16 && N == 32;
    static constexpr bool BOXED = F8 && AWAY; // weights come as boxes of half of the tiles
    static constexpr int CHUNKS = N / CHUNK; // of a part's results
    static constexpr int FEEDING = TURNED ? 1 : 2; // warps
    static constexpr bool HEADS = TURNED; // results are of bfloat16, and those of a part one head's
    static constexpr bool APART = HEADS && WEIGHT_BYTES >= 4 * CHUNK * 128; // they leave where stages have weights
    // Of the N/8 fours of sums that a thread keeps between ranges (AWAY), those in shared memory, and in registers.
    static constexpr int KEPT = TURNED ? 8 : ROWS_FIRST && N == 192 ? 10 : N == 256 ? 7 : N == 224 ? 12 : N == 192 ? 15 : 11;
    static constexpr int HELD = !AWAY || SCALED ? 0 : N < 224 ? N / 8 - KEPT : N == 224 || FORMAT == BF16 ? 4 : 0;
    static constexpr int RESULT_BYTES = AWAY ? KEPT * THREADS * 16 : SPLIT && !BESIDE ? 0 : BUFFERS * GROUPS * 8192;
    static constexpr int ROW_BYTES = TURNED ? N * 4 : 0; // of what says where the cache has rows
    static constexpr int STAGED = GIVEN_BYTES + RESULT_BYTES + ROW_BYTES;
    static constexpr int ROOM = MOST_SHARED - 1024 - 256 - STAGED; // 1024: to align; 256: for barriers
    static constexpr int FIT = ROOM / (ROWS_BYTES + WEIGHT_BYTES + SCALE_BYTES), STAGES = FIT < 14 ? FIT : 14;
    static_assert(STAGES >= 2);
    // In shared memory, from its first multiple of 1024 on:
    static constexpr int WEIGHTS = STAGES * ROWS_BYTES, GIVE = WEIGHTS + STAGES * WEIGHT_BYTES;
    static constexpr int RESULTS = GIVE + GIVEN_BYTES;
    static constexpr int CACHED = RESULTS + RESULT_BYTES; // where the cache has rows (TURNED)
    static constexpr int SCALES = CACHED + ROW_BYTES;
    static constexpr int FULL = SCALES + STAGES * SCALE_BYTES, EMPTY = FULL + STAGES * 8; // barriers of the stages
    static constexpr int GIVEN = EMPTY + STAGES * 8, TAKEN = GIVEN + 8; // barriers of sums that are given (SPLIT)
    static constexpr int LEFT = TAKEN + 8; // barriers of stages that hold results (AWAY)
    static constexpr int TURN = LEFT + (AWAY ? STAGES * 8 : 0); // barriers of warpgroups (SCALED)
};

// Span is the ranges that a block multiplies, and their steps: those of all, or with SPLIT of half of them. Steps are made
// up to a multiple of 256 inputs by some whose rows are zeros, for which the copy engine reads nothing.
template <bool F8, bool SPLIT> struct Span {
    int first, ranges, begin, count;

    __device__ __forceinline__ Span(const GemmArgs &a, int rank) {
        int steps = F8 ? a.tilesIn / 8 : (a.tilesIn + 15) / 16 * 4, half = a.tilesIn / 16 / CLUSTER * (F8 ? 2 : 4); // half: where half of the ranges end
        ranges = SPLIT ? a.ranges / CLUSTER : a.ranges, first = SPLIT ? rank * ranges : 0;
        begin = first > 0 ? half : 0, count = SPLIT && first == 0 ? half : steps - begin;
    }

    // end is where range n of the block's ends, among its steps. Those of F8_E4M3 have 128 inputs.
    __device__ __forceinline__ int end(const GemmArgs &a, int n) const {
        return n == ranges - 1 ? count : rangeStart(a.tilesIn / 4, a.ranges, first + n + 1) / (F8 ? 2 : 1) - begin;
    }
};

// Part is what a block multiplies next: N rows from row0 on, and TILES tiles from tile0 on, numbered as placeOf does.
struct Part {
    int row0, tile0;
};

// Parts are all parts of a product, by cluster.
template <int N, int TILES, int BLOCKS> struct Parts {
    int rowBlocks, outBlocks, count;

    __device__ __forceinline__ Parts(const GemmArgs &a) {
        int tiles = 0;
        for (int i = 0; i < a.products; i++)
            tiles += a.p[i].tiles;
        rowBlocks = (a.rows + N - 1) / N, outBlocks = (tiles + TILES * BLOCKS - 1) / (TILES * BLOCKS);
        count = rowBlocks * outBlocks;
    }

    // at returns what a block multiplies of part t of its cluster. Blocks of rows are taken in bands, so that parts that
    // are multiplied at the same time share both rows and weights in the cache.
    __device__ __forceinline__ Part at(int t, int rank) const {
        constexpr int BAND = N > 128 ? 8 : 16;
        if (rowBlocks == 1) // saves few rows the time of the divisions
            return {0, (t * BLOCKS + rank % BLOCKS) * TILES};
        int band = t / (BAND * outBlocks), rows = min(BAND, rowBlocks - band * BAND), in = t - band * BAND * outBlocks;
        return {(band * BAND + in % rows) * N, (in / rows * BLOCKS + rank % BLOCKS) * TILES};
    }
};

// Leaving says how results leave (AWAY): in chunks of CHUNK rows. A free stage takes some chunks where
// it has rows and, if there is room, one or two where it has weights. Chunks of float32 take most room, those of
// bfloat16 half of it, those of gates a quarter. In TURNED kernels each stage takes two, beside angles.
template <typename P> struct Leaving {
    static constexpr int SIZE = 2 * P::OUTS * CHUNK * 2; // bytes of a chunk of float32
    static constexpr int EXTRA = P::WEIGHT_BYTES < SIZE ? 0 : 1;
    static constexpr int WIDE = P::ROWS_BYTES / SIZE + EXTRA, NARROW = P::HEADS ? 2 : 2 * WIDE; // chunks of a stage
    bool wide;                 // results are float32
    int boxes, chunks, stages; // boxes of a chunk, chunks of a stage, and the stages that all chunks take
    int given;                 // stages before these, in which a gate's warps and an up's give each other sums

    __device__ __forceinline__ Leaving(const GemmArgs &a) {
        bool gated = a.mode == GATED;
        wide = a.p[0].dst.wide;
        boxes = wide ? 4 : gated ? 1 : 2, chunks = wide ? WIDE : gated ? P::CHUNKS : NARROW;
        stages = !P::AWAY ? 0 : (P::CHUNKS + chunks - 1) / chunks, given = P::AWAY && gated && !P::ROWS_FIRST ? 2 : 0;
    }

    // at is where the boxes of chunk n of a stage lie, at a multiple of 1024, swizzled as describe says.
    __device__ __forceinline__ u32 at(u32 base, int stage, int n) const {
        int size = boxes * CHUNK * 128, rows = P::ROWS_BYTES / size;
        u32 weights = base + (P::WEIGHTS + stage * P::WEIGHT_BYTES + 1023 & ~1023);
        if (P::APART)
            return weights + n * size;
        return n < rows ? base + stage * P::ROWS_BYTES + n * size : weights + (n - rows) * size;
    }
};

// Of TURNED kernels (gemm_turned.cuh): leaveTurned is their leave, fetchAngles fetches what it takes of a stage, and
// cacheRows is their drain of keys and values, which are the products past the first.
template <typename P, typename Args> __device__ __forceinline__ void fetchAngles(const Args &w, u32 base, const Part &part, int n, int stage);
template <bool F8, int N, typename P, typename Args>
__device__ __forceinline__ void leaveTurned(const Args &w, const float (&d)[N / 2], u8 *shared, u32 base, const Part &part, int &stage, u32 &parity);
template <typename P, typename Args, typename All> __device__ __forceinline__ void cacheRows(const Args &w, u32 base, int stages, const All &parts);

// multiplyScaled is multiply of BY_GROUP kernels, multiplyRows that of BY_BLOCK (gemm_scaled.cuh).
template <int N, int GROUPS, bool SPLIT, typename Args, typename All>
__device__ __forceinline__ void multiplyScaled(const Args &w, u8 *shared, u32 base, const All &parts);
template <int N, int GROUPS, typename Args, typename All>
__device__ __forceinline__ void multiplyRows(const Args &w, u8 *shared, u32 base, const All &parts);

// drain is the work of the warp that has the copy engine store results (AWAY): a lane for each box of
// a stage. It waits until all warps have put theirs there (LEFT), and frees the stage once the copy engine has read it.
template <bool F8, int N, int GROUPS, int STEPS, bool SPLIT, bool TURNED = false, int SCALED = 0, typename All>
__device__ __forceinline__ void drain(const typename ArgsOf<F8, TURNED>::type &w, u32 base, const All &parts) {
    using P = Plan<F8, N, GROUPS, STEPS, SPLIT, TURNED, SCALED>;
    const GemmArgs &a = w.a;
    const Leaving<P> leaving(a);
    int lane = threadIdx.x % 32, rank = clusterRank(), stage = 0, n = lane / leaving.boxes, box = lane % leaving.boxes;
    u32 parities = 0; // of LEFT: a bit for each stage
    Span<F8, SPLIT> own(a, rank);
    waitForRows();
    for (int t = blockIdx.x / CLUSTER; t < parts.count; t += gridDim.x / CLUSTER) {
        Part part = parts.at(t, rank);
        Place at = placeOf(a, part.tile0 + box * (P::TILES / leaving.boxes));
        stage = (stage + own.count / STEPS + leaving.given) % P::STAGES;
        for (int i = 0; i < leaving.stages; i++) {
            barrierWait(base + P::LEFT + stage * 8, parities >> stage & 1);
            parities ^= 1u << stage;
            int chunk = i * leaving.chunks + n, row = part.row0 + chunk * CHUNK;
            if (n < leaving.chunks && chunk < P::CHUNKS && row < a.rows && (TURNED ? at.product == 0 : at.product >= 0))
                storeBox(w.to[at.product], leaving.at(base, stage, n) + box * CHUNK * 128, at.tile * 16, row, a.mode == ADD);
            boxesRead();
            __syncwarp();
            if (lane < P::BLOCKS * P::THREADS / 32 && !(TURNED && at.product > 0))
                barrierArrive(base + P::EMPTY + stage * 8, lane % P::BLOCKS);
            if (++stage == P::STAGES)
                stage = 0;
        }
    }
    boxesStored();
}

// clusterArrive says that the thread has come, clusterWait waits until all threads of the cluster have said so. Of what a
// thread wrote before, others see the barriers alone, after barriersReady.
__device__ __forceinline__ void clusterArrive() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }
__device__ __forceinline__ void clusterWait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

// prefetchMap fetches a tensor map, so that the first copy need not wait for it.
__device__ __forceinline__ void prefetchMap(const TensorMap &map) { asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory"); }

// feed is the work of the warps that fetch: one has weights, another one rows; in TURNED kernels one has both. They wait
// for a stage to be free (EMPTY), and copies count at FULL. The weights of the first stages come before the rows are
// there, and before all blocks of the cluster are.
template <bool F8, int N, int GROUPS, int STEPS, bool SPLIT, bool WEIGHTS, bool ROWS, bool TURNED = false, int SCALED = 0, typename All>
__device__ __forceinline__ void feed(const typename ArgsOf<F8, TURNED>::type &w, u32 base, const All &parts) {
    using P = Plan<F8, N, GROUPS, STEPS, SPLIT, TURNED, SCALED>;
    const GemmArgs &a = w.a;
    int lane = threadIdx.x % 32, rank = clusterRank(), stage = 0;
    Span<F8, SPLIT> own(a, rank);
    int stages = own.count / STEPS; // that a part takes
    u32 full = base + P::FULL, empty = base + P::EMPTY, parity = 1;
    u64 policy = parts.rowBlocks == 1 ? readOnce() : readAgain();
    const Leaving<P> leaving(a);
    int there = (a.tilesIn / 4 - own.begin) * RECORD; // bytes of a tile from the block's first step on, but for F8
    Place half;     // the first tile of the box that a lane fetches (BOXED)
    const u8 *from; // or the weights of the tile that it fetches
    auto begin = [&](Part part) {
        if constexpr (P::BOXED) {
            half = placeOf(a, part.tile0 + lane % 2 * (a.mode == GATED ? 1 : P::TILES / 2));
            if (half.product < 0)
                half = {0, a.p[0].tiles}; // beyond the map, which gives zeros
        } else {
            Place at = placeOf(a, part.tile0 + lane % P::TILES);
            from = a.p[max(at.product, 0)].w + ((i64)(at.product < 0 ? 0 : at.tile) * (a.tilesIn / 4) + own.begin * P::RECORDS) * RECORD;
        }
    };
    auto weights = [&](int s, int stage) {
        u32 to = base + P::WEIGHTS + stage * P::WEIGHT_BYTES, at = full + stage * 8;
        if (lane == 0)
            barrierExpect(at, ROWS ? P::ROWS_BYTES + P::WEIGHT_BYTES : P::WEIGHT_BYTES);
        __syncwarp();
        if constexpr (P::ROWS_FIRST) { // the first records of all tiles, then the second ones
            if (lane < 4)
                fetchWeights(to + lane / 2 * (P::WEIGHT_BYTES / 2) + lane % 2 * (P::WEIGHT_BYTES / 4), w.weights[half.product], half.tile, s * 2 + lane / 2, at, policy);
        } else if constexpr (P::BOXED) {
            if (lane < 2)
                fetchWeights(to + lane * (P::WEIGHT_BYTES / 2), w.weights[half.product], half.tile, s * P::RECORDS, at, policy);
        } else if (lane < P::TILES) {
            to += lane * P::TILE_BYTES;
            if (F8 || there >= (s + 1) * P::TILE_BYTES)
                fetch(to, from + (i64)s * P::TILE_BYTES, P::TILE_BYTES, at, policy);
            else // what is there, and any weights, which meet zeros
#pragma unroll 1
                for (int i = 0; i < P::TILE_BYTES; i += RECORD)
                    fetch(to + i, from + (s * P::TILE_BYTES + i < there ? s * P::TILE_BYTES + i : 0), RECORD, at, policy);
        }
    };
    auto next = [&] {
        if (++stage == P::STAGES)
            stage = 0, parity ^= 1;
    };
    int t = blockIdx.x / CLUSTER, ahead = 0;
    if (WEIGHTS && t < parts.count) {
        ahead = min(P::STAGES, stages);
        begin(parts.at(t, rank));
#pragma unroll 1
        for (int s = 0; s < ahead; s++)
            weights(s, s);
    }
    if constexpr (ROWS && !F8)
        if (lane == 0)
            prefetchMap(w.x);
    clusterWait();
    if (ROWS)
        waitForRows();
    for (; t < parts.count; t += gridDim.x / CLUSTER) {
        Part part = parts.at(t, rank);
        if (ROWS && P::SOON && t + gridDim.x / CLUSTER >= parts.count)
            letNextBegin();
        if (WEIGHTS)
            begin(part);
        // Meanwhile, what results are added to is brought to the second-level cache: a row by four lanes, 32 numbers
        // each.
        Place added = placeOf(a, part.tile0 + lane % 4 * 2);
#pragma unroll 1
        for (int s = 0; s < stages; s++) {
            if (s >= ahead) // others were free; they may be so again by now
                barrierWait(empty + stage * 8, parity);
            if (WEIGHTS && s >= ahead)
                weights(s, stage);
            if (ROWS) {
                u32 to = base + stage * P::ROWS_BYTES, share = P::ROWS_BYTES / CLUSTER, at = full + stage * 8;
                int step = own.begin + s * STEPS;
                if (lane == 0) {
                    if (!WEIGHTS)
                        barrierExpect(at, P::ROWS_BYTES + P::SCALE_BYTES);
                    if constexpr (SCALED)
                        fetch(base + P::SCALES + stage * P::SCALE_BYTES, w.scales + (i64)step * w.padded + part.row0, P::SCALE_BYTES, at);
                    if constexpr (SPLIT)
                        fetchRows(w, to, N, STEPS, part.row0, step, at, false);
                    else if constexpr (STEPS > 1) // a block fetches half of the steps for both
                        fetchRows(w, to + rank * share, N, STEPS / CLUSTER, part.row0, step + rank * (STEPS / CLUSTER), at, true);
                    else // or half of the rows
                        fetchRows(w, to + rank * share, N / CLUSTER, 1, part.row0 + rank * (N / CLUSTER), step, at, true);
                }
                int row = part.row0 + (P::FINISHED < N ? rank * P::FINISHED : 0) + s * 8 + lane / 4;
                if (a.mode == ADD && s < P::FINISHED / 8 && row < a.rows && added.product >= 0 && (GROUPS == 2 || lane % 4 < 2)) {
                    const Rows &dst = a.p[added.product].dst;
                    if (dst.wide)
                        asm volatile("prefetch.global.L2 [%0];" ::"l"((const float *)dst.at + (i64)row * dst.ld + added.tile * 16));
                }
            }
            next();
        }
#pragma unroll 1
        for (int i = 0; i < leaving.given + leaving.stages; i++) { // stages that results pass: they are full once free
            barrierWait(empty + stage * 8, parity);
            if constexpr (TURNED)
                fetchAngles<P>(w, base, part, i, stage);
            else if (lane == 0)
                barrierArrive(full + stage * 8);
            __syncwarp();
            next();
        }
        ahead = 0;
    }
    if (ROWS && !P::SOON)
        letNextBegin();
}

// giveSums writes a thread's sums of half of a part's rows, the last ones or not, or those of all that there are, to the
// other block's shared memory at `to`: fours, 128 threads apart. Their bytes count at its barrier.
template <int COUNT, int N> __device__ __forceinline__ void giveSums(u32 to, u32 barrier, const float (&x)[N], bool last) {
#pragma unroll
    for (int i = 0; i < COUNT; i += 4) {
        float v[4];
#pragma unroll
        for (int e = 0; e < 4; e++)
            v[e] = last ? x[N - COUNT + i + e] : x[i + e];
        asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(to + i * 512), "f"(v[0]), "f"(v[1]),
                     "f"(v[2]), "f"(v[3]), "r"(barrier)
                     : "memory");
    }
}

// leave makes results of a part's sums and puts them into stages, from which drain stores them.
template <bool F8, int N, typename P, typename Args>
__device__ __forceinline__ void leave(const Args &w, const float (&d)[N / 2], u32 base, const Part &part, int &stage, u32 &parity) {
    const GemmArgs &a = w.a;
    typedef Leaving<P> L;
    const L leaving(a);
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    Place place = placeOf(a, part.tile0 + warp);
    Own<F8> own(a, place);
    bool biased = a.p[max(place.product, 0)].bias;
    const float *rowScales = F8 ? scalesOf(w) + part.row0 + lane % 4 * 2 : nullptr;
    // scaleOf gives the scales of the rows of d[i] to d[i+3].
    auto scaleOf = [&](int i) { return F8 ? *(const float2 *)(rowScales + i * 2) : float2{}; };
    auto result = [&](int i, const float2 &scale) {
        float x = summed(d[i]);
        if (F8)
            x = x * own.scales[i / 2 % 2] * (i % 2 ? scale.y : scale.x);
        if (biased)
            x = x + own.bias[i / 2 % 2];
        return x * a.scale;
    };
    auto begin = [&] { barrierWait(base + P::FULL + stage * 8, parity); };
    auto end = [&] {
        fenceShared();
        __syncwarp();
        if (lane == 0)
            barrierArrive(base + P::LEFT + stage * 8);
        if (++stage == P::STAGES)
            stage = 0, parity ^= 1;
    };
    if (!P::HEADS && leaving.wide) {
        u32 to[4]; // where a thread's four sums of eight rows go
#pragma unroll
        for (int e = 0; e < 4; e++) {
            int o = warp % 2 * 16 + lane / 4 + e / 2 * 8, row = lane % 4 * 2 + e % 2;
            to[e] = warp / 2 * CHUNK * 128 + row * 128 + (o / 4 ^ row) * 16 + o % 4 * 4;
        }
#pragma unroll
        for (int first = 0; first < P::CHUNKS; first += L::WIDE) {
            begin();
#pragma unroll
            for (int c = first; c < first + L::WIDE && c < P::CHUNKS; c++) {
                u32 at = leaving.at(base, stage, c - first);
#pragma unroll
                for (int i = c * 16; i < c * 16 + 16; i += 4) {
                    float2 scale = scaleOf(i);
#pragma unroll
                    for (int e = 0; e < 4; e++)
                        storeShared(at + to[e] + i % 16 / 4 * 1024, result(i + e, scale));
                }
            }
            end();
        }
    } else {
        u32 to = warp / 4 * CHUNK * 128 + (lane / 16 * 8 + lane % 8) * 128 + (warp % 4 * 2 + lane / 8 % 2 ^ lane % 8) * 16;
#pragma unroll
        for (int first = 0; first < P::CHUNKS; first += L::NARROW) {
            begin();
#pragma unroll
            for (int c = first; c < first + L::NARROW && c < P::CHUNKS; c++) {
                u32 at = leaving.at(base, stage, c - first) + to;
#pragma unroll
                for (int i = c * 16; i < c * 16 + 16; i += 8) {
                    float2 low = scaleOf(i), high = scaleOf(i + 4);
                    storeMatrices(at + i % 16 / 8 * 2048, packBF16(result(i, low), result(i + 1, low)), packBF16(result(i + 2, low), result(i + 3, low)),
                                  packBF16(result(i + 4, high), result(i + 5, high)), packBF16(result(i + 6, high), result(i + 7, high)));
                }
            }
            end();
        }
    }
}

// leaveGates is leave for gates. A gate's warp and an up's, which are neighbours, give each other half of their sums,
// so that each has both for 16 rows of every chunk.
template <bool F8, int N, typename P, typename Args>
__device__ __forceinline__ void leaveGates(const Args &w, const float (&sums)[N / 2], u8 *shared, u32 base, const Part &part, int &stage, u32 &parity) {
    const GemmArgs &a = w.a;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    bool up = warp % 2, biased = a.p[up].bias;
    Own<F8> own(a, placeOf(a, part.tile0 + warp));
    const float *rowScales = F8 ? scalesOf(w) + part.row0 + lane % 4 * 2 : nullptr;
    float d[N / 2];
#pragma unroll
    for (int i = 0; i < N / 2; i += 4) { // scales and biases
        float2 scale = F8 ? *(const float2 *)(rowScales + i * 2) : float2{};
#pragma unroll
        for (int e = 0; e < 4; e++) {
            d[i + e] = summed(sums[i + e]);
            if (F8)
                d[i + e] = d[i + e] * own.scales[e / 2] * (e % 2 ? scale.y : scale.x);
            if (biased)
                d[i + e] = d[i + e] + own.bias[e / 2];
            d[i + e] = rounded(d[i + e]);
        }
    }
    // A gate's warp keeps the first 8 of each 16 sums and takes the up's for the last 8. An up's warp keeps its last 8
    // and takes the gate's for the first 8. What is given passes two stages.
    int first = stage;
    auto next = [&] {
        if (++stage == P::STAGES)
            stage = 0, parity ^= 1;
    };
    auto given = [&](int n, int thread) { // where four number n of N/16 of a thread is
        int of = n < N / 32 ? first : first + 1 == P::STAGES ? 0 : first + 1;
        return (four *)(shared + of * P::ROWS_BYTES) + n % (N / 32) * P::THREADS + thread;
    };
    auto give = [&](int from) {
#pragma unroll
        for (int n = 0; n < N / 16; n++) {
            int i = n / 2 * 16 + from + n % 2 * 4;
            *given(n, threadIdx.x) = {d[i], d[i + 1], d[i + 2], d[i + 3]};
        }
    };
    auto take = [&](int to) {
#pragma unroll
        for (int n = 0; n < N / 16; n++) {
            four v = *given(n, threadIdx.x ^ 32);
#pragma unroll
            for (int e = 0; e < 4; e++)
                d[n / 2 * 16 + to + n % 2 * 4 + e] = v.v[e];
        }
    };
    for (int i = 0; i < 2; i++) {
        barrierWait(base + P::FULL + stage * 8, parity);
        next();
    }
    if (up)
        give(0);
    else
        give(8);
    barrierOf(3 + threadIdx.x / 64, 64);
    if (up)
        take(0);
    else
        take(8);
    fenceShared();
    __syncwarp();
    if (lane < 2 * P::BLOCKS)
        barrierArrive(base + P::EMPTY + (lane < P::BLOCKS || first + 1 == P::STAGES ? lane < P::BLOCKS ? first : 0 : first + 1) * 8, lane % P::BLOCKS);
    barrierWait(base + P::FULL + stage * 8, parity);
    u32 to = base + stage * P::ROWS_BYTES + (up * 16 + lane / 16 * 8 + lane % 8) * 128 + (warp / 2 * 2 + lane / 8 % 2 ^ lane % 8) * 16;
    auto put = [&](int c, const float(&g)[8]) {
        storeMatrices(to + c * CHUNK * 128, packBF16(g[0], g[1]), packBF16(g[2], g[3]), packBF16(g[4], g[5]), packBF16(g[6], g[7]));
    };
    bool plain = a.act == SILU || a.act == GELU_TANH;
    if (plain)
#pragma unroll
        for (int c = 0; c < N / CHUNK; c++) {
            float g[8];
#pragma unroll
            for (int i = 0; i < 8; i++)
                g[i] = d[c * 16 + i];
            plain = gatePlain(a.act == SILU ? SILU : GELU_TANH, g, d + c * 16 + 8) && plain;
            put(c, g);
        }
    if (__any_sync(~0u, !plain))
#pragma unroll 1
        for (int c = 0; c < N / CHUNK; c++) {
            float g[8], u[8];
#pragma unroll
            for (int of = 0; of < N / CHUNK; of++)
                if (of == c)
#pragma unroll
                    for (int i = 0; i < 8; i++)
                        g[i] = d[of * 16 + i], u[i] = d[of * 16 + 8 + i];
            gate(a.act, g, u);
            put(c, g);
        }
    fenceShared();
    __syncwarp();
    if (lane == 0)
        barrierArrive(base + P::LEFT + stage * 8);
    next();
}

// picked is what `store` takes to make the sums of chunk c: the 16 from number 16c on of a thread's COUNT, which sum(i)
// makes.
template <int COUNT, typename Sum> __device__ __forceinline__ auto picked(Sum sum) {
    return [sum](int c, float(&x)[16]) {
#pragma unroll
        for (int of = 0; of < COUNT / 16; of++)
            if (of == c)
#pragma unroll
                for (int i = 0; i < 16; i++)
                    x[i] = summed(sum(of * 16 + i));
    };
}

// finishHalf ends a part with SPLIT, of which a block of the cluster has the sums of half of the ranges: d of the last of
// these, `total` of the one before if they are two. It gives the other block what that one finishes, FINISHED of the
// part's rows, and joins what it is given with its own, in the order of the ranges. sumsParity is of this part, and more()
// says whether the block has another one.
template <bool F8, int N, int GROUPS, typename P, typename Args, typename More, int TOTALS>
__device__ __forceinline__ void finishHalf(const Args &w, u8 *shared, u32 base, float (&d)[N / 2], const float (&total)[TOTALS],
                                           Before<F8> &before, const int &ranges, const int &rank, const u32 &sumsParity, const Part &part,
                                           const More &more, const int &group, const int &lane) {
    constexpr bool TOTAL = TOTALS > 1;
    const GemmArgs &a = w.a;
    constexpr int COUNT = P::FINISHED / 2;
    bool second = rank > 0, two = TOTAL && ranges > 1;
    if constexpr (TOTAL)
        if (two && !second)
#pragma unroll
            for (int i = 0; i < N / 2; i++)
                d[i] = 0.f + total[i] + d[i];
    constexpr int AREA = P::GIVEN_BYTES / GROUPS; // of a warpgroup
    u8 *given = shared + P::GIVE + group * AREA;
    const four *sums = (const four *)given + threadIdx.x % 128;
    if (threadIdx.x == 0 && (P::FINISHED < N || !second))
        barrierExpect(base + P::GIVEN, (two && !second ? 2 : 1) * P::FINISHED * P::OUTS * 4);
    if (P::FINISHED < N || second) {
        u32 to = sharedOf(base + P::GIVE, rank ^ 1) + group * AREA + threadIdx.x % 128 * 16, at = sharedOf(base + P::GIVEN, rank ^ 1);
        barrierHear(base + P::TAKEN, sumsParity ^ 1);
        if constexpr (TOTAL)
            if (two && second) {
                giveSums<COUNT>(to, at, total, false);
                to += COUNT * 512;
            }
        giveSums<COUNT>(to, at, d, !second);
    }
    if (P::FINISHED < N || !second) {
        auto hear = [&] { barrierHear(base + P::GIVEN, sumsParity); };
        auto joined = [&](int i) { // the first block's ranges come first
            float mine = second ? d[N / 2 - COUNT + i] : d[i], others = sums[i / 4 * 128].v[i % 4];
            float sum = second ? others : mine, last = second ? mine : others;
            if constexpr (TOTAL)
                if (two) {
                    sum = sum + (second ? total[N / 2 - COUNT + i] : others);
                    last = second ? mine : sums[(COUNT + i) / 4 * 128].v[i % 4];
                }
            return sum + last;
        };
        int row0 = part.row0 + second * (N - P::FINISHED);
        if (!P::EARLY)
            before = Before<F8>(a, scalesOf(w), part.tile0 + group * 4, row0);
        if constexpr (P::BESIDE) {
            u8 *staged = shared + P::RESULTS + group * 8192;
            store<F8, P::FINISHED, P::BUFFERS>(a, before, part.tile0 + group * 4, row0, group, staged, hear, picked<COUNT>(joined));
        } else {
            float x[COUNT];
            auto join = [&] {
                hear();
#pragma unroll
                for (int i = 0; i < COUNT; i++)
                    x[i] = joined(i);
                barrierOf(1 + group, 128); // results are staged where sums were
            };
            store<F8, P::FINISHED, P::BUFFERS>(a, before, part.tile0 + group * 4, row0, group, given, join, picked<COUNT>([&](int i) { return x[i]; }));
        }
        __syncwarp();
        if (lane == 0 && more()) // the other block may have ended otherwise
            barrierTell(base + P::TAKEN, rank ^ 1);
    }
}

// multiply is the work of the warpgroups that multiply. They wait for a stage's weights and rows (FULL) and free it
// (EMPTY) while the next one is multiplied.
template <bool F8, int N, int GROUPS, int STEPS, bool SPLIT, bool TURNED = false, typename All>
__device__ __forceinline__ void multiply(const typename ArgsOf<F8, TURNED>::type &w, u8 *shared, u32 base, const All &parts) {
    using P = Plan<F8, N, GROUPS, STEPS, SPLIT, TURNED>;
    const GemmArgs &a = w.a;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = warp / 4, rank = clusterRank(), stage = 0;
    Span<F8, SPLIT> own(a, rank);
    u32 full = base + P::FULL, empty = base + P::EMPTY, parity = 0, sumsParity = 0;
    const u8 *weights = shared + P::WEIGHTS + (P::BOXED && a.mode == GATED ? warp % 2 * (P::TILES / 2) + warp / 2 : warp) * P::TILE_BYTES;
    float d[N / 2];
    Operand<F8> operands[2]; // of a step: one is multiplied while the next is made
    auto load = [&](Operand<F8> &o, int j) { // step j of the stage
        if (j == 0)
            barrierWait(full + stage * 8, parity);
        o.load(weights + stage * P::WEIGHT_BYTES + j * P::RECORDS * RECORD, lane);
    };
    auto release = [&](int stage) { // tells each block that fetches for this stage
        if (lane < P::BLOCKS)
            barrierArrive(empty + stage * 8, SPLIT ? rank : lane);
    };
    auto last = [&] { return stage == 0 ? P::STAGES - 1 : stage - 1; };
    // The sums of the ranges so far: `total`, in registers; or (AWAY) N/8 fours, KEPT of them in shared memory, the
    // last HELD in registers, and the others in memory. With SPLIT, the second block does not add its two.
    constexpr bool AWAY = P::AWAY, TOTAL = !AWAY && (!SPLIT || P::TWO);
    float total[TOTAL ? N / 2 : 1];
    four *away = AWAY ? (four *)w.sums + (i64)blockIdx.x * (N / 8) * P::THREADS + threadIdx.x : nullptr;
    u8 *staged = shared + P::RESULTS + group * (P::RESULT_BYTES / GROUPS); // of the warpgroup
    constexpr int MOVED = N / 8 - P::HELD;
    four held[P::HELD ? P::HELD : 1];
    auto sums = [&](int i) { return i < P::KEPT ? (four *)staged + i * 128 + threadIdx.x % 128 : away + i * P::THREADS; };
    for (int t = blockIdx.x / CLUSTER; t < parts.count; t += gridDim.x / CLUSTER) {
        Part part;
        if (!AWAY)
            part = parts.at(t, rank);
        // While the first rows come, too.
        int row0 = part.row0 + (SPLIT && rank > 0 ? N - P::FINISHED : 0);
        Before<F8> before = P::EARLY ? Before<F8>(a, scalesOf(w), part.tile0 + group * 4, row0) : Before<F8>();
        load(operands[0], 0);
        if (AWAY) // tells the compiler that sums of the part before are dead
#pragma unroll
            for (int i = 0; i < N / 2; i++)
                d[i] = 0;
        for (int range = 0, s = 0; range < own.ranges; range++) {
            int begin = s, end = own.end(a, range);
            auto step = [&](const Operand<F8> &now, Operand<F8> &next, int j) {
                u32 at = base + stage * P::ROWS_BYTES + j * (P::ROWS_BYTES / STEPS);
                u64 rows = describe(GROUPS == 1 && FORMAT == BF16 ? ofWarp(at) : at); // with more warpgroups the compiler knows
                wgmmaFence();
#pragma unroll
                for (int k = 0; k < 4; k++)
                    wgmma<F8, N>(d, now.a[k], rows + k * 2, s == begin && k == 0); // a range starts from zero
                wgmmaCommit();
                wgmmaWait<1>();
                if (j == 0 && s > 0)
                    release(last());
                if (j == STEPS - 1 && ++stage == P::STAGES)
                    stage = 0, parity ^= 1;
                if (++s < own.count)
                    load(next, (j + 1) % STEPS);
            };
#pragma unroll 1
            do { // ranges have a multiple of 4 steps, or of 2 of F8_E4M3
#pragma unroll
                for (int u = 0; u < (STEPS < 2 ? 2 : STEPS); u += 2) {
                    step(operands[0], operands[1], u % STEPS);
                    step(operands[1], operands[0], (u + 1) % STEPS);
                }
            } while (s < end);
            wgmmaWait<0>();
            settle(d);
            if constexpr (AWAY) {
                if (range > 0)
#pragma unroll
                    for (int i = 0; i < N / 8; i++) {
                        four sum = i < MOVED ? *sums(i) : held[i - MOVED];
#pragma unroll
                        for (int e = 0; e < 4; e++)
                            d[i * 4 + e] = sum.v[e] + d[i * 4 + e];
                    }
                if (range < own.ranges - 1)
#pragma unroll
                    for (int i = 0; i < N / 8; i++)
                        (i < MOVED ? *sums(i) : held[i - MOVED]) = {d[i * 4], d[i * 4 + 1], d[i * 4 + 2], d[i * 4 + 3]};
            } else if constexpr (!SPLIT) {
#pragma unroll
                for (int i = 0; i < N / 2; i++)
                    total[i] = (range == 0 ? 0.f : total[i]) + d[i];
            } else if constexpr (TOTAL)
                if (range < own.ranges - 1)
#pragma unroll
                    for (int i = 0; i < N / 2; i++)
                        total[i] = d[i];
        }
        release(last());
        if constexpr (AWAY) {
            part = parts.at(t, rank);
            if constexpr (TURNED)
                leaveTurned<F8, N, P>(w, d, shared, base, part, stage, parity);
            else if (a.mode == GATED)
                leaveGates<F8, N, P>(w, d, shared, base, part, stage, parity);
            else
                leave<F8, N, P>(w, d, base, part, stage, parity);
            continue;
        }
        if constexpr (SPLIT) {
            auto more = [&] { return t + gridDim.x / CLUSTER < parts.count; };
            finishHalf<F8, N, GROUPS, P>(w, shared, base, d, total, before, own.ranges, rank, sumsParity, part, more, group, lane);
            sumsParity ^= 1;
        } else if constexpr (!AWAY) {
            if (!P::EARLY)
                before = Before<F8>(a, scalesOf(w), part.tile0 + group * 4, part.row0);
            store<F8, N, P::BUFFERS>(a, before, part.tile0 + group * 4, part.row0, group, staged, [] {}, picked<N / 2>([&](int i) { return total[i]; }));
        }
    }
}

// Any number of clusters, of blocks of 128·GROUPS + 128 threads. Inputs of F8_E4M3 are a multiple of 256; with SPLIT there
// are two ranges, or four (TWO). Dynamic shared memory: warpgroups.shared in products.go.
template <bool F8, int N, int GROUPS, int STEPS, bool SPLIT, bool TURNED = false, int SCALED = 0>
__device__ __forceinline__ void gemmWgmma(const typename ArgsOf<F8, TURNED>::type &w) {
    using P = Plan<F8, N, GROUPS, STEPS, SPLIT, TURNED, SCALED>;
    extern __shared__ u8 unaligned[];
    u32 base = sharedAddress(unaligned), skip = (1024 - base % 1024) % 1024;
    base += skip;
    if (threadIdx.x >= P::THREADS) {
        if constexpr (GROUPS == 2)
            fewerRegisters<40>();
        if constexpr (GROUPS > 2)
            fewerRegisters<32>();
        int helper = threadIdx.x / 32 - P::THREADS / 32;
        if (threadIdx.x == P::THREADS) {
            for (int s = 0; s < P::STAGES; s++) {
                barrierInit(base + P::FULL + s * 8, P::FEEDING);
                barrierInit(base + P::EMPTY + s * 8, P::BLOCKS * GROUPS * 4);
            }
            barrierInit(base + P::GIVEN, 1);
            barrierInit(base + P::TAKEN, P::THREADS / 32);
            for (int s = 0; P::AWAY && s < P::STAGES; s++)
                barrierInit(base + P::LEFT + s * 8, P::THREADS / 32);
            for (int g = 0; SCALED && g < GROUPS; g++)
                barrierInit(base + P::TURN + g * 8, 4);
            barriersReady();
            fenceShared();
        }
        __syncwarp();
        clusterArrive();
        Parts<N, P::TILES, P::BLOCKS> parts(w.a);
        if (helper == 0)
            feed<F8, N, GROUPS, STEPS, SPLIT, true, P::FEEDING == 1, TURNED, SCALED>(w, base, parts);
        else if (helper < P::FEEDING)
            feed<F8, N, GROUPS, STEPS, SPLIT, false, true, TURNED, SCALED>(w, base, parts);
        else {
            clusterWait();
            if (P::AWAY && helper == P::FEEDING)
                drain<F8, N, GROUPS, STEPS, SPLIT, TURNED, SCALED>(w, base, parts);
            if constexpr (TURNED)
                if (helper > P::FEEDING)
                    cacheRows<P>(w, base, Span<F8, SPLIT>(w.a, 0).count / STEPS, parts);
        }
    } else {
        if constexpr (GROUPS == 2)
            moreRegisters<232>();
        if constexpr (GROUPS == 3)
            moreRegisters<160>();
        if constexpr (GROUPS == 4)
            moreRegisters<112>();
        clusterArrive();
        Parts<N, P::TILES, P::BLOCKS> parts(w.a);
        clusterWait();
        waitForRows();
        if constexpr (P::ROWS_FIRST)
            multiplyRows<N, GROUPS>(w, unaligned + skip, base, parts);
        else if constexpr (SCALED)
            multiplyScaled<N, GROUPS, SPLIT>(w, unaligned + skip, base, parts);
        else
            multiply<F8, N, GROUPS, STEPS, SPLIT, TURNED>(w, unaligned + skip, base, parts);
    }
    if (!SPLIT)
        clusterSync(); // a block's shared memory must stay until the other copies nothing to it
}

#define WGMMA_KERNEL(NAME, F8, N, GROUPS, STEPS, SPLIT)                                                                \
    KERNEL __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(128 * GROUPS + 128, 1)                                    \
        NAME(const __grid_constant__ ArgsOf<F8>::type w) {                                                             \
        gemmWgmma<F8, N, GROUPS, STEPS, SPLIT>(w);                                                                     \
    }
