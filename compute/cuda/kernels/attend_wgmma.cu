// Attention of many rows on Hopper, with wgmma, for blocks of the cache of a power of two tokens, and heads of 64 and
// 128 numbers; to bfloat16 and halves also for heads of 80 and 96 and, if WIDE, of 192 and 256. Like attend.cu, whose
// bits it gives, it is compiled once for each type of the cache.
//
// Blocks stay on their multiprocessors, and take one tile after the other. In a block, GROUPS warpgroups have 64 rows
// of the tile each (Warpgroup) and share its chunks in shared memory, a ring that a warp fills (feed). If the cache
// holds codes, that warp fetches codes to a ring of their own, and WIDENERS others make halves of them (widenAll).
#include "attend_wgmma.cuh"

// STAGES is how many chunks are in shared memory, as they are multiplied, RAW how many chunks of codes.
template <int DIM> constexpr int STAGES = CODED ? 4 : DIM > 192 ? 2 : DIM > 128 ? 3 : 5;
constexpr int RAW = CODED ? 3 : 0;
constexpr int WIDENERS = CODED ? 3 : 0;
#define PANEL 1024 // bytes of 64 numbers of each of 8 positions: 8 rows of 128 bytes, swizzled

// PANELS is how many panels a head has; what the last one has beyond the head is anything. GROUP is the bytes of 8
// positions, which a box brings: panels of keys, then those of values.
template <int DIM> constexpr int PANELS = (DIM + 63) / 64;
template <int DIM> constexpr u32 GROUP = PANELS<DIM> * 2 * PANEL;

// describePanels is describe of a matrix that is wider than a panel, and goes on in the next one.
__device__ __forceinline__ u64 describePanels(u32 shared, u32 apart) {
    return (u64)(shared >> 4 & 0x3fff) | (u64)(PANEL >> 4) << 16 | (u64)(apart >> 4) << 32 | (u64)1 << 62;
}

// Plan is what lies where in shared memory, from its first multiple of 1024 on: chunks, queries of all warpgroups,
// chunks of codes (keys of 64 positions, then values), barriers, and two tiles.
template <int DIM, int GROUPS> struct Plan {
    static constexpr u32 CHUNKS = CHUNK / 8 * GROUP<DIM>, QUERIES = STAGES<DIM> * CHUNKS, VALUES = GROUP<DIM> / 2;
    static constexpr u32 CODES = QUERIES + GROUPS * 64 * PANELS<DIM> * 128, CODE_BYTES = 2 * CHUNK * ROW<DIM>;
    static constexpr u32 FULL = CODES + RAW * CODE_BYTES, EMPTY = FULL + STAGES<DIM> * 8;
    static constexpr u32 RAW_FULL = EMPTY + STAGES<DIM> * 8, RAW_EMPTY = RAW_FULL + RAW * 8;
    static constexpr u32 TILE_FULL = RAW_EMPTY + RAW * 8, TILE_EMPTY = TILE_FULL + 16, TILES = TILE_EMPTY + 16;
};

// fetchGroup begins to copy 8 positions, keys and values, from row `row` of a cache block's keys on.
__device__ __forceinline__ void fetchGroup(u32 to, const TensorMap &map, int row, int block, u32 barrier) {
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%2, %3, %2, %2, %4}], [%5];" ::"r"(to), "l"(&map), "r"(0), "r"(row), "r"(block), "r"(barrier)
                 : "memory");
}

