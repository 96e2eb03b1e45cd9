// Hopper's products of a warpgroup, of bfloat16 and of F8_E4M3, and what the blocks of a cluster do together.
#pragma once
#include "barrier.cuh"

#define CLUSTER 2 // blocks of a cluster

// Operands of wgmma: S0 to S7 name 16 sums each, of which D64 writes 64.
#define D4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define D8(i) D4(i), D4(i + 4)
#define D16(i) D8(i), D8(i + 8)
#define D32(i) D16(i), D16(i + 16)
#define D64(i) D32(i), D32(i + 32)
#define SUMS_64 D64(0)
#define SUMS_128 D64(0), D64(64)
#define S0 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
#define S1 ",%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define S2 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47"
#define S3 ",%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define S4 ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79"
#define S5 ",%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"
#define S6 ",%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111"
#define S7 ",%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
#define WGMMA(N, KIND, LAST, SUMS, A, B, P, OUTPUTS)                                                                   \
    asm volatile("{\n.reg .pred p;\nsetp.eq.u32 p, " P ", 0;\n"                                                       \
                 "wgmma.mma_async.sync.aligned.m64n" N KIND " {" SUMS "}, {" A "}, " B ", p, 1, 1" LAST ";\n}"         \
                 : OUTPUTS                                                                                            \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((u32)fresh))
#define WGMMA_OF(KIND, LAST)                                                                                           \
    if constexpr (N == 8)                                                                                              \
        WGMMA("8", KIND, LAST, "%0,%1,%2,%3", "%4,%5,%6,%7", "%8", "%9", D4(0));                                      \
    else if constexpr (N == 16)                                                                                        \
        WGMMA("16", KIND, LAST, "%0,%1,%2,%3,%4,%5,%6,%7", "%8,%9,%10,%11", "%12", "%13", D8(0));                     \
    else if constexpr (N == 32)                                                                                        \
        WGMMA("32", KIND, LAST, S0, "%16,%17,%18,%19", "%20", "%21", D16(0));                                         \
    else if constexpr (N == 64)                                                                                        \
        WGMMA("64", KIND, LAST, S0 S1, "%32,%33,%34,%35", "%36", "%37", D32(0));                                      \
    else if constexpr (N == 128)                                                                                       \
        WGMMA("128", KIND, LAST, S0 S1 S2 S3, "%64,%65,%66,%67", "%68", "%69", SUMS_64);                              \
    else                                                                                                               \
        WGMMA("256", KIND, LAST, S0 S1 S2 S3 S4 S5 S6 S7, "%128,%129,%130,%131", "%132", "%133", SUMS_128);

// wgmma adds A·B to d. A is a warpgroup's 64 by 16 numbers of bfloat16, or 64 by 32 of F8_E4M3, of which a warp has 16
// rows as for mma; B is 16 or 32 by N in shared memory, as N rows of 32 bytes. Of d, d[4j..4j+3] is what mma would have
// of columns 8j to 8j+7. fresh: d counts as zero.
template <bool F8, int N> __device__ __forceinline__ void wgmma(float (&d)[N / 2], const u32 (&a)[4], u64 b, bool fresh) {
    if constexpr (F8) {
        WGMMA_OF("k32.f32.e4m3.e4m3", "")
    } else {
        WGMMA_OF("k16.f32.bf16.bf16", ", 0")
    }
}

// settle keeps the compiler from reading sums before wgmma is done.
template <int N> __device__ __forceinline__ void settle(float (&d)[N]) {
#pragma unroll
    for (int i = 0; i < N; i++)
        asm volatile("" : "+f"(d[i])::"memory");
}

// describe makes the descriptor of rows of 128 bytes in shared memory, whose 16-byte units are swizzled in groups of
// eight rows.
__device__ __forceinline__ u64 describe(u32 shared) {
    return (u64)(shared >> 4 & 0x3fff) | (u64)1 << 16 | (u64)(1024 >> 4) << 32 | (u64)1 << 62;
}

// barrierOf waits for so many threads at barrier n of the block.
__device__ __forceinline__ void barrierOf(int n, int threads) { asm volatile("bar.sync %0, %1;" ::"r"(n), "r"(threads) : "memory"); }

__device__ __forceinline__ int clusterRank() {
    int rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

// sharedOf is where block `rank` of the cluster has what this one has at an address of its shared memory.
__device__ __forceinline__ u32 sharedOf(u32 at, int rank) {
    u32 there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(at), "r"(rank));
    return there;
}

// barrierTell arrives at a barrier of another block; what the thread wrote there before is seen by barrierHear.
__device__ __forceinline__ void barrierTell(u32 at, int rank) {
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(sharedOf(at, rank)) : "memory");
}

__device__ __forceinline__ void barrierHear(u32 at, u32 parity) {
    asm volatile("{\n.reg .pred p;\nagain:\n"
                 "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], %1;\n@!p bra again;\n}" ::"r"(at), "r"(parity)
                 : "memory");
}

// fetchBoth is fetch to the same place in all blocks of the cluster; the bytes count there.
__device__ __forceinline__ void fetchBoth(u32 to, const void *from, int bytes, u32 barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(barrier), "h"((u16)((1 << CLUSTER) - 1))
                 : "memory");
}

// fetchBox copies a box of a tensor map to shared memory, and counts at the barrier; if both, to the same places in all
// blocks of the cluster.
__device__ __forceinline__ void fetchBox(u32 to, const TensorMap &map, int row, int step, u32 barrier, bool both) {
    if (both)
        asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
                     " [%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(to), "l"(&map), "r"(0), "r"(row), "r"(step), "r"(barrier),
                     "h"((u16)((1 << CLUSTER) - 1))
                     : "memory");
    else
        asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                     " [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(to), "l"(&map), "r"(0), "r"(row), "r"(step), "r"(barrier)
                     : "memory");
}

// storeMatrices stores four matrices of 8 by 8 numbers of 16 bits, of which the lanes have what mma has of sums: row r
// of matrix i, at the place that lane 8i+r names, are the numbers of column r.
__device__ __forceinline__ void storeMatrices(u32 at, u32 a, u32 b, u32 c, u32 d) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}

// gate makes act(x)·up of all numbers: SILU and GELU_TANH of all at once, with a reciprocal that needs no branches
// where it is that of a division.
template <int N> __device__ __forceinline__ void gate(int act, float (&x)[N], const float (&up)[N]) {
    float y[N];
    bool plain = act == SILU || act == GELU_TANH;
#pragma unroll
    for (int i = 0; i < N; i++) {
        y[i] = 1.f + exp2Fast(-(act == GELU_TANH ? tanhSlope(x[i]) : x[i]) * LOG2E);
        plain = plain && y[i] < 0x1p126f;
    }
    if (plain) {
#pragma unroll
        for (int i = 0; i < N; i++) {
            float r;
            asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(y[i]));
            r = fmaf(fmaf(-y[i], r, 1.f), r, r);
            x[i] = x[i] * r * up[i];
        }
    } else {
#pragma unroll
        for (int i = 0; i < N; i++)
            x[i] = activate(act, x[i], up[i]);
    }
}
