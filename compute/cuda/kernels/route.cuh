// The choice of a row's experts, by one warp. route (experts.cu) and route_few (route_few.cu) make it of the same
// logits with the same bits.
#pragma once
#include "common.cuh"

// RouteArgs is compute.Router, and where choices go: each row's experts, best first, of equals the lower number first.
// Rows without a slot choose none: -1. A NaN is less than every number.
struct RouteArgs {
    Rows logits;
    const float *bias; // [experts] added to the scores for the choice alone, or nil
    const int *slot;   // [rows]
    int *ids;          // [rows, chosen]
    float *weights;    // [rows, chosen]
    int experts, chosen;
    int sigmoid;                 // 1: a score is the sigmoid of a logit; 0: they are the softmax of all
    int groups, kept, groupBest; // experts are in `groups` groups, 0: in none; the best `kept` stay, by their best 1 or 2
    int normalise;               // 1: weights are divided by their sum
    float scale;                 // of weights
    int rows, unused;
};

#define TAKEN (-INF)
#define LOWEST (-3.4e38f) // what a NaN counts as

// firstOfBest returns the place of the greatest number of a warp's lanes, of which each names its own and the place of
// it: the first among equals, 0 if all are taken. Each lane gets the same.
__device__ __forceinline__ int firstOfBest(float most, int at, int n) {
    int bits = __float_as_int(most + 0.f); // whose order is that of the numbers, once those below 0 are turned over
    bits = bits < 0 ? bits ^ 0x7fffffff : bits;
    bool first = __reduce_max_sync(~0u, bits) == bits && most > TAKEN;
    at = __reduce_min_sync(~0u, first ? at : n);
    return at < n ? at : 0;
}

// best returns the place of the greatest of n numbers that is not taken, as firstOfBest does.
__device__ __forceinline__ int best(const float *x, int n) {
    float most = TAKEN;
    int at = n;
#pragma unroll 1
    for (int i = threadIdx.x % 32; i < n; i += 32)
        if (x[i] > most)
            most = x[i], at = i;
    return firstOfBest(most, at, n);
}

// routeRow chooses for a row, which has a slot or not. A warp's lanes work together. scores has room for 2·experts +
// groups numbers.
template <typename F> __device__ __forceinline__ void routeRow(const RouteArgs &a, int row, bool slot, float *scores, F logit) {
    constexpr int KEPT = 16; // of the numbers that choose, as many as a lane keeps in registers
    float *choice = scores + a.experts, *sums = choice + a.experts;
    int lane = threadIdx.x % 32, mine = 0; // choice number `lane`
    int *ids = a.ids + (i64)row * a.chosen;
    float *weights = a.weights + (i64)row * a.chosen;
    if (!slot) {
#pragma unroll 1
        for (int i = lane; i < a.chosen; i += 32)
            ids[i] = -1;
        return;
    }
    float most = -INF, sum = 0;
#pragma unroll 1
    for (int i = lane; i < a.experts; i += 32)
        most = fmaxf(most, logit(i));
    for (int d = 16; d > 0; d /= 2)
        most = fmaxf(most, __shfl_xor_sync(~0u, most, d));
#pragma unroll 1
    for (int i = lane; i < a.experts; i += 32) {
        float x = logit(i);
        scores[i] = a.sigmoid ? sigmoid(x) : exp2Fast((x - most) * LOG2E);
        sum = sum + scores[i];
    }
    sum = sumOfWarp(sum);
#pragma unroll 1
    for (int i = lane; i < a.experts; i += 32) {
        if (!a.sigmoid)
            scores[i] = scores[i] / sum;
        float c = a.bias ? scores[i] + a.bias[i] : scores[i];
        choice[i] = c == c ? fmaxf(c, LOWEST) : LOWEST;
    }
    __syncwarp();
    if (a.groups > 0) {
        int size = a.experts / a.groups;
#pragma unroll 1
        for (int g = lane; g < a.groups; g += 32) {
            float first = -INF, second = -INF;
#pragma unroll 1
            for (int i = g * size; i < (g + 1) * size; i++) {
                float c = choice[i];
                if (c > first)
                    second = first, first = c;
                else if (c > second)
                    second = c;
            }
            sums[g] = fmaxf(a.groupBest == 1 || size == 1 ? first : first + second, LOWEST);
        }
        __syncwarp();
#pragma unroll 1
        for (int i = 0; i < a.kept; i++) {
            int g = best(sums, a.groups);
            __syncwarp();
            if (lane == 0)
                sums[g] = TAKEN;
            __syncwarp();
        }
#pragma unroll 1
        for (int i = lane; i < size * a.groups; i += 32)
            if (sums[i / size] != TAKEN)
                choice[i] = TAKEN;
        __syncwarp();
    }
    float total = 0, own[KEPT];
    bool kept = a.experts <= KEPT * 32;
#pragma unroll
    for (int k = 0; k < KEPT; k++)
        own[k] = kept && lane + k * 32 < a.experts ? choice[lane + k * 32] : TAKEN;
#pragma unroll 1
    for (int i = 0; i < a.chosen; i++) {
        int e;
        if (kept) {
            float most = own[0];
            int at = lane;
#pragma unroll
            for (int k = 1; k < KEPT; k++) {
                if (k * 32 >= a.experts)
                    break;
                if (own[k] > most)
                    most = own[k], at = lane + k * 32;
            }
            e = firstOfBest(most, at, a.experts);
#pragma unroll
            for (int k = 0; k < KEPT; k++)
                if (e == lane + k * 32)
                    own[k] = TAKEN;
        } else {
            e = best(choice, a.experts);
            __syncwarp();
            if (lane == 0)
                choice[e] = TAKEN;
            __syncwarp();
        }
        total = total + scores[e];
        if (lane == 0)
            ids[i] = e;
        mine = lane == i ? e : mine;
    }
    __syncwarp();
#pragma unroll 1
    for (int i = lane; i < a.chosen; i += 32) {
        float w = scores[i < 32 ? mine : ids[i]];
        weights[i] = (a.normalise ? w / (total + 1e-20f) : w) * a.scale;
    }
}
