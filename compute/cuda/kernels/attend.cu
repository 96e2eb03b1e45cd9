// Attention with tensor cores, as attend.cuh defines it, for heads of DIM numbers, a multiple of 16, and a cache of the
// type KV (kv.cuh): this file is compiled once for each. Keys and values are multiplied as bfloat16, those of F16 as
// halves; what is stored as a code becomes a bfloat16 on its way to shared memory. WIDE: for large heads alone.
#include "attend.cuh"
#include "kv.cuh"

#ifndef KV
#define KV 0 // KV_BF16
#endif

// CODED says that keys and values are not multiplied as they are stored. ROW is the bytes of one.
constexpr bool CODED = KV == KV_FP8 || KV == KV_Q8_0;
template <int DIM> constexpr int ROW = KV == KV_FP8 ? DIM : KV == KV_Q8_0 ? (DIM + 31) / 32 * 34 : 2 * DIM;

__device__ __forceinline__ void storeShared(u32 at, const u32 (&v)[4]) {
    asm volatile("st.shared.v4.u32 [%0], {%1,%2,%3,%4};" ::"r"(at), "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3]) : "memory");
}

// Codes are 8 codes of a row, as they are stored, with their scale if they have one.
struct Codes {
    u32 code[2];
    u16 scale;
};

__device__ __forceinline__ Codes readCodes(const u8 *row, int unit) {
    if (KV == KV_FP8) {
        uint2 v = *(const uint2 *)(row + unit * 8);
        return {{v.x, v.y}, 0};
    }
    row += unit / 4 * 34; // whose address is even
    const u16 *v = (const u16 *)(row + 2 + unit % 4 * 8);
    return {{(u32)v[0] | (u32)v[1] << 16, (u32)v[2] | (u32)v[3] << 16}, *(const u16 *)row};
}

// widen makes 8 numbers of bfloat16 of codes. An exponent of e4m3 is one of bfloat16 times 2^120.
__device__ __forceinline__ void widen(u32 (&to)[4], const Codes &c) {
    float scale = fromHalf(c.scale);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        u32 two = c.code[i / 2] >> i % 2 * 16;
        if (KV == KV_FP8) {
            two = (two & 0xff) | (two & 0xff00) << 8;
            u32 none = ((two & 0x007f007f) + 0x00010001) >> 7 & 0x00010001; // which are NaN
            to[i] = fma2((two & 0x00800080) << 8 | (two & 0x007f007f) << 4, 0x7b807b80, 0x80008000) | none * 0x7fff;
        } else {
            to[i] = packBF16(scale * (float)(signed char)two, scale * (float)(signed char)(two >> 8));
        }
    }
}

// loadChunk copies keys or values of a chunk to shared memory, [64] rows of DIM + 8 numbers of 16 bits; positions from
// end on become zeros. first is the number of the head's first row in a block, whose tokens are a multiple of 16.
template <int DIM, int THREADS>
__device__ __forceinline__ void loadChunk(const AttendArgs &a, u32 to, const int *table, int chunk, int end, i64 first, int thread) {
    constexpr int UNITS = DIM / 8, EACH = (16 * UNITS + THREADS - 1) / THREADS;
    // The groups of 16 positions that are read before codes are stored.
    constexpr int TOGETHER = !CODED || EACH < 4 ? CHUNK / 16 : 1;
#pragma unroll 1
    for (int i0 = 0; i0 < CHUNK / 16; i0 += TOGETHER) {
        const u8 *from[TOGETHER];
#pragma unroll
        for (int i = 0; i < TOGETHER; i++) {
            int pos = chunk * CHUNK + (i0 + i) * 16, block = pos < end ? table[pos / a.tokens] : -1;
            from[i] = block < 0 ? 0 : (const u8 *)(a.at + block * a.block) + (first + pos % a.tokens) * ROW<DIM>;
        }
        Codes codes[TOGETHER][EACH];
#pragma unroll
        for (int i = 0; i < TOGETHER; i++)
#pragma unroll
            for (int j = 0; j < EACH; j++) {
                int n = thread + j * THREADS, row = (i0 + i) * 16 + n / UNITS;
                bool there = from[i] && chunk * CHUNK + row < end;
                if (16 * UNITS % THREADS != 0 && n >= 16 * UNITS)
                    continue;
                if (!CODED) {
                    copy16(to + row * (DIM + 8) * 2 + n % UNITS * 16, from[i] ? from[i] + n * 16 : (const u8 *)a.at, there);
                    continue;
                }
                codes[i][j] = {};
                if (there)
                    codes[i][j] = readCodes(from[i] + n / UNITS * ROW<DIM>, n % UNITS);
            }
        if constexpr (CODED)
#pragma unroll
            for (int i = 0; i < TOGETHER; i++)
#pragma unroll
                for (int j = 0; j < EACH; j++) {
                    int n = thread + j * THREADS, row = (i0 + i) * 16 + n / UNITS;
                    if (16 * UNITS % THREADS != 0 && n >= 16 * UNITS)
                        continue;
                    u32 v[4];
                    widen(v, codes[i][j]);
                    storeShared(to + row * (DIM + 8) * 2 + n % UNITS * 16, v);
                }
    }
}

