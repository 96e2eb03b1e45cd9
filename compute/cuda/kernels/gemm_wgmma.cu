// Products of more than a few rows on Hopper, with wgmma. A block has one warp that fetches and one or two warpgroups
// that multiply. Weights come as they are stored, by bulk copies, and go from shared memory to registers, the operand
// A; rows come as boxes of a tensor map. Blocks stay: each takes one part of the results after the other, and fetches
// ahead while it stores. How many copies a multiprocessor can begin bounds products of few rows, so that a copy brings
// STEPS steps.
//
// The two blocks of a cluster take different outputs of the same rows; each fetches half of those for both. Where
// there are too few parts for all multiprocessors, they take the two ranges of inputs of one part instead (SPLIT), and
// the second one gives its sums to the first.
#include "barrier.cuh"
#include "gemm.cuh"

#define DEPTH 64  // inputs of a step
#define CLUSTER 2 // blocks of a cluster

struct WgmmaArgs {
    TensorMap x;
    GemmArgs a;
    float *sums; // of ranges, [blocks, 128, 256], for kernels of 256 rows if there are several ranges
};

// Operands of wgmma: S0 to S7 name 16 sums each, of which D64 writes 64.
#define D4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define D16(i) D4(i), D4(i + 4), D4(i + 8), D4(i + 12)
#define D32(i) D16(i), D16(i + 16)
#define D64(i) D32(i), D32(i + 32)
#define S0 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
#define S1 ",%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define S2 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47"
#define S3 ",%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define S4 ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79"
#define S5 ",%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"
#define S6 ",%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111"
#define S7 ",%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
#define WGMMA(N, SUMS, A, B, P, OUTPUTS)                                                                              \
    asm volatile("{\n.reg .pred p;\nsetp.eq.u32 p, " P ", 0;\n"                                                       \
                 "wgmma.mma_async.sync.aligned.m64n" N "k16.f32.bf16.bf16 {" SUMS "}, {" A "}, " B ", p, 1, 1, 0;\n}" \
                 : OUTPUTS                                                                                            \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((u32)fresh))
#define SUMS_64 D64(0)
#define SUMS_128 D64(0), D64(64)

// wgmma adds A·B to d: A is a warpgroup's 64 by 16, of which a warp has 16 rows as for mma; B is 16 by N in shared
// memory, as N rows of 16 inputs. Of d, d[4j..4j+3] is what mma would have of columns 8j to 8j+7. fresh: d counts as
// zero.
template <int N> __device__ __forceinline__ void wgmma(float (&d)[N / 2], const u32 (&a)[4], u64 b, bool fresh) {
    if constexpr (N == 32)
        WGMMA("32", S0, "%16,%17,%18,%19", "%20", "%21", D16(0));
    else if constexpr (N == 64)
        WGMMA("64", S0 S1, "%32,%33,%34,%35", "%36", "%37", D32(0));
    else if constexpr (N == 128)
        WGMMA("128", S0 S1 S2 S3, "%64,%65,%66,%67", "%68", "%69", SUMS_64);
    else
        WGMMA("256", S0 S1 S2 S3 S4 S5 S6 S7, "%128,%129,%130,%131", "%132", "%133", SUMS_128);
}

// describe makes the descriptor of rows of 128 bytes in shared memory, whose 16-byte units are swizzled in groups of
// eight rows.
__device__ __forceinline__ u64 describe(u32 shared) {
    return (u64)(shared >> 4 & 0x3fff) | (u64)1 << 16 | (u64)(1024 >> 4) << 32 | (u64)1 << 62;
}

__device__ __forceinline__ int clusterRank() {
    int rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

// fetchBox copies a box of a tensor map to shared memory, and counts at the barrier; if both, to the same places in all
// blocks of the cluster.
__device__ __forceinline__ void fetchBox(u32 to, const TensorMap &map, int row, int step, u32 barrier, bool both) {
    if (both)
        asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
                     " [%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(to), "l"(&map), "r"(0), "r"(row), "r"(step), "r"(barrier),
                     "h"((u16)((1 << CLUSTER) - 1))
                     : "memory");
    else
        asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                     " [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(to), "l"(&map), "r"(0), "r"(row), "r"(step), "r"(barrier)
                     : "memory");
}

