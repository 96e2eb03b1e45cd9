// What kernels with wgmma do with the sums of a part: they become results, CHUNK rows at a time, and go through shared
// memory, so that neighbouring threads store neighbouring outputs. Each warpgroup stores its own 64 outputs. Results
// are rounded as finish of gemm.cuh does.
#pragma once
#include "gemm.cuh"
#include "wgmma.cuh"

#define CHUNK 32 // rows that are stored at once

// eight is 8 numbers of bfloat16, four is 4 of float32: 16 bytes that are stored at once.
struct alignas(16) eight {
    u32 v[4];
};
struct alignas(16) four {
    float v[4];
};

// storeBox has the copy engine store a box of results, or add it to what is there, as float32 and rounded like any sum.
__device__ __forceinline__ void storeBox(const TensorMap &map, u32 from, int out, int row, bool add) {
    if (add)
        asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&map), "r"(out), "r"(row), "r"(from)
                     : "memory");
    else
        asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&map), "r"(out), "r"(row), "r"(from)
                     : "memory");
}

// boxesRead waits until the copy engine has read the boxes that the thread stored, boxesStored until they are in
// memory.
__device__ __forceinline__ void boxesRead() { asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;" ::: "memory"); }
__device__ __forceinline__ void boxesStored() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

__device__ __forceinline__ void storeShared(u32 at, float x) { asm volatile("st.shared.f32 [%0], %1;" ::"r"(at), "f"(x) : "memory"); }
__device__ __forceinline__ void storeShared(u32 at, float x, float y) { asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(at), "f"(x), "f"(y) : "memory"); }

// weightScale is the scale of an output of F8_E4M3, the same in all its records.
__device__ __forceinline__ float weightScale(const GemmArgs &a, int product, int out) {
    const u8 *record = a.p[product].w + (i64)(out / 16) * (a.tilesIn / 4) * RECORD;
    return fromBF16(*(const bf16 *)(record + out % 16 / 8 * HALF_RECORD + HALF_SCALES + out % 8 * 2)) * OF_CODES;
}

// Of a chunk, a thread has 16 sums: x[4j+e] is that of row 8j + lane%4·2 + e%2 and output lane/4 + e/2·8 of the warp's
// tile.

// Own is what a thread knows of its two outputs of tile `at`, lane/4 and lane/4 + 8: scales, if of F8_E4M3, and biases.
template <bool F8> struct Own {
    float scales[2], bias[2];

    __device__ __forceinline__ Own() {}
    __device__ __forceinline__ Own(const GemmArgs &a, Place at) {
        const Product &p = a.p[max(at.product, 0)];
#pragma unroll
        for (int h = 0; h < 2; h++) {
            int out = at.tile * 16 + threadIdx.x % 32 / 4 + h * 8;
            bool there = at.product >= 0 && out < p.outs;
            scales[h] = F8 && there ? weightScale(a, at.product, out) : 0.f;
            bias[h] = p.bias && there ? p.bias[out] : 0.f;
        }
    }
};

// RowScales are the scales of rows of F8_E4M3: those of a thread's sums of a chunk.
template <bool F8> struct RowScales {
    const float *from;
    float2 v[F8 ? 4 : 1];

    __device__ __forceinline__ RowScales() {}
    // at points to the scale of the part's first row. get reads the scales of a chunk.
    __device__ __forceinline__ RowScales(const float *at) : from(at + threadIdx.x % 4 * 2) {}

    __device__ __forceinline__ void get(int chunk) {
        if constexpr (F8)
#pragma unroll
            for (int j = 0; j < 4; j++)
                v[j] = *(const float2 *)(from + chunk * CHUNK + j * 8);
    }

    __device__ __forceinline__ void scale(float (&x)[16], const Own<F8> &own) const {
        if constexpr (F8)
#pragma unroll
            for (int i = 0; i < 16; i++)
                x[i] = x[i] * own.scales[i / 2 % 2] * (i % 2 ? v[i / 4].y : v[i / 4].x);
    }
};

