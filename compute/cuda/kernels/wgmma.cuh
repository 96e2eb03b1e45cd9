// Hopper's products of a warpgroup (wgmma), of bfloat16 and of F8_E4M3, and what the blocks of a cluster do together. A
// warpgroup is four neighbouring warps.
#pragma once
#include "barrier.cuh"

#define CLUSTER 2 // blocks of a cluster

// wgmmaFence comes before the first product of a warpgroup, and wherever other instructions wrote its operands in
// registers. wgmmaCommit makes a group of the products begun since the last one; wgmmaWait waits for all groups but the
// last n.
__device__ __forceinline__ void wgmmaFence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmmaCommit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int n> __device__ __forceinline__ void wgmmaWait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(n) : "memory"); }

// fewerRegisters gives registers of a warpgroup back, moreRegisters waits for some: n is how many a thread has then. A
// multiprocessor has 65,536, and a kernel starts with equal shares.
template <int n> __device__ __forceinline__ void fewerRegisters() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(n)); }
template <int n> __device__ __forceinline__ void moreRegisters() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(n)); }

// Operands of wgmma's assembly: D4 to D64 are so many sums from d[i] on, S0 to S7 name 16 sums each.
#define D4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define D8(i) D4(i), D4(i + 4)
#define D16(i) D8(i), D8(i + 8)
#define D32(i) D16(i), D16(i + 16)
#define D64(i) D32(i), D32(i + 32)
#define SUMS_12 D8(0), D4(8)
#define SUMS_48 D32(0), D16(32)
#define SUMS_64 D64(0)
#define SUMS_80 D64(0), D16(64)
#define SUMS_96 D64(0), D32(64)
#define SUMS_112 SUMS_96, D16(96)
#define SUMS_128 D64(0), D64(64)
#define S_12 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11"
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
    else if constexpr (N == 24)                                                                                        \
        WGMMA("24", KIND, LAST, S_12, "%12,%13,%14,%15", "%16", "%17", SUMS_12);                                      \
    else if constexpr (N == 32)                                                                                        \
        WGMMA("32", KIND, LAST, S0, "%16,%17,%18,%19", "%20", "%21", D16(0));                                         \
    else if constexpr (N == 64)                                                                                        \
        WGMMA("64", KIND, LAST, S0 S1, "%32,%33,%34,%35", "%36", "%37", D32(0));                                      \
    else if constexpr (N == 96)                                                                                        \
        WGMMA("96", KIND, LAST, S0 S1 S2, "%48,%49,%50,%51", "%52", "%53", SUMS_48);                                  \
    else if constexpr (N == 128)                                                                                       \
        WGMMA("128", KIND, LAST, S0 S1 S2 S3, "%64,%65,%66,%67", "%68", "%69", SUMS_64);                              \
    else if constexpr (N == 160)                                                                                       \
        WGMMA("160", KIND, LAST, S0 S1 S2 S3 S4, "%80,%81,%82,%83", "%84", "%85", SUMS_80);                   \
    else if constexpr (N == 192)                                                                                       \
        WGMMA("192", KIND, LAST, S0 S1 S2 S3 S4 S5, "%96,%97,%98,%99", "%100", "%101", SUMS_96);              \
    else if constexpr (N == 224)                                                                                       \
        WGMMA("224", KIND, LAST, S0 S1 S2 S3 S4 S5 S6, "%112,%113,%114,%115", "%116", "%117", SUMS_112);               \
    else                                                                                                               \
        WGMMA("256", KIND, LAST, S0 S1 S2 S3 S4 S5 S6 S7, "%128,%129,%130,%131", "%132", "%133", SUMS_128);

// wgmma begins to add A·B to d. A is a warpgroup's 64 by 16 numbers of bfloat16, or 64 by 32 of F8_E4M3, in registers:
// a warp has 16 rows, as for mma. B is 16 or 32 by N in shared memory, as N rows of 32 bytes (describe). Of d, d[4j] to
// d[4j+3] are what mma would have of columns 8j to 8j+7. fresh: d counts as zero.
template <bool F8, int N> __device__ __forceinline__ void wgmma(float (&d)[N / 2], const u32 (&a)[4], u64 b, bool fresh) {
    if constexpr (F8) {
        WGMMA_OF("k32.f32.e4m3.e4m3", "")
    } else {
        WGMMA_OF("k16.f32.bf16.bf16", ", 0")
    }
}

// wgmmaShared is wgmma of F8_E4M3 whose A is in shared memory, too: 64 rows of 32 bytes.
template <int N> __device__ __forceinline__ void wgmmaShared(float (&d)[N / 2], u64 a, u64 b, bool fresh) {
    static_assert(N == 128);
    asm volatile("{\n.reg .pred p;\nsetp.eq.u32 p, %66, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3 {" S0 S1 S2 S3 "}, %64, %65, p, 1, 1;\n}"
                 : SUMS_64
                 : "l"(a), "l"(b), "r"((u32)fresh));
}

#define WGMMA_ADD(N, SUMS, A, B, ...)                                                                                  \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" N "k16.f32.bf16.bf16 {" SUMS "}, {" A "}, " B ", 1, 1, 1, 0;"     \
                 : __VA_ARGS__                                                                                        \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))

