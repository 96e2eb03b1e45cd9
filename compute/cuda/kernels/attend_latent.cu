// Latent attention with tensor cores: all query heads attend to one head of keys, [positions, KEYS], whose first VALUES
// numbers are the values. Bits are those that attend.cuh defines.
//
// A block has 16 query heads of a row, and takes a chunk at a time: each of its eight warps computes the scores of 8
// positions and VALUES/8 numbers of the output. attend_latent_tile goes through all chunks of a row,
// attend_latent_chunk leaves what each chunk gives to attend_join.
#include "attend.cuh"

#define KEYS 576
#define VALUES 512
#define PITCH ((KEYS + 8) * 2) // bytes from one position to the next
#define SCORES (CHUNK + 2)     // numbers from one head's scores to the next
#define TILES (VALUES / 64)    // of 8 numbers of the output, of a warp

// latentChunk computes a chunk: m and t of the lane's two heads, and o, the warp's part of the output. shared holds the
// queries, then keys, then scores.
__device__ __forceinline__ void latentChunk(const AttendArgs &a, u8 *shared, const int *table, int chunk, int first, int end,
                                            float (&o)[TILES][4], float (&m)[2], float (&t)[2]) {
    int thread = threadIdx.x, warp = thread / 32, lane = thread % 32, g = lane / 4;
    u32 queries = sharedAddress(shared), keys = queries + 16 * PITCH;
    float *scores = (float *)(shared + (16 + CHUNK) * PITCH);
    __syncthreads(); // all have read the chunk before, and the queries are there
    for (int n = thread; n < CHUNK * KEYS / 8; n += 256) {
        int row = n / (KEYS / 8), unit = n % (KEYS / 8), pos = chunk * CHUNK + row;
        int block = pos < end ? table[pos / a.tokens] : -1;
        copy16(keys + row * PITCH + unit * 16, block < 0 ? a.at : a.at + block * a.block + pos % a.tokens * KEYS + unit * 8, block >= 0);
    }
    copyCommit();
    copyWait<0>();
    __syncthreads();
    float d[4] = {};
#pragma unroll 6
    for (int k = 0; k < KEYS / 16; k += 2) {
        u32 q[2][4], b[4];
        ldmatrix(b, keys + (warp * 8 + lane % 8) * PITCH + (k * 2 + lane / 8) * 16);
        ldmatrix(q[0], queries + lane % 16 * PITCH + (k * 2 + lane / 16) * 16);
        ldmatrix(q[1], queries + lane % 16 * PITCH + (k * 2 + 2 + lane / 16) * 16);
        mma(d, q[0], b[0], b[1]);
        mma(d, q[1], b[2], b[3]);
    }
#pragma unroll
    for (int e = 0; e < 4; e++)
        scores[(g + e / 2 * 8) * SCORES + warp * 8 + lane % 4 * 2 + e % 2] = d[e];
    __syncthreads();
    float s[8][4];
#pragma unroll
    for (int n = 0; n < 8; n++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            s[n][e] = scores[(g + e / 2 * 8) * SCORES + n * 8 + lane % 4 * 2 + e % 2];
    int firsts[2] = {first, first}, ends[2] = {end, end};
    weigh(s, m, t, chunk, firsts, ends, false, a.scale, a.softcap);
#pragma unroll
    for (int n = 0; n < TILES; n++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            o[n][e] = 0;
#pragma unroll
    for (int k = 0; k < CHUNK / 16; k++) {
        u32 w[4] = {packBF16(s[2 * k][0], s[2 * k][1]), packBF16(s[2 * k][2], s[2 * k][3]),
                    packBF16(s[2 * k + 1][0], s[2 * k + 1][1]), packBF16(s[2 * k + 1][2], s[2 * k + 1][3])};
#pragma unroll
        for (int n = 0; n < TILES; n += 2) {
            u32 b[4];
            ldmatrixT(b, keys + (k * 16 + lane / 8 % 2 * 8 + lane % 8) * PITCH + (warp * TILES + n + lane / 16) * 16);
            mma(o[n], w, b[0], b[1]);
            mma(o[n + 1], w, b[2], b[3]);
        }
    }
}

// loadHeads copies 16 heads of a row to shared memory, zeros past the last head.
__device__ __forceinline__ void loadHeads(const AttendArgs &a, u8 *shared, int row, int head) {
    const bf16 *q = (const bf16 *)a.q.at + (i64)row * a.q.ld;
    __syncthreads(); // all have read the queries before
    for (int n = threadIdx.x; n < 16 * KEYS / 8; n += 256) {
        int h = n / (KEYS / 8), unit = n % (KEYS / 8);
        *(uint4 *)(shared + h * PITCH + unit * 16) = head + h < a.group ? *(const uint4 *)(q + (i64)(head + h) * KEYS + unit * 8) : make_uint4(0, 0, 0, 0);
    }
}

// attend_latent_tile is for many rows. [rows, heads/16] blocks of 256 threads; tiles are one row. Dynamic shared memory
// of both kernels: 80·PITCH + 16·SCORES·4 bytes.
KERNEL __launch_bounds__(256, 2) attend_latent_tile(const AttendArgs a) {
    extern __shared__ __align__(128) u8 shared[];
    int tile = blockIdx.x, head = blockIdx.y * 16, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    letNextBegin();
    waitForRows();
    if (tile >= a.count[1])
        return;
    int row = a.items[2 * tile], end = a.until[row], first = firstSeen(a, end);
    const int *table = a.table + (i64)a.slot[row] * a.stride;
    loadHeads(a, shared, row, head);
    float sum[TILES][4] = {}, M[2], T[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        int h = head + lane / 4 + 8 * i;
        bool sink = a.sinks && h < a.group;
        M[i] = sink ? a.sinks[h] * LOG2E : -INF;
        T[i] = sink ? 1 : 0;
    }
    for (int c = first / CHUNK; c * CHUNK < end; c++) {
        float o[TILES][4], m[2], t[2];
        latentChunk(a, shared, table, c, first, end, o, m, t);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float old, add;
            joinFactors(M[i], m[i], old, add);
            T[i] = join(T[i], old, t[i], add);
#pragma unroll
            for (int n = 0; n < TILES; n++)
#pragma unroll
                for (int e = 2 * i; e < 2 * i + 2; e++)
                    sum[n][e] = join(sum[n][e], old, o[n][e], add);
        }
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        int h = head + lane / 4 + 8 * i;
        if (h >= a.group)
            continue;
        float inv = 1.f / T[i];
        bf16 *to = (bf16 *)a.dst.at + (i64)row * a.dst.ld + (i64)h * VALUES + warp * TILES * 8 + lane % 4 * 2;
#pragma unroll
        for (int n = 0; n < TILES; n++)
            *(u32 *)(to + n * 8) = packBF16(sum[n][2 * i] * inv, sum[n][2 * i + 1] * inv);
    }
}

// attend_latent_chunk is for few rows. Any number of blocks of 256 threads share the chunks of all rows and 16 heads.
KERNEL __launch_bounds__(256, 2) attend_latent_chunk(const AttendArgs a) {
    extern __shared__ __align__(128) u8 shared[];
    letNextBegin();
    waitForRows();
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, parts = (a.group + 15) / 16, all = a.count[2] * parts;
    for (int n = blockIdx.x; n < all; n += gridDim.x) {
        int head = n % parts * 16, at = n / parts, i = a.items[at];
        int4 of = a.few[i];
        int row = of.y, end = of.w, first = firstSeen(a, end), chunk = first / CHUNK + at - (i ? a.few[i - 1].x : 0);
        float o[TILES][4], m[2], t[2];
        loadHeads(a, shared, row, head);
        latentChunk(a, shared, a.table + (i64)of.z * a.stride, chunk, first, end, o, m, t);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            int h = head + lane / 4 + 8 * i;
            if (h >= a.group)
                continue;
            float *to = a.partial + ((i64)at * a.group + h) * (VALUES + 2);
#pragma unroll
            for (int k = 0; k < TILES; k++)
                *(float2 *)(to + warp * TILES * 8 + k * 8 + lane % 4 * 2) = make_float2(o[k][2 * i], o[k][2 * i + 1]);
            if (warp == 0 && lane % 4 == 0)
                *(float2 *)(to + VALUES) = make_float2(m[i], t[i]);
        }
    }
}
