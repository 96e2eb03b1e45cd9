// Attention of many rows on Hopper, with wgmma, for heads of 64 and 128 numbers and blocks of a power of two
// tokens. It gives the bits that attend.cu gives.
#include "attend.cuh"
#include "barrier.cuh"

#define STAGES 6
#define MULTIPLIERS 256 // threads that multiply: two warpgroups; 128 more fetch
#define AHEAD 3         // chunks that are on their way at a time
#define PANEL (CHUNK * 128) // 64 numbers of each position of a chunk: rows of 128 bytes

// wgmma adds A·B to d: A is a warpgroup's 64 by 16, B 16 by 64 in shared memory, as 64 rows of 16. fresh: d counts
// as zero.
__device__ __forceinline__ void wgmma(float (&d)[8][4], const u32 (&a)[4], u64 b, bool fresh) {
    asm volatile("{\n.reg .pred p;\nsetp.eq.u32 p, %37, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
                 "}, {%32, %33, %34, %35}, %36, p, 1, 1, 0;\n}\n"
                 : "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[0][2]), "+f"(d[0][3]), "+f"(d[1][0]), "+f"(d[1][1]),
                   "+f"(d[1][2]), "+f"(d[1][3]), "+f"(d[2][0]), "+f"(d[2][1]), "+f"(d[2][2]), "+f"(d[2][3]),
                   "+f"(d[3][0]), "+f"(d[3][1]), "+f"(d[3][2]), "+f"(d[3][3]), "+f"(d[4][0]), "+f"(d[4][1]),
                   "+f"(d[4][2]), "+f"(d[4][3]), "+f"(d[5][0]), "+f"(d[5][1]), "+f"(d[5][2]), "+f"(d[5][3]),
                   "+f"(d[6][0]), "+f"(d[6][1]), "+f"(d[6][2]), "+f"(d[6][3]), "+f"(d[7][0]), "+f"(d[7][1]),
                   "+f"(d[7][2]), "+f"(d[7][3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((u32)fresh));
}

// wgmmaT is wgmma with B as 16 rows of 64, or of 128.
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

// describe makes the descriptor of a matrix of rows of 128 bytes in shared memory, whose 16-byte units are swizzled
// in groups of eight rows; what is wider goes on a panel further.
__device__ __forceinline__ u64 describe(u32 shared) {
    return (u64)(shared >> 4 & 0x3fff) | (u64)(PANEL >> 4) << 16 | (u64)(1024 >> 4) << 32 | (u64)1 << 62;
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

// In shared memory, from its first multiple of 1024 on: keys and values of the stages, then the barriers.
template <int DIM> struct Plan {
    static constexpr u32 HALF = DIM / 64 * PANEL; // keys of a chunk, or its values
    static constexpr u32 FULL = STAGES * 2 * HALF, EMPTY = FULL + STAGES * 8;
};

// feed copies the chunks from c on to shared memory, keys and values in panels; positions that there are not become
// zeros. It is the work of 128 threads, and takes few instructions, since the multipliers want them: a thread copies 16
// bytes of every APART-th row, and rows of a page of 16, which share a block, are a constant apart.
template <int DIM> __device__ __forceinline__ void feed(const AttendArgs &a, const int *table, u32 base, int c, int chunks, int last) {
    using P = Plan<DIM>;
    constexpr int UNITS = DIM / 8, APART = 128 / UNITS, PAGE = 16, PAGES = CHUNK / PAGE;
    int unit = threadIdx.x % UNITS, row0 = threadIdx.x % 128 / UNITS;
    u32 blockBytes = (u32)(a.block * 2);
    const u8 *first = (const u8 *)(a.at + ((i64)blockIdx.y * a.tokens + row0) * DIM + unit * 8);
    i64 values = (i64)a.heads * a.tokens * DIM * 2;
    u32 to0 = base + unit / 8 * PANEL + row0 * 128 + ((unit % 8) ^ (row0 % 8)) * 16;
    u32 block[PAGES] = {}; // of the chunk that is loaded next: its numbers are read a chunk ahead
    auto find = [&](int c) {
#pragma unroll
        for (int i = 0; i < PAGES; i++)
            if (c * CHUNK + i * PAGE < last)
                block[i] = table[(c * CHUNK >> a.shift) + (i * PAGE >> a.shift)];
    };
    find(c);
    Stage to = {0, 1}, done = {0, 0};
    for (int i = 0; i < chunks - c + AHEAD - 1; i++) {
        if (c + i < chunks) {
            barrierWait(base + P::EMPTY + to.at * 8, to.parity);
            u32 at = to0 + to.at * 2 * P::HALF;
            int position = (c + i) * CHUNK, there = last - position - row0; // row j of a thread's is there if j is less
#pragma unroll
            for (int j = 0; j < CHUNK; j += APART) {
                int page = j / PAGE;
                const u8 *from = first + (u64)block[page] * blockBytes + (position + page * PAGE & a.tokens - 1) * (DIM * 2) + j % PAGE * (DIM * 2);
                copy16(at + j * 128, from, j < there);
                copy16(at + j * 128 + P::HALF, from + values, j < there);
            }
            find(c + i + 1);
            to.next();
        }
        copyCommit();
        if (i >= AHEAD - 1) {
            copyWait<AHEAD - 1>();
            fenceShared();
            barrierArrive(base + P::FULL + done.at * 8);
            done.next();
        }
    }
}

__device__ __forceinline__ void commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// ready waits for sums, up to so many groups of products that were begun later.
template <int LATER, int N> __device__ __forceinline__ void ready(float (&d)[N][4]) {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LATER) : "memory");
    settle(d);
}

// after keeps what follows from being moved before the sums of weights, which are never negative: it would be stored
// otherwise.
__device__ __forceinline__ void after(const float (&t)[2], u32 at) {
    asm volatile("{\n.reg .pred p;\n.reg .f32 x;\nmin.f32 x, %0, %1;\nsetp.lt.f32 p, x, 0f00000000;\n@p st.shared.f32 [%2], x;\n}" ::"f"(t[0]), "f"(t[1]), "r"(at) : "memory");
}

// uniform tells the compiler that a number is the same in the whole warp.
__device__ __forceinline__ int uniform(int x) { return __shfl_sync(~0u, x, 0); }

// score begins the products of the queries and a chunk's keys.
template <int DIM> __device__ __forceinline__ void score(float (&s)[8][4], const u32 (&q)[DIM / 16][4], u32 keys) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int k = 0; k < DIM / 16; k++)
        wgmma(s, q[k], describe(keys) + (k / 4 * PANEL + k % 4 * 32 >> 4), k == 0);
    commit();
}

