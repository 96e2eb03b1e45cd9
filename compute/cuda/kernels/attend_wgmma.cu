// Attention of many rows on Hopper, with wgmma, for heads of 64 and 128 numbers and blocks of a power of two
// tokens. It gives the bits that attend.cu gives.
#include "attend.cuh"
#include "barrier.cuh"

#define STAGES 6        // chunks in shared memory
#define PANEL 1024      // 64 numbers of each of 8 positions, which a box brings: rows of 128 bytes

// WgmmaArgs has the map of the layer's part of the cache: boxes are 8 positions of a head, keys and values.
struct WgmmaArgs {
    TensorMap cache;
    AttendArgs a; // whose arrived are two numbers, 0 between kernels: tiles that are taken, and blocks that are done
};

// wgmma adds A·B to d, both in shared memory: A as 64 rows of 16, B, 16 by 64, as 64 rows of 16. fresh: d counts as
// zero.
__device__ __forceinline__ void wgmma(float (&d)[8][4], u64 a, u64 b, bool fresh) {
    asm volatile("{\n.reg .pred p;\nsetp.eq.u32 p, %34, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
                 "}, %32, %33, p, 1, 1, 0, 0;\n}\n"
                 : "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[0][2]), "+f"(d[0][3]), "+f"(d[1][0]), "+f"(d[1][1]),
                   "+f"(d[1][2]), "+f"(d[1][3]), "+f"(d[2][0]), "+f"(d[2][1]), "+f"(d[2][2]), "+f"(d[2][3]),
                   "+f"(d[3][0]), "+f"(d[3][1]), "+f"(d[3][2]), "+f"(d[3][3]), "+f"(d[4][0]), "+f"(d[4][1]),
                   "+f"(d[4][2]), "+f"(d[4][3]), "+f"(d[5][0]), "+f"(d[5][1]), "+f"(d[5][2]), "+f"(d[5][3]),
                   "+f"(d[6][0]), "+f"(d[6][1]), "+f"(d[6][2]), "+f"(d[6][3]), "+f"(d[7][0]), "+f"(d[7][1]),
                   "+f"(d[7][2]), "+f"(d[7][3])
                 : "l"(a), "l"(b), "r"((u32)fresh));
}