// packHalf rounds two numbers to halves; lo is the one at the lower address.
__device__ __forceinline__ u32 packHalf(float lo, float hi) { return (u32)toHalf(lo) | (u32)toHalf(hi) << 16; }

// mmaHalf is mma of halves.
__device__ __forceinline__ void mmaHalf(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ void multiply(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    if (KV == KV_F16)
        mmaHalf(d, a, b0, b1);
    else
        mma(d, a, b0, b1);
}

__device__ __forceinline__ u32 packWeights(float lo, float hi) { return KV == KV_F16 ? packHalf(lo, hi) : packBF16(lo, hi); }

// queries are loadQueries as they are multiplied: of bfloat16, or of halves, whose greatest is 65504.
template <int DIM> __device__ __forceinline__ void queries(u32 (&q)[DIM / 16][4], const bf16 *at0, const bf16 *at1) {
    loadQueries<DIM>(q, at0, at1);
    if (KV != KV_F16)
        return;
    auto near = [](float x) { return x > 65504.f ? 65504.f : x < -65504.f ? -65504.f : x; };
#pragma unroll
    for (int k = 0; k < DIM / 16; k++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            q[k][i] = packHalf(near(fromBF16((bf16)q[k][i])), near(fromBF16((bf16)(q[k][i] >> 16))));
}

// attendKeys multiplies a warp's queries with a chunk's keys.
template <int DIM> __device__ __forceinline__ void attendKeys(float (&s)[8][4], const u32 (&q)[DIM / 16][4], u32 keys) {
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int n = 0; n < 8; n++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            s[n][e] = 0;
#pragma unroll
    for (int k = 0; k < DIM / 16; k++)
#pragma unroll
        for (int n = 0; n < 8; n += 2) {
            u32 b[4];
            int pos = n * 8 + lane / 16 * 8 + lane % 8, unit = k * 2 + lane / 8 % 2;
            ldmatrix(b, keys + pos * (DIM + 8) * 2 + unit * 16);
            multiply(s[n], q[k], b[0], b[1]);
            multiply(s[n + 1], q[k], b[2], b[3]);
        }
}

// PART is how many numbers of o are computed at a time, so that registers are enough.
template <int DIM> constexpr int PART = DIM <= 128 ? DIM : 64;

// attendValues computes part of a chunk's o from weights and values: from number first on.
template <int DIM> __device__ __forceinline__ void attendValues(float (&o)[PART<DIM> / 8][4], const float (&s)[8][4], u32 values, int first) {
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int n = 0; n < PART<DIM> / 8; n++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            o[n][e] = 0;
#pragma unroll
    for (int k = 0; k < CHUNK / 16; k++) {
        u32 w[4] = {packWeights(s[2 * k][0], s[2 * k][1]), packWeights(s[2 * k][2], s[2 * k][3]),
                    packWeights(s[2 * k + 1][0], s[2 * k + 1][1]), packWeights(s[2 * k + 1][2], s[2 * k + 1][3])};
#pragma unroll
        for (int n = 0; n < PART<DIM> / 8; n += 2) {
            u32 b[4];
            int pos = k * 16 + lane / 8 % 2 * 8 + lane % 8, unit = first / 8 + n + lane / 16;
            ldmatrixT(b, values + pos * (DIM + 8) * 2 + unit * 16);
            multiply(o[n], w, b[0], b[1]);
            multiply(o[n + 1], w, b[2], b[3]);
        }
    }
}

// Many rows: eight warps of 16 rows each share the chunks of a KV head in shared memory, in turn two. [tiles, KV
// heads] blocks of 256 threads. Dynamic shared memory: 2·2·64·(DIM+8)·2 bytes.
template <int DIM> __device__ __forceinline__ void attendTile(const AttendArgs &a) {
    extern __shared__ __align__(128) u8 shared[];
    constexpr u32 HALF = CHUNK * (DIM + 8) * 2;
    letNextBegin();
    waitForRows();
    int tile = blockIdx.x, head = blockIdx.y, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (tile >= a.count[1])
        return;
    // An item is a tile: its first row, and how many.
    int row0 = a.items[2 * tile], rows = a.items[2 * tile + 1];
    const int *table = a.table + (i64)a.slot[row0] * a.stride;
    u32 base = sharedAddress(shared);
    int first[2], end[2];
    i64 out[2];
    const bf16 *from[2];
    bool there[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        int r = warp * 16 + lane / 4 + 8 * i, token = r / a.group;
        there[i] = token < rows;
        token = row0 + (there[i] ? token : 0);
        int h = head * a.group + r % a.group;
        end[i] = there[i] ? a.until[token] : 0;
        first[i] = firstSeen(a, end[i]);
        out[i] = (i64)token * a.dst.ld + h * DIM;
        from[i] = there[i] ? (const bf16 *)a.q.at + (i64)token * a.q.ld + h * DIM : 0;
    }
    u32 q[DIM / 16][4];
    queries<DIM>(q, from[0], from[1]);
    int last = a.until[row0 + rows - 1];
    int c = firstSeen(a, a.until[row0]) / CHUNK, chunks = (last + CHUNK - 1) / CHUNK;
    i64 keyAt = (i64)head * a.tokens, valueAt = (i64)(a.heads + head) * a.tokens;
    auto load = [&](int c) {
        u32 to = base + c % 2 * 2 * HALF;
        if (c < chunks) {
            loadChunk<DIM, 256>(a, to, table, c, last, keyAt, threadIdx.x);
            loadChunk<DIM, 256>(a, to + HALF, table, c, last, valueAt, threadIdx.x);
        }
        copyCommit();
    };
    // What all rows of the warp see; a row of no token sees nothing, and what it gives is not kept.
    int lowest = (warp * 16) / a.group, highest = min((warp * 16 + 15) / a.group, rows - 1);
    int seenFrom = lowest < rows ? firstSeen(a, a.until[row0 + highest]) : 0, seenTo = lowest < rows ? a.until[row0 + lowest] : 0;
    int warpTo = lowest < rows ? a.until[row0 + highest] : 0;
    State<DIM> st = {};
#pragma unroll
    for (int i = 0; i < 2; i++) {
        int h = head * a.group + (warp * 16 + lane / 4 + 8 * i) % a.group;
        st.m[i] = a.sinks ? a.sinks[h] * LOG2E : -INF;
        st.t[i] = a.sinks ? 1 : 0;
    }
    load(c);
    for (; c < chunks; c++) {
        u32 keys = base + c % 2 * 2 * HALF;
        float s[8][4], m[2], t[2], old[2], add[2];
        copyWait<0>();
        __syncthreads(); // all have read the chunk before
        load(c + 1);
        if (c * CHUNK >= warpTo) // no row of the warp sees it: joining it would change nothing
            continue;
        attendKeys<DIM>(s, q, keys);
        weigh(s, m, t, c, first, end, c * CHUNK >= seenFrom && (c + 1) * CHUNK <= seenTo, a.scale, a.softcap);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            joinFactors(st.m[i], m[i], old[i], add[i]);
            st.t[i] = join(st.t[i], old[i], t[i], add[i]);
        }
#pragma unroll
        for (int part = 0; part < DIM; part += PART<DIM>) {
            float o[PART<DIM> / 8][4];
            attendValues<DIM>(o, s, keys + HALF, part);
#pragma unroll
            for (int n = 0; n < PART<DIM> / 8; n++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    st.o[part / 8 + n][e] = join(st.o[part / 8 + n][e], old[e / 2], o[n][e], add[e / 2]);
        }
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        if (!there[i])
            continue;
        float inv = 1.f / st.t[i];
#pragma unroll
        for (int n = 0; n < DIM / 8; n++)
            *(u32 *)((bf16 *)a.dst.at + out[i] + n * 8 + lane % 4 * 2) = packBF16(st.o[n][2 * i] * inv, st.o[n][2 * i + 1] * inv);
    }
}

// Few rows: a block of one warp takes one chunk of one row and KV head after another, and keeps m, t and o of each
// for attend_join. An item is up to GROUP chunks of a row: row, first chunk, chunks, and number of the first in
// partial. Any number of blocks of 32 threads. Dynamic shared memory: 64·(DIM+8)·2 bytes, for keys and then for values:
// more warps on a multiprocessor hide more than a warp's own copies would.
#define GROUP 4
template <int DIM> __device__ __forceinline__ void attendChunk(const AttendArgs &a) {
    extern __shared__ __align__(128) u8 shared[];
    letNextBegin();
    waitForRows();
    int lane = threadIdx.x, parts = (a.group + 15) / 16;
    int all = a.count[2] * a.heads * parts * GROUP;
    u32 base = sharedAddress(shared);
    for (int n = blockIdx.x; n < all; n += gridDim.x) {
        int sub = n % GROUP, part = n / GROUP % parts, head = n / (GROUP * parts) % a.heads;
        int4 item = ((const int4 *)a.items)[n / (GROUP * parts * a.heads)];
        if (sub >= item.z)
            continue;
        int row = item.x, c = item.y + sub, at = item.w + sub;
        int until = a.until[row], slot = a.slot[row], from = firstSeen(a, until);
        const int *table = a.table + (i64)slot * a.stride;
        __syncwarp();
        loadChunk<DIM, 32>(a, base, table, c, until, (i64)head * a.tokens, lane);
        copyCommit();
        u32 q[DIM / 16][4];
        int h0 = part * 16 + lane / 4, h1 = h0 + 8, firstHead = head * a.group;
        const bf16 *qRow = (const bf16 *)a.q.at + (i64)row * a.q.ld + firstHead * DIM;
        queries<DIM>(q, h0 < a.group ? qRow + h0 * DIM : 0, h1 < a.group ? qRow + h1 * DIM : 0);
        float s[8][4], m[2], t[2];
        int first[2] = {from, from}, end[2] = {until, until};
        copyWait<0>();
        __syncwarp();
        attendKeys<DIM>(s, q, base);
        __syncwarp();
        loadChunk<DIM, 32>(a, base, table, c, until, (i64)(a.heads + head) * a.tokens, lane);
        copyCommit();
        weigh(s, m, t, c, first, end, false, a.scale, a.softcap);
        copyWait<0>();
        __syncwarp();
#pragma unroll
        for (int i = 0; i < 2; i++) {
            int h = i ? h1 : h0;
            if (h < a.group && lane % 4 == 0)
                *(float2 *)(a.partial + ((i64)at * a.heads * a.group + firstHead + h) * (DIM + 2) + DIM) = make_float2(m[i], t[i]);
        }
#pragma unroll
        for (int part = 0; part < DIM; part += PART<DIM>) {
            float o[PART<DIM> / 8][4];
            attendValues<DIM>(o, s, base, part);
#pragma unroll
            for (int i = 0; i < 2; i++) {
                int h = i ? h1 : h0;
                if (h >= a.group)
                    continue;
                float *to = a.partial + ((i64)at * a.heads * a.group + firstHead + h) * (DIM + 2) + part;
#pragma unroll
                for (int n = 0; n < PART<DIM> / 8; n++)
                    *(float2 *)(to + n * 8 + lane % 4 * 2) = make_float2(o[n][2 * i], o[n][2 * i + 1]);
            }
        }
    }
}

#if KV == 0 && !defined WIDE
// Joins the chunks of few rows. [rows, query heads] blocks of DIM threads.
struct JoinArgs {
    AttendArgs a;
    int dim;
};
KERNEL attend_join(const JoinArgs j) {
    letNextBegin();
    waitForRows();
    const AttendArgs &a = j.a;
    int i = blockIdx.x, h = blockIdx.y, d = threadIdx.x, heads = a.heads * a.group;
    if (i >= a.count[0])
        return;
    int row = a.fewRows[i];
    float M = a.sinks ? a.sinks[h] * LOG2E : -INF, T = a.sinks ? 1 : 0, O = 0;
    const float *p = a.partial + ((i64)a.items[i] * heads + h) * (j.dim + 2);
    int end = a.items[i + 1];
#pragma unroll 4
    for (int n = a.items[i]; n < end; n++, p += (i64)heads * (j.dim + 2)) {
        float old, add, o = p[d], m = p[j.dim], t = p[j.dim + 1];
        joinFactors(M, m, old, add);
        T = join(T, old, t, add);
        O = join(O, old, o, add);
    }
    ((bf16 *)a.dst.at)[(i64)row * a.dst.ld + h * j.dim + d] = toBF16(O * (1.f / T));
}

#endif

#define ATTEND(DIM)                                                                                    \
    KERNEL __launch_bounds__(256, 1) attend_tile_##DIM(const AttendArgs a) { attendTile<DIM>(a); }     \
    KERNEL __launch_bounds__(32) attend_chunk_##DIM(const AttendArgs a) { attendChunk<DIM>(a); }
#ifdef WIDE
ATTEND(192)
ATTEND(256)
#else
ATTEND(64)
ATTEND(80)
ATTEND(96)
ATTEND(128)
#endif