// Target is where a thread stores COUNT neighbouring outputs of rows from `first` on.
template <typename T, int COUNT> struct Target {
    T *at; // in row first
    i64 ld;
    int rows, n; // how many rows there are from first on, and how many of the outputs
    bool vector; // all outputs can be stored at once

    __device__ __forceinline__ Target(const GemmArgs &a, int tile, int in, int first) {
        Place place = placeOf(a, tile);
        const Product &p = a.p[max(place.product, 0)];
        int out = place.tile * 16 + in;
        n = place.product < 0 ? 0 : min(COUNT, p.outs - out);
        ld = p.dst.ld, rows = a.rows - first;
        at = (T *)p.dst.at + first * ld + out;
        vector = n == COUNT && ((u64)p.dst.at | (u64)ld * sizeof(T)) % 16 == 0;
    }

    // put stores what is at `from` in shared memory to a row.
    template <typename V> __device__ __forceinline__ void put(int row, const V *from) const {
        static_assert(sizeof(V) == COUNT * sizeof(T));
        if (row >= rows)
            return;
        T *to = at + row * ld;
        if (vector)
            *(V *)to = *from;
        else
#pragma unroll 1
            for (int i = 0; i < n; i++)
                to[i] = ((const T *)from)[i];
    }
};

// Before is what a thread reads before the sums of a part are there: what it knows of its outputs, and of the first
// chunk the rows' scales and, where results are added, what is there.
template <bool F8> struct Before {
    Own<F8> own;
    RowScales<F8> scales;
    four old[4];

    __device__ __forceinline__ Before() {}
    __device__ __forceinline__ Before(const GemmArgs &a, const float *rowScales, int tile0, int row0)
        : own(a, placeOf(a, tile0 + threadIdx.x % 128 / 32)), scales(rowScales + (F8 ? row0 : 0)), old{} {
        scales.get(0);
        int thread = threadIdx.x % 128, unit = thread % 16;
        if (a.mode == ADD)
            readOld(old, Target<float, 4>(a, tile0 + unit / 4, unit % 4 * 4, row0 + thread / 16), 0);
    }

    // readOld reads what chunk c is added to, where that can be read at once.
    static __device__ __forceinline__ void readOld(four (&old)[4], const Target<float, 4> &to, int c) {
#pragma unroll
        for (int k = 0; k < 4; k++) {
            int row = c * CHUNK + k * 8;
            if (row < to.rows && to.vector)
                old[k] = *(const four *)(to.at + row * to.ld);
        }
    }
};

// Of the functions below, warps of warpgroup `group` have tiles tile0 to tile0+3 of N rows from row0 on. join() waits
// until sums and `staged` may be used, pick(c, x) makes the sums of chunk c. staged is 8 KB of the warpgroup's shared
// memory, or, with two BUFFERS, twice that.
// The next part begins with the first buffer: where the last chunk is in it, too, all warps must have read it before.