// feed is the work of the warp that fetches: it takes tiles until there are no more, and fetches their chunks. Lane i
// fetches 8 positions from 8·i on; of codes 16 from 16·(i mod 4) on, the keys if i < 4, else the values. It reads the
// number of their cache block a chunk ahead.
template <int DIM, int GROUPS> __device__ __forceinline__ void feed(const AttendWgmmaArgs &w, u32 base) {
    using P = Plan<DIM, GROUPS>;
    const AttendArgs &a = w.a;
    int lane = threadIdx.x % 32, items = a.count[1] * a.heads, taken = 0;
    Cursor<CODED ? RAW : STAGES<DIM>> to = {0, 1};
    for (int n = 0, i = blockIdx.x;; n++, i = uniform(taken)) {
        Tile t = {};
        if (i < items) {
            if (lane == 0)
                taken = atomicAdd(a.arrived, 1) + gridDim.x;
            int tile = i / a.heads;
            t.row0 = a.items[2 * tile], t.rows = a.items[2 * tile + 1], t.head = i % a.heads;
            t.last = a.until[t.row0 + t.rows - 1];
            t.chunk = firstSeen(a, a.until[t.row0]) / CHUNK, t.chunks = (t.last + CHUNK - 1) / CHUNK;
        }
        barrierWait(base + P::TILE_EMPTY + n % 2 * 8, n / 2 % 2 ^ 1);
        if (lane == 0) {
            t.put(base + P::TILES + n % 2 * 32);
            barrierArrive(base + P::TILE_FULL + n % 2 * 8);
        }
        if (i >= items)
            break;
        const int *table = a.table + (i64)a.slot[t.row0] * a.stride;
        int pos = t.chunk * CHUNK + (CODED ? lane % 4 * 16 : lane % 8 * 8), block = pos < t.last ? table[pos >> a.shift] : 0;
        for (int c = t.chunk; c < t.chunks; c++, pos += CHUNK) {
            int next = pos + CHUNK < t.last ? table[pos + CHUNK >> a.shift] : 0;
            if constexpr (CODED) {
                constexpr int PAGE = 16 * ROW<DIM>;
                int pages = min(4, (t.last - c * CHUNK + 15) / 16);
                barrierWait(base + P::RAW_EMPTY + to.stage * 8, to.parity);
                u32 full = base + P::RAW_FULL + to.stage * 8;
                bool mine = lane < 8 && lane % 4 < pages;
                u32 there = __ballot_sync(~0u, mine && block >= 0), at = base + P::CODES + to.stage * P::CODE_BYTES + lane * PAGE;
                if (mine && block < 0) // no row sees these positions
                    for (int i = 0; i < PAGE; i += 16)
                        asm volatile("st.shared.v4.u32 [%0], {%1,%1,%1,%1};" ::"r"(at + i), "r"(0) : "memory");
                __syncwarp();
                if (lane == 0)
                    barrierExpect(full, __popc(there) * PAGE);
                __syncwarp();
                if (there >> lane & 1)
                    fetch(at, (const u8 *)(a.at + block * a.block) + (i64)((lane / 4 * a.heads + t.head) * a.tokens + (pos & a.tokens - 1)) * ROW<DIM>, PAGE, full);
            } else {
                int groups = min(8, (t.last - c * CHUNK + 7) / 8);
                barrierWait(base + P::EMPTY + to.stage * 8, to.parity);
                u32 full = base + P::FULL + to.stage * 8;
                if (lane == 0)
                    barrierExpect(full, groups * GROUP<DIM>);
                __syncwarp();
                if (lane < groups)
                    fetchGroup(base + to.stage * P::CHUNKS + lane * GROUP<DIM>, w.cache, t.head * a.tokens + (pos & a.tokens - 1), block, full);
            }
            block = next;
            to.next();
        }
    }
    if (lane == 0 && atomicAdd(a.arrived + 1, 1) == gridDim.x - 1)
        a.arrived[0] = a.arrived[1] = 0;
}

// Widened is 1,024 codes of keys or of values, whole rows, of which a warp makes halves; each lane takes 32
// neighbouring ones. Lanes are ordered so that those of eight lie in different banks, both as codes and as halves.
template <int DIM> struct Widened {
    static constexpr int ROWS = 1024 / DIM, N = CHUNK / ROWS; // N: how many there are of the keys of a chunk
    u32 from, to;                                             // where the lane's codes lie, and where its halves go
    int flip;                                                 // which of its two 16 codes of F8_E4M3 comes first

    __device__ __forceinline__ Widened() {
        int lane = threadIdx.x % 32, r = lane % 8, row = r + (DIM == 64 ? lane / 16 * 8 : 0), part = (lane / 8 + r / 2) % (DIM / 32);
        flip = (DIM == 64 ? r / 4 + r / 2 : r) % 2;
        from = row * ROW<DIM> + part * (KV == KV_FP8 ? 32 : 34);
        to = row / 8 * GROUP<DIM> + part / 2 * PANEL + r * 128 + (part * 4 ^ r) % 8 * 16;
    }

    template <bool KEYS> __device__ __forceinline__ void widen(u32 codes, u32 chunk) const {
        Codes c[2] = {};
        u32 at = codes + from;
        if constexpr (KV == KV_FP8) {
#pragma unroll
            for (int i = 0; i < 2; i++)
                asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(c[i].code[0]), "=r"(c[i].code[1]), "=r"(c[i].code[2]), "=r"(c[i].code[3])
                             : "r"(at ^ (flip ^ i) * 16)
                             : "memory");
        } else { // a scale and 32 codes, at an even address
            u32 word[9];
            bool odd = at % 4;
#pragma unroll
            for (int i = 0; i < 9; i++)
                asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word[i]) : "r"((at & ~3u) + i * 4) : "memory");
            c[0].scale = c[1].scale = (u16)(odd ? word[0] >> 16 : word[0]);
