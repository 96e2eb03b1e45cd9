// Attention without tensor cores: right for every shape and type of the cache, and slow. A block computes a query head
// of a row by itself, chunk after chunk of 64 positions, so its bits do not depend on other rows; they are not those of
// attend.cu.
#include "kv.cuh"

#define CHUNK 64

struct AttendAnyArgs {
    Rows q, dst;
    const bf16 *at;
    const int *table;
    i64 block;
    int stride, tokens, heads, group, keyDim, valueDim;
    int latent; // 1: values are the first valueDim numbers of keys
    const int *slot, *until; // the rest is as in AttendArgs (attend.cuh)
    const float *sinks;
    int window;
    float scale, softcap;
};

// [query heads, rows] blocks of CHUNK threads. Dynamic shared memory: keyDim + valueDim numbers.
template <int TYPE> __device__ __forceinline__ void attendAny(const AttendAnyArgs &a) {
    extern __shared__ float shared[];
    __shared__ float weights[CHUNK];
    float *q = shared, *sum = shared + a.keyDim;
    int h = blockIdx.x, row = blockIdx.y, head = h / a.group, thread = threadIdx.x;
    int slot = a.slot[row], until = slot < 0 ? 0 : a.until[row];
    int first = a.window ? max(until - a.window, 0) : 0;
    const int *table = a.table + (i64)max(slot, 0) * a.stride;
    int keyBytes = kvRowBytes(TYPE, a.keyDim), valueBytes = a.latent ? keyBytes : kvRowBytes(TYPE, a.valueDim);
    i64 valuesAt = a.latent ? 0 : (i64)a.heads * a.tokens * keyBytes; // bytes from a block's keys on
    auto blockOf = [&](int pos) { return (const u8 *)(a.at + (i64)table[pos / a.tokens] * a.block); };
    for (int d = thread; d < a.keyDim; d += CHUNK)
        q[d] = get(a.q, row, h * a.keyDim + d);
    for (int d = thread; d < a.valueDim; d += CHUNK)
        sum[d] = 0;
    float M = a.sinks ? a.sinks[h] * LOG2E : -INF, T = a.sinks ? 1 : 0;
    for (int chunk = first / CHUNK * CHUNK; chunk < until; chunk += CHUNK) {
        int pos = chunk + thread;
        bool seen = pos >= first && pos < until;
        float score = -INF;
        __syncthreads();
        if (seen) {
            const u8 *key = blockOf(pos) + ((i64)head * a.tokens + pos % a.tokens) * keyBytes;
            score = 0;
            for (int d = 0; d < a.keyDim; d++)
                score = fmaf(q[d], kvNumber<TYPE>(key, d), score);
            score = score * a.scale;
            if (a.softcap > 0)
                score = a.softcap * tanhf(score / a.softcap);
        }
        weights[thread] = score;
        __syncthreads();
        float m = -INF, t = 0;
        for (int i = 0; i < CHUNK; i++)
            m = fmaxf(m, weights[i]);
        __syncthreads();
        weights[thread] = seen ? exp2Fast(score - m) : 0;
        __syncthreads();
        for (int i = 0; i < CHUNK; i++)
            t = t + weights[i];
        float most = fmaxf(M, m), old = M == -INF ? 0 : exp2Fast(M - most), add = exp2Fast(m - most);
        M = most;
        T = fmaf(add, t, T * old);
        for (int d = thread; d < a.valueDim; d += CHUNK) {
            float o = 0;
            for (int i = 0; i < CHUNK; i++) {
                int p = chunk + i;
                if (p < first || p >= until)
                    continue;
                const u8 *v = blockOf(p) + valuesAt + ((i64)head * a.tokens + p % a.tokens) * valueBytes;
                o = fmaf(weights[i], kvNumber<TYPE>(v, d), o);
            }
            sum[d] = fmaf(add, o, sum[d] * old);
        }
    }
    for (int d = thread; d < a.valueDim; d += CHUNK)
        put(a.dst, row, h * a.valueDim + d, until > 0 ? sum[d] * (1.f / T) : 0); // a row without a slot sees nothing
}

KERNEL attend_any(const AttendAnyArgs a) { attendAny<KV_BF16>(a); }
KERNEL attend_any_f16(const AttendAnyArgs a) { attendAny<KV_F16>(a); }
KERNEL attend_any_fp8(const AttendAnyArgs a) { attendAny<KV_FP8>(a); }
KERNEL attend_any_q8(const AttendAnyArgs a) { attendAny<KV_Q8_0>(a); }
