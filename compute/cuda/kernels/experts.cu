// Mixtures of experts. A route is one of a row's choices; tensors of routes are grouped by expert, rows ascending
// inside a group. The products are grouped.cu's.
#include "common.cuh"

// Chooses the experts of each row, best first, the lower number among equals: ids and weights are [rows, chosen].
// Rows without a slot choose none: -1. A NaN is less than every number. [rows] blocks of a warp. Dynamic shared
// memory: 2·experts + groups numbers.
struct RouteArgs {
    Rows logits;
    const float *bias; // [experts] added to the scores for the choice, or nil
    const int *slot;
    int *ids;
    float *weights;
    int experts, chosen, sigmoid, groups, kept, groupBest, normalise;
    float scale;
};

#define TAKEN (-INF)
#define LOWEST (-3.4e38f) // what a NaN counts as

// best returns the place of the greatest of n numbers that is not taken, the first among equals; 0 if all are. A
// warp's lanes work together, and each returns the same.
__device__ __forceinline__ int best(const float *x, int n) {
    float most = TAKEN;
    int at = n;
    for (int i = threadIdx.x; i < n; i += 32)
        if (x[i] > most)
            most = x[i], at = i;
    for (int d = 16; d > 0; d /= 2) {
        float other = __shfl_xor_sync(~0u, most, d);
        int otherAt = __shfl_xor_sync(~0u, at, d);
        if (other > most || other == most && otherAt < at)
            most = other, at = otherAt;
    }
    return at < n ? at : 0;
}

KERNEL route(const RouteArgs a) {
    extern __shared__ float scores[];
    float *choice = scores + a.experts, *sums = choice + a.experts;
    int row = blockIdx.x, lane = threadIdx.x;
    int *ids = a.ids + (i64)row * a.chosen;
    float *weights = a.weights + (i64)row * a.chosen;
    if (a.slot[row] < 0) {
        for (int i = lane; i < a.chosen; i += 32)
            ids[i] = -1;
        return;
    }
    float most = -INF, sum = 0;
    for (int i = lane; i < a.experts; i += 32)
        most = fmaxf(most, get(a.logits, row, i));
    for (int d = 16; d > 0; d /= 2)
        most = fmaxf(most, __shfl_xor_sync(~0u, most, d));
    for (int i = lane; i < a.experts; i += 32) {
        float x = get(a.logits, row, i);
        scores[i] = a.sigmoid ? sigmoid(x) : exp2Fast((x - most) * LOG2E);
        sum = sum + scores[i];
    }
    sum = sumOfWarp(sum);
    for (int i = lane; i < a.experts; i += 32) {
        if (!a.sigmoid)
            scores[i] = scores[i] / sum;
        float c = a.bias ? scores[i] + a.bias[i] : scores[i];
        choice[i] = c == c ? fmaxf(c, LOWEST) : LOWEST;
    }
    __syncwarp();
    if (a.groups > 0) {
        int size = a.experts / a.groups;
        for (int g = lane; g < a.groups; g += 32) {
            float first = -INF, second = -INF;
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
        for (int i = 0; i < a.kept; i++) {
            int g = best(sums, a.groups);
            __syncwarp();
            if (lane == 0)
                sums[g] = TAKEN;
            __syncwarp();
        }
        for (int i = lane; i < size * a.groups; i += 32)
            if (sums[i / size] != TAKEN)
                choice[i] = TAKEN;
        __syncwarp();
    }
    float total = 0;
    for (int i = 0; i < a.chosen; i++) {
        int e = best(choice, a.experts);
        total = total + scores[e];
        __syncwarp();
        if (lane == 0) {
            choice[e] = TAKEN;
            ids[i] = e;
        }
        __syncwarp();
    }
    __syncwarp();
    for (int i = lane; i < a.chosen; i += 32) {
        float w = scores[ids[i]];
        weights[i] = (a.normalise ? w / (total + 1e-20f) : w) * a.scale;
    }
}

// Groups routes by expert: of each route, at is its place; of each place, from is the batch's row. ends [experts]
// is where each expert's places end. [experts] blocks of 256 threads, each of which reads all n ids.
struct OrderArgs {
    const int *ids;
    int *at, *from, *ends;
    int n, chosen;
};
KERNEL route_order(const OrderArgs a) {
    __shared__ int before[9], own[9]; // of each warp
    int expert = blockIdx.x, thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
    int less = 0, equal = 0;
    for (int i = thread; i < a.n; i += 256) {
        int id = a.ids[i];
        less += id >= 0 && id < expert;
        equal += id == expert;
    }
    for (int d = 16; d > 0; d /= 2) {
        less += __shfl_xor_sync(~0u, less, d);
        equal += __shfl_xor_sync(~0u, equal, d);
    }
    if (lane == 0)
        before[warp] = less, own[warp] = equal;
    __syncthreads();
    less = equal = 0;
    for (int w = 0; w < 8; w++)
        less += before[w], equal += own[w];
    if (thread == 0)
        a.ends[expert] = less + equal;
    for (int first = 0; first < a.n && equal > 0; first += 256) {
        int i = first + thread;
        bool mine = i < a.n && a.ids[i] == expert;
        u32 lanes = __ballot_sync(~0u, mine);
        __syncthreads(); // own of the routes before is read
        if (lane == 0)
            own[warp] = __popc(lanes);
        __syncthreads();
        int place = less + __popc(lanes & ((1u << lane) - 1));
        for (int w = 0; w < 8; w++) {
            place += w < warp ? own[w] : 0;
            less += own[w];
        }
        if (mine) {
            a.at[i] = place;
            a.from[place] = i / a.chosen;
        }
    }
}

// Adds up what the experts of each row yield, best first, to sigmoid(factor)·shared. shared and factor may be nil;
// shared may be dst. [rows, columns/256] blocks of 256.
struct CombineArgs {
    Rows dst, src, shared, factor; // src: [routes, cols]
    const int *at, *slot;
    const float *weights;
    int cols, chosen;
};
KERNEL combine(const CombineArgs a) {
    i64 row = blockIdx.x;
    int col = blockIdx.y * blockDim.x + threadIdx.x;
    if (col >= a.cols || a.slot[row] < 0)
        return;
    float v = a.shared.at ? get(a.shared, row, col) : 0;
    if (a.factor.at)
        v = v * sigmoid(get(a.factor, row, 0));
    for (i64 i = row * a.chosen; i < (row + 1) * a.chosen; i++)
        v = fmaf(a.weights[i], get(a.src, a.at[i], col), v);
    put(a.dst, row, col, v);
}
