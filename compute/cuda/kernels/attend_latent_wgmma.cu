// Latent attention of many rows on Hopper, with wgmma, of the sizes of attend_latent.cu, whose bits it gives. Blocks of
// the cache have a multiple of 16 positions.
//
// A tile is 64 rows: up to 64 heads of a token, or the heads of several tokens. Blocks stay on their multiprocessors,
// and take one tile after the other. Of a block's warpgroups one computes the weights of one chunk after the other
// (weighTile); two multiply them with the values, each with every other panel, and join the outputs (sumTile); the
// fourth fetches chunks (feed).
#include "latent.cuh"

#define STAGES 2 // chunks in shared memory
#define GROUPS 3 // warpgroups that compute

// In shared memory, from its first multiple of 1024 on: chunks, queries, the factors that rows are joined with in each
// chunk, those that sums are multiplied with in the end, barriers, and two tiles. A chunk's weights take the place of
// its last panel, which holds no values.
enum : u32 {
    QUERIES = STAGES * PANELS * PANEL,
    FACTORS = QUERIES + PANELS * PANEL,
    INVERSES = FACTORS + STAGES * 64 * 8,
    FULL = INVERSES + 64 * 4,
    EMPTY = FULL + STAGES * UNITS * 8,
    WEIGHED = EMPTY + STAGES * UNITS * 8,
    INVERSES_FULL = WEIGHED + STAGES * 8,
    INVERSES_EMPTY = INVERSES_FULL + 8,
    TILE_FULL = INVERSES_EMPTY + 8,
    TILE_EMPTY = TILE_FULL + 16,
    TILES = TILE_EMPTY + 16,
};

// Stage is a position in the ring of chunks.
struct Stage : Cursor<STAGES> {
    __device__ __forceinline__ u32 panel(u32 base, int n) const { return base + stage * (PANELS * PANEL) + n / UNIT_PANELS * UNIT + panelOf(n); }
    __device__ __forceinline__ u32 factors(u32 base) const { return base + FACTORS + stage * (64 * 8); }
    __device__ __forceinline__ u32 weighed(u32 base) const { return base + WEIGHED + stage * 8; }
    __device__ __forceinline__ u32 full(u32 base, int unit) const { return base + FULL + (stage * UNITS + unit) * 8; }
    __device__ __forceinline__ u32 empty(u32 base, int unit) const { return base + EMPTY + (stage * UNITS + unit) * 8; }
};

__device__ __forceinline__ int headsOfTile(const AttendArgs &a) { return min(a.group, 64); }

// feed is the work of four warps: the first takes tiles until there are no more, all fetch their chunks.
__device__ __forceinline__ void feed(const AttendWgmmaArgs &w, u32 base) {
    const AttendArgs &a = w.a;
    int warp = uniform(threadIdx.x / 32 % 4), parts = (a.group + 63) / 64, items = a.count[1] * parts, i = blockIdx.x;
    Stage to = {0, 1};
    for (int n = 0;; n++) {
        Tile t = {};
        if (warp == 0) {
            if (i < items) {
                int tile = i / parts;
                t.row0 = a.items[2 * tile], t.rows = a.items[2 * tile + 1], t.head = i % parts * 64;
                t.last = a.until[t.row0 + t.rows - 1];
                t.chunk = firstSeen(a, a.until[t.row0]) / CHUNK, t.chunks = (t.last + CHUNK - 1) / CHUNK;
                int taken = 0;
                if (threadIdx.x % 32 == 0)
                    taken = atomicAdd(a.arrived, 1) + gridDim.x;
                i = uniform(taken);
            }
            barrierWait(base + TILE_EMPTY + n % 2 * 8, n / 2 % 2 ^ 1);
            if (threadIdx.x % 32 == 0) {
                t.put(base + TILES + n % 2 * 32);
                barrierArrive(base + TILE_FULL + n % 2 * 8);
            }
        }
        t.take(base + TILE_FULL, base + TILE_EMPTY, base + TILES, n);
        if (t.rows == 0)
            break;
        const int *table = a.table + (i64)a.slot[t.row0] * a.stride;
        Boxes next;
        next.begin(table, a.tokens, t.chunk, warp, t.last);
        for (int c = t.chunk; c < t.chunks; c++, to.next()) {
            Boxes now = next;
            if (c < t.chunks - 1)
                next.next(table, a.tokens, t.last);
#pragma unroll
            for (int u = 0; u < UNITS; u++) {
                barrierWait(to.empty(base, u), to.parity);
                fetchUnit(to.panel(base, u * UNIT_PANELS), w.cache, warp, (t.last - c * CHUNK + BOX - 1) / BOX, now.row, now.block, u, to.full(base, u));
            }
        }
    }
    if (threadIdx.x % 128 == 0 && atomicAdd(a.arrived + 1, 1) == gridDim.x - 1)
        a.arrived[0] = a.arrived[1] = 0;
}

