// Operations in which no row depends on another: embeddings, norms, sums, activations, angles.
#include "weights.cuh"

// Row n of a table of weights, [.., width] in records of a format, times scale, to row r of dst, or added to it. n is ids[r];
// where from[r] is 0 or more, it is what choice from[r] of the step before chose. ids nil is row 0. [rows] blocks.
struct EmbedArgs {
    Rows dst;
    const u8 *table;
    const int *ids, *from, *chosen;
    int tilesIn, width, add, limit; // limit: rows of the table
    float scale;
    int format;
};
KERNEL embed(const EmbedArgs a) {
    letNextBegin();
    waitForRows();
    int r = blockIdx.x, n = a.ids ? a.ids[r] : 0;
    if (a.from && a.from[r] >= 0)
        n = a.chosen[a.from[r]];
    n = min(max(n, 0), a.limit - 1); // a choice that failed is -1: what its row gives is not used
    int steps = a.tilesIn / 4, record = anyRecordBytes(a.format);
    const u8 *records = a.table + (i64)(n / 16) * steps * record;
    for (int i = threadIdx.x; i < steps * 4; i += blockDim.x) { // four lanes hold a row's numbers of a record
        u32 f[4][4];
        anyWeights(a.format, records + (i64)(i / 4) * record, n % 8 * 4 + i % 4, f);
#pragma unroll
        for (int j = 0; j < 16; j++) { // numbers j%2 of the lane's pairs of the row
            u32 pair = n % 16 < 8 ? f[j / 4][j / 2 % 2 * 2] : f[j / 4][j / 2 % 2 * 2 + 1];
            int col = i / 4 * 64 + j / 4 * 16 + j / 2 % 2 * 8 + i % 4 * 2 + j % 2;
            if (col >= a.width)
                continue;
            float v = fromBF16((bf16)(pair >> j % 2 * 16)) * a.scale;
            put(a.dst, r, col, a.add ? get(a.dst, r, col) + v : v);
        }
    }
}

// Each group of a row of src, normalised, to dst. gain and bias are [group], or [width] if perGroup.
// One block for a row and group if blockDim.x is more than a warp's, else one warp. [groups, rows] blocks.
struct NormArgs {
    Rows dst, src;
    const float *gain, *bias;
    int group, perGroup, center;
    float eps;
};
KERNEL norm_groups(const NormArgs a) {
    letNextBegin();
    waitForRows();
    __shared__ float scratch[33];
    int r = blockIdx.y, first = blockIdx.x * a.group, at = a.perGroup ? first : 0;
    float mean = 0, squares = 0;
    if (a.center) {
        for (int i = threadIdx.x; i < a.group; i += blockDim.x)
            mean = mean + get(a.src, r, first + i);
        mean = sumOfBlock(mean, scratch) / a.group;
    }
    for (int i = threadIdx.x; i < a.group; i += blockDim.x) {
        float v = get(a.src, r, first + i) - mean;
        squares = fmaf(v, v, squares);
    }
    float inv = rsqrtf(sumOfBlock(squares, scratch) / a.group + a.eps);
    for (int i = threadIdx.x; i < a.group; i += blockDim.x) {
        float v = (get(a.src, r, first + i) - mean) * inv * a.gain[at + i];
        put(a.dst, r, first + i, a.bias ? v + a.bias[at + i] : v);
    }
}

