// Gated delta nets (arXiv:2412.06464). A sequence's state of a layer is float32: the rows that the convolution still
// needs, [window-1, channels], oldest first, then a matrix for each value head, [valueDim, keyDim]. Each sequence is
// computed by itself, and its tokens one after another, so neither company nor chunks of a prompt change a bit.
#include "common.cuh"

// Run is the rows of one sequence in the batch: the first and how many, the position of the first, and the number of
// the sequence's state.
struct Run {
    int row, rows, start, state;
};

// convolve makes each row of x the sum of the last `window` rows times taps, oldest first. A thread has a channel of a
// sequence. [channels/256, sequences] blocks of 256.
#define MOST_TAPS 8
#define AHEAD 8 // rows that are read at a time
struct ConvolveArgs {
    Rows x;
    const Run *runs; // [sequences]
    float *states;
    const float *taps; // [window, channels], oldest first
    i64 state;         // numbers of a sequence's state
    int channels, window;
};
KERNEL convolve(const ConvolveArgs a) {
    Run run = a.runs[blockIdx.y];
    int channel = blockIdx.x * blockDim.x + threadIdx.x;
    if (channel >= a.channels || run.rows == 0)
        return;
    float *state = a.states + run.state * a.state + channel;
    float taps[MOST_TAPS], x[MOST_TAPS]; // the last of each belongs to the newest row; the first ones may be unused
#pragma unroll
    for (int t = 0; t < MOST_TAPS; t++) {
        int tap = t - (MOST_TAPS - a.window), row = tap - 1; // from the oldest
        taps[t] = tap >= 0 ? a.taps[(i64)tap * a.channels + channel] : 0;
        x[t] = row >= 0 && run.start > 0 ? state[(i64)row * a.channels] : 0;
    }
    for (int r = run.row, end = run.row + run.rows; r < end; r += AHEAD) {
        float next[AHEAD]; // all are read before the first is written: reads take long
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
            next[i] = r + i < end ? get(a.x, r + i, channel) : 0;
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            if (r + i >= end)
                break;
#pragma unroll
            for (int t = 0; t + 1 < MOST_TAPS; t++)
                x[t] = x[t + 1];
            x[MOST_TAPS - 1] = next[i];
            float sum = 0;
#pragma unroll
            for (int t = 0; t < MOST_TAPS; t++)
                if (t >= MOST_TAPS - a.window)
                    sum = sum + taps[t] * x[t];
            put(a.x, r + i, channel, sum);
        }
    }
#pragma unroll
    for (int t = 1; t < MOST_TAPS; t++) {
        int row = t - (MOST_TAPS - a.window) - 1;
        if (row >= 0)
            state[(i64)row * a.channels] = x[t];
    }
}

// deltaRule is the gated delta rule for one value head of one sequence: a block has 64 of its values, a thread a
// quarter of the keys of one value, PER of them, numbers part, part+4 and so on. [value heads, values/64, sequences]
// blocks of 256 threads.
struct DeltaArgs {
    Rows dst, qkv, a, b; // qkv: [rows, queries of key heads, keys, values of value heads]; a, b: [rows, value heads]
    const Run *runs;     // [sequences]
    float *states;
    const float *decay, *bias; // [value heads]
    i64 state, matrices;       // numbers of a sequence's state, and of those before the matrices
    int keyHeads, valueHeads, keyDim, valueDim;
};

// softplus is log(1 + exp(x)).
__device__ __forceinline__ float softplus(float x) { return x > 20.f ? x : log1pf(expf(x)); }

template <int PER> __device__ __forceinline__ void deltaRule(const DeltaArgs &a) {
    constexpr int KEYS = 4 * PER;
    __shared__ float q[2][KEYS], k[2][KEYS];
    Run run = a.runs[blockIdx.z];
    if (run.rows == 0)
        return;
    int head = blockIdx.x, thread = threadIdx.x, lane = thread % 32, part = thread % 4, value = blockIdx.y * 64 + thread / 4;
    int keyHead = head / (a.valueHeads / a.keyHeads), keys = a.keyHeads * a.keyDim;
    bool there = value < a.valueDim;
    float *state = a.states + run.state * a.state + a.matrices + ((i64)head * a.valueDim + (there ? value : 0)) * a.keyDim;
    float s[PER]; // of keys 4n + part
#pragma unroll
    for (int n = 0; n < PER; n++)
        s[n] = there && run.start > 0 && 4 * n + part < a.keyDim ? state[4 * n + part] : 0;
    float decay = a.decay[head], bias = a.bias[head], scale = rsqrtf((float)a.keyDim);
    // What a token needs is read while the one before is computed.
    float nextQ = 0, nextK = 0, nextV = 0, nextA = 0, nextB = 0;
    auto fetch = [&](int r) {
        if (thread < a.keyDim) {
            nextQ = get(a.qkv, r, keyHead * a.keyDim + thread);
            nextK = get(a.qkv, r, keys + keyHead * a.keyDim + thread);
        }
        nextV = there ? get(a.qkv, r, 2 * keys + head * a.valueDim + value) : 0;
        nextA = get(a.a, r, head), nextB = get(a.b, r, head);
    };
    fetch(run.row);
    for (int i = 0; i < run.rows; i++) {
        int r = run.row + i, at = i % 2;
        if (thread < KEYS)
            q[at][thread] = nextQ, k[at][thread] = nextK;
        float v = nextV, gain = expf(softplus(nextA + bias) * decay), beta = sigmoid(nextB);
        __syncthreads();
        if (i + 1 < run.rows)
            fetch(r + 1);
        float qq = 0, kk = 0;
        for (int n = lane; n < KEYS; n += 32) {
            qq = fmaf(q[at][n], q[at][n], qq);
            kk = fmaf(k[at][n], k[at][n], kk);
        }
        float qUnit = scale * rsqrtf(sumOfWarp(qq) + 1e-6f), kUnit = rsqrtf(sumOfWarp(kk) + 1e-6f);
        float seen = 0, out = 0;
#pragma unroll
        for (int n = 0; n < PER; n++)
            seen = fmaf(s[n], k[at][4 * n + part], seen);
        seen = seen + __shfl_xor_sync(~0u, seen, 1);
        seen = seen + __shfl_xor_sync(~0u, seen, 2);
        float u = beta * (v - gain * (seen * kUnit)) * kUnit;
#pragma unroll
        for (int n = 0; n < PER; n++) {
            s[n] = fmaf(k[at][4 * n + part], u, gain * s[n]);
            out = fmaf(s[n], q[at][4 * n + part], out);
        }
        out = out + __shfl_xor_sync(~0u, out, 1);
        out = out + __shfl_xor_sync(~0u, out, 2);
        if (there && part == 0)
            put(a.dst, r, head * a.valueDim + value, out * qUnit);
    }
#pragma unroll
    for (int n = 0; n < PER; n++)
        if (there && 4 * n + part < a.keyDim)
            state[4 * n + part] = s[n];
}

KERNEL __launch_bounds__(256) delta_32(const DeltaArgs a) { deltaRule<8>(a); }
KERNEL __launch_bounds__(256) delta_64(const DeltaArgs a) { deltaRule<16>(a); }
KERNEL __launch_bounds__(256) delta_128(const DeltaArgs a) { deltaRule<32>(a); }
KERNEL __launch_bounds__(256) delta_256(const DeltaArgs a) { deltaRule<64>(a); }