// mix begins the products of a chunk's weights and values.
template <int DIM> __device__ __forceinline__ void mix(float (&o)[DIM / 8][4], const u32 (&w)[4][4], u32 values) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int k = 0; k < 4; k++)
        wgmmaT(o, w[k], describe(values) + (k * 16 * 128 >> 4), k == 0);
    commit();
}

// joinChunk joins a chunk to those before, of which most leave the greatest score as it is.
template <int DIM> __device__ __forceinline__ void joinChunk(State<DIM> &st, const float (&o)[DIM / 8][4], const float (&m)[2], const float (&t)[2]) {
    float old[2], add[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        joinFactors(st.m[i], m[i], old[i], add[i]);
        st.t[i] = join(st.t[i], old[i], t[i], add[i]);
    }
    if (__any_sync(~0u, old[0] != 1 || old[1] != 1))
#pragma unroll
        for (int n = 0; n < DIM / 8; n++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                st.o[n][e] = st.o[n][e] * old[e / 2];
#pragma unroll
    for (int n = 0; n < DIM / 8; n++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            st.o[n][e] = join(st.o[n][e], 1, o[n][e], add[e / 2]);
}

// attend is the work of a warpgroup: while the tensor cores multiply a chunk's weights and values, the next chunk's
// scores become weights.
template <int DIM> __device__ __forceinline__ void attend(const AttendArgs &a, u32 base, int row0, int rows, int c, int chunks) {
    using P = Plan<DIM>;
    int head = blockIdx.y, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int first[2], end[2];
    u32 q[DIM / 16][4];
    State<DIM> st = {};
    {
        const bf16 *from[2];
#pragma unroll
        for (int i = 0; i < 2; i++) {
            int r = warp * 16 + lane / 4 + 8 * i, token = r / a.group, h = head * a.group + r % a.group;
            bool there = token < rows;
            token = row0 + (there ? token : 0);
            end[i] = there ? a.until[token] : 0;
            first[i] = firstSeen(a, end[i]);
            from[i] = there ? (const bf16 *)a.q.at + (i64)token * a.q.ld + h * DIM : 0;
            st.m[i] = a.sinks ? a.sinks[h] * LOG2E : -INF;
            st.t[i] = a.sinks ? 1 : 0;
        }
        loadQueries<DIM>(q, from[0], from[1]);
    }
    // What all rows of the warp see, and up to where one of the warpgroup does.
    int lowest = warp * 16 / a.group, highest = min((warp * 16 + 15) / a.group, rows - 1), group = warp / 4 * 64 / a.group;
    int seenFrom = lowest < rows ? firstSeen(a, a.until[row0 + highest]) : 0, seenTo = lowest < rows ? a.until[row0 + lowest] : 0;
    int groupTo = group < rows ? a.until[row0 + min((warp / 4 * 64 + 63) / a.group, rows - 1)] : 0;
    int mine = uniform(min(chunks, (groupTo + CHUNK - 1) / CHUNK)); // joining what no row of the warpgroup sees would change nothing
    Stage in = {0, 0}; // of chunk c
    float s[8][4], o[DIM / 8][4], m[2], t[2];
    u32 w[4][4];
    auto weights = [&](int c) {
        weigh(s, m, t, c, first, end, c * CHUNK >= seenFrom && (c + 1) * CHUNK <= seenTo, a.scale, a.softcap);
    };
    auto pack = [&] {
#pragma unroll
        for (int k = 0; k < 4; k++) {
            w[k][0] = packBF16(s[2 * k][0], s[2 * k][1]), w[k][1] = packBF16(s[2 * k][2], s[2 * k][3]);
            w[k][2] = packBF16(s[2 * k + 1][0], s[2 * k + 1][1]), w[k][3] = packBF16(s[2 * k + 1][2], s[2 * k + 1][3]);
        }
    };
    if (c < mine) {
        barrierWait(base + P::FULL + in.at * 8, in.parity);
        score<DIM>(s, q, base + in.at * 2 * P::HALF);
        ready<0>(s);
        weights(c);
        pack();
        if (c < mine - 1) {
            Stage next = in;
            next.next();
            barrierWait(base + P::FULL + next.at * 8, next.parity);
            score<DIM>(s, q, base + next.at * 2 * P::HALF);
            for (;; c++) { // the weights of chunk c are there, the scores of the next one under way
                float oldM[2] = {m[0], m[1]}, oldT[2] = {t[0], t[1]};
                mix<DIM>(o, w, base + in.at * 2 * P::HALF + P::HALF);
                ready<1>(s);
                weights(c + 1);
                after(t, base);
                ready<0>(o);
                barrierArrive(base + P::EMPTY + in.at * 8);
                pack();
                in = next;
                if (c == mine - 2) {
                    joinChunk<DIM>(st, o, oldM, oldT);
                    break;
                }
                next.next();
                barrierWait(base + P::FULL + next.at * 8, next.parity);
                score<DIM>(s, q, base + next.at * 2 * P::HALF);
                joinChunk<DIM>(st, o, oldM, oldT);
            }
            c++;
        }
        mix<DIM>(o, w, base + in.at * 2 * P::HALF + P::HALF);
        ready<0>(o);
        barrierArrive(base + P::EMPTY + in.at * 8);
        joinChunk<DIM>(st, o, m, t);
        in.next(), c++;
    }
    for (; c < chunks; c++, in.next()) { // what only the other warpgroup sees
        barrierWait(base + P::FULL + in.at * 8, in.parity);
        barrierArrive(base + P::EMPTY + in.at * 8);
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        int r = warp * 16 + lane / 4 + 8 * i, token = r / a.group;
        if (token >= rows)
            continue;
        bf16 *to = (bf16 *)a.dst.at + (i64)(row0 + token) * a.dst.ld + (head * a.group + r % a.group) * DIM + lane % 4 * 2;
        float inv = 1.f / st.t[i];
#pragma unroll
        for (int n = 0; n < DIM / 8; n++)
            *(u32 *)(to + n * 8) = packBF16(st.o[n][2 * i] * inv, st.o[n][2 * i + 1] * inv);
    }
}

// Eight warps of 16 rows each share the chunks of a KV head in shared memory, which four more warps fetch. [tiles, KV
// heads] blocks of 384 threads; the last tiles, which see most, come first. Dynamic shared memory: STAGES·DIM·256 bytes
// and the barriers, and 1024 to align them.
template <int DIM> __device__ __forceinline__ void attendTile(const AttendArgs &a) {
    using P = Plan<DIM>;
    extern __shared__ u8 unaligned[];
    u32 base = (sharedAddress(unaligned) + 1023) & ~1023u;
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) {
            barrierInit(base + P::FULL + i * 8, 128);
            barrierInit(base + P::EMPTY + i * 8, MULTIPLIERS);
        }
    }
    __syncthreads();
    letNextBegin();
    waitForRows();
    int tile = a.count[1] - 1 - (int)blockIdx.x;
    if (tile < 0)
        return;
    // An item is a tile: its first row, and how many.
    int row0 = a.items[2 * tile], rows = a.items[2 * tile + 1], last = a.until[row0 + rows - 1];
    int c = uniform(firstSeen(a, a.until[row0]) / CHUNK), chunks = uniform((last + CHUNK - 1) / CHUNK);
    if (threadIdx.x >= MULTIPLIERS) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        feed<DIM>(a, a.table + (i64)a.slot[row0] * a.stride, base, c, chunks, last);
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        attend<DIM>(a, base, row0, rows, c, chunks);
    }
}

KERNEL __launch_bounds__(384, 1) attend_wgmma_64(const AttendArgs a) { attendTile<64>(a); }
KERNEL __launch_bounds__(384, 1) attend_wgmma_128(const AttendArgs a) { attendTile<128>(a); }