// Phase is the next phase of a barrier.
struct Phase {
    u32 barrier, parity;

    __device__ __forceinline__ void wait() {
        barrierWait(barrier, parity);
        parity ^= 1;
    }
};

// loadQueries copies a tile's queries to shared memory.
__device__ __forceinline__ void loadQueries(const AttendArgs &a, const Tile &t, u32 to) {
    constexpr int ROW = PANELS * 8; // 16-byte units
    int heads = headsOfTile(a);
    for (int n = threadIdx.x % 128; n < 64 * ROW; n += 128) {
        int r = n / ROW, unit = n % ROW, token = r / heads, h = t.head + r % heads;
        uint4 v = make_uint4(0, 0, 0, 0);
        if (token < t.rows && h < a.group)
            v = *(const uint4 *)((const bf16 *)a.q.at + (i64)(t.row0 + token) * a.q.ld + h * (PANELS * 64) + unit * 8);
        asm volatile("st.shared.v4.u32 [%0], {%1,%2,%3,%4};" ::"r"(to + unit / 8 * PANEL + r * 128 + ((unit ^ r) % 8) * 16), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
                     : "memory");
    }
    fenceShared();
    barrierOf(1, 128);
}

// weighTile computes the weights of a tile's chunks, the factors that these are joined with, and, once those of the
// tile before are read, the inverses of the rows' sums of weights.
__device__ __forceinline__ void weighTile(const AttendArgs &a, u32 base, const Tile &t, Stage &in, Phase &read) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, heads = headsOfTile(a);
    loadQueries(a, t, base + QUERIES);
    int first[2], end[2];
    float M[2], T[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        int r = warp * 16 + lane / 4 + 8 * i, token = r / heads, h = t.head + r % heads;
        bool there = token < t.rows && h < a.group;
        end[i] = there ? a.until[t.row0 + token] : 0;
        first[i] = firstSeen(a, end[i]);
        M[i] = a.sinks && there ? a.sinks[h] * LOG2E : -INF;
        T[i] = a.sinks && there ? 1 : 0;
    }
    // All rows of the warp see positions seenFrom to seenTo-1.
    int lowest = warp * 16 / heads, highest = min((warp * 16 + 15) / heads, t.rows - 1);
    int seenFrom = lowest < t.rows ? firstSeen(a, a.until[t.row0 + highest]) : 0, seenTo = lowest < t.rows ? a.until[t.row0 + lowest] : 0;
    u32 row = warp * 16 + lane / 4;
    u64 q = describe(base + QUERIES, 1024);
    for (int c = t.chunk; c < t.chunks; c++, in.next()) {
        float s[8][4], sum[2] = {}, old[2], add[2];
        Greatest most;
        u64 k = describe(in.panel(base, 0), BOX_BYTES);
        wgmmaFence();
#pragma unroll
        for (int i = 0; i < PANELS * 4; i++) {
            int p = i / 4;
            if (i % (4 * UNIT_PANELS) == 0)
                barrierWait(in.full(base, p / UNIT_PANELS), in.parity);
            wgmma(s, q + (p * PANEL + i % 4 * 32 >> 4), k + (p / UNIT_PANELS * UNIT + p % UNIT_PANELS * 1024 + i % 4 * 32 >> 4), i == 0);
        }
        wgmmaCommit();
        ready<0>(s);
        most.find(s, c, first, end, c * CHUNK >= seenFrom && (c + 1) * CHUNK <= seenTo, a);
#pragma unroll
        for (int n = 0; n < 16; n++)
#pragma unroll
            for (int i = 0; i < 2; i++) {
                float &x = s[n / 2][2 * i + n % 2];
                x = exp2Fast(fmaf(x, most.scale, most.less[i]));
                sum[i] = sum[i] + x;
            }
        addFour(sum);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            joinFactors(M[i], most.m[i], old[i], add[i]);
            T[i] = join(T[i], old[i], sum[i], add[i]);
        }
        barrierOf(1, 128); // all warps have read the last panel
        u32 weights = in.panel(base, PANELS - 1) + row / 8 * BOX_BYTES + row % 8 * 128 + lane % 4 * 4;