// norm_wide: norm_groups of whole rows of float32 without mean, [rows, 4·threads·k] at 16 bytes, to bfloat16.
// [rows] blocks of up to 1024 threads.
KERNEL norm_wide(const NormArgs a) {
    letNextBegin();
    __shared__ float scratch[33];
    constexpr int kept = 4; // fours of numbers that a thread keeps in registers
    const float4 *src = (const float4 *)((const float *)a.src.at + (i64)blockIdx.x * a.src.ld);
    const float4 *gain = (const float4 *)a.gain;
    uint2 *dst = (uint2 *)((bf16 *)a.dst.at + (i64)blockIdx.x * a.dst.ld);
    int fours = a.group / 4, step = blockDim.x;
    float4 v[kept], w[kept];
#pragma unroll
    for (int k = 0; k < kept; k++)
        if ((int)threadIdx.x + k * step < fours)
            w[k] = gain[threadIdx.x + k * step];
    waitForRows();
    float squares = 0;
    auto square = [&](float4 v) {
        squares = fmaf(v.x, v.x, squares);
        squares = fmaf(v.y, v.y, squares);
        squares = fmaf(v.z, v.z, squares);
        squares = fmaf(v.w, v.w, squares);
    };
#pragma unroll
    for (int k = 0; k < kept; k++)
        if ((int)threadIdx.x + k * step < fours) {
            v[k] = src[threadIdx.x + k * step];
            square(v[k]);
        }
    for (int i = threadIdx.x + kept * step; i < fours; i += step)
        square(src[i]);
    float inv = rsqrtf(sumOfBlock(squares, scratch) / a.group + a.eps);
    auto store = [&](int i, float4 v, float4 w) {
        dst[i] = make_uint2(packBF16(v.x * inv * w.x, v.y * inv * w.y), packBF16(v.z * inv * w.z, v.w * inv * w.w));
    };
#pragma unroll
    for (int k = 0; k < kept; k++)
        if ((int)threadIdx.x + k * step < fours)
            store(threadIdx.x + k * step, v[k], w[k]);
    for (int i = threadIdx.x + kept * step; i < fours; i += step)
        store(i, src[i], gain[i]);
}

// dst = dst + scale·src, or dst = src if gather, whose row r is row rows[r] of src. [columns/256, rows] blocks of
// 256.
struct AddArgs {
    Rows dst, src;
    const int *rows; // nil: the same row
    int cols, gather;
    float scale;
};
KERNEL add(const AddArgs a) {
    letNextBegin();
    waitForRows();
    int r = blockIdx.y, i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= a.cols)
        return;
    float v = get(a.src, a.rows ? a.rows[r] : r, i);
    put(a.dst, r, i, a.gather ? v : fmaf(a.scale, v, get(a.dst, r, i)));
}

// dst = act(gate)·up, or act(gate) if there is no up; or, if limit is not 0, gate within -limit and limit.
// [rows, columns/256] blocks of 256.
struct ActivateArgs {
    Rows dst, gate, up;
    int cols, act;
    float limit;
};
KERNEL activation(const ActivateArgs a) {
    letNextBegin();
    waitForRows();
    int r = blockIdx.x, i = blockIdx.y * blockDim.x + threadIdx.x;
    if (i >= a.cols)
        return;
    float g = get(a.gate, r, i);
    if (a.limit != 0)
        g = fminf(fmaxf(g, -a.limit), a.limit);
    put(a.dst, r, i, activate(a.act, g, a.up.at ? get(a.up, r, i) : 1.f));
}

// Of each row, for frequency i of n: cos(pos·f)·scale to column i, sin to column n+i. [rows] blocks.
struct AnglesArgs {
    Rows dst;
    const int *pos, *isLong;
    const float *freqs, *longFreqs; // longFreqs may be nil
    int n;
    float scale;
};
KERNEL angles(const AnglesArgs a) {
    letNextBegin();
    waitForRows();
    int r = blockIdx.x;
    const float *freqs = a.longFreqs && a.isLong[r] ? a.longFreqs : a.freqs;
    for (int i = threadIdx.x; i < a.n; i += blockDim.x) {
        float s, c;
        sincosf((float)a.pos[r] * freqs[i], &s, &c);
        put(a.dst, r, i, c * a.scale);
        put(a.dst, r, a.n + i, s * a.scale);
    }
}

// The last rest numbers of each head of x, [rows, heads·(in+rest)], become those of dst, [rows, heads·(out+rest)].
// [rows, heads] blocks.
struct RestArgs {
    Rows dst, x;
    int in, out, rest, unused;
};
KERNEL heads_rest(const RestArgs a) {
    letNextBegin();
    waitForRows();
    i64 row = blockIdx.x;
    int h = blockIdx.y;
    for (int i = threadIdx.x; i < a.rest; i += blockDim.x)
        put(a.dst, row, h * (a.out + a.rest) + a.out + i, get(a.x, row, h * (a.in + a.rest) + a.in + i));
}