// storeNarrow stores bfloat16, through [CHUNK][64] twice, units of 16 bytes swizzled in groups of eight rows.
template <bool F8, int N, typename Join, typename Pick>
__device__ __forceinline__ void storeNarrow(const GemmArgs &a, Before<F8> &before, int tile0, int row0, int group, u8 *staged, Join join, Pick pick) {
    int thread = threadIdx.x % 128, warp = thread / 32, lane = thread % 32, unit = thread % 8;
    bool biased = a.p[max(placeOf(a, tile0 + warp).product, 0)].bias;
    Target<bf16, 8> to(a, tile0 + unit / 2, unit % 2 * 8, row0 + thread / 8);
    u32 write = sharedAddress(staged) + (lane / 16 * 8 + lane % 8) * 128 + (warp * 2 + lane / 8 % 2 ^ lane % 8) * 16;
    const u8 *read = staged + thread / 8 * 128 + (unit ^ thread / 8 % 8) * 16;
    join();
#pragma unroll 1
    for (int c = 0; c < N / CHUNK; c++) {
        float x[16];
        pick(c, x);
        before.scales.scale(x, before.own);
        before.scales.get(min(c + 1, N / CHUNK - 1));
#pragma unroll
        for (int i = 0; i < 16; i++) {
            if (biased)
                x[i] = x[i] + before.own.bias[i / 2 % 2];
            x[i] = x[i] * a.scale;
        }
        int buffer = c % 2 * CHUNK * 128;
#pragma unroll
        for (int j = 0; j < 2; j++)
            storeMatrices(write + buffer + j * 16 * 128, packBF16(x[8 * j], x[8 * j + 1]), packBF16(x[8 * j + 2], x[8 * j + 3]),
                          packBF16(x[8 * j + 4], x[8 * j + 5]), packBF16(x[8 * j + 6], x[8 * j + 7]));
        barrierOf(1 + group, 128);
#pragma unroll
        for (int k = 0; k < 2; k++)
            to.put(c * CHUNK + k * 16, (const eight *)(read + buffer + k * 16 * 128));
    }
    if (N / CHUNK % 2)
        barrierOf(1 + group, 128);
}

// storeGated stores act(gate)·up as bfloat16. A gate's warp and an up's, which are neighbours, give each other sums, [4
// warps][2][32 lanes] of four, so that each makes the results of 16 rows of a chunk. These go through [CHUNK][32],
// twice.
template <bool F8, int N, typename Join, typename Pick>
__device__ __forceinline__ void storeGated(const GemmArgs &a, Before<F8> &before, int tile0, int row0, int group, u8 *staged, Join join, Pick pick) {
    int thread = threadIdx.x % 128, warp = thread / 32, lane = thread % 32, unit = thread % 4;
    bool up = warp % 2;
    bool biased = a.p[up].bias;
    Target<bf16, 8> to(a, tile0 + unit / 2 * 2, unit % 2 * 8, row0 + thread / 4);
    four *give = (four *)staged + warp * 64 + lane;
    const four *take = (const four *)staged + (warp ^ 1) * 64 + lane;
    u32 row = up * 16 + lane / 16 * 8 + lane % 8;
    u32 write = sharedAddress(staged) + 4096 + row * 64 + (warp / 2 * 2 + lane / 8 % 2 ^ row / 2 % 4) * 16;
    const u8 *read = staged + 4096 + thread / 4 * 64 + (unit ^ thread / 4 / 2 % 4) * 16;
    join();
#pragma unroll 1
    for (int c = 0; c < N / CHUNK; c++) {
        float x[16], g[8], u[8];
        pick(c, x);
        before.scales.scale(x, before.own);
        before.scales.get(min(c + 1, N / CHUNK - 1));
        if (biased)
#pragma unroll
            for (int i = 0; i < 16; i++)
                x[i] = x[i] + before.own.bias[i / 2 % 2];
#pragma unroll
        for (int j = 0; j < 2; j++) {
            four v;
#pragma unroll
            for (int e = 0; e < 4; e++)
                v.v[e] = up ? x[j * 4 + e] : x[8 + j * 4 + e];
            give[j * 32] = v;
        }
        barrierOf(5 + threadIdx.x / 64, 64);
#pragma unroll
        for (int j = 0; j < 2; j++) {
            four v = take[j * 32];
#pragma unroll
            for (int e = 0; e < 4; e++) {
                int i = j * 4 + e;
                g[i] = rounded(up ? v.v[e] : x[i]), u[i] = rounded(up ? x[8 + i] : v.v[e]);
            }
        }
        gate(a.act, g, u);
        int buffer = c % 2 * CHUNK * 64;
        storeMatrices(write + buffer, packBF16(g[0], g[1]), packBF16(g[2], g[3]), packBF16(g[4], g[5]), packBF16(g[6], g[7]));
        barrierOf(1 + group, 128);
        to.put(c * CHUNK, (const eight *)(read + buffer));
    }
    if (N / CHUNK % 2)
        barrierOf(1 + group, 128);
}

