// Chooses tokens from logits. Weights are whole numbers, 2^44 for the most likely token, so that sums do not depend
// on the order in which threads add them.
#include "common.cuh"

#define THREADS 1024
#define WARPS (THREADS / 32)
#define ONE 17592186044416.f // 2^44

// Choice is one token to choose: from row row of the logits, by the rest (compute.Choosing).
struct Choice {
    int row, mode; // mode: 0 nothing, 1 the most likely, 2 a draw
    float temperature, topP, minP;
    int topK;
    u64 seed, n;
};
struct ChooseArgs {
    const float *logits; // [rows, ld]
    const Choice *choices;
    int *chosen; // [choices] a token; -1 if there is a NaN or +Inf, -2 if all are -Inf
    int ld, vocab;
};

// uniform returns the first 53 bits of Philox-4x32-10 with the seed as its key and n as its counter, over 2^53
// (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC11, table 2).
__device__ double uniform(u64 seed, u64 n) {
    u32 c0 = (u32)n, c1 = (u32)(n >> 32), c2 = 0, c3 = 0, k0 = (u32)seed, k1 = (u32)(seed >> 32);
    for (int i = 0; i < 10; i++) {
        u64 p = (u64)0xD2511F53 * c0, q = (u64)0xCD9E8D57 * c2;
        c0 = (u32)(q >> 32) ^ c1 ^ k0, c1 = (u32)q, c2 = (u32)(p >> 32) ^ c3 ^ k1, c3 = (u32)p;
        k0 += 0x9E3779B9, k1 += 0xBB67AE85;
    }
    return (double)(((u64)c0 << 32 | c1) >> 11) * 1.1102230246251565e-16;
}

// order maps floats to numbers in the same order.
__device__ __forceinline__ u32 order(float x) {
    u32 b = __float_as_uint(x == 0 ? 0.f : x);
    return b & 0x80000000u ? ~b : b | 0x80000000u;
}
__device__ __forceinline__ float unorder(u32 k) { return __uint_as_float(k & 0x80000000u ? k & 0x7fffffffu : ~k); }

// Cut leaves logits above key, and the first ties of those that are equal to it.
struct Cut {
    u32 key;
    int ties;
};

__device__ __forceinline__ u64 weightOf(float logit, float most, float scale) {
    return (u64)(exp2Fast((logit - most) * scale) * ONE);
}

// tighten finds where the best of what a cut leaves reach count, or with weights a weight: bits of the key from the
// highest on, eight at a time.
__device__ Cut tighten(Cut cut, const float *x, int n, float most, float scale, bool byWeight, u64 want) {
    __shared__ u64 bins[256];
    __shared__ u32 found;
    __shared__ u64 rest;
    u32 prefix = 0;
    for (int shift = 24; shift >= 0; shift -= 8) {
        for (int i = threadIdx.x; i < 256; i += THREADS)
            bins[i] = 0;
        __syncthreads();
        for (int i = threadIdx.x; i < n; i += THREADS) {
            u32 k = order(x[i]);
            if (k > cut.key && (shift == 24 || k >> (shift + 8) == prefix))
                atomicAdd(&bins[k >> shift & 255], byWeight ? weightOf(x[i], most, scale) : 1);
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            if (shift == 24 || cut.key >> (shift + 8) == prefix) // the cut's own ties
                bins[cut.key >> shift & 255] += cut.ties * (byWeight ? weightOf(unorder(cut.key), most, scale) : 1);
            int b = 255;
            while (b > 0 && bins[b] < want)
                want -= bins[b--];
            found = b, rest = want;
        }
        __syncthreads();
        prefix = prefix << 8 | found;
        want = rest;
        __syncthreads();
    }
    if (prefix < cut.key) // all that the cut leaves is not enough
        return cut;
    u64 each = byWeight ? weightOf(unorder(prefix), most, scale) : 1;
    u64 ties = each ? (want + each - 1) / each : 1;
    int most32 = prefix == cut.key ? cut.ties : 1 << 30;
    return {prefix, (int)(ties < (u64)most32 ? ties : most32)};
}