// Plan says how a kernel cuts its work and its shared memory.
template <int N, int GROUPS, int STEPS, bool SPLIT> struct Plan {
    static constexpr int OUTS = 64 * GROUPS, TILES = 4 * GROUPS, THREADS = 128 * GROUPS; // threads that multiply
    static constexpr int BLOCKS = SPLIT ? 1 : CLUSTER;                                   // of a cluster, of different outputs
    static constexpr int ROWS_BYTES = STEPS * N * DEPTH * 2, WEIGHT_BYTES = STEPS * TILES * RECORD; // of a stage
    static constexpr int CHUNK = N == 32 || N >= 128 && GROUPS == 2 && !SPLIT ? 32 : 64, PITCH = OUTS + 4; // rows that are stored at once
    static constexpr int STAGED = CHUNK * PITCH * 4;
    static constexpr int ROOM = 232448 - 1024 - 256 - STAGED; // of 227 KB
    static constexpr int FIT = ROOM / (ROWS_BYTES + WEIGHT_BYTES), STAGES = FIT < 14 ? FIT : 14;
    static_assert(STAGES >= 2);
    // In shared memory, from its first multiple of 1024 on:
    static constexpr int WEIGHTS = STAGES * ROWS_BYTES, RESULTS = WEIGHTS + STAGES * WEIGHT_BYTES;
    static constexpr int FULL = RESULTS + STAGED, EMPTY = FULL + STAGES * 8; // barriers of the stages
    static constexpr int GIVEN = EMPTY + STAGES * 8, TAKEN = GIVEN + 8;      // and of sums that one block gives the other
};

// Span is the steps that a block multiplies.
template <bool SPLIT> struct Span {
    int begin, count;

    __device__ __forceinline__ Span(const GemmArgs &a, int rank) {
        int steps = a.tilesIn / 4;
        begin = 0, count = steps;
        if constexpr (SPLIT)
            begin = rangeStart(steps, CLUSTER, rank), count = rangeStart(steps, CLUSTER, rank + 1) - begin;
    }
};

// Part is what a cluster multiplies next: rows from row0 on and tiles of outputs from tile0 on, those of this block.
struct Part {
    int row0, tile0;
};

// partOf returns part t of a product. Blocks of rows are taken in bands, so that those at work at a time share both
// rows and weights in the cache.
template <int N, typename P> __device__ __forceinline__ Part partOf(int t, int rowBlocks, int outBlocks, int rank) {
    constexpr int BAND = 8;
    int band = t / (BAND * outBlocks), rows = min(BAND, rowBlocks - band * BAND), in = t - band * BAND * outBlocks;
    return {(band * BAND + in % rows) * N, (in / rows * P::BLOCKS + rank % P::BLOCKS) * P::TILES};
}