#pragma unroll
            for (int i = 0; i < 8; i++)
                c[i / 4].code[i % 4] = permute(word[i], word[i + 1], odd ? 0x7654 : 0x5432);
        }
#pragma unroll
        for (int i = 0; i < 2; i++) {
            u32 one[4], other[4], put = chunk + to ^ (KV == KV_FP8 ? flip ^ i : i) * 32;
            c[i].widen(one, other, KEYS);
            asm volatile("st.shared.v4.u32 [%0], {%1,%2,%3,%4};" ::"r"(put), "r"(one[0]), "r"(one[1]), "r"(one[2]), "r"(one[3]) : "memory");
            asm volatile("st.shared.v4.u32 [%0], {%1,%2,%3,%4};" ::"r"(put ^ 16), "r"(other[0]), "r"(other[1]), "r"(other[2]), "r"(other[3]) : "memory");
        }
    }
};

// widenAll is the work of the WIDENERS: they make halves of the codes that feed fetches.
template <int DIM, int GROUPS> __device__ __forceinline__ void widenAll(u32 base) {
    using P = Plan<DIM, GROUPS>;
    using W = Widened<DIM>;
    constexpr u32 CODE_STEP = W::ROWS * ROW<DIM>, STEP = W::ROWS / 8 * GROUP<DIM>;
    W part;
    Cursor<CODED ? RAW : 1> from = {0, 0};
    Cursor<STAGES<DIM>> to = {0, 1};
    for (int n = 0;; n++) {
        Tile t;
        t.take(base + P::TILE_FULL, base + P::TILE_EMPTY, base + P::TILES, n);
        if (t.rows == 0)
            return;
        for (int c = t.chunk; c < t.chunks; c++, from.next(), to.next()) {
            barrierWait(base + P::RAW_FULL + from.stage * 8, from.parity);
            barrierWait(base + P::EMPTY + to.stage * 8, to.parity);
            u32 codes = base + P::CODES + from.stage * P::CODE_BYTES, chunk = base + to.stage * P::CHUNKS;
            int i = threadIdx.x / 32 % 4 - 1;
#pragma unroll 1
            for (; i < W::N; i += WIDENERS)
                part.template widen<true>(codes + i * CODE_STEP, chunk + i * STEP);
#pragma unroll 1
            for (; i < 2 * W::N; i += WIDENERS)
                part.template widen<false>(codes + i * CODE_STEP, chunk + (i - W::N) * STEP + P::VALUES);
            fenceShared();
            __syncwarp();
            if (threadIdx.x % 32 == 0) {
                barrierArrive(base + P::FULL + to.stage * 8);
                barrierArrive(base + P::RAW_EMPTY + from.stage * 8);
            }
        }
    }
}

// together waits for all threads of the warpgroup.
__device__ __forceinline__ void together() { barrierOf(3 + (int)threadIdx.x / 128, 128); }

// score begins the products of the queries and a chunk's keys.
template <int DIM> __device__ __forceinline__ void score(float (&s)[8][4], u32 queries, u32 keys) {
    u64 q = describePanels(queries, 1024), k = describePanels(keys, GROUP<DIM>);
    wgmmaFence();
#pragma unroll
    for (int i = 0; i < DIM / 16; i++)
        wgmma(s, q + (i / 4 * 64 * 128 + i % 4 * 32 >> 4), k + (i / 4 * PANEL + i % 4 * 32 >> 4), i == 0);
    wgmmaCommit();
}