// [choices] blocks of 1024 threads.
KERNEL choose(const ChooseArgs a) {
    const Choice c = a.choices[blockIdx.x];
    if (c.mode == 0)
        return;
    __shared__ float best[WARPS];
    __shared__ int at[WARPS], bad[WARPS];
    __shared__ u64 sums[WARPS];
    __shared__ int ties[WARPS];
    const float *x = a.logits + (i64)c.row * a.ld;
    int n = a.vocab, thread = threadIdx.x, warp = thread / 32, lane = thread % 32;

    float most = -INF;
    int token = 0x7fffffff, broken = 0;
    for (int i = thread; i < n; i += THREADS) {
        float v = x[i];
        broken |= !(v <= 3.402823466e38f);
        if (v > most)
            most = v, token = i;
    }
    for (int d = 16; d > 0; d /= 2) {
        float v = __shfl_xor_sync(~0u, most, d);
        int i = __shfl_xor_sync(~0u, token, d);
        broken |= __shfl_xor_sync(~0u, broken, d);
        if (v > most || v == most && i < token)
            most = v, token = i;
    }
    if (lane == 0)
        best[warp] = most, at[warp] = token, bad[warp] = broken;
    __syncthreads();
    for (int w = 0; w < WARPS; w++) {
        broken |= bad[w];
        if (best[w] > most || best[w] == most && at[w] < token)
            most = best[w], token = at[w];
    }
    if (broken || most == -INF || c.mode == 1) {
        if (thread == 0)
            a.chosen[blockIdx.x] = broken ? -1 : most == -INF ? -2 : token;
        return;
    }

    float scale = LOG2E / c.temperature;
    // What is at least least weighs something, and at least minP. Nothing is cut at first: no logit is below every
    // number.
    float least = most - 88.f * c.temperature;
    if (c.minP > 0)
        least = fmaxf(least, most + logf(c.minP) * c.temperature);
    Cut cut = {order(least) - 1, 0};
    if (c.topK > 0 && c.topK < n)
        cut = tighten(cut, x, n, most, scale, false, c.topK);

    int from = (int)((i64)n * warp / WARPS), to = (int)((i64)n * (warp + 1) / WARPS);
    u64 tie = weightOf(unorder(cut.key), most, scale), before, total;
    int tiesBefore;
    auto add = [&] { // each warp adds up its part of the tokens; before and total come of all
        u64 sum = 0;
        int equal = 0;
        for (int i = from + lane; i < to; i += 32) {
            u32 k = order(x[i]);
            if (k > cut.key)
                sum += weightOf(x[i], most, scale);
            equal += k == cut.key;
        }
        for (int d = 16; d > 0; d /= 2) {
            sum += __shfl_xor_sync(~0u, sum, d);
            equal += __shfl_xor_sync(~0u, equal, d);
        }
        __syncthreads();
        if (lane == 0)
            sums[warp] = sum, ties[warp] = equal;
        __syncthreads();
        total = 0, before = 0, tiesBefore = 0;
        int left = cut.ties, seen = 0;
        for (int w = 0; w < WARPS; w++) {
            if (w == warp)
                before = total, tiesBefore = seen;
            int count = min(left, ties[w]);
            total += sums[w] + count * tie;
            left -= count, seen += ties[w];
        }
    };
    add();
    if (c.topP < 1) {
        u64 want = (u64)((double)c.topP * (double)total);
        cut = tighten(cut, x, n, most, scale, true, want ? want : 1);
        tie = weightOf(unorder(cut.key), most, scale);
        add();
    }
    u64 draw = (u64)(uniform(c.seed, c.n) * (double)total);
    if (draw >= total)
        draw = total - 1;
    u64 own = sums[warp] + min(max(cut.ties - tiesBefore, 0), ties[warp]) * tie;
    if (draw < before || draw >= before + own)
        return;
    for (int first = from; first < to; first += 32) { // the one warp whose part the draw is in
        int i = first + lane;
        u32 k = i < to ? order(x[i]) : 0;
        u32 equal = __ballot_sync(~0u, i < to && k == cut.key);
        bool in = i < to && (k > cut.key || k == cut.key && tiesBefore + __popc(equal & ((1u << lane) - 1)) < cut.ties);
        u64 w = in ? weightOf(x[i], most, scale) : 0, sum = w;
        for (int d = 1; d < 32; d *= 2) {
            u64 v = __shfl_up_sync(~0u, sum, d);
            if (lane >= d)
                sum += v;
        }
        u32 past = __ballot_sync(~0u, before + sum > draw);
        if (past) {
            if (lane == __ffs(past) - 1)
                a.chosen[blockIdx.x] = i;
            return;
        }
        before += __shfl_sync(~0u, sum, 31);
        tiesBefore += __popc(equal);
    }
}
