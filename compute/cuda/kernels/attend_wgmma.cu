// Attention of many rows on Hopper, with wgmma, for heads of 64 and 128 numbers and blocks of a power of two
// tokens. It gives the bits that attend.cu gives.
#include "attend.cuh"

#define STAGES 4
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

// Blocks are those of the positions of a chunk that a thread copies.
template <int DIM> struct Blocks {
    static constexpr int N = CHUNK * DIM / 8 / 256;
    int block[N];

    __device__ __forceinline__ void find(const AttendArgs &a, const int *table, int chunk, int end) {
#pragma unroll
        for (int i = 0; i < N; i++) {
            int pos = chunk * CHUNK + (threadIdx.x + i * 256) / (DIM / 8);
            block[i] = pos < end ? table[pos >> a.shift] : -1;
        }
    }

    // copy copies keys or values of the chunk to shared memory, in panels; positions that there are not become
    // zeros.
    __device__ __forceinline__ void copy(const AttendArgs &a, u32 to, int chunk, i64 offset) const {
#pragma unroll
        for (int i = 0; i < N; i++) {
            int n = threadIdx.x + i * 256, row = n / (DIM / 8), unit = n % (DIM / 8);
            const bf16 *from = a.at + (block[i] < 0 ? 0 : block[i] * a.block + offset + ((chunk * CHUNK + row) & (a.tokens - 1)) * DIM + unit * 8);
            copy16(to + unit / 8 * PANEL + row * 128 + ((unit % 8) ^ (row % 8)) * 16, from, block[i] >= 0);
        }
    }
};

// Eight warps, two warpgroups, of 16 rows each share the chunks of a KV head in shared memory. [tiles, KV heads]
// blocks of 256 threads. Dynamic shared memory: STAGES·DIM·256 bytes, and 1024 to align them.
template <int DIM> __device__ __forceinline__ void attendTile(const AttendArgs &a) {
    constexpr u32 HALF = DIM / 64 * PANEL;
    extern __shared__ u8 unaligned[];
    letNextBegin();
    waitForRows();
    int tile = blockIdx.x, head = blockIdx.y, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (tile >= a.count[1])
        return;
    // An item is a tile: its first row, and how many.
    int row0 = a.items[2 * tile], rows = a.items[2 * tile + 1];
    const int *table = a.table + (i64)a.slot[row0] * a.stride;
    u32 base = (sharedAddress(unaligned) + 1023) & ~1023u;
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
    Blocks<DIM> next; // of the chunk that is loaded next: its numbers are read a chunk ahead
    next.find(a, table, c, last);
    auto load = [&](int c) {
        u32 to = base + c % STAGES * 2 * HALF;
        if (c < chunks) {
            next.copy(a, to, c, keyAt);
            next.copy(a, to + HALF, c, valueAt);
            next.find(a, table, c + 1, last);
        }
        copyCommit();
    };
    // What all rows of the warp see, and up to where one of the warpgroup does.
    int lowest = warp * 16 / a.group, highest = min((warp * 16 + 15) / a.group, rows - 1), group = warp / 4 * 64 / a.group;
    int seenFrom = lowest < rows ? firstSeen(a, a.until[row0 + highest]) : 0, seenTo = lowest < rows ? a.until[row0 + lowest] : 0;
    int groupTo = group < rows ? a.until[row0 + min((warp / 4 * 64 + 63) / a.group, rows - 1)] : 0;
    State<DIM> st = {};
#pragma unroll
    for (int i = 0; i < 2; i++) {
        int h = head * a.group + (warp * 16 + lane / 4 + 8 * i) % a.group;
        st.m[i] = a.sinks ? a.sinks[h] * LOG2E : -INF;
        st.t[i] = a.sinks ? 1 : 0;
    }
    for (int i = 0; i < STAGES - 1; i++)
        load(c + i);
    for (; c < chunks; c++) {
        u32 keys = base + c % STAGES * 2 * HALF;
        float s[8][4], o[DIM / 8][4], m[2], t[2];
        copyWait<STAGES - 2>();
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncthreads(); // all have read the chunk before
        load(c + STAGES - 1);
        if (c * CHUNK >= groupTo) // no row of the warpgroup sees it: joining it would change nothing
            continue;
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int k = 0; k < DIM / 16; k++)
            wgmma(s, q[k], describe(keys + k / 4 * PANEL + k % 4 * 32), k == 0);
        asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
        settle(s);
        weigh(s, m, t, c, first, end, c * CHUNK >= seenFrom && (c + 1) * CHUNK <= seenTo, a.scale, a.softcap);
        u32 w[4][4];
#pragma unroll
        for (int k = 0; k < 4; k++) {
            w[k][0] = packBF16(s[2 * k][0], s[2 * k][1]), w[k][1] = packBF16(s[2 * k][2], s[2 * k][3]);
            w[k][2] = packBF16(s[2 * k + 1][0], s[2 * k + 1][1]), w[k][3] = packBF16(s[2 * k + 1][2], s[2 * k + 1][3]);
        }
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int k = 0; k < 4; k++)
            wgmmaT(o, w[k], describe(keys + HALF + k * 16 * 128), k == 0);
        asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
        settle(o);
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

KERNEL __launch_bounds__(256, 1) attend_wgmma_64(const AttendArgs a) { attendTile<64>(a); }
KERNEL __launch_bounds__(256, 1) attend_wgmma_128(const AttendArgs a) { attendTile<128>(a); }