// mix begins the products of a chunk's weights and of a part of its values: a panel, 64 numbers of each.
template <int DIM> __device__ __forceinline__ void mix(float (&o)[8][4], const u32 (&w)[4][4], u32 panel) {
    wgmmaFence();
#pragma unroll
    for (int i = 0; i < 4; i++)
        wgmmaT(o, w[i], describePanels(panel, GROUP<DIM>) + (i * 2 * GROUP<DIM> >> 4), i == 0);
    wgmmaCommit();
}

// turnFour turns over the 4 by 4 numbers that four neighbouring lanes have: x[k] of lane t becomes x[t] of lane k.
__device__ __forceinline__ void turnFour(u32 (&x)[4]) {
    bool odd = threadIdx.x % 2, high = threadIdx.x % 4 > 1;
#pragma unroll
    for (int k = 0; k < 4; k += 2) {
        u32 other = __shfl_xor_sync(~0u, odd ? x[k] : x[k + 1], 1);
        (odd ? x[k] : x[k + 1]) = other;
    }
#pragma unroll
    for (int k = 0; k < 2; k++) {
        u32 other = __shfl_xor_sync(~0u, high ? x[k] : x[k + 2], 2);
        (high ? x[k] : x[k + 2]) = other;
    }
}

// after keeps the compiler from moving what follows to before the numbers x are made: it stores them if their sum is
// infinite, which it never is.
__device__ __forceinline__ void after(const float (&x)[2], u32 at) {
    asm volatile("{\n.reg .pred p;\n.reg .f32 x;\nadd.f32 x, %0, %1;\nsetp.eq.f32 p, x, 0f7f800000;\n@p st.shared.f32 [%2], x;\n}" ::"f"(x[0]), "f"(x[1]), "r"(at) : "memory");
}
// Sums are those of the chunks so far, and the factors of the chunk that is joined now: the sums of the chunks before
// are multiplied with `old`, its own with `add`.
template <int DIM> struct Sums {
    State<DIM> st;
    float old[2], add[2];

    // next joins m and t of a chunk.
    __device__ __forceinline__ void next(const float (&m)[2], const float (&t)[2]) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            joinFactors(st.m[i], m[i], old[i], add[i]);
            st.t[i] = join(st.t[i], old[i], t[i], add[i]);
        }
    }

    // scaleOld multiplies the outputs with old, unless that is 1 in the whole warp, as it is for most chunks.
    __device__ __forceinline__ void scaleOld() {
        if (__any_sync(~0u, old[0] != 1 || old[1] != 1))
#pragma unroll
            for (int n = 0; n < DIM / 8; n++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    st.o[n][e] = st.o[n][e] * old[e / 2];
    }

    // addSome joins eight numbers of a part of the chunk's output, 64 of each row, unless they are beyond the head.
    // With scaleOld it makes join's bits.
    __device__ __forceinline__ void addSome(const float (&o)[8][4], int part, int n) {
        if (part * 8 + n >= DIM / 8)
            return;
#pragma unroll
        for (int e = 0; e < 4; e++)
            st.o[part * 8 + n][e] = join(st.o[part * 8 + n][e], 1, o[n][e], add[e / 2]);
    }

    __device__ __forceinline__ void add64(const float (&o)[8][4], int part) {
#pragma unroll
        for (int n = 0; n < 8; n++)
            addSome(o, part, n);
    }
};

