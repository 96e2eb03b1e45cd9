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
    int late, known;     // 1 if rows, or where groups end, were there before the kernel in front began (waitForRows)
    GroupedProduct p[MAX_PRODUCTS];
};

// FewArgs are those of kernels that compute routes of few rows, each by itself (grouped_few.cu).
struct FewArgs {
    Rows x, dst;               // of a gate: x [rows], dst [routes]; few_down: x [routes], dst [rows]
    const Group *gate, *up;    // [experts]; few_down has one weight, gate
    const int *ids, *slot;     // [rows, chosen], [rows]
    const float *weights;      // [rows, chosen]
    Rows shared, factor;       // as combine's in experts.cu
    int experts, chosen, act, mode; // mode of few_down: PLAIN, or ADD: added to dst, times scale
    float scale;
    int in; // inputs
};

// touch reads the table of n experts, so that it is in the cache once the choice is known.
__device__ __forceinline__ void touch(const Group *groups, int n) {
    for (int at = threadIdx.x * 128; at < n * (int)sizeof(Group); at += blockDim.x * 128) {
        asm volatile("{\n.reg .b32 unused;\nld.global.u32 unused, [%0];\n}" ::"l"((const u8 *)groups + at));
    }
}

// sumExperts adds up what a row's experts yield for 16 outputs from `out` on, times their weights, as combine does, and
// stores that.
__device__ __forceinline__ void sumExperts(const FewArgs &a, int row, int out, int outs, const float (*sums)[16]) {
    int col = out + threadIdx.x;
    if (threadIdx.x >= 16 || col >= outs)
        return;
    float v = a.shared.at ? get(a.shared, row, col) : 0;
    if (a.factor.at)
        v = v * sigmoid(get(a.factor, row, 0));
    for (int i = 0; i < a.chosen; i++)
        v = fmaf(a.weights[row * a.chosen + i], sums[i][threadIdx.x], v);
    put(a.dst, row, col, a.mode == ADD ? fmaf(a.scale, v, get(a.dst, row, col)) : v);
}