// wgmmaT is wgmma with A in registers, and B as 16 rows of 64, or of 128.
__device__ __forceinline__ void wgmmaT(float (&d)[8][4], const u32 (&a)[4], u64 b, bool fresh) {
    asm volatile("{\n.reg .pred p;\nsetp.eq.u32 p, %37, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
                 "}, {%32, %33, %34, %35}, %36, p, 1, 1, 1;\n}\n"
                 : "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[0][2]), "+f"(d[0][3]), "+f"(d[1][0]), "+f"(d[1][1]),
                   "+f"(d[1][2]), "+f"(d[1][3]), "+f"(d[2][0]), "+f"(d[2][1]), "+f"(d[2][2]), "+f"(d[2][3]),
                   "+f"(d[3][0]), "+f"(d[3][1]), "+f"(d[3][2]), "+f"(d[3][3]), "+f"(d[4][0]), "+f"(d[4][1]),
                   "+f"(d[4][2]), "+f"(d[4][3]), "+f"(d[5][0]), "+f"(d[5][1]), "+f"(d[5][2]), "+f"(d[5][3]),
                   "+f"(d[6][0]), "+f"(d[6][1]), "+f"(d[6][2]), "+f"(d[6][3]), "+f"(d[7][0]), "+f"(d[7][1]),
                   "+f"(d[7][2]), "+f"(d[7][3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((u32)fresh));
}

__device__ __forceinline__ void wgmmaT(float (&d)[16][4], const u32 (&a)[4], u64 b, bool fresh) {
    asm volatile("{\n.reg .pred p;\nsetp.eq.u32 p, %69, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
                 "}, {%64, %65, %66, %67}, %68, p, 1, 1, 1;\n}\n"
                 : "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[0][2]), "+f"(d[0][3]), "+f"(d[1][0]), "+f"(d[1][1]),
                   "+f"(d[1][2]), "+f"(d[1][3]), "+f"(d[2][0]), "+f"(d[2][1]), "+f"(d[2][2]), "+f"(d[2][3]),
                   "+f"(d[3][0]), "+f"(d[3][1]), "+f"(d[3][2]), "+f"(d[3][3]), "+f"(d[4][0]), "+f"(d[4][1]),
                   "+f"(d[4][2]), "+f"(d[4][3]), "+f"(d[5][0]), "+f"(d[5][1]), "+f"(d[5][2]), "+f"(d[5][3]),
                   "+f"(d[6][0]), "+f"(d[6][1]), "+f"(d[6][2]), "+f"(d[6][3]), "+f"(d[7][0]), "+f"(d[7][1]),
                   "+f"(d[7][2]), "+f"(d[7][3]), "+f"(d[8][0]), "+f"(d[8][1]), "+f"(d[8][2]), "+f"(d[8][3]),
                   "+f"(d[9][0]), "+f"(d[9][1]), "+f"(d[9][2]), "+f"(d[9][3]), "+f"(d[10][0]), "+f"(d[10][1]),
                   "+f"(d[10][2]), "+f"(d[10][3]), "+f"(d[11][0]), "+f"(d[11][1]), "+f"(d[11][2]), "+f"(d[11][3]),
                   "+f"(d[12][0]), "+f"(d[12][1]), "+f"(d[12][2]), "+f"(d[12][3]), "+f"(d[13][0]), "+f"(d[13][1]),
                   "+f"(d[13][2]), "+f"(d[13][3]), "+f"(d[14][0]), "+f"(d[14][1]), "+f"(d[14][2]), "+f"(d[14][3]),
                   "+f"(d[15][0]), "+f"(d[15][1]), "+f"(d[15][2]), "+f"(d[15][3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((u32)fresh));
}

// uniform tells the compiler that a number is the same in the whole warp.
__device__ __forceinline__ int uniform(int x) { return __shfl_sync(~0u, x, 0); }

// GROUP is the bytes of a box: panels of its keys, then those of its values.
template <int DIM> constexpr u32 GROUP = DIM / 64 * 2 * PANEL;

// describe makes the descriptor of a matrix of rows of 128 bytes in shared memory, whose 16-byte units are swizzled
// in groups of eight rows, which are so many bytes apart; what is wider goes on a panel further.
__device__ __forceinline__ u64 describe(u32 shared, u32 apart) {
    return (u64)(shared >> 4 & 0x3fff) | (u64)(PANEL >> 4) << 16 | (u64)(apart >> 4) << 32 | (u64)1 << 62;
}

// settle keeps the compiler from reading sums before they are there.
template <int N> __device__ __forceinline__ void settle(float (&d)[N][4]) {
#pragma unroll
    for (int i = 0; i < N; i++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            asm volatile("" : "+f"(d[i][e])::"memory");
}

// Stage is where a chunk lies in shared memory: the next one takes the next place.
struct Stage {
    int at;
    u32 parity;

    __device__ __forceinline__ void next() {
        if (++at == STAGES)
            at = 0, parity ^= 1;
    }
};

// In shared memory, from its first multiple of 1024 on: chunks, queries of all warpgroups, barriers, and two tiles.
template <int DIM, int GROUPS> struct Plan {
    static constexpr u32 CHUNKS = CHUNK / 8 * GROUP<DIM>, QUERIES = STAGES * CHUNKS, VALUES = GROUP<DIM> / 2;
    static constexpr u32 FULL = QUERIES + GROUPS * 64 * DIM * 2, EMPTY = FULL + STAGES * 8;
    static constexpr u32 TILE_FULL = EMPTY + STAGES * 8, TILE_EMPTY = TILE_FULL + 16, TILES = TILE_EMPTY + 16;
};

// Tile is what the warpgroups do next: rows of a KV head, none at the end, and the chunks that they see, of positions
// before `last`.
struct Tile {
    int row0, rows, head, chunk, chunks, last;

    __device__ __forceinline__ void put(u32 at) const {
        asm volatile("st.shared.v4.u32 [%0], {%1,%2,%3,%4};" ::"r"(at), "r"(row0), "r"(rows), "r"(head), "r"(chunk) : "memory");
        asm volatile("st.shared.v2.u32 [%0], {%1,%2};" ::"r"(at + 16), "r"(chunks), "r"(last) : "memory");
    }

    __device__ __forceinline__ void get(u32 at) {
        asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(row0), "=r"(rows), "=r"(head), "=r"(chunk) : "r"(at) : "memory");
        asm volatile("ld.shared.v2.u32 {%0,%1}, [%2];" : "=r"(chunks), "=r"(last) : "r"(at + 16) : "memory");
        row0 = uniform(row0), rows = uniform(rows), head = uniform(head);
        chunk = uniform(chunk), chunks = uniform(chunks), last = uniform(last);
    }
};

// fetchGroup begins to copy a box: from number `row` of a block's rows of keys on.
__device__ __forceinline__ void fetchGroup(u32 to, const TensorMap &map, int row, int block, u32 barrier) {
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%2, %3, %2, %2, %4}], [%5];" ::"r"(to), "l"(&map), "r"(0), "r"(row), "r"(block), "r"(barrier)
                 : "memory");
}

// feed is the work of a warp: it takes tiles until there are no more, and fetches their chunks. Lane i fetches
// positions 8·i and on, and reads the number of their block a chunk ahead.
template <int DIM, int GROUPS> __device__ __forceinline__ void feed(const WgmmaArgs &w, u32 base) {
    using P = Plan<DIM, GROUPS>;
    const AttendArgs &a = w.a;
    int lane = threadIdx.x % 32, items = a.count[1] * a.heads, taken = 0;
    Stage to = {0, 1};
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
        int pos = t.chunk * CHUNK + lane % 8 * 8, block = pos < t.last ? table[pos >> a.shift] : 0;
        for (int c = t.chunk; c < t.chunks; c++, pos += CHUNK) {
            int next = pos + CHUNK < t.last ? table[pos + CHUNK >> a.shift] : 0, groups = min(8, (t.last - c * CHUNK + 7) / 8);
            barrierWait(base + P::EMPTY + to.at * 8, to.parity);
            u32 full = base + P::FULL + to.at * 8;
            if (lane == 0)
                barrierExpect(full, groups * GROUP<DIM>);
            __syncwarp();
            if (lane < groups)
                fetchGroup(base + to.at * P::CHUNKS + lane * GROUP<DIM>, w.cache, t.head * a.tokens + (pos & a.tokens - 1), block, full);
            block = next;
            to.next();
        }
    }
    if (lane == 0 && atomicAdd(a.arrived + 1, 1) == gridDim.x - 1)
        a.arrived[0] = a.arrived[1] = 0;
}

