// What the device reaches that does one thing and nothing else: read memory, and multiply bfloat16 in tensor cores.
#include "mma.cuh"

struct PeakArgs {
    const uint4 *at; // [n]
    i64 n;
    u32 *to; // what is never stored
    int rounds;
};

#define NEVER 0x5bd1e995

// Blocks of 256 threads. n is a multiple of 4 times the threads.
KERNEL __launch_bounds__(256) peak_read(const PeakArgs a) {
    u32 sum = 0;
    i64 step = (i64)gridDim.x * blockDim.x;
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < a.n; i += 4 * step) {
        uint4 v[4];
#pragma unroll
        for (int j = 0; j < 4; j++)
            asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                         : "=r"(v[j].x), "=r"(v[j].y), "=r"(v[j].z), "=r"(v[j].w) : "l"(a.at + i + j * step));
#pragma unroll
        for (int j = 0; j < 4; j++)
            sum ^= v[j].x ^ v[j].y ^ v[j].z ^ v[j].w;
    }
    if (sum == NEVER)
        *a.to = sum;
}

// noise makes two numbers of bfloat16 from 0.125 to 0.5, of both signs: what toggles in tensor cores takes power, which
// limits them, too.
__device__ __forceinline__ u32 noise(u32 x) {
    x *= 0x9e3779b1u, x ^= x >> 15, x *= 0x85ebca77u, x ^= x >> 13;
    return x & 0x81ff81ff | 0x3e003e00;
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

#define D4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define D16(i) D4(i), D4(i + 4), D4(i + 8), D4(i + 12)

// Blocks of 256 threads, two warpgroups. A round of one is 8 products of 64 by 128 by 16.
KERNEL __launch_bounds__(256) peak_multiply(const PeakArgs a) {
    __shared__ __align__(1024) u32 rows[128 * 32]; // 128 rows of 64 inputs
    for (int i = threadIdx.x; i < 128 * 32; i += 256)
        rows[i] = noise(i);
    u32 w[4];
    float d[64] = {};
    for (int i = 0; i < 4; i++)
        w[i] = noise(threadIdx.x * 4 + i + blockIdx.x * 1024);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    // The descriptor of rows of 128 bytes, whose units are swizzled in groups of eight rows.
    u64 at = (u64)(sharedAddress(rows) >> 4 & 0x3fff) | (u64)1 << 16 | (u64)(1024 >> 4) << 32 | (u64)1 << 62;
    for (int r = 0; r < a.rounds; r++) {
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int k = 0; k < 4; k++)
            asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
                         "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
                         "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
                         "}, {%64,%65,%66,%67}, %68, 1, 1, 1, 0;"
                         : D16(0), D16(16), D16(32), D16(48) : "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]), "l"(at + k * 2));
        asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 1;" ::: "memory");
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    float sum = 0;
#pragma unroll
    for (int i = 0; i < 64; i++) {
        asm volatile("" : "+f"(d[i])::"memory");
        sum += d[i];
    }
    if (__float_as_uint(sum) == NEVER)
        *a.to = NEVER;
}

#else

// Blocks of 256 threads. A round of a warp is 8 products of 16 by 8 by 16.
KERNEL __launch_bounds__(256) peak_multiply(const PeakArgs a) {
    u32 w[4], x[2];
    float d[8][4] = {}, sum = 0;
    for (int i = 0; i < 4; i++)
        w[i] = noise(threadIdx.x * 4 + i + blockIdx.x * 1024);
    for (int i = 0; i < 2; i++)
        x[i] = noise(threadIdx.x * 2 + i);
    for (int r = 0; r < a.rounds; r++)
#pragma unroll
        for (int i = 0; i < 8; i++)
            mma(d[i], w, x[0], x[1]);
    for (int i = 0; i < 8; i++)
        sum += d[i][0] + d[i][1] + d[i][2] + d[i][3];
    if (__float_as_uint(sum) == NEVER)
        *a.to = NEVER;
}

#endif
