// What the kernels for products share: which weights, in which order a sum is made, and what is done with it.
//
// The order of a sum: inputs are cut into ranges of about equal length, multiples of 256 but for the last, as many as
// the weight's shape asks for (ranges in products.go). A range is one chain of mma from zero, 16 inputs at a time,
// ascending; the ranges' sums are added in order, to zero. wgmma gives the bits that mma gives. So a row gives the same
// bits whichever kernel computes it, beside however many other rows.
#pragma once
#include "weights.cuh"

#define MAX_PRODUCTS 4

#ifndef FORMAT
#define FORMAT BF16 // of all weights that a kernel reads
#endif
constexpr int RECORD = recordBytes(FORMAT);

// UNIT makes sums of weights what they are. summed is such a sum, which is never -0.
constexpr float UNIT = unitOf(FORMAT);
__device__ __forceinline__ float summed(float x) { return UNIT == 1 ? 0.f + x : fmaf(x, UNIT, 0.f); }

// Product is one weight in records, [outs, 16·tilesIn], and where its results go, [rows, outs].
struct Product {
    const u8 *w;
    const float *bias; // [outs] or nil
    Rows dst;
    int outs, tiles; // tiles: of 16 outputs
};

// What is done with results: stored, times scale; added to dst, times scale; act(p[0])·p[1], stored to p[0].dst.
enum { PLAIN, ADD, GATED };

struct GemmArgs {
    const bf16 *x; // [rows, ldx], 16·tilesIn of them inputs: those past the weights' own meet zeros, and are finite
    int ldx, tilesIn, rows, products, mode, act;
    float scale, softcap; // of PLAIN and ADD; softcap 0 is off
    int ranges, unused;
    Product p[MAX_PRODUCTS];
};

// rangeStart is the first of so many steps of 64 inputs that belongs to a range.
__device__ __forceinline__ int rangeStart(int steps, int ranges, int range) {
    return range < ranges ? steps / 4 * range / ranges * 4 : steps;
}

// Place is a product and one of its tiles of 16 outputs.
struct Place {
    int product, tile; // product is -1 past the last tile
};

// placeOf numbers the tiles of all products of a launch: those of a gate and of what it gates alternate, otherwise each
// product's follow the product's before. Args are GemmArgs or GroupedArgs.
template <typename Args> __device__ __forceinline__ Place placeOf(const Args &a, int n) {
    if (a.mode == GATED)
        return {n / 2 < a.p[0].tiles ? n & 1 : -1, n / 2};
    for (int i = 0; i < a.products; i++) {
        if (n < a.p[i].tiles)
            return {i, n};
        n -= a.p[i].tiles;
    }
    return {-1, 0};
}

// rounded is a number as it is stored. A gate and what it gates are rounded before the activation, also where one kernel
// makes both: where adapters add to them, they are stored before that.
__device__ __forceinline__ float rounded(float x) { return fromBF16(toBF16(x)); }

// finish makes a result of a sum, that of output `out` of tile `at`, and stores it. up is the sum of the second product
// of GATED.
__device__ __forceinline__ void finish(const GemmArgs &a, Place at, int out, i64 row, float sum, float up) {
    const Product &p = a.p[at.product];
    int o = at.tile * 16 + out;
    if (o >= p.outs || row >= a.rows)
        return;
    sum = sum * UNIT, up = up * UNIT;
    if (p.bias)
        sum = sum + p.bias[o];
    if (a.mode == GATED) {
        if (a.p[1].bias)
            up = up + a.p[1].bias[o];
        put(p.dst, row, o, activate(a.act, rounded(sum), rounded(up)));
        return;
    }
    sum = sum * a.scale;
    if (a.softcap > 0)
        sum = a.softcap * tanhf(sum / a.softcap);
    put(p.dst, row, o, a.mode == ADD ? get(p.dst, row, o) + sum : sum);
}

// The kernels for few rows are streams of weights. A warp has TILES tiles of 16 outputs and takes them in parts of PART
// bytes of each, whole records, through a ring in shared memory of its own, which copies in the background fill ahead.
// A part's tiles lie one after the other.

// copyWeights begins to copy the next part. A lane copies 16 bytes of every 512 of a tile: `to` and w are where its
// first ones go and come from, and w moves on to the next part. Bytes from number bytesLeft on, counted from w, become
// zeros. ONCE: no other block reads them.
template <int PART, bool ONCE, int TILES> __device__ __forceinline__ void copyWeights(u32 to, const u8 *(&w)[TILES], int bytesLeft, int lane) {
#pragma unroll
    for (int j = 0; j < (PART + 511) / 512; j++)
        if (PART % 512 == 0 || j < PART / 512 || lane < PART % 512 / 16)
#pragma unroll
            for (int i = 0; i < TILES; i++)
                if (ONCE)
                    copy16Once(to + i * PART + j * 512, w[i] + j * 512, j * 512 < bytesLeft);
                else
                    copy16(to + i * PART + j * 512, w[i] + j * 512, j * 512 < bytesLeft);
#pragma unroll
    for (int i = 0; i < TILES; i++)
        w[i] += PART;
}

// loadRecords reads a lane's weights of record n of each tile of a part.
template <int PART, int TILES>
__device__ __forceinline__ void loadRecords(Weights<FORMAT> (&weights)[TILES], const u8 *part, int n, int lane) {
#pragma unroll
    for (int i = 0; i < TILES; i++)
        weights[i].load(part + i * PART + n * RECORD, lane);
}

// multiplyTiles adds to d the products of 16 inputs, number k of a record, of each tile and of 8·COLS rows: x holds
// operand B of 32 inputs, of which those are the half that k % 2 names.
template <int TILES, int COLS>
__device__ __forceinline__ void multiplyTiles(float (&d)[TILES][COLS][4], const Weights<FORMAT> (&weights)[TILES], int k, const u32 (&x)[COLS][4]) {
#pragma unroll
    for (int i = 0; i < TILES; i++) {
        u32 wf[4];
        weights[i].tile(k, wf);
#pragma unroll
        for (int c = 0; c < COLS; c++)
            mma(d[i][c], wf, x[c][k % 2 * 2], x[c][k % 2 * 2 + 1]);
    }
}