__device__ __forceinline__ void commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// ready waits for sums, up to so many groups of products that were begun later.
template <int LATER, int N> __device__ __forceinline__ void ready(float (&d)[N][4]) {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LATER) : "memory");
    settle(d);
}

// together waits for the other threads of the warpgroup.
__device__ __forceinline__ void together() { asm volatile("bar.sync %0, 128;" ::"r"(3 + (int)threadIdx.x / 128) : "memory"); }

// score begins the products of the queries and a chunk's keys.
template <int DIM> __device__ __forceinline__ void score(float (&s)[8][4], u32 queries, u32 keys) {
    u64 q = describe(queries, 1024), k = describe(keys, GROUP<DIM>);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int i = 0; i < DIM / 16; i++)
        wgmma(s, q + (i / 4 * 64 * 128 + i % 4 * 32 >> 4), k + (i / 4 * PANEL + i % 4 * 32 >> 4), i == 0);
    commit();
}

// mix begins the products of a chunk's weights and values.
template <int DIM> __device__ __forceinline__ void mix(float (&o)[DIM / 8][4], const u32 (&w)[4][4], u32 values) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int i = 0; i < 4; i++)
        wgmmaT(o, w[i], describe(values, GROUP<DIM>) + (i * 2 * GROUP<DIM> >> 4), i == 0);
    commit();
}

// after keeps what follows from being moved before some numbers, which are finite: it would be stored otherwise.
__device__ __forceinline__ void after(const float (&x)[2], u32 at) {
    asm volatile("{\n.reg .pred p;\n.reg .f32 x;\nadd.f32 x, %0, %1;\nsetp.eq.f32 p, x, 0f7f800000;\n@p st.shared.f32 [%2], x;\n}" ::"f"(x[0]), "f"(x[1]), "r"(at) : "memory");
}
// Two rows of scores of a chunk, g and g+8 of the warp's tile, as a lane has them: their greatest m, as exponents of 2,
// and `less`, which a score's exponent has added to become that of its weight. all says that both rows see the whole
// chunk; else row i sees positions from first[i] to end[i]-1.
struct Greatest {
    float m[2], less[2], scale;

