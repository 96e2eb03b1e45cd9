// Products of more than a few rows on Hopper, with wgmma. A block has one warp that fetches and one or two warpgroups
// that multiply. Weights come as they are stored, by bulk copies, and go from shared memory to registers, the operand
// A; rows come as boxes of a tensor map, each for both blocks of a cluster, which take different outputs of the same
// rows. Blocks stay: each takes one part of the results after the other, and fetches ahead while it stores.
#include "gemm.cuh"

#define DEPTH 64  // inputs of a step
#define CLUSTER 2 // blocks of a cluster

// TensorMap is a CUtensorMap: where boxes of DEPTH inputs by rows lie, swizzled for wgmma.
struct alignas(64) TensorMap {
    u64 words[16];
};

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
    if constexpr (N == 64)
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

// Barriers in shared memory count arrivals, and bytes that copies bring.

__device__ __forceinline__ void barrierInit(u32 at, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(arrivals) : "memory");
}

// barrierExpect arrives, and lets the phase end only after so many bytes.
__device__ __forceinline__ void barrierExpect(u32 at, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at), "r"(bytes) : "memory");
}

// barrierArrive arrives at a barrier of block `rank` of the cluster.
__device__ __forceinline__ void barrierArrive(u32 at, int rank) {
    asm volatile("{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [there];\n}" ::"r"(at), "r"(rank)
                 : "memory");
}

// barrierWait waits until the phase of a parity has ended.
__device__ __forceinline__ void barrierWait(u32 at, u32 parity) {
    asm volatile("{\n.reg .pred p;\nagain:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@!p bra again;\n}" ::"r"(at), "r"(parity)
                 : "memory");
}

__device__ __forceinline__ void clusterSync() {
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

__device__ __forceinline__ int clusterRank() {
    int rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

// fetch copies bytes to shared memory in the background; they count at the barrier.
__device__ __forceinline__ void fetch(u32 to, const void *from, int bytes, u32 barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), "l"(from),
                 "r"(bytes), "r"(barrier)
                 : "memory");
}

// fetchBox copies a box of a tensor map to the same place in all blocks of the cluster, and counts there.
__device__ __forceinline__ void fetchBox(u32 to, const TensorMap &map, int in, int row, u32 barrier) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
                 " [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to), "l"(&map), "r"(in), "r"(row), "r"(barrier),
                 "h"((u16)((1 << CLUSTER) - 1))
                 : "memory");
}

// Plan says how a kernel cuts its work and its shared memory: GROUPS warpgroups multiply 64 outputs each by N rows.
template <int N, int GROUPS> struct Plan {
    static constexpr int OUTS = 64 * GROUPS, TILES = 4 * GROUPS;
    static constexpr int ROWS_BYTES = N * DEPTH * 2, WEIGHT_BYTES = TILES * RECORD;
    static constexpr int CHUNK = N < 64 ? N : 64, PITCH = OUTS + 4; // rows that are stored at once
    static constexpr int STAGED = CHUNK * PITCH * 4;
    static constexpr int ROOM = 232448 - 1024 - 256 - STAGED; // of 227 KB
    static constexpr int FIT = ROOM / (ROWS_BYTES + WEIGHT_BYTES), STAGES = FIT < 14 ? FIT : 14;
    // In shared memory, from its first multiple of 1024 on:
    static constexpr int WEIGHTS = STAGES * ROWS_BYTES, RESULTS = WEIGHTS + STAGES * WEIGHT_BYTES;
    static constexpr int BARRIERS = RESULTS + STAGED; // full, then empty
};

// Part is what a cluster multiplies next: rows from row0 on and tiles of outputs from tile0 on, those of this block.
struct Part {
    int row0, tile0;
};

// partOf returns part t of a product. Blocks of rows are taken in bands, so that those at work at a time share both
// rows and weights in the cache.
template <int N, int GROUPS> __device__ __forceinline__ Part partOf(int t, int rowBlocks, int outBlocks, int rank) {
    constexpr int BAND = 8;
    int band = t / (BAND * outBlocks), rows = min(BAND, rowBlocks - band * BAND), in = t - band * BAND * outBlocks;
    return {(band * BAND + in % rows) * N, (in / rows * CLUSTER + rank) * Plan<N, GROUPS>::TILES};
}

