// Chooses tokens from logits. A block of THREADS threads makes a choice, or, of more than draws (choose_more), a run of
// them, one after the other.
//
// A token's weight is e^(logit/temperature), as a whole number that is 2^44 for the most likely token. So sums of
// weights do not depend on the order in which threads add them, and a draw with a seed gives the same token whatever
// its company.
#include "common.cuh"

#define THREADS 1024
#define WARPS (THREADS / 32)
#define ONE 17592186044416.f // 2^44

// Choice is one token to choose, from a row of the logits; the fields are those of compute.Choosing.
struct Choice {
    int row, mode; // mode: 0 nothing, 1 the most likely, 2 a draw
    float temperature, topP, minP;
    int topK;
    u64 seed, n;
};
struct ChooseArgs {
    const float *logits; // [rows, ld]
    const Choice *choices;
    int *chosen; // [choices] a token, or one of the codes below
    int ld, vocab;
};
enum { NOT_FINITE = -1, FORBIDDEN = -2, NOT_AFTER = -3 }; // a NaN or +Inf; all are -Inf; another token came before

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

// order maps floats to whole numbers in the same order, unorder back. Both zeros are one.
__device__ __forceinline__ u32 order(float x) {
    u32 b = __float_as_uint(x == 0 ? 0.f : x);
    return b & 0x80000000u ? ~b : b | 0x80000000u;
}
__device__ __forceinline__ float unorder(u32 k) { return __uint_as_float(k & 0x80000000u ? k & 0x7fffffffu : ~k); }

// Cut says which logits are left to choose from: those whose order is above key, and the first `ties` of those at key.
struct Cut {
    u32 key;
    int ties;
};

// weightOf is the weight of a token, as exponent of 2 by scale, whose logit is compared with the greatest one, `most`.

__device__ __forceinline__ u64 weightOf(float logit, float most, float scale) {
    return (u64)(exp2Fast((logit - most) * scale) * ONE);
}