    __device__ __forceinline__ void find(float (&s)[8][4], int chunk, const int (&first)[2], const int (&end)[2], bool all, const AttendArgs &a) {
        scale = a.scale;
        if (a.softcap > 0) { // as in weigh of attend.cuh
            float twice = 2 * LOG2E * scale / a.softcap;
#pragma unroll
            for (int n = 0; n < 8; n++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    s[n][e] = fmaf(-2 * a.softcap, inverseFast(exp2Fast(s[n][e] * twice) + 1), a.softcap);
            scale = 1;
        }
        if (!all) {
            int at = chunk * CHUNK + threadIdx.x % 4 * 2;
#pragma unroll
            for (int n = 0; n < 8; n++)
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    int pos = at + n * 8 + e % 2;
                    s[n][e] = pos >= first[e / 2] && pos < end[e / 2] ? s[n][e] : -INF;
                }
        }
        float most[2][4]; // of both rows at a time: each waits for the other's shuffles
#pragma unroll
        for (int n = 0; n < 4; n++)
#pragma unroll
            for (int i = 0; i < 2; i++)
                most[i][n] = fmaxf(fmaxf(s[2 * n][2 * i], s[2 * n][2 * i + 1]), fmaxf(s[2 * n + 1][2 * i], s[2 * n + 1][2 * i + 1]));
#pragma unroll
        for (int i = 0; i < 2; i++)
            m[i] = fmaxf(fmaxf(most[i][0], most[i][1]), fmaxf(most[i][2], most[i][3]));
#pragma unroll
        for (int d = 1; d < 4; d *= 2) {
            float other[2] = {__shfl_xor_sync(~0u, m[0], d), __shfl_xor_sync(~0u, m[1], d)};
            m[0] = fmaxf(m[0], other[0]), m[1] = fmaxf(m[1], other[1]);
        }
#pragma unroll
        for (int i = 0; i < 2; i++) {
            m[i] = m[i] * scale; // which is positive
            less[i] = m[i] == -INF ? 0 : -m[i];
        }
    }
};

// addFour adds a number of four neighbouring lanes, in both rows.
__device__ __forceinline__ void addFour(float (&t)[2]) {
#pragma unroll
    for (int d = 1; d < 4; d *= 2) {
        float other[2] = {__shfl_xor_sync(~0u, t[0], d), __shfl_xor_sync(~0u, t[1], d)};
        t[0] = t[0] + other[0], t[1] = t[1] + other[1];
    }
}