// Warpgroup is the work of one that multiplies: 64 rows of a tile.
template <int DIM, int GROUPS> struct Warpgroup {
    using P = Plan<DIM, GROUPS>;
    const AttendArgs &a;
    u32 base;
    Cursor<STAGES<DIM>> in; // of the next chunk

    static constexpr int UNITS = DIM / 8, N = 64 * UNITS / 128; // UNITS: 16 bytes of a query; N: those that a thread has

    // fetchQueries begins to read the warpgroup's queries of a tile.
    __device__ __forceinline__ void fetchQueries(uint4 (&v)[N], const Tile &t) const {
#pragma unroll
        for (int i = 0; i < N; i++) {
            int n = threadIdx.x % 128 + i * 128, r = threadIdx.x / 128 * 64 + n / UNITS, token = r / a.group;
            v[i] = make_uint4(0, 0, 0, 0);
            if (token < t.rows)
                v[i] = *(const uint4 *)((const bf16 *)a.q.at + (i64)(t.row0 + token) * a.q.ld + (t.head * a.group + r % a.group) * DIM + n % UNITS * 8);
        }
    }

    // putQueries copies them to shared memory, 64 rows in panels of 64 numbers, and returns where.
    __device__ __forceinline__ u32 putQueries(uint4 (&v)[N]) const {
        u32 to = base + P::QUERIES + uniform(threadIdx.x / 128) * (64 * PANELS<DIM> * 128);
#pragma unroll
        for (int i = 0; i < N; i++) {
            int n = threadIdx.x % 128 + i * 128, r = n / UNITS, unit = n % UNITS;
            u32 at = to + unit / 8 * (64 * 128) + r * 128 + ((unit ^ r) % 8) * 16;
            if constexpr (KV != KV_BF16)
                v[i] = make_uint4(halvesOf(v[i].x), halvesOf(v[i].y), halvesOf(v[i].z), halvesOf(v[i].w));
            if constexpr (CODED) { // in the order of keys
                u32 one = (unit % 2 ? at ^ 16 : at) + unit % 2 * 8;
                asm volatile("st.shared.v2.u32 [%0], {%1,%2};" ::"r"(one), "r"(v[i].x), "r"(v[i].z) : "memory");
                asm volatile("st.shared.v2.u32 [%0], {%1,%2};" ::"r"(one ^ 16), "r"(v[i].y), "r"(v[i].w) : "memory");
            } else {
                asm volatile("st.shared.v4.u32 [%0], {%1,%2,%3,%4};" ::"r"(at), "r"(v[i].x), "r"(v[i].y), "r"(v[i].z), "r"(v[i].w) : "memory");
            }
        }
        fenceShared();
        together();
        return to;
    }

    // clear makes zeros of a chunk's values from position number `from` on, which no row sees: they were not fetched,
    // or hold anything. A weight of 0 times a NaN would be NaN.
    __device__ __forceinline__ void clear(u32 values, int from) const {
        constexpr int UNITS = PANELS<DIM> * 8;
        for (int i = from * UNITS + threadIdx.x % 128; i < CHUNK * UNITS; i += 128) {
            int row = i / UNITS, unit = i % UNITS;
            u32 at = values + row / 8 * GROUP<DIM> + unit / 8 * PANEL + row % 8 * 128 + unit % 8 * 16;
            asm volatile("st.shared.v4.u32 [%0], {%1,%1,%1,%1};" ::"r"(at), "r"(0) : "memory");
        }
        fenceShared();
        together();
    }

    // arrived waits for a chunk, release frees its stage.
    __device__ __forceinline__ void arrived(const Cursor<STAGES<DIM>> &at) const { barrierWait(base + P::FULL + at.stage * 8, at.parity); }

    __device__ __forceinline__ void release(const Cursor<STAGES<DIM>> &at) const {
        if (threadIdx.x % 32 == 0)
            barrierArrive(base + P::EMPTY + at.stage * 8);
    }

    // attend computes a tile. A chunk's values are multiplied in parts of 64 numbers, whose sums take few registers, so
    // that there can be three warpgroups: while one waits for its products, the others compute weights.
    __device__ __forceinline__ void attend(const Tile &t) {
        int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        uint4 v[N];
        fetchQueries(v, t); // they come while what the rows see does
        int end[2];
        Sums<DIM> sums = {};
#pragma unroll
        for (int i = 0; i < 2; i++) {
            int r = warp * 16 + lane / 4 + 8 * i, token = r / a.group, h = t.head * a.group + r % a.group;
            end[i] = token < t.rows ? a.until[t.row0 + token] : 0;
            sums.st.m[i] = a.sinks ? a.sinks[h] * LOG2E : -INF;
            sums.st.t[i] = a.sinks ? 1 : 0;
        }
        // All rows of the warp see positions seenFrom to seenTo-1; those of the warpgroup see none from groupTo on.
        int lowest = warp * 16 / a.group, highest = min((warp * 16 + 15) / a.group, t.rows - 1);
        int seenFrom = lowest < t.rows ? firstSeen(a, a.until[t.row0 + highest]) : 0, seenTo = lowest < t.rows ? a.until[t.row0 + lowest] : 0;
        int group = warp / 4 * 64 / a.group, groupTo = group < t.rows ? a.until[t.row0 + min((warp / 4 * 64 + 63) / a.group, t.rows - 1)] : 0;
        seenFrom = uniform(seenFrom), seenTo = uniform(seenTo);
        // Joining what no row of the warpgroup sees would change nothing.
        int mine = uniform(min(t.chunks, (groupTo + CHUNK - 1) / CHUNK));
        int c = t.chunk;
        u32 queries = putQueries(v);
        constexpr int LAST = PANELS<DIM> - 1; // the last part
        float s[8][4], o[8][4], sum[2];
        u32 w[4][4];
        Greatest most;
        auto greatest = [&](int c) {
            int first[2] = {firstSeen(a, end[0]), firstSeen(a, end[1])};
            most.find(s, c, first, end, c * CHUNK >= seenFrom && (c + 1) * CHUNK <= seenTo, a);
        };
        // weigh makes weights of scores. Between the exponentials, which are slow, it joins the last part of the output
        // of the chunk before.
        auto weigh = [&](bool add) {
            sum[0] = sum[1] = 0;
#pragma unroll
            for (int n = 0; n < 16; n++) {
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    float &x = s[n / 2][2 * i + n % 2];
                    x = exp2Fast(fmaf(x, most.scale, most.less[i]));
                    sum[i] = sum[i] + x;
                }
                if (add && n % 2 == 0)
                    sums.addSome(o, LAST, n / 2);
            }
            addFour(sum);
#pragma unroll
            for (int k = 0; k < 4; k++) {
                w[k][0] = packWeights(s[2 * k][0], s[2 * k][1]), w[k][1] = packWeights(s[2 * k][2], s[2 * k][3]);
                w[k][2] = packWeights(s[2 * k + 1][0], s[2 * k + 1][1]), w[k][3] = packWeights(s[2 * k + 1][2], s[2 * k + 1][3]);
            }
            sums.next(most.m, sum);
        };
        if (c < mine) {
            Cursor<STAGES<DIM>> next = in;
            next.next();
            arrived(in);
            score<DIM>(s, queries, base + in.stage * P::CHUNKS);
            if (c < mine - 1)
                arrived(next);
            ready<0>(s);
            greatest(c);
            weigh(false);
            for (; c < mine - 1; c++) { // w are the weights of chunk c
                u32 values = base + in.stage * P::CHUNKS + P::VALUES;
                if (LAST > 0)
                    mix<DIM>(o, w, values);
                score<DIM>(s, queries, base + next.stage * P::CHUNKS);
                if (LAST == 0)
                    mix<DIM>(o, w, values);
                sums.scaleOld();
                Cursor<STAGES<DIM>> now = in;
                in = next;
                next.next();
#pragma unroll
                for (int part = 0; part < LAST; part++) {
                    if (part == 0)
                        ready<1>(o);
                    else
                        ready<0>(o);
                    sums.add64(o, part);
                    mix<DIM>(o, w, values + (part + 1) * PANEL);
                }
                if (STAGES<DIM> > 2 && c < mine - 2)
                    arrived(next);
                ready<1>(s);
                greatest(c + 1);
                after(most.less, base);
                ready<0>(o);
                release(now);
                weigh(true);
                if (STAGES<DIM> == 2 && c < mine - 2)
                    arrived(next);
            }
            u32 values = base + in.stage * P::CHUNKS + P::VALUES;
            if (c == t.chunks - 1 && t.last % CHUNK)
                clear(values, t.last % CHUNK);
            sums.scaleOld();
#pragma unroll
            for (int part = 0; part <= LAST; part++) {
                mix<DIM>(o, w, values + part * PANEL);
                ready<0>(o);
                sums.add64(o, part);
            }
            release(in);
            in.next(), c++;
        }
        for (; c < t.chunks; c++, in.next()) { // chunks that only other warpgroups see
            arrived(in);
            release(in);
        }
        // Four lanes have two each of 8 neighbouring numbers of a row. Turned over, a lane has all 8, and stores them at once.
#pragma unroll
        for (int i = 0; i < 2; i++) {
            int r = warp * 16 + lane / 4 + 8 * i, token = r / a.group;
            bf16 *to = (bf16 *)a.dst.at + (i64)(t.row0 + token) * a.dst.ld + (t.head * a.group + r % a.group) * DIM + lane % 4 * 8;
            float inv = 1.f / sums.st.t[i];
#pragma unroll
            for (int n = 0; n < DIM / 8; n += 4) {
                u32 x[4] = {};
#pragma unroll
                for (int k = 0; k < 4 && n + k < DIM / 8; k++)
                    x[k] = packBF16(sums.st.o[n + k][2 * i] * inv, sums.st.o[n + k][2 * i + 1] * inv);
                turnFour(x);
                if (token < t.rows && n + lane % 4 < DIM / 8)
                    *(uint4 *)(to + n * 8) = make_uint4(x[0], x[1], x[2], x[3]);
            }
        }
    }
};

