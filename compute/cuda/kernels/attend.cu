// Attention with tensor cores, as attend.cuh defines it, for heads of DIM numbers, a multiple of 16.
#include "attend.cuh"

// loadChunk copies keys or values of a chunk to shared memory, [64] rows of DIM + 8; positions from end on become
// zeros. offset is that of the head's keys or values in a block, whose tokens are a multiple of 16.
template <int DIM, int THREADS>
__device__ __forceinline__ void loadChunk(const AttendArgs &a, u32 to, const int *table, int chunk, int end, i64 offset, int thread) {
    constexpr int UNITS = DIM / 8;
    const bf16 *from[CHUNK / 16]; // of each 16 positions
#pragma unroll
    for (int i = 0; i < CHUNK / 16; i++) {
        int pos = chunk * CHUNK + i * 16, block = pos < end ? table[pos / a.tokens] : -1;
        from[i] = block < 0 ? 0 : a.at + block * a.block + offset + pos % a.tokens * DIM;
    }
#pragma unroll
    for (int i = 0; i < CHUNK / 16; i++)
#pragma unroll
        for (int j = 0; j < (16 * UNITS + THREADS - 1) / THREADS; j++) {
            int n = thread + j * THREADS, row = i * 16 + n / UNITS;
            if (16 * UNITS % THREADS == 0 || n < 16 * UNITS)
                copy16(to + row * (DIM + 8) * 2 + n % UNITS * 16, from[i] ? from[i] + n * 8 : a.at, from[i] && chunk * CHUNK + row < end);
        }
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
            mma(s[n], q[k], b[0], b[1]);
            mma(s[n + 1], q[k], b[2], b[3]);
        }
}

// attendValues computes o of a chunk from weights and values.
template <int DIM> __device__ __forceinline__ void attendValues(float (&o)[DIM / 8][4], const float (&s)[8][4], u32 values) {
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int n = 0; n < DIM / 8; n++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            o[n][e] = 0;
#pragma unroll
    for (int k = 0; k < CHUNK / 16; k++) {
        u32 w[4] = {packBF16(s[2 * k][0], s[2 * k][1]), packBF16(s[2 * k][2], s[2 * k][3]),
                    packBF16(s[2 * k + 1][0], s[2 * k + 1][1]), packBF16(s[2 * k + 1][2], s[2 * k + 1][3])};
#pragma unroll
        for (int n = 0; n < DIM / 8; n += 2) {
            u32 b[4];
            int pos = k * 16 + lane / 8 % 2 * 8 + lane % 8, unit = n + lane / 16;
            ldmatrixT(b, values + pos * (DIM + 8) * 2 + unit * 16);
            mma(o[n], w, b[0], b[1]);
            mma(o[n + 1], w, b[2], b[3]);
        }
    }
}

// Many rows: eight warps of 16 rows each share the chunks of a KV head in shared memory, in turn two. [tiles, KV
// heads] blocks of 256 threads. Dynamic shared memory: 2·2·64·(DIM+8)·2 bytes.
template <int DIM> __device__ __forceinline__ void attendTile(const AttendArgs &a) {
    extern __shared__ __align__(128) u8 shared[];
    constexpr u32 HALF = CHUNK * (DIM + 8) * 2;
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
    loadQueries<DIM>(q, from[0], from[1]);
    int last = a.until[row0 + rows - 1];
    int c = firstSeen(a, a.until[row0]) / CHUNK, chunks = (last + CHUNK - 1) / CHUNK;
    i64 keyAt = (i64)head * a.tokens * DIM, valueAt = (i64)(a.heads + head) * a.tokens * DIM;
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
        float s[8][4], o[DIM / 8][4], m[2], t[2];
        copyWait<0>();
        __syncthreads(); // all have read the chunk before
        load(c + 1);
        if (c * CHUNK >= warpTo) // no row of the warp sees it: joining it would change nothing
            continue;
        attendKeys<DIM>(s, q, keys);
        weigh(s, m, t, c, first, end, c * CHUNK >= seenFrom && (c + 1) * CHUNK <= seenTo, a.scale, a.softcap);
        attendValues<DIM>(o, s, keys + HALF);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float old, add;
            joinFactors(st.m[i], m[i], old, add);
            st.t[i] = join(st.t[i], old, t[i], add);
#pragma unroll
            for (int n = 0; n < DIM / 8; n++)
#pragma unroll
                for (int e = 2 * i; e < 2 * i + 2; e++)
                    st.o[n][e] = join(st.o[n][e], old, o[n][e], add);
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
// partial. Any number of blocks of 32 threads. Dynamic shared memory: 2·64·(DIM+8)·2 bytes.
#define GROUP 4
template <int DIM> __device__ __forceinline__ void attendChunk(const AttendArgs &a) {
    extern __shared__ __align__(128) u8 shared[];
    constexpr u32 HALF = CHUNK * (DIM + 8) * 2;
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
        loadChunk<DIM, 32>(a, base, table, c, until, (i64)head * a.tokens * DIM, lane);
        copyCommit();
        loadChunk<DIM, 32>(a, base + HALF, table, c, until, (i64)(a.heads + head) * a.tokens * DIM, lane);
        copyCommit();
        u32 q[DIM / 16][4];
        int h0 = part * 16 + lane / 4, h1 = h0 + 8, firstHead = head * a.group;
        const bf16 *qRow = (const bf16 *)a.q.at + (i64)row * a.q.ld + firstHead * DIM;
        loadQueries<DIM>(q, h0 < a.group ? qRow + h0 * DIM : 0, h1 < a.group ? qRow + h1 * DIM : 0);
        float s[8][4], o[DIM / 8][4], m[2], t[2];
        int first[2] = {from, from}, end[2] = {until, until};
        copyWait<1>();
        __syncwarp();
        attendKeys<DIM>(s, q, base);
        weigh(s, m, t, c, first, end, false, a.scale, a.softcap);
        copyWait<0>();
        __syncwarp();
        attendValues<DIM>(o, s, base + HALF);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            int h = i ? h1 : h0;
            if (h >= a.group)
                continue;
            float *to = a.partial + ((i64)at * a.heads * a.group + firstHead + h) * (DIM + 2);
#pragma unroll
            for (int n = 0; n < DIM / 8; n++)
                *(float2 *)(to + n * 8 + lane % 4 * 2) = make_float2(o[n][2 * i], o[n][2 * i + 1]);
            if (lane % 4 == 0)
                *(float2 *)(to + DIM) = make_float2(m[i], t[i]);
        }
    }
}

// Joins the chunks of few rows. [rows, query heads] blocks of DIM threads.
struct JoinArgs {
    AttendArgs a;
    int dim;
};
KERNEL attend_join(const JoinArgs j) {
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

#define ATTEND(DIM)                                                                                    \
    KERNEL __launch_bounds__(256, 1) attend_tile_##DIM(const AttendArgs a) { attendTile<DIM>(a); }     \
    KERNEL __launch_bounds__(32) attend_chunk_##DIM(const AttendArgs a) { attendChunk<DIM>(a); }
ATTEND(64)
ATTEND(80)
ATTEND(96)
ATTEND(128)