// feed is the work of the warp that fetches. The weights of the first stages come before the rows are there.
template <int N, int GROUPS, int STEPS, bool SPLIT>
__device__ __forceinline__ void feed(const WgmmaArgs &w, u32 base, int parts, int rowBlocks, int outBlocks) {
    using P = Plan<N, GROUPS, STEPS, SPLIT>;
    const GemmArgs &a = w.a;
    int lane = threadIdx.x % 32, rank = clusterRank(), stage = 0;
    Span<SPLIT> own(a, rank);
    int stages = own.count / STEPS; // of a part
    u32 full = base + P::FULL, empty = base + P::EMPTY, parity = 1;
    const u8 *from;
    auto begin = [&](Part part) {
        Place at = placeOf(a, part.tile0 + lane % P::TILES);
        from = a.p[max(at.product, 0)].w + ((i64)(at.product < 0 ? 0 : at.tile) * (a.tilesIn / 4) + own.begin) * RECORD;
    };
    auto weights = [&](int s, int stage) {
        if (lane == 0)
            barrierExpect(full + stage * 8, P::ROWS_BYTES + P::WEIGHT_BYTES);
        __syncwarp();
        if (lane < P::TILES)
            fetch(base + P::WEIGHTS + stage * P::WEIGHT_BYTES + lane * STEPS * RECORD, from + (i64)s * STEPS * RECORD, STEPS * RECORD, full + stage * 8);
    };
    int t = blockIdx.x / CLUSTER, ahead = min(P::STAGES, stages);
    if (t < parts) {
        begin(partOf<N, P>(t, rowBlocks, outBlocks, rank));
        for (int s = 0; s < ahead; s++)
            weights(s, s);
    }
    waitForRows();
    for (; t < parts; t += gridDim.x / CLUSTER) {
        Part part = partOf<N, P>(t, rowBlocks, outBlocks, rank);
        begin(part);
        // What results are added to is called to the cache meanwhile: 32 numbers a lane, of four lanes a row.
        Place added = placeOf(a, part.tile0 + lane % 4 * 2);
        for (int s = 0; s < stages; s++) {
            barrierWait(empty + stage * 8, parity);
            if (s >= ahead)
                weights(s, stage);
            u32 to = base + stage * P::ROWS_BYTES;
            int step = own.begin + s * STEPS;
            if (lane == 0) {
                if constexpr (SPLIT)
                    fetchBox(to, w.x, part.row0, step, full + stage * 8, false);
                else if constexpr (STEPS > 1) // a block fetches half of the steps for both
                    fetchBox(to + rank * (P::ROWS_BYTES / CLUSTER), w.x, part.row0, step + rank * (STEPS / CLUSTER), full + stage * 8, true);
                else // or half of the rows
                    fetchBox(to + rank * (P::ROWS_BYTES / CLUSTER), w.x, part.row0 + rank * (N / CLUSTER), step, full + stage * 8, true);
            }
            int row = part.row0 + s * 8 + lane / 4;
            if (a.mode == ADD && s < N / 8 && row < a.rows && added.product >= 0 && (GROUPS == 2 || lane % 4 < 2) && (!SPLIT || rank == 0)) {
                const Rows &dst = a.p[added.product].dst;
                if (dst.wide)
                    asm volatile("prefetch.global.L2 [%0];" ::"l"((const float *)dst.at + (i64)row * dst.ld + added.tile * 16));
            }
            if (++stage == P::STAGES)
                stage = 0, parity ^= 1;
        }
        ahead = 0;
    }
    letNextBegin();
}

// four is 4 results of neighbouring outputs.
struct alignas(16) four {
    float v[4];
};

// Column is where a thread stores: 4 outputs, of which it knows all but the row.
struct Column {
    int product, out, n; // n: how many of the 4 are there
    bool vector;         // the 4 can be stored at once
    four bias, upBias;

    __device__ __forceinline__ Column(const GemmArgs &a, int tile, int in) {
        Place at = placeOf(a, tile);
        product = max(at.product, 0), out = at.tile * 16 + in, n = at.product < 0 ? 0 : min(4, a.p[product].outs - out);
        const Product &p = a.p[product];
        vector = n == 4 && ((u64)p.dst.at | p.dst.ld * (p.dst.wide ? 4 : 2)) % (p.dst.wide ? 16 : 8) == 0;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            bias.v[i] = p.bias && i < n ? p.bias[out + i] : 0;
            upBias.v[i] = a.mode == GATED && a.p[1].bias && i < n ? a.p[1].bias[out + i] : 0;
        }
    }

    __device__ __forceinline__ void get(const Rows &dst, int row, four &x) const {
        if (vector && dst.wide) {
            x = *(const four *)((const float *)dst.at + (i64)row * dst.ld + out);
            return;
        }
#pragma unroll
        for (int i = 0; i < 4; i++)
            x.v[i] = i < n ? ::get(dst, row, out + i) : 0;
    }

    __device__ __forceinline__ void put(const Rows &dst, int row, const four &x) const {
        if (vector && dst.wide)
            *(four *)((float *)dst.at + (i64)row * dst.ld + out) = x;
        else if (vector)
            *(uint2 *)((bf16 *)dst.at + (i64)row * dst.ld + out) = make_uint2(packBF16(x.v[0], x.v[1]), packBF16(x.v[2], x.v[3]));
        else
#pragma unroll
            for (int i = 0; i < 4; i++)
                if (i < n)
                    ::put(dst, row, out + i, x.v[i]);
    }
};

