// What kernels of attention of few rows have in common: how queries are read, and turned, and how the chunks of a share
// that several blocks had are joined.
#pragma once
#include "attend_page.cuh"
#include "turn.cuh"

__device__ __forceinline__ void storeWord(u32 at, u32 v) { asm volatile("st.shared.u32 [%0], %1;" ::"r"(at), "r"(v) : "memory"); }

// queries is loadQueries of what queries are multiplied as: bfloat16, or halves, limited to 65504.
template <int DIM> __device__ __forceinline__ void queries(u32 (&q)[DIM / 16][4], const bf16 *at0, const bf16 *at1) {
    loadQueries<DIM, CODED>(q, at0, at1);
    if constexpr (KV != KV_BF16)
#pragma unroll
        for (int k = 0; k < DIM / 16; k++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                if (i % 2 == 0 ? at0 : at1)
                    q[k][i] = halvesOf(q[k][i]);
}

// AttendTurnedArgs is for attend_few of queries, keys and values as products make them, where each row is the only one of its
// sequence. Queries and keys are normalised by head, if there are gains, and rotated; keys and values go to the cache.
struct AttendTurnedArgs : AttendArgs {
    Rows k, v, angles; // angles: cosines and sines (turn.cuh)
    const float *qGain, *kGain; // [dim], or nil
    float qEps, kEps;
};

// loadPair loads two numbers where it is called: not further down, where they are used.
__device__ __forceinline__ float2 loadPair(const float *at) {
    float2 x;
    asm volatile("ld.global.v2.f32 {%0, %1}, [%2];" : "=f"(x.x), "=f"(x.y) : "l"(at));
    return x;
}

// prefetch fetches a line of memory to the second-level cache.
__device__ __forceinline__ void prefetch(const void *at) { asm volatile("prefetch.global.L2 [%0];" ::"l"(at)); }

// turnQueries rotates what loadQueries loaded of rows g, a head each, normalised first if there is a gain. The lanes of
// a head add up squares in the order of sumOfWarp.
template <int DIM> __device__ __forceinline__ void turnQueries(u32 (&q)[DIM / 16][4], const float *angle, const float *gain, float eps) {
    constexpr int N = DIM / 16; // a lane's two pairs each: number i is of pairs 8·i + 2t
    int t = threadIdx.x % 4;
    float2 c[N], s[N];
#pragma unroll
    for (int i = 0; i < N; i++)
        c[i] = loadPair(angle + i * 8 + t * 2), s[i] = loadPair(angle + DIM / 2 + i * 8 + t * 2);
    Pairs p[N];
#pragma unroll
    for (int i = 0; i < N; i++)
        p[i].unpack(q[i / 2][i % 2 * 2], q[N / 2 + i / 2][i % 2 * 2]);
    if (gain) {
        float sums[N];
#pragma unroll
        for (int i = 0; i < N; i++)
            sums[i] = p[i].squares(0);
#pragma unroll
        for (int n = 4; n > 0; n /= 2)
#pragma unroll
            for (int i = 0; i < n && i + n < N; i++)
                sums[i] = sums[i] + sums[i + n];
        sums[0] = sums[0] + __shfl_xor_sync(~0u, sums[0], 2);
        sums[0] = sums[0] + __shfl_xor_sync(~0u, sums[0], 1);
        float inv = rsqrtf(sums[0] / DIM + eps);
#pragma unroll
        for (int i = 0; i < N; i++)
            p[i].scale(inv, *(const float2 *)(gain + i * 8 + t * 2), *(const float2 *)(gain + DIM / 2 + i * 8 + t * 2));
    }
#pragma unroll
    for (int i = 0; i < N; i++)
        p[i].rotate(c[i], s[i], q[i / 2][i % 2 * 2], q[N / 2 + i / 2][i % 2 * 2]);
}

// joinShare joins the chunks of a share that several blocks had, n from number `at` in partial on: of `there` query
// heads from `head` on.
template <int DIM> __device__ __forceinline__ void joinShare(const AttendArgs &a, int row, int head, int there, int at, int n) {
    constexpr int PAIRS = (DIM + 63) / 64;
    int heads = a.heads * a.group;
    for (int i = threadIdx.x / 32; i < there * PAIRS; i += blockDim.x / 32) {
        int h = head + i / PAIRS, d = 2 * (threadIdx.x % 32) + i % PAIRS * 64;
        float M = a.sinks ? a.sinks[h] * LOG2E : -INF, T = a.sinks ? 1 : 0;
        float2 O = {};
        const float *from = a.partial + ((i64)at * heads + h) * (DIM + 2);
#pragma unroll 16
        for (int c = 0; c < n; c++, from += (i64)heads * (DIM + 2)) {
            float2 mt = __ldcg((const float2 *)(from + DIM)), o = __ldcg((const float2 *)(from + min(d, DIM)));
            float old, add;
            joinFactors(M, mt.x, old, add);
            T = join(T, old, mt.y, add);
            O.x = join(O.x, old, o.x, add), O.y = join(O.y, old, o.y, add);
        }
        float inv = 1.f / T;
        if (d < DIM)
            *(u32 *)((bf16 *)a.dst.at + (i64)row * a.dst.ld + h * DIM + d) = packBF16(O.x * inv, O.y * inv);
    }
}