// feed is the work of the warp that fetches.
template <int N, int GROUPS>
__device__ __forceinline__ void feed(const WgmmaArgs &w, u32 base, int parts, int rowBlocks, int outBlocks) {
    using P = Plan<N, GROUPS>;
    const GemmArgs &a = w.a;
    int lane = threadIdx.x % 32, rank = clusterRank(), steps = a.tilesIn / 4, stage = 0;
    u32 full = base + P::BARRIERS, empty = full + P::STAGES * 8, parity = 1;
    for (int t = blockIdx.x / CLUSTER; t < parts; t += gridDim.x / CLUSTER) {
        Part part = partOf<N, GROUPS>(t, rowBlocks, outBlocks, rank);
        Place own = placeOf(a, part.tile0 + lane % P::TILES);
        const u8 *from = a.p[max(own.product, 0)].w + (i64)(own.product < 0 ? 0 : own.tile) * steps * RECORD;
        // What results are added to is called to the cache meanwhile: 32 numbers a lane, of four lanes a row.
        Place added = placeOf(a, part.tile0 + lane % 4 * 2);
        for (int s = 0; s < steps; s++) {
            barrierWait(empty + stage * 8, parity);
            if (lane == 0)
                barrierExpect(full + stage * 8, P::ROWS_BYTES + P::WEIGHT_BYTES);
            __syncwarp();
            if (lane < P::TILES)
                fetch(base + P::WEIGHTS + stage * P::WEIGHT_BYTES + lane * RECORD, from + (i64)s * RECORD, RECORD, full + stage * 8);
            if (lane == 0)
                fetchBox(base + stage * P::ROWS_BYTES + rank * (P::ROWS_BYTES / CLUSTER), w.x, s * DEPTH,
                         part.row0 + rank * (N / CLUSTER), full + stage * 8);
            int row = part.row0 + s * 8 + lane / 4;
            if (a.mode == ADD && s < N / 8 && row < a.rows && added.product >= 0 && (GROUPS == 2 || lane % 4 < 2)) {
                const Rows &dst = a.p[added.product].dst;
                if (dst.wide)
                    asm volatile("prefetch.global.L2 [%0];" ::"l"((const float *)dst.at + (i64)row * dst.ld + added.tile * 16));
            }
            if (++stage == P::STAGES)
                stage = 0, parity ^= 1;
        }
    }
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

__device__ __forceinline__ void barrierOfGroups(int threads) { asm volatile("bar.sync 1, %0;" ::"r"(threads) : "memory"); }

// storeParts makes the sums of a part results and stores them, CHUNK rows at a time, through shared memory, so that
// neighbouring threads store neighbouring outputs.
template <int N, int GROUPS>
__device__ __forceinline__ void storePart(const GemmArgs &a, float *staged, const float (&d)[N / 2], Part part) {
    using P = Plan<N, GROUPS>;
    constexpr int THREADS = 128 * GROUPS, UNITS = P::OUTS / 4;
    int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
    float *to = staged + lane % 4 * 2 * P::PITCH + warp * 16 + lane / 4;
    bool gated = a.mode == GATED;
    // A thread stores the same 4 outputs of every eighth row, or sixteenth where half of the outputs are a gate's.
    int unit = gated ? thread % (UNITS / 2) : thread % UNITS, first = gated ? thread / (UNITS / 2) : thread / UNITS;
    int from = gated ? unit / 4 * 32 + unit % 4 * 4 : unit * 4;
    Column at(a, part.tile0 + from / 16, from % 16);
    const Rows &dst = a.p[at.product].dst;
#pragma unroll 1
    for (int c = 0; c < N / P::CHUNK; c++) {
        int row0 = part.row0 + c * P::CHUNK;
        four old[P::CHUNK / 8];
        if (a.mode == ADD)
#pragma unroll
            for (int i = 0; i < P::CHUNK / 8; i++)
                if (row0 + first + i * 8 < a.rows)
                    at.get(dst, row0 + first + i * 8, old[i]);
#pragma unroll
        for (int of = 0; of < N / P::CHUNK; of++)
            if (of == c)
#pragma unroll
                for (int i = 0; i < P::CHUNK / 2; i++)
                    to[(i / 4 * 8 + i % 2) * P::PITCH + i / 2 % 2 * 8] = d[of * (P::CHUNK / 2) + i];
        barrierOfGroups(THREADS);
        if (gated) {
#pragma unroll 1
            for (int i = 0; i < P::CHUNK / 16; i++) {
                int row = first + i * 16;
                four gate = *(const four *)(staged + row * P::PITCH + from), up = *(const four *)(staged + row * P::PITCH + from + 16);
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    if (a.p[0].bias)
                        gate.v[j] = gate.v[j] + at.bias.v[j];
                    if (a.p[1].bias)
                        up.v[j] = up.v[j] + at.upBias.v[j];
                    gate.v[j] = activate(a.act, gate.v[j], up.v[j]);
                }
                if (row0 + row < a.rows)
                    at.put(dst, row0 + row, gate);
            }
        } else {
#pragma unroll
            for (int i = 0; i < P::CHUNK / 8; i++) {
                int row = first + i * 8;
                four x = *(const four *)(staged + row * P::PITCH + from);
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    if (a.p[at.product].bias)
                        x.v[j] = x.v[j] + at.bias.v[j];
                    x.v[j] = x.v[j] * a.scale;
                    if (a.mode == ADD)
                        x.v[j] = old[i].v[j] + x.v[j];
                }
                if (row0 + row < a.rows)
                    at.put(dst, row0 + row, x);
            }
        }
        barrierOfGroups(THREADS);
    }
}