// attendTiles: up to a block for each multiprocessor, of 128·(GROUPS + 1) threads. Blocks take tiles in order: those
// with the most to do should come first. Dynamic shared memory: wgmmaShared in attention.go.
template <int DIM, int GROUPS> __device__ __forceinline__ void attendTiles(const AttendWgmmaArgs &w) {
    using P = Plan<DIM, GROUPS>;
    constexpr int FETCHING = GROUPS == 2 ? (CODED ? 40 : 24) : (CODED ? 56 : 32); // registers of a thread
    constexpr int MULTIPLYING = GROUPS == 2 ? (CODED ? 232 : 240) : (CODED ? 152 : 160);
    extern __shared__ u8 unaligned[];
    u32 base = (sharedAddress(unaligned) + 1023) & ~1023u;
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES<DIM>; i++) {
            barrierInit(base + P::FULL + i * 8, CODED ? WIDENERS : 1);
            barrierInit(base + P::EMPTY + i * 8, GROUPS * 4);
        }
        for (int i = 0; i < RAW; i++) {
            barrierInit(base + P::RAW_FULL + i * 8, 1);
            barrierInit(base + P::RAW_EMPTY + i * 8, WIDENERS);
        }
        for (int i = 0; i < 2; i++) {
            barrierInit(base + P::TILE_FULL + i * 8, 1);
            barrierInit(base + P::TILE_EMPTY + i * 8, GROUPS * 4 + WIDENERS);
        }
        barriersReady();
    }
    __syncthreads();
    letNextBegin();
    waitForRows();
    if (threadIdx.x >= GROUPS * 128) {
        fewerRegisters<FETCHING>();
        if (threadIdx.x / 32 == GROUPS * 4)
            feed<DIM, GROUPS>(w, base);
        else if constexpr (CODED)
            widenAll<DIM, GROUPS>(base);
        return;
    }
    moreRegisters<MULTIPLYING>();
    Warpgroup<DIM, GROUPS> group = {w.a, base, {0, 0}};
    for (int n = 0;; n++) {
        Tile t;
        t.take(base + P::TILE_FULL, base + P::TILE_EMPTY, base + P::TILES, n);
        if (t.rows == 0)
            return;
        group.attend(t);
    }
}

#define ATTEND_WGMMA(DIM, GROUPS) \
    KERNEL __launch_bounds__(128 * GROUPS + 128, 1) attend_wgmma_##DIM(const __grid_constant__ AttendWgmmaArgs w) { attendTiles<DIM, GROUPS>(w); }
#ifdef WIDE
ATTEND_WGMMA(192, 2)
ATTEND_WGMMA(256, 2)
#elif KV > 1 // codes
ATTEND_WGMMA(64, 3)
ATTEND_WGMMA(128, 2)
#else
ATTEND_WGMMA(64, 3)
ATTEND_WGMMA(80, 3)
ATTEND_WGMMA(96, 3)
ATTEND_WGMMA(128, 3)
#endif
