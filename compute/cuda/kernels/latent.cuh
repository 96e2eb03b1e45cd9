// What kernels of latent attention on Hopper have in common: how a chunk lies in shared memory, and how it gets there.
// Keys and values are the same numbers: a position has PANELS·64 numbers, whose first VALUES are its value.
#pragma once
#include "attend_wgmma.cuh"

#define PANELS 9            // of 64 numbers of each position; values are all but the last
#define PANEL (CHUNK * 128) // bytes of a panel of a chunk
#define VALUES 512
#define UNIT_PANELS 3 // of a unit: a third of a chunk, which is fetched as boxes of 8 positions
#define UNITS (PANELS / UNIT_PANELS)
#define UNIT (UNIT_PANELS * PANEL)     // bytes
#define BOX 8                          // positions
#define BOX_BYTES (UNIT_PANELS * 1024) // its panels, each 8 rows of 128 bytes, follow each other

// LatentCut says which block of attend_latent_few has which chunks, as Cut of attend.cuh does. A share is 16 heads of a
// row, and is not cut if it has at most `whole` chunks: 6 times a block's equal number, and at least 8, since joining what
// was cut takes a kernel of its own. Where the host says that no row has more (latentsWhole of attention.go), that kernel
// is left out.
struct LatentCut {
    int parts, chunks, blocks, whole; // parts: shares of a row
    int each, rest;                   // of chunks by blocks: a product of both may have more than 32 bits

    __device__ __forceinline__ LatentCut(const AttendArgs &a, int most, bool uncut) {
        parts = (a.group + 15) / 16, chunks = a.count[2] * parts;
        blocks = min(most, chunks);
        each = chunks / max(blocks, 1), rest = chunks - each * blocks;
        whole = uncut ? chunks : max(8, each * 6 + rest * 6 / max(blocks, 1));
    }

    __device__ __forceinline__ int begin(int block) const { return each * block + rest * block / blocks; }

    // lead is how many of a cut share's n chunks, from x on, the block has that has the first one.
    __device__ __forceinline__ int lead(int x, int n) const {
        int block = max(0, (int)((float)x * blocks / chunks) - 1); // not after it: rounding adds one at most
        while (begin(block) <= x)
            block++;
        return min(begin(block) - x, n);
    }

    __device__ __forceinline__ int align(int x, int begin, int end) const {
        int n = end - begin, nth = (x - begin * parts) % n;
        return n <= whole && nth > 0 ? x - nth + n : x;
    }
};

// panelOf is where panel p of a chunk begins, from the beginning of its unit on.
__device__ __forceinline__ u32 panelOf(int p) { return p % UNIT_PANELS * 1024; }

// fetchUnit begins to copy a warp's two boxes of a unit, numbers warp and warp + 4 of `boxes`, if there are so many.
// Four warps fetch. A box begins at row `row` of cache block `block`.
__device__ __forceinline__ void fetchUnit(u32 to, const TensorMap &map, int warp, int boxes, const int (&row)[2], const int (&block)[2],
                                          int unit, u32 barrier) {
    if (threadIdx.x % 32 != 0)
        return;
    barrierExpect(barrier, ((warp < boxes) + (warp + 4 < boxes)) * BOX_BYTES);
#pragma unroll
    for (int i = 0; i < 2; i++)
        if (warp + 4 * i < boxes)
            asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                         " [%0], [%1, {%2, %3, %4, %5}], [%6];" ::"r"(to + (warp + 4 * i) * BOX_BYTES), "l"(&map), "r"(0), "r"(row[i]),
                         "r"(unit * UNIT_PANELS), "r"(block[i]), "r"(barrier)
                         : "memory");
}

// Boxes are a warp's two boxes of a chunk: their cache blocks, and the rows where they begin. next reads those of the
// next chunk, while this one's boxes are fetched.
struct Boxes {
    int pos, row[2], block[2];

    __device__ __forceinline__ void begin(const int *table, int tokens, int chunk, int warp, int until) {
        pos = chunk * CHUNK + warp * BOX - CHUNK;
        next(table, tokens, until);
    }

    __device__ __forceinline__ void next(const int *table, int tokens, int until) {
        pos += CHUNK;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            int at = pos + i * 4 * BOX;
            row[i] = at % tokens, block[i] = at < until ? table[at / tokens] : 0;
        }
    }
};

// arriveWarp arrives once for a warp, after all its lanes are there.
__device__ __forceinline__ void arriveWarp(u32 at) {
    __syncwarp();
    if (threadIdx.x % 32 == 0)
        barrierArrive(at);
}

// clearRest makes zeros of a chunk's positions from number `from` on, as clear of attend_wgmma.cu does, in four panels,
// whose places panel(p) gives. The 128 threads that do it wait for each other.
template <typename F> __device__ __forceinline__ void clearRest(int from, int thread, int barrier, F panel) {
    for (int i = from * 8 + thread; i < CHUNK * 8; i += 128)
#pragma unroll
        for (int p = 0; p < 4; p++)
            asm volatile("st.shared.v4.u32 [%0], {%1,%1,%1,%1};" ::"r"(panel(p) + i / 64 * BOX_BYTES + i % 64 * 16), "r"(0) : "memory");
    fenceShared();
    barrierOf(barrier, 128);
}