// Sums are those of the chunks so far, and what the last one of them is joined with: the sums of the chunks before are
// multiplied with `old`, its own with `add`.
template <int DIM> struct Sums {
    State<DIM> st;
    float old[2], add[2];

    // next takes m and t of a chunk.
    __device__ __forceinline__ void next(const float (&m)[2], const float (&t)[2]) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            joinFactors(st.m[i], m[i], old[i], add[i]);
            st.t[i] = join(st.t[i], old[i], t[i], add[i]);
        }
    }

    // scaleOld multiplies with old, which most chunks leave 1.
    __device__ __forceinline__ void scaleOld() {
        if (__any_sync(~0u, old[0] != 1 || old[1] != 1))
#pragma unroll
            for (int n = 0; n < DIM / 8; n++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    st.o[n][e] = st.o[n][e] * old[e / 2];
    }

    // addSome adds part i, of 16, of what the chunk gives.
    __device__ __forceinline__ void addSome(const float (&o)[DIM / 8][4], int i) {
#pragma unroll
        for (int n = i * DIM / 128; n < (i + 1) * DIM / 128; n++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                st.o[n][e] = join(st.o[n][e], 1, o[n][e], add[e / 2]);
    }
};

// Warpgroup is what one of those that multiply does: 64 rows of a tile.
template <int DIM, int GROUPS> struct Warpgroup {
    using P = Plan<DIM, GROUPS>;
    const AttendArgs &a;
    u32 base;
    Stage in; // of the next chunk

    // loadQueries copies the queries to shared memory, as 64 rows in panels.
    __device__ __forceinline__ u32 loadQueries(const Tile &t) const {
        constexpr int UNITS = DIM / 8, N = 64 * UNITS / 128;
        int group = threadIdx.x / 128;
        u32 to = base + P::QUERIES + uniform(group) * (64 * DIM * 2);
        uint4 v[N];
#pragma unroll
        for (int i = 0; i < N; i++) {
            int n = threadIdx.x % 128 + i * 128, r = group * 64 + n / UNITS, token = r / a.group;
            v[i] = make_uint4(0, 0, 0, 0);
            if (token < t.rows)
                v[i] = *(const uint4 *)((const bf16 *)a.q.at + (i64)(t.row0 + token) * a.q.ld + (t.head * a.group + r % a.group) * DIM + n % UNITS * 8);
        }
#pragma unroll
        for (int i = 0; i < N; i++) {
            int n = threadIdx.x % 128 + i * 128, r = n / UNITS, unit = n % UNITS;
            asm volatile("st.shared.v4.u32 [%0], {%1,%2,%3,%4};" ::"r"(to + unit / 8 * (64 * 128) + r * 128 + ((unit ^ r) % 8) * 16), "r"(v[i].x),
                         "r"(v[i].y), "r"(v[i].z), "r"(v[i].w)
                         : "memory");
        }
        fenceShared();
        together();
        return to;
    }

    // clear makes the values of a chunk zeros from number `from` on, which nobody fetched whole.
    __device__ __forceinline__ void clear(u32 values, int from) const {
        constexpr int UNITS = DIM / 8;
        for (int i = from * UNITS + threadIdx.x % 128; i < CHUNK * UNITS; i += 128) {
            int row = i / UNITS, unit = i % UNITS;
            u32 at = values + row / 8 * GROUP<DIM> + unit / 8 * PANEL + row % 8 * 128 + unit % 8 * 16;
            asm volatile("st.shared.v4.u32 [%0], {%1,%1,%1,%1};" ::"r"(at), "r"(0) : "memory");
        }
        fenceShared();
        together();
    }

    __device__ __forceinline__ void arrived(const Stage &at) const { barrierWait(base + P::FULL + at.at * 8, at.parity); }

    __device__ __forceinline__ void release(const Stage &at) const {
        if (threadIdx.x % 32 == 0)
            barrierArrive(base + P::EMPTY + at.at * 8);
    }

    // attend computes a tile. While tensor cores multiply the weights and values of a chunk and the next one's scores,
    // a warpgroup waits, and another one computes weights, which takes as long, and adds what the chunk before gives.
    __device__ __forceinline__ void attend(const Tile &t) {
        int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        u32 queries = loadQueries(t);
        int first[2], end[2];
        Sums<DIM> sums = {};
#pragma unroll
        for (int i = 0; i < 2; i++) {
            int r = warp * 16 + lane / 4 + 8 * i, token = r / a.group, h = t.head * a.group + r % a.group;
            end[i] = token < t.rows ? a.until[t.row0 + token] : 0;
            first[i] = firstSeen(a, end[i]);
            sums.st.m[i] = a.sinks ? a.sinks[h] * LOG2E : -INF;
            sums.st.t[i] = a.sinks ? 1 : 0;
        }
        // What all rows of the warp see, and up to which chunk one of the warpgroup does.
        int lowest = warp * 16 / a.group, highest = min((warp * 16 + 15) / a.group, t.rows - 1);
        int seenFrom = lowest < t.rows ? firstSeen(a, a.until[t.row0 + highest]) : 0, seenTo = lowest < t.rows ? a.until[t.row0 + lowest] : 0;
        int group = warp / 4 * 64 / a.group, groupTo = group < t.rows ? a.until[t.row0 + min((warp / 4 * 64 + 63) / a.group, t.rows - 1)] : 0;
        // Joining what no row of the warpgroup sees would change nothing.
        int mine = uniform(min(t.chunks, (groupTo + CHUNK - 1) / CHUNK));
        int c = t.chunk;
        float s[8][4], o[DIM / 8][4], sum[2];
        u32 w[4][4];
        Greatest most;
        auto greatest = [&](int c) { most.find(s, c, first, end, c * CHUNK >= seenFrom && (c + 1) * CHUNK <= seenTo, a); };
        // weigh makes scores weights, and adds what the chunk before gives, since exponents leave room for that.
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
                if (add)
                    sums.addSome(o, n);
            }
            addFour(sum);
#pragma unroll
            for (int k = 0; k < 4; k++) {
                w[k][0] = packBF16(s[2 * k][0], s[2 * k][1]), w[k][1] = packBF16(s[2 * k][2], s[2 * k][3]);
                w[k][2] = packBF16(s[2 * k + 1][0], s[2 * k + 1][1]), w[k][3] = packBF16(s[2 * k + 1][2], s[2 * k + 1][3]);
            }
            sums.next(most.m, sum);
        };
        if (c < mine) {
            Stage next = in;
            next.next();
            arrived(in);
            score<DIM>(s, queries, base + in.at * P::CHUNKS);
            if (c < mine - 1)
                arrived(next);
            ready<0>(s);
            greatest(c);
            weigh(false);
            for (; c < mine - 1; c++) { // the weights of chunk c are there
                score<DIM>(s, queries, base + next.at * P::CHUNKS);
                mix<DIM>(o, w, base + in.at * P::CHUNKS + P::VALUES);
                sums.scaleOld();
                Stage now = in;
                in = next;
                next.next();
                if (c < mine - 2)
                    arrived(next);
                ready<1>(s);
                greatest(c + 1);
                after(most.less, base);
                ready<0>(o);
                release(now);
                weigh(true);
            }
            u32 values = base + in.at * P::CHUNKS + P::VALUES;
            if (c == t.chunks - 1 && t.last % CHUNK)
                clear(values, t.last % CHUNK);
            mix<DIM>(o, w, values);
            sums.scaleOld();
            ready<0>(o);
            release(in);
#pragma unroll
            for (int n = 0; n < 16; n++)
                sums.addSome(o, n);
            in.next(), c++;
        }
        for (; c < t.chunks; c++, in.next()) { // what only other warpgroups see
            arrived(in);
            release(in);
        }
#pragma unroll
        for (int i = 0; i < 2; i++) {
            int r = warp * 16 + lane / 4 + 8 * i, token = r / a.group;
            if (token >= t.rows)
                continue;
            bf16 *to = (bf16 *)a.dst.at + (i64)(t.row0 + token) * a.dst.ld + (t.head * a.group + r % a.group) * DIM + lane % 4 * 2;
            float inv = 1.f / sums.st.t[i];
#pragma unroll
            for (int n = 0; n < DIM / 8; n++)
                *(u32 *)(to + n * 8) = packBF16(sums.st.o[n][2 * i] * inv, sums.st.o[n][2 * i + 1] * inv);
        }
    }
};