// multiply is the work of the warpgroups that multiply.
template <int N, int GROUPS>
__device__ __forceinline__ void multiply(const WgmmaArgs &w, u8 *shared, u32 base, int parts, int rowBlocks, int outBlocks) {
    using P = Plan<N, GROUPS>;
    const GemmArgs &a = w.a;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, rank = clusterRank(), steps = a.tilesIn / 4, stage = 0;
    u32 full = base + P::BARRIERS, empty = full + P::STAGES * 8, parity = 0;
    const u8 *weights = shared + P::WEIGHTS + warp * RECORD;
    float d[N / 2];
    u32 wf[2][4][4]; // operands of a step: one is multiplied while the next is made
    Weights<FORMAT> codes;
    auto load = [&](u32(&wf)[4][4]) {
        barrierWait(full + stage * 8, parity);
        codes.template load<false>(weights + stage * P::WEIGHT_BYTES, lane);
#pragma unroll
        for (int k = 0; k < 4; k++) {
            codes.tile(k, wf[k]);
#pragma unroll
            for (int i = 0; i < 4; i++)
                asm volatile("" : "+r"(wf[k][i])); // here and not later
        }
    };
    auto release = [&](int stage) {
        if (lane < CLUSTER)
            barrierArrive(empty + stage * 8, lane);
    };
    // Sums of ranges: in registers, or where those are too few, in memory.
    constexpr bool AWAY = N == 256;
    float total[AWAY ? 1 : N / 2];
    float *away = AWAY ? w.sums + (i64)blockIdx.x * (N / 2) * 128 * GROUPS + threadIdx.x : nullptr;
    int ranges = rangesOf(steps);
    for (int t = blockIdx.x / CLUSTER; t < parts; t += gridDim.x / CLUSTER) {
        load(wf[0]);
        for (int range = 0, s = 0; range < ranges; range++) {
            int begin = s, end = rangeStart(steps, range + 1);
            auto step = [&](const u32(&now)[4][4], u32(&next)[4][4]) {
                u64 rows = describe(base + stage * P::ROWS_BYTES);
                asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
                for (int k = 0; k < 4; k++)
                    wgmma<N>(d, now[k], rows + k * 2, s == begin && k == 0); // each range's chain starts from zero
                asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 1;" ::: "memory");
                if (s > 0)
                    release(stage == 0 ? P::STAGES - 1 : stage - 1);
                if (++stage == P::STAGES)
                    stage = 0, parity ^= 1;
                if (++s < steps)
                    load(next);
            };
#pragma unroll 1
            while (s < end) { // a multiple of 4 steps, as steps are
                step(wf[0], wf[1]);
                step(wf[1], wf[0]);
            }
            asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
            for (int i = 0; i < N / 2; i++)
                asm volatile("" : "+f"(d[i])::"memory"); // not before wgmma is done
#pragma unroll
            for (int i = 0; i < N / 2; i++) {
                if constexpr (AWAY)
                    d[i] = (range == 0 ? 0.f : away[i * 128 * GROUPS]) + d[i];
                else
                    total[i] = (range == 0 ? 0.f : total[i]) + d[i];
            }
            if (AWAY && range < ranges - 1)
#pragma unroll
                for (int i = 0; i < N / 2; i++)
                    away[i * 128 * GROUPS] = d[i];
        }
        release(stage == 0 ? P::STAGES - 1 : stage - 1);
        Part part = partOf<N, GROUPS>(t, rowBlocks, outBlocks, rank);
        if constexpr (AWAY)
            storePart<N, GROUPS>(a, (float *)(shared + P::RESULTS), d, part);
        else
            storePart<N, GROUPS>(a, (float *)(shared + P::RESULTS), total, part);
    }
}

