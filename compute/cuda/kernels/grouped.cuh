// What the kernels for grouped products share: products in which each group of rows has weights of its own, as the
// experts of a mixture or the heads of latent attention. Sums have the order of gemm.cuh, so that a row gives the same
// bits beside however many other rows.
#pragma once
#include "gemm.cuh"

// Group is the weight of one group, [outs, in] in records; w is nil if the group has no product.
struct Group {
    const u8 *w;
    const float *bias; // [outs] or nil
    int outs, in;
    float scale; // multiplies sum and bias; of GATED it is 1
    int unused;
};

// GroupedProduct is one weight of every group, and where inputs come from and results go.
struct GroupedProduct {
    const bf16 *x;
    const Group *groups; // [GroupedArgs.groups]
    Rows dst;
    int ldx, tiles; // tiles: of 16 outputs, of the group that has the most
};

// The rows of group g follow those of group g-1 and end at ends[g]; where ends is nil, every group has all rows.
struct GroupedArgs {
    const int *ends;
    const int *from, *to; // for each row of a group its row of x, and of dst; nil: its own number, as `to` always is
    int groups, rows, products;
    int inStep, outStep; // columns from one group's inputs, and outputs, to the next group's: of heads, else 0
    int mode;            // PLAIN, ADD or GATED
    int pads;            // 1: outputs past the last of a tile's 16 become zeros
    int aligned;         // 1: the inputs of every group begin at a multiple of 16 bytes
    float scale;         // of ADD
    int act;             // of GATED
    int late, unused;    // late: 1 if rows were there before the kernel in front began (waitForRows)
    GroupedProduct p[MAX_PRODUCTS];
};