// wgmmaAdd is wgmma of bfloat16 that always adds. In some kernels the compiler waits after each product that might not.
template <int N> __device__ __forceinline__ void wgmmaAdd(float (&d)[N / 2], const u32 (&a)[4], u64 b) {
    if constexpr (N == 32)
        WGMMA_ADD("32", S0, "%16,%17,%18,%19", "%20", D16(0));
    else if constexpr (N == 64)
        WGMMA_ADD("64", S0 S1, "%32,%33,%34,%35", "%36", D16(0), D16(16));
    else if constexpr (N == 96)
        WGMMA_ADD("96", S0 S1 S2, "%48,%49,%50,%51", "%52", D16(0), D16(16), D16(32));
    else if constexpr (N == 128)
        WGMMA_ADD("128", S0 S1 S2 S3, "%64,%65,%66,%67", "%68", D16(0), D16(16), D16(32), D16(48));
    else if constexpr (N == 192)
        WGMMA_ADD("192", S0 S1 S2 S3 S4 S5, "%96,%97,%98,%99", "%100", D16(0), D16(16), D16(32), D16(48), D16(64), D16(80));
    else
        WGMMA_ADD("256", S0 S1 S2 S3 S4 S5 S6 S7, "%128,%129,%130,%131", "%132", D16(0), D16(16), D16(32), D16(48), D16(64),
              D16(80), D16(96), D16(112));
}

// settle keeps the compiler from moving reads of sums to before a wgmmaWait.
template <int N> __device__ __forceinline__ void settle(float (&d)[N]) {
#pragma unroll
    for (int i = 0; i < N; i++)
        asm volatile("" : "+f"(d[i])::"memory");
}

// describe makes the descriptor of rows of 128 bytes in shared memory: eight rows follow each other, and groups of
// eight are `apart` bytes apart. Swizzled: unit u of 16 bytes of row r is at place u ^ r%8 of its row. Numbers 16 bytes
// further in a row are 1 further in the descriptor.
__device__ __forceinline__ u64 describe(u32 shared, u32 apart = 1024) {
    return (u64)(shared >> 4 & 0x3fff) | (u64)1 << 16 | (u64)(apart >> 4) << 32 | (u64)1 << 62;
}

// describeUnits makes the descriptor of units of 16 bytes in shared memory: those of eight rows follow each other; the next
// eight rows' are `apart` bytes on, the same rows' next ones `next`.
__device__ __forceinline__ u64 describeUnits(u32 shared, u32 next, u32 apart) {
    return (u64)(shared >> 4 & 0x3fff) | (u64)(next >> 4) << 16 | (u64)(apart >> 4) << 32;
}

// ofWarp is x, which all lanes have, in a register of the warp. wgmma has its descriptors there: what the compiler does not
// know to be the same in all lanes it moves before each product, which then waits for the one before.
__device__ __forceinline__ u32 ofWarp(u32 x) { return __reduce_max_sync(~0u, (int)x); }

// barrierOf waits for so many threads at the block's named barrier n: 0 is that of __syncthreads.
__device__ __forceinline__ void barrierOf(int n, int threads) { asm volatile("bar.sync %0, %1;" ::"r"(n), "r"(threads) : "memory"); }

__device__ __forceinline__ int clusterRank() {
    int rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

// sharedOf is the address of block `rank` of the cluster for what this block has at an address of its shared memory.
__device__ __forceinline__ u32 sharedOf(u32 at, int rank) {
    u32 there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(at), "r"(rank));
    return there;
}

// barrierTell arrives at a barrier of another block. Who waits for that with barrierHear sees what the thread wrote
// there before.
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

// fetchBox copies the box of a tensor map that begins at a row and a step of 64 inputs to shared memory, and counts at
// the barrier; if both, to the same places in all blocks of the cluster, and at their barriers.
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

// storeMatrices stores four matrices of 8 by 8 numbers of 16 bits, which lanes hold as mma's sums, turned over: column
// r of matrix i goes to the 16 bytes whose address lane 8i+r gives.
__device__ __forceinline__ void storeMatrices(u32 at, u32 a, u32 b, u32 c, u32 d) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}

// storeUpright stores four matrices as storeMatrices does, but not turned over: row r of matrix i goes where lane 8i+r says.
__device__ __forceinline__ void storeUpright(u32 at, u32 a, u32 b, u32 c, u32 d) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}

// gatePlain makes act(x)·up of SILU, GELU_TANH or SWIGLU_CLAMPED, with gate's reciprocal. It returns whether all divisors
// are small enough for its bits to be those of activate.
template <int N> __device__ __forceinline__ bool gatePlain(int act, float (&x)[N], const float *up) {
    bool plain = true;
#pragma unroll
    for (int i = 0; i < N; i++) {
        float g = act == SWIGLU_CLAMPED ? fminf(x[i], 7.f) : x[i], r;
        float y = 1.f + exp2Fast(-(act == GELU_TANH ? tanhSlope(g) : act == SWIGLU_CLAMPED ? 1.702f * g : g) * LOG2E);
        plain = plain && y < 0x1p126f;
        asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(y));
        r = fmaf(fmaf(-y, r, 1.f), r, r);
        x[i] = act == SWIGLU_CLAMPED ? (fminf(fmaxf(up[i], -7.f), 7.f) + 1.f) * g * r : g * r * up[i];
    }
    return plain;
}

// gate makes act(x)·up of all numbers. SILU and GELU_TANH take a reciprocal without branches, which gives the bits of
// activate's division as long as the divisor is below 2^126; else activate does it.
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
        return;
    }
    float from[N], by[N]; // in local memory: one copy of the code is enough
#pragma unroll
    for (int i = 0; i < N; i++)
        from[i] = x[i], by[i] = up[i];
#pragma unroll 1
    for (int i = 0; i < N; i++)
        from[i] = activate(act, from[i], by[i]);
#pragma unroll
    for (int i = 0; i < N; i++)
        x[i] = from[i];
}