#pragma unroll
        for (int n = 0; n < 8; n++)
#pragma unroll
            for (int i = 0; i < 2; i++)
                asm volatile("st.shared.u32 [%0], %1;" ::"r"(weights + i * BOX_BYTES + (n ^ row % 8) * 16), "r"(packBF16(s[n][2 * i], s[n][2 * i + 1])) : "memory");
        if (lane % 4 == 0)
#pragma unroll
            for (int i = 0; i < 2; i++)
                asm volatile("st.shared.v2.f32 [%0], {%1,%2};" ::"r"(in.factors(base) + row * 8 + i * 64), "f"(old[i]), "f"(add[i]) : "memory");
        fenceShared();
        arriveWarp(in.weighed(base));
    }
    read.wait();
    if (lane % 4 == 0)
#pragma unroll
        for (int i = 0; i < 2; i++)
            asm volatile("st.shared.f32 [%0], %1;" ::"r"(base + INVERSES + row * 4 + i * 32), "f"(1.f / T[i]) : "memory");
    arriveWarp(base + INVERSES_FULL);
}

// sumTile multiplies a tile's weights with the values of panels 0, 2, 4, 6 or 1, 3, 5, 7, joins the outputs, and stores
// them.
__device__ __forceinline__ void sumTile(const AttendArgs &a, u32 base, const Tile &t, Stage &in, Phase &inverses) {
    int group = uniform(threadIdx.x / 128) - 1, thread = threadIdx.x % 128, warp = thread / 32, lane = thread % 32;
    u32 row = warp * 16 + lane / 4;
    float sum[4][8][4];
#pragma unroll
    for (int p = 0; p < 4; p++)
#pragma unroll
        for (int n = 0; n < 8; n++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                sum[p][n][e] = 0;
    for (int c = t.chunk; c < t.chunks; c++, in.next()) {
        float old[2], add[2];
#pragma unroll
        for (int u = 0; u < UNITS; u++)
            barrierWait(in.full(base, u), in.parity);
        barrierWait(in.weighed(base), in.parity);
#pragma unroll
        for (int i = 0; i < 2; i++)
            asm volatile("ld.shared.v2.f32 {%0,%1}, [%2];" : "=f"(old[i]), "=f"(add[i]) : "r"(in.factors(base) + row * 8 + i * 64) : "memory");
        if (c == t.chunks - 1 && t.last % CHUNK)
            clearRest(t.last % CHUNK, thread, 2 + group, [&](int p) { return in.panel(base, 2 * p + group); });
        u64 weights = describe(in.panel(base, PANELS - 1), BOX_BYTES);
        bool same = !__any_sync(~0u, old[0] != 1 || old[1] != 1);
#pragma unroll
        for (int p = 0; p < 4; p++) {
            float o[8][4];
            int panel = 2 * p + group, unit = panel / UNIT_PANELS;
            u64 values = describe(in.panel(base, panel), BOX_BYTES);
            wgmmaFence();
#pragma unroll
            for (int k = 0; k < 4; k++)
                wgmma<1>(o, weights + (k * 32 >> 4), values + (k * 2 * BOX_BYTES >> 4), k == 0);
            wgmmaCommit();
            if (!same)
#pragma unroll
                for (int n = 0; n < 8; n++)
#pragma unroll
                    for (int e = 0; e < 4; e++)
                        sum[p][n][e] = sum[p][n][e] * old[e / 2];
            ready<0>(o);
            if (lane == 0 && (p == 3 || (panel + 2) / UNIT_PANELS > unit)) // the last of a unit's panels is read
                barrierArrive(in.empty(base, unit));
#pragma unroll
            for (int n = 0; n < 8; n++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    sum[p][n][e] = join(sum[p][n][e], 1, o[n][e], add[e / 2]);
        }
    }
    float inv[2];
    inverses.wait();
#pragma unroll
    for (int i = 0; i < 2; i++)
        asm volatile("ld.shared.f32 %0, [%1];" : "=f"(inv[i]) : "r"(base + INVERSES + row * 4 + i * 32) : "memory");
    arriveWarp(base + INVERSES_EMPTY);
    int heads = headsOfTile(a);
#pragma unroll
    for (int i = 0; i < 2; i++) {
        int r = warp * 16 + lane / 4 + 8 * i, token = r / heads, h = t.head + r % heads;
        if (token >= t.rows || h >= a.group)
            continue;
        bf16 *to = (bf16 *)a.dst.at + (i64)(t.row0 + token) * a.dst.ld + h * VALUES + group * 64 + lane % 4 * 2;
#pragma unroll
        for (int p = 0; p < 4; p++)
#pragma unroll
            for (int n = 0; n < 8; n++)
                *(u32 *)(to + p * 128 + n * 8) = packBF16(sum[p][n][2 * i] * inv[i], sum[p][n][2 * i + 1] * inv[i]);
    }
}

// Up to a block for each multiprocessor, of 512 threads. Blocks take tiles in order: those with the most to do should
// come first. Dynamic shared memory: latentWgmmaShared in attention.go.
KERNEL __launch_bounds__(512, 1) attend_latent_wgmma(const __grid_constant__ AttendWgmmaArgs w) {
    extern __shared__ u8 unaligned[];
    u32 base = (sharedAddress(unaligned) + 1023) & ~1023u;
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES * UNITS; i++) {
            barrierInit(base + FULL + i * 8, 4);
            barrierInit(base + EMPTY + i * 8, 8);
        }
        barrierInit(base + INVERSES_FULL, 4);
        barrierInit(base + INVERSES_EMPTY, 8);
        for (int i = 0; i < STAGES; i++)
            barrierInit(base + WEIGHED + i * 8, 4);
        for (int i = 0; i < 2; i++) {
            barrierInit(base + TILE_FULL + i * 8, 1);
            barrierInit(base + TILE_EMPTY + i * 8, 16);
        }
        barriersReady();
    }
    __syncthreads();
    letNextBegin();
    waitForRows();
    int group = uniform(threadIdx.x / 128);
    if (group == GROUPS) {
        fewerRegisters<24>();
        feed(w, base);
        return;
    }
    Stage in = {0, 0};
    if (group == 0) {
        fewerRegisters<88>();
        Phase read = {base + INVERSES_EMPTY, 1};
        for (int n = 0;; n++) {
            Tile t;
            t.take(base + TILE_FULL, base + TILE_EMPTY, base + TILES, n);
            if (t.rows == 0)
                return;
            weighTile(w.a, base, t, in, read);
        }
    }
    moreRegisters<200>();
    Phase inverses = {base + INVERSES_FULL, 0};
    for (int n = 0;; n++) {
        Tile t;
        t.take(base + TILE_FULL, base + TILE_EMPTY, base + TILES, n);
        if (t.rows == 0)
            return;
        sumTile(w.a, base, t, in, inverses);
    }
}