// A multiple of CLUSTER blocks of 128 threads for each warpgroup that multiplies, and 128 more. Inputs are a multiple
// of 256.
template <int N, int GROUPS> __device__ __forceinline__ void gemmWgmma(const WgmmaArgs &w) {
    using P = Plan<N, GROUPS>;
    extern __shared__ u8 unaligned[];
    u32 base = sharedAddress(unaligned), skip = (1024 - base % 1024) % 1024;
    base += skip;
    if (threadIdx.x == 0) {
        for (int s = 0; s < P::STAGES; s++) {
            barrierInit(base + P::BARRIERS + s * 8, 1);
            barrierInit(base + P::BARRIERS + (P::STAGES + s) * 8, CLUSTER * GROUPS * 4);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    clusterSync();
    int tiles = 0;
    for (int i = 0; i < w.a.products; i++)
        tiles += w.a.p[i].tiles;
    int rowBlocks = (w.a.rows + N - 1) / N, outBlocks = (tiles + P::TILES * CLUSTER - 1) / (P::TILES * CLUSTER);
    int parts = rowBlocks * outBlocks;
    if (threadIdx.x >= 128 * GROUPS) {
        if constexpr (GROUPS == 2)
            asm volatile("setmaxnreg.dec.sync.aligned.u32 56;");
        if (threadIdx.x < 128 * GROUPS + 32)
            feed<N, GROUPS>(w, base, parts, rowBlocks, outBlocks);
    } else {
        if constexpr (GROUPS == 2)
            asm volatile("setmaxnreg.inc.sync.aligned.u32 224;");
        multiply<N, GROUPS>(w, unaligned + skip, base, parts, rowBlocks, outBlocks);
    }
    clusterSync(); // a block's memory stays until the other copies nothing to it
}

#define WGMMA_KERNEL(NAME, N, GROUPS)                                                                                  \
    KERNEL __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(128 * GROUPS + 128, 1)                                    \
        NAME(const __grid_constant__ WgmmaArgs w) {                                                                    \
        gemmWgmma<N, GROUPS>(w);                                                                                       \
    }

WGMMA_KERNEL(gemm_wgmma_128x256, 256, 2)
WGMMA_KERNEL(gemm_wgmma_128x128, 128, 2)
WGMMA_KERNEL(gemm_wgmma_64x128, 128, 1)
WGMMA_KERNEL(gemm_wgmma_64x64, 64, 1)
