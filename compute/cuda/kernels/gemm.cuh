// What the kernels for products share: which weights, and what is done with a sum.
//
// The inputs are cut into ranges, alike but for multiples of 256: as many as the weight's shape asks for (ranges in
// products.go). A range is one chain of mma from zero, 16 inputs at a time, ascending; the ranges' sums are added in
// order, to zero. wgmma gives the bits that mma gives. So a row gives the same bits whichever kernel computes it,
// beside however many other rows.
#pragma once
#include "weights.cuh"

#define MAX_PRODUCTS 4

#ifndef FORMAT
#define FORMAT BF16 // of all weights that a kernel reads
#endif
constexpr int RECORD = recordBytes(FORMAT);

// Product is one weight in records, [outs, 16·tilesIn], and where its results go, [rows, outs].
struct Product {
    const u8 *w;
    const float *bias; // [outs] or nil
    Rows dst;
    int outs, tiles; // tiles: of 16 outputs
};

enum { PLAIN, ADD, GATED }; // what is done with results: stored; added to dst, times scale; act(p[0])·p[1], stored to p[0].dst

struct GemmArgs {
    const bf16 *x;  // [rows, ldx]: inputs past the weights' own are finite
    int ldx, tilesIn, rows, products, mode, act;
    float scale, softcap; // scale: times sums of PLAIN and ADD; softcap 0 is off
    int ranges, unused;
    Product p[MAX_PRODUCTS];
};

// rangeStart is the first step of a range, of so many steps of 64 inputs.
__device__ __forceinline__ int rangeStart(int steps, int ranges, int range) {
    return range < ranges ? steps / 4 * range / ranges * 4 : steps;
}

// Place is where tile n of all products' tiles lies: the tiles of GATED alternate, others follow each other.
struct Place {
    int product, tile; // product is -1 past the last tile
};

__device__ __forceinline__ Place placeOf(const GemmArgs &a, int n) {
    if (a.mode == GATED)
        return {n / 2 < a.p[0].tiles ? n & 1 : -1, n / 2};
    for (int i = 0; i < a.products; i++) {
        if (n < a.p[i].tiles)
            return {i, n};
        n -= a.p[i].tiles;
    }
    return {-1, 0};
}

// finish makes a sum a result and stores it. up is the sum of the other product of GATED.
__device__ __forceinline__ void finish(const GemmArgs &a, Place at, int out, i64 row, float sum, float up) {
    const Product &p = a.p[at.product];
    int o = at.tile * 16 + out;
    if (o >= p.outs || row >= a.rows)
        return;
    if (p.bias)
        sum = sum + p.bias[o];
    if (a.mode == GATED) {
        if (a.p[1].bias)
            up = up + a.p[1].bias[o];
        put(p.dst, row, o, activate(a.act, sum, up));
        return;
    }
    sum = sum * a.scale;
    if (a.softcap > 0)
        sum = a.softcap * tanhf(sum / a.softcap);
    put(p.dst, row, o, a.mode == ADD ? get(p.dst, row, o) + sum : sum);
}