__device__ __forceinline__ void barrierOf(int n, int threads) { asm volatile("bar.sync %0, %1;" ::"r"(n), "r"(threads) : "memory"); }

// Sums that the second block of a cluster gives the first go through the first's shared memory, CHUNK rows at a time,
// [CHUNK/8][THREADS] of four sums.

__device__ __forceinline__ u32 sharedOf(u32 at, int rank) {
    u32 there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(at), "r"(rank));
    return there;
}

// barrierTell arrives at a barrier of another block; what the thread wrote there before is seen by barrierHear.
__device__ __forceinline__ void barrierTell(u32 at, int rank) {
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(sharedOf(at, rank)) : "memory");
}

__device__ __forceinline__ void barrierHear(u32 at, u32 parity) {
    asm volatile("{\n.reg .pred p;\nagain:\n"
                 "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], %1;\n@!p bra again;\n}" ::"r"(at), "r"(parity)
                 : "memory");
}

// giveSums gives the first block the sums of the second.
template <int N, typename P> __device__ __forceinline__ void giveSums(u32 base, const float (&d)[N / 2], u32 &parity) {
    u32 to = sharedOf(base + P::RESULTS, 0) + threadIdx.x * 16;
#pragma unroll
    for (int c = 0; c < N / P::CHUNK; c++) {
        barrierHear(base + P::TAKEN, parity ^ 1); // those before are taken
#pragma unroll
        for (int i = 0; i < P::CHUNK / 8; i++) {
            const float *x = d + c * (P::CHUNK / 2) + i * 4;
            asm volatile("st.shared::cluster.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(to + i * P::THREADS * 16), "f"(x[0]), "f"(x[1]), "f"(x[2]), "f"(x[3]) : "memory");
        }
        barrierTell(base + P::GIVEN, 0);
        parity ^= 1;
    }
}

// gate makes act(x)·up of all numbers: SILU of all at once, with a reciprocal that needs no branches where it is that of
// a division.
template <int COUNT> __device__ __forceinline__ void gate(int act, four (&x)[COUNT], const four (&up)[COUNT]) {
    float y[COUNT * 4];
    bool plain = act == SILU;
#pragma unroll
    for (int i = 0; i < COUNT * 4; i++) {
        y[i] = 1.f + exp2Fast(-x[i / 4].v[i % 4] * LOG2E);
        plain = plain && y[i] < 0x1p126f;
    }
    if (plain) {
#pragma unroll
        for (int i = 0; i < COUNT * 4; i++) {
            float r;
            asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(y[i]));
            r = fmaf(fmaf(-y[i], r, 1.f), r, r);
            x[i / 4].v[i % 4] = x[i / 4].v[i % 4] * r * up[i / 4].v[i % 4];
        }
    } else {
#pragma unroll
        for (int i = 0; i < COUNT * 4; i++)
            x[i / 4].v[i % 4] = activate(act, x[i / 4].v[i % 4], up[i / 4].v[i % 4]);
    }
}

