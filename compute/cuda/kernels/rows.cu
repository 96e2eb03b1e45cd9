// Operations of single rows: embeddings, norms, sums, activations, angles of rotations. A block has a row, or a part of
// one, so a row's bits do not depend on its company.
#include "weights.cuh"

// embed writes row n of a table of weights, times scale, to row r of dst, or adds it. n is ids[r]; where from[r] is 0
// or more, it is the token that choice from[r] of the step before chose. [rows] blocks.
struct EmbedArgs {
    Rows dst;
    const u8 *table;    // [limit, width] in records of a format
    const int *ids;     // [rows]; nil: n is 0
    const int *from;    // [rows] or nil
    const int *chosen;
    int tilesIn, width, added, limit;
    float scale;
    int format;
};
KERNEL embed(const EmbedArgs a) {
    letNextBegin();
    waitForRows();
    int r = blockIdx.x, n = a.ids ? a.ids[r] : 0;
    if (a.from && a.from[r] >= 0)
        n = a.chosen[a.from[r]];
    n = min(max(n, 0), a.limit - 1); // a choice that failed is negative: what its row gives is not used
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
            float v = fromBF16((bf16)(pair >> j % 2 * 16)) * unitOf(a.format) * a.scale;
            put(a.dst, r, col, a.added ? get(a.dst, r, col) + v : v);
        }
    }
}

// norm_groups normalises each group of `group` numbers of a row of src, by their root mean square, or, with center, by
// mean and deviation. [groups, rows] blocks of a whole number of warps.
struct NormArgs {
    Rows dst, src;
    const float *gain, *bias; // [group], or [width] if perGroup; bias may be nil
    int group, perGroup, center;
    float eps;
};
KERNEL norm_groups(const NormArgs a) {
    letNextBegin();
    waitForRows();
    __shared__ float scratch[2][32];
    int r = blockIdx.y, first = blockIdx.x * a.group, at = a.perGroup ? first : 0;
    float mean = 0, squares = 0;
    if (a.center) {
        for (int i = threadIdx.x; i < a.group; i += blockDim.x)
            mean = mean + get(a.src, r, first + i);
        mean = sumOfBlock(mean, scratch[0]) / a.group;
    }
    for (int i = threadIdx.x; i < a.group; i += blockDim.x) {
        float v = get(a.src, r, first + i) - mean;
        squares = fmaf(v, v, squares);
    }
    float inv = rsqrtf(sumOfBlock(squares, scratch[1]) / a.group + a.eps);
    for (int i = threadIdx.x; i < a.group; i += blockDim.x) {
        float v = (get(a.src, r, first + i) - mean) * inv * a.gain[at + i];
        put(a.dst, r, first + i, a.bias ? v + a.bias[at + i] : v);
    }
}

// normWide is norm_groups of whole rows of float32, without center and bias, to bfloat16. Rows are multiples of 4 numbers
// and begin at multiples of 16 bytes. A thread keeps so many fours of numbers in registers; others are read twice.
template <int kept> __device__ __forceinline__ void normWide(const NormArgs &a) {
    letNextBegin();
    __shared__ float scratch[32];
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
#pragma unroll 1
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
#pragma unroll 1
    for (int i = threadIdx.x + kept * step; i < fours; i += step)
        store(i, src[i], gain[i]);
}

// [rows] blocks of 512 threads. Of norm_many a multiprocessor has more at a time.
KERNEL norm_wide(const NormArgs a) { normWide<4>(a); }
KERNEL __launch_bounds__(512, 4) norm_many(const NormArgs a) { normWide<2>(a); }

// add is dst = dst + scale·src, or, if gather, dst = src. [columns/256, rows] blocks of 256.
struct AddArgs {
    Rows dst, src;
    const int *rows; // [rows of dst] which row of src; nil: the same
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

// keep moves some rows of x, in ascending order, to the front. A thread moves 16 bytes of each: what it overwrites, it
// has read. [words/256] blocks of 256.
struct KeepArgs {
    uint4 *x;
    const int *rows;     // [n] ascending
    int n, words, ld, _; // of 16 bytes: those of a row that are moved, and from one row to the next
};
KERNEL keep(const KeepArgs a) {
    letNextBegin();
    waitForRows();
    constexpr int together = 8;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= a.words)
        return;
    for (int at = 0; at < a.n; at += together) {
        uint4 v[together];
#pragma unroll
        for (int k = 0; k < together; k++)
            if (at + k < a.n)
                v[k] = a.x[(i64)a.rows[at + k] * a.ld + i];
#pragma unroll
        for (int k = 0; k < together; k++)
            if (at + k < a.n)
                a.x[(i64)(at + k) * a.ld + i] = v[k];
    }
}

// activation is dst = act(gate)·up, or act(gate) if up is nil. If limit is not 0, gate is first limited to -limit to
// limit. [rows, columns/256] blocks of 256.
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

// angles writes, for frequency i of n, cos(pos·freqs[i])·scale to column i of each row, and the sine to column n+i.
// [rows] blocks.
struct AnglesArgs {
    Rows dst;
    const int *pos, *isLong;        // [rows]; rows that are long take longFreqs
    const float *freqs, *longFreqs; // [n]; longFreqs may be nil
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

// heads_rest copies the last `rest` numbers of each head of x, [rows, heads·(in+rest)], to the end of each head of dst,
// [rows, heads·(out+rest)]. [rows, heads] blocks.
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