// wideAt is where a warpgroup stages output o, of 64, of a row of float32, swizzled so that a warp's are in different
// banks.
__device__ __forceinline__ int wideAt(int row, int o) { return row * 256 + ((o / 4) ^ row / 2 % 4 * 2) * 16 + o % 4 * 4; }

// storeWide stores float32, through [CHUNK][64], or adds to what is there.
template <bool F8, int N, int BUFFERS, typename Join, typename Pick>
__device__ __forceinline__ void storeWide(const GemmArgs &a, Before<F8> &before, int tile0, int row0, int group, u8 *staged, Join join, Pick pick) {
    int thread = threadIdx.x % 128, warp = thread / 32, lane = thread % 32, unit = thread % 16;
    bool biased = a.p[max(placeOf(a, tile0 + warp).product, 0)].bias, add = a.mode == ADD;
    Target<float, 4> to(a, tile0 + unit / 4, unit % 4 * 4, row0 + thread / 16);
    u8 *write[2]; // of outputs lane/4 and 8 more, of row lane%4·2
#pragma unroll
    for (int h = 0; h < 2; h++)
        write[h] = staged + wideAt(lane % 4 * 2, warp * 16 + lane / 4 + h * 8);
    u8 *read = staged + wideAt(thread / 16, unit * 4);
    four old[4];
    join();
#pragma unroll 1
    for (int c = 0; c < N / CHUNK; c++) {
#pragma unroll
        for (int k = 0; k < 4; k++)
            old[k] = before.old[k];
        if (add && c + 1 < N / CHUNK)
            before.readOld(before.old, to, c + 1);
        float x[16];
        pick(c, x);
        before.scales.scale(x, before.own);
        before.scales.get(min(c + 1, N / CHUNK - 1));
        int buffer = c % BUFFERS * 8192;
#pragma unroll
        for (int i = 0; i < 16; i++) {
            if (biased)
                x[i] = x[i] + before.own.bias[i / 2 % 2];
            *(float *)(write[i / 2 % 2] + buffer + (i / 4 * 8 + i % 2) * 256) = x[i] * a.scale;
        }
        barrierOf(1 + group, 128);
#pragma unroll
        for (int k = 0; k < 4; k++) {
            int row = c * CHUNK + k * 8;
            four *v = (four *)(read + buffer + k * 8 * 256);
            if (row >= to.rows)
                continue;
            float *at = to.at + row * to.ld;
            if (to.vector) {
                four sum = *v;
                if (add)
#pragma unroll
                    for (int i = 0; i < 4; i++)
                        sum.v[i] = old[k].v[i] + sum.v[i];
                *(four *)at = sum;
            } else
#pragma unroll 1
                for (int i = 0; i < to.n; i++)
                    at[i] = add ? at[i] + v->v[i] : v->v[i];
        }
        if (BUFFERS == 1)
            barrierOf(1 + group, 128);
    }
}

// store stores the sums of a warpgroup as the launch asks for.
template <bool F8, int N, int BUFFERS, typename Join, typename Pick>
__device__ __forceinline__ void store(const GemmArgs &a, Before<F8> &before, int tile0, int row0, int group, u8 *staged, Join join, Pick pick) {
    if (a.mode == GATED)
        storeGated<F8, N>(a, before, tile0, row0, group, staged, join, pick);
    else if (a.p[0].dst.wide)
        storeWide<F8, N, BUFFERS>(a, before, tile0, row0, group, staged, join, pick);
    else
        storeNarrow<F8, N>(a, before, tile0, row0, group, staged, join, pick);
}