// storePart makes the sums of a part results and stores them, CHUNK rows at a time, through shared memory, so that
// neighbouring threads store neighbouring outputs. With SPLIT it adds those of the other block first.
template <int N, typename P, bool SPLIT>
__device__ __forceinline__ void storePart(const GemmArgs &a, u32 base, float *staged, float (&d)[N / 2], Part part, u32 &given) {
    constexpr int UNITS = P::OUTS / 4;
    int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
    float *to = staged + lane % 4 * 2 * P::PITCH + warp * 16 + lane / 4;
    bool gated = a.mode == GATED;
    // A thread stores the same 4 outputs of every eighth row, or sixteenth where half of the outputs are a gate's.
    int unit = gated ? thread % (UNITS / 2) : thread % UNITS, first = gated ? thread / (UNITS / 2) : thread / UNITS;
    int from = gated ? unit / 4 * 32 + unit % 4 * 4 : unit * 4;
    Column at(a, part.tile0 + from / 16, from % 16);
    const Rows &dst = a.p[at.product].dst;
    four old[P::CHUNK / 8]; // what a chunk is added to, which comes while the chunk before is stored
    auto getOld = [&](int row0) {
        if (a.mode == ADD)
#pragma unroll
            for (int i = 0; i < P::CHUNK / 8; i++)
                if (row0 + first + i * 8 < min(a.rows, part.row0 + N))
                    at.get(dst, row0 + first + i * 8, old[i]);
    };
    getOld(part.row0);
#pragma unroll 1
    for (int c = 0; c < N / P::CHUNK; c++) {
        int row0 = part.row0 + c * P::CHUNK;
        if constexpr (SPLIT) {
            barrierHear(base + P::GIVEN, given);
            given ^= 1;
        }
#pragma unroll
        for (int of = 0; of < N / P::CHUNK; of++)
            if (of == c) {
                float *sums = d + of * (P::CHUNK / 2);
                if constexpr (SPLIT) {
#pragma unroll
                    for (int i = 0; i < P::CHUNK / 8; i++) {
                        four other = ((const four *)staged)[i * P::THREADS + thread];
#pragma unroll
                        for (int j = 0; j < 4; j++)
                            sums[i * 4 + j] = 0.f + sums[i * 4 + j] + other.v[j];
                    }
                    barrierOf(1, P::THREADS);
                }
#pragma unroll
                for (int i = 0; i < P::CHUNK / 2; i++)
                    to[(i / 4 * 8 + i % 2) * P::PITCH + i / 2 % 2 * 8] = sums[i];
            }
        barrierOf(1, P::THREADS);
        if (gated) {
            constexpr int GO = 2; // rows at once
#pragma unroll 1
            for (int i = 0; i < P::CHUNK / 16; i += GO) {
                four x[GO], up[GO];
#pragma unroll
                for (int k = 0; k < GO; k++) {
                    const float *row = staged + (first + (i + k) * 16) * P::PITCH + from;
                    x[k] = *(const four *)row, up[k] = *(const four *)(row + 16);
#pragma unroll
                    for (int j = 0; j < 4; j++) {
                        if (a.p[0].bias)
                            x[k].v[j] = x[k].v[j] + at.bias.v[j];
                        if (a.p[1].bias)
                            up[k].v[j] = up[k].v[j] + at.upBias.v[j];
                    }
                }
                gate(a.act, x, up);
#pragma unroll
                for (int k = 0; k < GO; k++)
                    if (row0 + first + (i + k) * 16 < a.rows)
                        at.put(dst, row0 + first + (i + k) * 16, x[k]);
            }
        } else {
            constexpr int GO = 4; // rows at once
#pragma unroll
            for (int i = 0; i < P::CHUNK / 8; i += GO) {
                four x[GO];
#pragma unroll
                for (int k = 0; k < GO; k++)
                    x[k] = *(const four *)(staged + (first + (i + k) * 8) * P::PITCH + from);
                if (a.p[at.product].bias)
#pragma unroll
                    for (int k = 0; k < GO; k++)
#pragma unroll
                        for (int j = 0; j < 4; j++)
                            x[k].v[j] = x[k].v[j] + at.bias.v[j];
#pragma unroll
                for (int k = 0; k < GO; k++) {
#pragma unroll
                    for (int j = 0; j < 4; j++) {
                        x[k].v[j] = x[k].v[j] * a.scale;
                        if (a.mode == ADD)
                            x[k].v[j] = old[i + k].v[j] + x[k].v[j];
                    }
                    if (row0 + first + (i + k) * 8 < a.rows)
                        at.put(dst, row0 + first + (i + k) * 8, x[k]);
                }
            }
            getOld(row0 + P::CHUNK);
        }
        barrierOf(1, P::THREADS);
        if (SPLIT && thread == 0)
            barrierTell(base + P::TAKEN, 1);
    }
}