// A block takes tiles, one after the other, as long as there are some: of GROUPS warpgroups each has 64 rows, all share
// chunks in shared memory, which a warp of one more fetches. Up to a block for each multiprocessor. The tiles that come
// first should have the most to do. Dynamic shared memory: wgmmaShared in attention.go.
template <int DIM, int GROUPS> __device__ __forceinline__ void attendTiles(const WgmmaArgs &w) {
    using P = Plan<DIM, GROUPS>;
    extern __shared__ u8 unaligned[];
    u32 base = (sharedAddress(unaligned) + 1023) & ~1023u;
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) {
            barrierInit(base + P::FULL + i * 8, 1);
            barrierInit(base + P::EMPTY + i * 8, GROUPS * 4);
        }
        for (int i = 0; i < 2; i++) {
            barrierInit(base + P::TILE_FULL + i * 8, 1);
            barrierInit(base + P::TILE_EMPTY + i * 8, GROUPS * 4);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    letNextBegin();
    waitForRows();
    if (threadIdx.x >= GROUPS * 128) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(GROUPS == 2 ? 24 : 32));
        if (threadIdx.x / 32 == GROUPS * 4)
            feed<DIM, GROUPS>(w, base);
        return;
    }
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(GROUPS == 2 ? 240 : 160));
    Warpgroup<DIM, GROUPS> group = {w.a, base, {0, 0}};
    for (int n = 0;; n++) {
        Tile t;
        barrierWait(base + P::TILE_FULL + n % 2 * 8, n / 2 % 2);
        t.get(base + P::TILES + n % 2 * 32);
        __syncwarp();
        if (threadIdx.x % 32 == 0)
            barrierArrive(base + P::TILE_EMPTY + n % 2 * 8);
        if (t.rows == 0)
            return;
        group.attend(t);
    }
}

KERNEL __launch_bounds__(512, 1) attend_wgmma_64(const __grid_constant__ WgmmaArgs w) { attendTiles<64, 3>(w); }
KERNEL __launch_bounds__(384, 1) attend_wgmma_128(const __grid_constant__ WgmmaArgs w) { attendTiles<128, 2>(w); }
