// What kernels of attention with wgmma on Hopper have in common: products of a warpgroup, the softmax, and tiles.
#pragma once
#include "attend.cuh"
#include "wgmma.cuh"

#if KV == 0
#define NUMBERS "bf16.bf16"
#else
#define NUMBERS "f16.f16"
#endif

// AttendWgmmaArgs has the map of the layer's part of the cache: boxes are 8 positions of a head, keys and values.
struct AttendWgmmaArgs {
    TensorMap cache;
    AttendArgs a; // here `arrived` is two numbers, 0 between kernels: tiles that are taken, blocks that are done
    int alone;    // of attend_latent_few, 1: each row is the only one of its sequence
    int whole;    // and 1: no row's chunks are cut (LatentCut)
};

// uniform tells the compiler that a number is the same in the whole warp.
__device__ __forceinline__ int uniform(int x) { return __shfl_sync(~0u, x, 0); }

// wgmma begins to add A·B to d, both in shared memory: A, 64 by 16, as 64 rows of 16; B, 16 by 64, as 64 rows of 16
// (its columns) or, if ACROSS, as 16 rows of 64. fresh: d counts as zero.
template <int ACROSS = 0> __device__ __forceinline__ void wgmma(float (&d)[8][4], u64 a, u64 b, bool fresh) {
    asm volatile("{\n.reg .pred p;\nsetp.eq.u32 p, %34, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32." NUMBERS " {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
                 "}, %32, %33, p, 1, 1, 0, %35;\n}\n"
                 : "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[0][2]), "+f"(d[0][3]), "+f"(d[1][0]), "+f"(d[1][1]),
                   "+f"(d[1][2]), "+f"(d[1][3]), "+f"(d[2][0]), "+f"(d[2][1]), "+f"(d[2][2]), "+f"(d[2][3]),
                   "+f"(d[3][0]), "+f"(d[3][1]), "+f"(d[3][2]), "+f"(d[3][3]), "+f"(d[4][0]), "+f"(d[4][1]),
                   "+f"(d[4][2]), "+f"(d[4][3]), "+f"(d[5][0]), "+f"(d[5][1]), "+f"(d[5][2]), "+f"(d[5][3]),
                   "+f"(d[6][0]), "+f"(d[6][1]), "+f"(d[6][2]), "+f"(d[6][3]), "+f"(d[7][0]), "+f"(d[7][1]),
                   "+f"(d[7][2]), "+f"(d[7][3])
                 : "l"(a), "l"(b), "r"((u32)fresh), "n"(ACROSS));
}

// wgmmaT is wgmma with A in registers, and B as 16 rows of 64 numbers.
__device__ __forceinline__ void wgmmaT(float (&d)[8][4], const u32 (&a)[4], u64 b, bool fresh) {
    asm volatile("{\n.reg .pred p;\nsetp.eq.u32 p, %37, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32." NUMBERS " {"
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

// settle keeps the compiler from moving reads of sums to before a wgmmaWait.
template <int N> __device__ __forceinline__ void settle(float (&d)[N][4]) {
#pragma unroll
    for (int i = 0; i < N; i++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            asm volatile("" : "+f"(d[i][e])::"memory");
}

// ready waits for the sums d, and for all products but those of the last LATER groups.
template <int LATER, int N> __device__ __forceinline__ void ready(float (&d)[N][4]) {
    wgmmaWait<LATER>();
    settle(d);
}

// Greatest is half of weigh of attend.cuh, with the same bits: m of a chunk for a lane's two rows of scores, g and g+8
// of the warp's tile. A weight is 2^(score·scale + less).
struct Greatest {
    float m[2], less[2], scale;

    // find makes these of scores. Row i sees positions first[i] to end[i]-1; all says that both see the whole chunk.
    __device__ __forceinline__ void find(float (&s)[8][4], int chunk, const int (&first)[2], const int (&end)[2], bool all, const AttendArgs &a) {
        scale = a.scale;
        if (a.softcap > 0) {
            float twice = 2 * LOG2E * scale / a.softcap;
#pragma unroll
            for (int n = 0; n < 8; n++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    s[n][e] = capped(s[n][e], twice, a.softcap);
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
        float most[2][4]; // both rows at a time, so that shuffles of one run while those of the other are waited for
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
            m[i] = m[i] * scale; // scale is positive
            less[i] = m[i] == -INF ? 0 : -m[i];
        }
    }
};

// addFour adds the numbers of four neighbouring lanes, for both rows.
__device__ __forceinline__ void addFour(float (&t)[2]) {
#pragma unroll
    for (int d = 1; d < 4; d *= 2) {
        float other[2] = {__shfl_xor_sync(~0u, t[0], d), __shfl_xor_sync(~0u, t[1], d)};
        t[0] = t[0] + other[0], t[1] = t[1] + other[1];
    }
}

// Tile is what a block does next: rows row0 to row0+rows-1 of a KV head, chunks `chunk` to chunks-1, which hold all
// positions that these see; the last of them is last-1. A tile of no rows says that there is nothing left. The warp
// that fetches puts tiles into shared memory, which has room for two.
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

    // take gets tile n of the block, once it is there, and says so.
    __device__ __forceinline__ void take(u32 full, u32 empty, u32 tiles, int n) {
        barrierWait(full + n % 2 * 8, n / 2 % 2);
        get(tiles + n % 2 * 32);
        __syncwarp();
        if (threadIdx.x % 32 == 0)
            barrierArrive(empty + n % 2 * 8);
    }
};