// multiply is the work of the warpgroups that multiply.
template <int N, int GROUPS, int STEPS, bool SPLIT>
__device__ __forceinline__ void multiply(const WgmmaArgs &w, u8 *shared, u32 base, int parts, int rowBlocks, int outBlocks) {
    using P = Plan<N, GROUPS, STEPS, SPLIT>;
    const GemmArgs &a = w.a;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, rank = clusterRank(), stage = 0;
    Span<SPLIT> own(a, rank);
    u32 full = base + P::FULL, empty = base + P::EMPTY, parity = 0, sumsParity = 0;
    const u8 *weights = shared + P::WEIGHTS + warp * STEPS * RECORD;
    float d[N / 2];
    u32 wf[2][4][4]; // operands of a step: one is multiplied while the next is made
    Weights<FORMAT> codes;
    auto load = [&](u32(&wf)[4][4], int j) { // step j of the stage
        if (j == 0)
            barrierWait(full + stage * 8, parity);
        codes.template load<false>(weights + stage * P::WEIGHT_BYTES + j * RECORD, lane);
#pragma unroll
        for (int k = 0; k < 4; k++) {
            codes.tile(k, wf[k]);
#pragma unroll
            for (int i = 0; i < 4; i++)
                asm volatile("" : "+r"(wf[k][i])); // here and not later
        }
    };
    auto release = [&](int stage) { // it is free where blocks that fetch it for each other have both read it
        if (lane < P::BLOCKS)
            barrierArrive(empty + stage * 8, SPLIT ? rank : lane);
    };
    auto before = [&] { return stage == 0 ? P::STAGES - 1 : stage - 1; };
    // Sums of ranges: in registers, or where those are too few, in memory.
    constexpr bool AWAY = N == 256;
    float total[AWAY || SPLIT ? 1 : N / 2];
    float *away = AWAY ? w.sums + (i64)blockIdx.x * (N / 2) * 128 * GROUPS + threadIdx.x : nullptr;
    int ranges = SPLIT ? 1 : a.ranges;
    for (int t = blockIdx.x / CLUSTER; t < parts; t += gridDim.x / CLUSTER) {
        load(wf[0], 0);
        for (int range = 0, s = 0; range < ranges; range++) {
            int begin = s, end = SPLIT ? own.count : rangeStart(own.count, ranges, range + 1);
            auto step = [&](const u32(&now)[4][4], u32(&next)[4][4], int j) {
                u64 rows = describe(base + stage * P::ROWS_BYTES + j * (P::ROWS_BYTES / STEPS));
                asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
                for (int k = 0; k < 4; k++)
                    wgmma<N>(d, now[k], rows + k * 2, s == begin && k == 0); // each range's chain starts from zero
                asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 1;" ::: "memory");
                if (j == 0 && s > 0)
                    release(before());
                if (j == STEPS - 1 && ++stage == P::STAGES)
                    stage = 0, parity ^= 1;
                if (++s < own.count)
                    load(next, (j + 1) % STEPS);
            };
#pragma unroll 1
            while (s < end) { // a multiple of 4 steps, as all are
#pragma unroll
                for (int u = 0; u < (STEPS < 2 ? 2 : STEPS); u += 2) {
                    step(wf[0], wf[1], u % STEPS);
                    step(wf[1], wf[0], (u + 1) % STEPS);
                }
            }
            asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
            for (int i = 0; i < N / 2; i++)
                asm volatile("" : "+f"(d[i])::"memory"); // not before wgmma is done
#pragma unroll
            for (int i = 0; i < N / 2; i++) {
                if constexpr (AWAY)
                    d[i] = (range == 0 ? 0.f : away[i * 128 * GROUPS]) + d[i];
                else if constexpr (!SPLIT)
                    total[i] = (range == 0 ? 0.f : total[i]) + d[i];
            }
            if (AWAY && range < ranges - 1)
#pragma unroll
                for (int i = 0; i < N / 2; i++)
                    away[i * 128 * GROUPS] = d[i];
        }
        release(before());
        Part part = partOf<N, P>(t, rowBlocks, outBlocks, rank);
        float *staged = (float *)(shared + P::RESULTS);
        if constexpr (AWAY || SPLIT) {
            if (SPLIT && rank > 0)
                giveSums<N, P>(base, d, sumsParity);
            else
                storePart<N, P, SPLIT>(a, base, staged, d, part, sumsParity);
        } else {
            storePart<N, P, SPLIT>(a, base, staged, total, part, sumsParity);
        }
    }
}