// tighten cuts further, to the best of what a cut leaves: `want` of them, or, if byWeight, as few as weigh `want` or
// more. It finds eight bits of the new key at a time, from the highest on, by counting in bins.
__device__ __noinline__ Cut tighten(Cut cut, const float *x, int n, float most, float scale, bool byWeight, u64 want) {
    __shared__ u64 bins[256];
    __shared__ u32 found;
    __shared__ u64 rest;
    u32 prefix = 0;
#pragma unroll 1
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

// Best is the greatest of logits, the first of equals, and its token, or why there is none: NOT_FINITE or FORBIDDEN.
struct Best {
    float most;
    int token;
};

__device__ __noinline__ Best greatest(const float *x, int n) {
    __shared__ float best[WARPS];
    __shared__ int at[WARPS], bad[WARPS];
    float most = -INF;
    int token = 0x7fffffff, broken = 0;
    for (int i = threadIdx.x; i < n; i += THREADS) {
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
    __syncthreads(); // all have read what a call before wrote
    if (threadIdx.x % 32 == 0)
        best[threadIdx.x / 32] = most, at[threadIdx.x / 32] = token, bad[threadIdx.x / 32] = broken;
    __syncthreads();
    for (int w = 0; w < WARPS; w++) {
        broken |= bad[w];
        if (best[w] > most || best[w] == most && at[w] < token)
            most = best[w], token = at[w];
    }
    return {most, broken ? NOT_FINITE : most == -INF ? FORBIDDEN : token};
}

// Share is what a cut leaves of a warp's part of the tokens, numbers from to to-1.
struct Share {
    int from, to;
    int ties, tiesBefore;    // how many tokens at the cut's key it has, and the parts before it
    u64 own, before, total;  // the weight of what is left of it, of the parts before it, and of all
    u64 tie;                 // the weight of a token at the key
};

__device__ __noinline__ Share shareOf(Cut cut, const float *x, int n, float most, float scale) {
    __shared__ u64 sums[WARPS];
    __shared__ int ties[WARPS];
    int warp = threadIdx.x / 32;
    Share s = {(int)((i64)n * warp / WARPS), (int)((i64)n * (warp + 1) / WARPS)};
    s.tie = weightOf(unorder(cut.key), most, scale);
    u64 sum = 0;
    int equal = 0;
    for (int i = s.from + threadIdx.x % 32; i < s.to; i += 32) {
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
    if (threadIdx.x % 32 == 0)
        sums[warp] = sum, ties[warp] = equal;
    __syncthreads();
    int left = cut.ties, seen = 0;
    for (int w = 0; w < WARPS; w++) {
        u64 part = sums[w] + min(left, ties[w]) * s.tie;
        if (w == warp)
            s.before = s.total, s.own = part, s.ties = ties[w], s.tiesBefore = seen;
        s.total += part;
        left -= min(left, ties[w]), seen += ties[w];
    }
    return s;
}

// pick chooses a token by c, or says why there is none; all threads get it.
__device__ int pick(const float *x, int n, const Choice &c) {
    __shared__ int drawn;
    Best best = greatest(x, n);
    if (best.token < 0 || c.mode == 1)
        return best.token;
    float most = best.most, scale = LOG2E / c.temperature;
    // Below `least`, a weight is less than e^-88 of the most likely token's, or than minP of it. Nothing else is cut at
    // first.
    float least = most - 88.f * c.temperature;
    if (c.minP > 0)
        least = fmaxf(least, most + logf(c.minP) * c.temperature);
    Cut cut = {order(least) - 1, 0};
    if (c.topK > 0 && c.topK < n)
        cut = tighten(cut, x, n, most, scale, false, c.topK);
    Share s = shareOf(cut, x, n, most, scale);
    if (c.topP < 1) {
        u64 want = (u64)((double)c.topP * (double)s.total);
        cut = tighten(cut, x, n, most, scale, true, want ? want : 1);
        s = shareOf(cut, x, n, most, scale);
    }
    u64 draw = (u64)(uniform(c.seed, c.n) * (double)s.total);
    if (draw >= s.total)
        draw = s.total - 1;
    if (draw >= s.before && draw < s.before + s.own) { // the one warp whose part the draw is in
        int lane = threadIdx.x % 32;
        for (int first = s.from; first < s.to; first += 32) {
            int i = first + lane;
            u32 k = i < s.to ? order(x[i]) : 0;
            u32 equal = __ballot_sync(~0u, i < s.to && k == cut.key);
            bool in = i < s.to && (k > cut.key || k == cut.key && s.tiesBefore + __popc(equal & ((1u << lane) - 1)) < cut.ties);
            u64 w = in ? weightOf(x[i], most, scale) : 0, sum = w;
            for (int d = 1; d < 32; d *= 2) {
                u64 v = __shfl_up_sync(~0u, sum, d);
                if (lane >= d)
                    sum += v;
            }
            u32 past = __ballot_sync(~0u, s.before + sum > draw);
            if (past) {
                if (lane == __ffs(past) - 1)
                    drawn = i;
                break;
            }
            s.before += __shfl_sync(~0u, sum, 31);
            s.tiesBefore += __popc(equal);
        }
    }
    __syncthreads();
    return drawn;
}

// [choices] blocks.
KERNEL __launch_bounds__(THREADS) choose(const ChooseArgs a) {
    const Choice c = a.choices[blockIdx.x];
    if (c.mode == 0)
        return;
    int token = pick(a.logits + (i64)c.row * a.ld, a.vocab, c);
    if (threadIdx.x == 0)
        a.chosen[blockIdx.x] = token;
}

// More is a choice that takes more than a draw, or a token that is only described. Its lists are in `words`, from a
// place on.
struct More {
    Choice by;
    u32 *counts;         // [vocab] of its slot, as count_tokens makes them; nil if no penalty is on
    int entry;           // of chosen
    int after, id;       // after, if not -1, is an entry that must have chosen id
    int given;           // if not -1: this token is described, and none chosen
    int rank, top;       // 1: the rank is wanted; how many alternatives, -1: not even a log probability
    int tops;            // where in candidates they go
    int mask;            // where its words are; -1: none
    int bias, biases;    // where, and how many: pairs of a token and what is added to its logit
    int bans, banned;    // where, and how many: tokens that must not be chosen
    float repetition, presence, frequency;
    int adjusts;         // 1: there is a bias, penalty, mask or ban
};

// Said is what the host gets of a More.
struct Said {
    int token;
    float logprob;
    int rank, tops; // tops: how many candidates
};
struct Candidate {
    int token;
    float logprob;
};
struct ChooseMoreArgs {
    const float *logits; // [rows, ld]
    float *adjusted;     // [gridDim.x, vocab]
    const More *more;
    const int2 *runs; // [gridDim.x] the first choice of a run and how many: they are made one after the other
    const u32 *words;
    int *chosen;
    Said *said; // [choices]
    Candidate *candidates;
    int ld, vocab, maskWords, _;
};

// adjust writes a row of logits to y as a choice is made from them: bias, penalties, mask and bans, in the host's
// order.
__device__ void adjust(const ChooseMoreArgs &a, const More &m, const float *x, float *y) {
    int n = a.vocab, thread = threadIdx.x;
    __syncthreads(); // all have read what was in y
    for (int i = thread; i < n; i += THREADS)
        y[i] = x[i];
    __syncthreads();
    const u32 *bias = a.words + m.bias;
    for (int k = thread; k < m.biases; k += THREADS)
        if (k == 0 || bias[2 * k - 2] != bias[2 * k]) // the thread of a token's first bias adds all of them, in order
            for (int j = k; j < m.biases && bias[2 * j] == bias[2 * k]; j++)
                if (bias[2 * j] < (u32)n)
                    y[bias[2 * j]] = y[bias[2 * j]] + __uint_as_float(bias[2 * j + 1]);
    __syncthreads();
    if (m.counts || m.mask >= 0)
        for (int i = thread; i < n; i += THREADS) {
            float l = y[i];
            u32 seen = m.counts ? m.counts[i] : 0;
            if (seen) {
                l = l > 0 ? l / m.repetition : l * m.repetition;
                if (seen & 0x7fffffff) {
                    l = l - m.frequency * (float)(seen & 0x7fffffff);
                    l = l - m.presence;
                }
            }
            if (m.mask >= 0 && i / 32 < a.maskWords && !(a.words[m.mask + i / 32] >> i % 32 & 1))
                l = -INF;
            y[i] = l;
        }
    __syncthreads();
    for (int k = thread; k < m.banned; k += THREADS)
        if (a.words[m.bans + k] < (u32)n)
            y[a.words[m.bans + k]] = -INF;
    __syncthreads();
}

// candidates writes the best `count` of n logits, at most 128, best first, with their log probabilities, and returns
// how many they are. norm is the logarithm of the sum of all e^logit.
__device__ int candidates(const float *x, int n, int count, float most, double norm, Candidate *to) {
    __shared__ u64 list[128];
    __shared__ int found;
    count = min(count, n);
    if (count <= 0)
        return 0;
    Cut cut = tighten({order(-INF) - 1, 0}, x, n, most, 1, false, count);
    Share s = shareOf(cut, x, n, most, 1);
    if (threadIdx.x == 0)
        found = 0;
    __syncthreads();
    int lane = threadIdx.x % 32;
    for (int first = s.from; first < s.to; first += 32) {
        int i = first + lane;
        u32 k = i < s.to ? order(x[i]) : 0;
        u32 equal = __ballot_sync(~0u, i < s.to && k == cut.key);
        if (i < s.to && (k > cut.key || k == cut.key && s.tiesBefore + __popc(equal & ((1u << lane) - 1)) < cut.ties)) {
            int at = atomicAdd(&found, 1);
            if (at < 128)
                list[at] = (u64)k << 32 | (u32)~i; // of equals, the lower token is better
        }
        s.tiesBefore += __popc(equal);
    }
    __syncthreads();
    if (threadIdx.x < count) {
        u64 own = list[threadIdx.x];
        int better = 0;
        for (int k = 0; k < count; k++)
            better += list[k] > own;
        int token = (int)~(u32)own;
        to[better] = {token, (float)((double)x[token] - norm)};
    }
    return count;
}

// describe computes a token's log probability, rank and alternatives by the logits as the model gives them: before
// biases, penalties, temperature and filters.
__device__ void describe(const ChooseMoreArgs &a, const More &m, const float *x, Said &said) {
    int n = a.vocab, token = said.token;
    Best best = greatest(x, n);
    if (best.token < 0) {
        said.token = best.token;
        return;
    }
    Share s = shareOf({order(-INF) - 1, 0}, x, n, best.most, LOG2E);
    double norm = (double)best.most + log((double)s.total / (double)ONE);
    said.logprob = (float)((double)x[token] - norm);
    if (m.rank) {
        u32 own = order(x[token]), ahead = 0;
        for (int i = threadIdx.x; i < n; i += THREADS) {
            u32 k = order(x[i]);
            ahead += k > own || k == own && i < token;
        }
        __shared__ u32 count;
        __syncthreads();
        if (threadIdx.x == 0)
            count = 1;
        __syncthreads();
        atomicAdd(&count, ahead);
        __syncthreads();
        said.rank = count;
    }
    said.tops = candidates(x, n, m.top, best.most, norm, a.candidates + m.tops);
}

// [runs] blocks.
KERNEL __launch_bounds__(THREADS) choose_more(const ChooseMoreArgs a) {
    int2 run = a.runs[blockIdx.x];
    float *y = a.adjusted + (i64)blockIdx.x * a.vocab;
    for (int k = run.x; k < run.x + run.y; k++) {
        const More m = a.more[k];
        const float *x = a.logits + (i64)m.by.row * a.ld;
        Said said = {m.given};
        bool goesOn = m.after < 0 || m.id >= 0 && a.chosen[m.after] == m.id;
        if (!goesOn) {
            said.token = NOT_AFTER;
        } else if (m.given < 0) {
            if (m.adjusts)
                adjust(a, m, x, y);
            said.token = pick(m.adjusts ? y : x, a.vocab, m.by);
            if (threadIdx.x == 0 && m.counts && said.token >= 0)
                m.counts[said.token]++;
        }
        if (said.token >= 0 && (m.given >= 0 || m.top >= 0))
            describe(a, m, x, said);
        if (threadIdx.x == 0) {
            a.chosen[m.entry] = said.token;
            a.said[k] = said;
        }
        __syncthreads(); // the next one may go on from what was chosen, or read its count
    }
}

// count_tokens counts how often each token comes: the highest bit says that it is in the prompt, the others how often
// it is in the output. Any number of blocks.
struct CountArgs {
    u32 *counts;       // [vocab]
    const int *tokens; // [n], the first `prompt` of which are the prompt's
    int prompt, n, vocab, _;
};
KERNEL count_tokens(const CountArgs a) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < a.n; i += gridDim.x * blockDim.x) {
        u32 token = a.tokens[i];
        if (token >= (u32)a.vocab)
            continue;
        if (i < a.prompt)
            atomicOr(&a.counts[token], 0x80000000u);
        else
            atomicAdd(&a.counts[token], 1u);
    }
}