// A multiple of CLUSTER blocks of 128 threads for each warpgroup that multiplies, and 128 more. Inputs are a multiple
// of 256; with SPLIT there are two ranges.
template <int N, int GROUPS, int STEPS, bool SPLIT> __device__ __forceinline__ void gemmWgmma(const WgmmaArgs &w) {
    using P = Plan<N, GROUPS, STEPS, SPLIT>;
    extern __shared__ u8 unaligned[];
    u32 base = sharedAddress(unaligned), skip = (1024 - base % 1024) % 1024;
    base += skip;
    if (threadIdx.x == 0) {
        for (int s = 0; s < P::STAGES; s++) {
            barrierInit(base + P::FULL + s * 8, 1);
            barrierInit(base + P::EMPTY + s * 8, P::BLOCKS * GROUPS * 4);
        }
        barrierInit(base + P::GIVEN, P::THREADS);
        barrierInit(base + P::TAKEN, 1);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    clusterSync();
    int tiles = 0;
    for (int i = 0; i < w.a.products; i++)
        tiles += w.a.p[i].tiles;
    int rowBlocks = (w.a.rows + N - 1) / N, outBlocks = (tiles + P::TILES * P::BLOCKS - 1) / (P::TILES * P::BLOCKS);
    int parts = rowBlocks * outBlocks;
    if (threadIdx.x >= P::THREADS) {
        if constexpr (GROUPS == 2)
            asm volatile("setmaxnreg.dec.sync.aligned.u32 56;");
        if (threadIdx.x < P::THREADS + 32)
            feed<N, GROUPS, STEPS, SPLIT>(w, base, parts, rowBlocks, outBlocks);
    } else {
        if constexpr (GROUPS == 2)
            asm volatile("setmaxnreg.inc.sync.aligned.u32 224;");
        waitForRows();
        multiply<N, GROUPS, STEPS, SPLIT>(w, unaligned + skip, base, parts, rowBlocks, outBlocks);
    }
    clusterSync(); // a block's memory stays until the other copies nothing to it
}

#define WGMMA_KERNEL(NAME, N, GROUPS, STEPS, SPLIT)                                                                    \
    KERNEL __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(128 * GROUPS + 128, 1)                                    \
        NAME(const __grid_constant__ WgmmaArgs w) {                                                                    \
        gemmWgmma<N, GROUPS, STEPS, SPLIT>(w);                                                                         \
    }

WGMMA_KERNEL(gemm_wgmma_128x256, 256, 2, 1, false)
WGMMA_KERNEL(gemm_wgmma_128x128, 128, 2, 2, false)
WGMMA_KERNEL(gemm_wgmma_128x64, 64, 2, 2, false)
WGMMA_KERNEL(gemm_wgmma_128x32, 32, 2, 2, false)
WGMMA_KERNEL(gemm_wgmma_64x128, 128, 1, 2, false)
WGMMA_KERNEL(gemm_wgmma_64x64, 64, 1, 2, false)
WGMMA_KERNEL(gemm_wgmma_128x128_split, 128, 2, 2, true)
WGMMA_KERNEL(gemm_wgmma_64x128_split, 128, 1, 2, true)
WGMMA_KERNEL(gemm_wgmma_64x64_split, 64, 1, 2, true)
WGMMA_KERNEL(gemm_wgmma_64x32_split, 32, 1, 4, true)
