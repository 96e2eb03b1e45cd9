// What attention over the paged cache with tensor cores has in common: its parameter, its softmax, and the order of
// sums.
//
// Positions are taken in chunks of 64 that begin at multiples of 64. For a chunk, a row has m, the greatest of its
// scores (as exponents of 2), weights 2^(score - m), their sum t, and an output o: the product of the weights, rounded
// as they are multiplied, and the values. Chunks are joined in order (joinFactors, join), each row from the first chunk
// that it sees. So a row gives the same bits whether one warp goes through all chunks (attend_tile) or each has a warp
// of its own (attend_few), beside whichever other rows.
//
// A row here is a query head of a token. The heads that share a KV head are a group; in a tile of rows, row i is head
// i % group of token i / group.
#pragma once
#include "kv.cuh"
#include "mma.cuh"

#ifndef KV
#define KV 0 // KV_BF16
#endif

#define CHUNK 64

// CODED says that keys and values are stored as codes, which become halves before they are multiplied. ROW is the bytes
// of one in the cache.
constexpr bool CODED = KV == KV_FP8 || KV == KV_Q8_0;
template <int DIM> constexpr int ROW = KV == KV_FP8 ? DIM : KV == KV_Q8_0 ? (DIM + 31) / 32 * 34 : 2 * DIM;

// packWeights rounds two weights to what values are multiplied as.
__device__ __forceinline__ u32 packWeights(float lo, float hi) { return KV == KV_BF16 ? packBF16(lo, hi) : packHalf(lo, hi); }

// widen makes halves of four codes: lo of the first two, hi of the others. Those of Q8_0 do not have their scale yet.
__device__ __forceinline__ void widen(u32 &lo, u32 &hi, u32 codes) {
    if (KV == KV_FP8) {
#if __CUDA_ARCH__ >= 890
        asm("{\n.reg .b16 lo, hi;\nmov.b32 {lo, hi}, %2;\n"
            "cvt.rn.f16x2.e4m3x2 %0, lo;\ncvt.rn.f16x2.e4m3x2 %1, hi;\n}" : "=r"(lo), "=r"(hi) : "r"(codes));
#else
        // In the places of a half's bits, those of e4m3 are the number times 2^-8.
        u32 none = ((codes & 0x7f7f7f7f) + 0x01010101 & 0x80808080) >> 7; // 1 where a code is NaN
        u32 one = permute(codes, 0, 0x1404), other = permute(codes, 0, 0x3424);
        lo = mulHalf((one & 0x80008000) | (one & 0x7f007f00) >> 1, 0x5c005c00) | permute(none, 0, 0x4140) * 0x7fff;
        hi = mulHalf((other & 0x80008000) | (other & 0x7f007f00) >> 1, 0x5c005c00) | permute(none, 0, 0x4342) * 0x7fff;
#endif
    } else {
        codes ^= 0x80808080;
        lo = addHalf(permute(codes, 0x64646464, 0x4140), 0xe480e480); // 0x64xx is 1024 + 128 + code: less 1152
        hi = addHalf(permute(codes, 0x64646464, 0x4342), 0xe480e480);
    }
}

// Codes are 16 codes of a row, as they are stored, with their scale if they have one.
struct Codes {
    u32 code[4];
    u16 scale;

    __device__ __forceinline__ void read(const u8 *row, int unit) {
        if (KV == KV_FP8) {
            uint4 v = *(const uint4 *)(row + unit * 16);
            code[0] = v.x, code[1] = v.y, code[2] = v.z, code[3] = v.w;
            return;
        }
        row += unit / 2 * 34; // whose address is even
        scale = *(const u16 *)row;
        const u16 *v = (const u16 *)(row + 2 + unit % 2 * 16);
#pragma unroll
        for (int i = 0; i < 4; i++)
            code[i] = v[2 * i] | (u32)v[2 * i + 1] << 16;
    }

    // widen makes 16 halves of them, 8 in `one` and 8 in `other`. Those of keys are in the order in which pageKeys
    // multiplies codes: pairs 0, 2, 4 and 6 come first, then 1, 3, 5 and 7.
    __device__ __forceinline__ void widen(u32 (&one)[4], u32 (&other)[4], bool keys) const {
        u32 v[8];
#pragma unroll
        for (int i = 0; i < 4; i++)
            ::widen(v[2 * i], v[2 * i + 1], code[i]);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            one[i] = keys ? v[2 * i] : v[i], other[i] = keys ? v[2 * i + 1] : v[4 + i];
            if (KV == KV_Q8_0)
                one[i] = mulHalf(one[i], scale * 0x10001u), other[i] = mulHalf(other[i], scale * 0x10001u);
        }
    }
};

// AttendArgs is a layer's attention of a step. "Few rows" are tokens whose chunks are computed by themselves; other
// tokens are in tiles. [rows] is by token of the batch.
struct AttendArgs {
    Rows q, dst;
    const bf16 *at; // the layer's part of the cache: blocks of keys [heads, tokens, dim], then values
    const int *table;
    i64 block;
    int stride, tokens, heads, group; // group: query heads of each KV head
    const int *slot, *until; // [rows]; until: the row sees positions below: its own + 1, or its sequence's length
    const int *items;        // few rows: [count[2]] which of them a chunk is of; tiles: [count[1], 2] first row, rows
    const int4 *few;         // [count[0]] of each few row: where its chunks end among all, its row, slot and until
    const int *count;        // few rows, tiles, chunks of few rows
    float *partial;          // [chunks, heads·group, dim + 2] of few rows: o, then m and t
    const float *sinks;      // [heads·group] or nil
    int window;              // how many positions a row sees; 0: all up to until
    float scale, softcap;    // both times log2 e; softcap 0 is off
    int shift;               // log2 of tokens, where that is a whole number
    int *arrived;            // [few rows, heads·group] chunks of a split share that are done; 0 between kernels
};

// firstSeen is the first position that a row sees.
__device__ __forceinline__ int firstSeen(const AttendArgs &a, int until) { return a.window ? max(until - a.window, 0) : 0; }

// Cut says which block of attend_few has which chunks. A share of a row is a KV head and up to 8 of its query heads.
// The chunks of all shares are numbered: row by row, within a row share by share, within a share by position. Blocks
// have equal numbers of neighbouring ones, but shares of at most `whole` chunks are not cut: of 5/4 of a block's
// number, and at least one chunk for each of its warps.
struct Cut {
    int parts, shares, chunks, blocks, whole; // parts: shares of a KV head; shares: of a row


    __device__ __forceinline__ Cut(const AttendArgs &a) {
        parts = (a.group + 7) / 8, shares = a.heads * parts, chunks = a.count[2] * shares;
        blocks = min((int)gridDim.x, (chunks + 3) / 4);
        whole = max((int)blockDim.x / 32, (int)((i64)chunks * 5 / 4 / max(blocks, 1)));
    }

    __device__ __forceinline__ int begin(int block) const { return (int)((i64)chunks * block / blocks); }

    // align moves the border x between two blocks to the end of its share, if that is not to be cut. The share's row
    // has chunks begin to end-1 of each share.
    __device__ __forceinline__ int align(int x, int begin, int end) const {
        int n = end - begin, nth = (x - begin * shares) % n;
        return n <= whole && nth > 0 ? x - nth + n : x;
    }
};

// loadQueries loads a warp's 16 rows as operand A: this lane's rows, g and g+8, are at at0 and at1, zeros if nil.
// FOURS: a lane has four neighbouring numbers of each 16, in the order in which codes of keys are multiplied.
template <int DIM, bool FOURS = false> __device__ __forceinline__ void loadQueries(u32 (&q)[DIM / 16][4], const bf16 *at0, const bf16 *at1) {
    int t = threadIdx.x % 4;
#pragma unroll
    for (int k = 0; k < DIM / 16; k++) {
        if (FOURS) {
            uint2 one = {}, other = {};
            if (at0)
                one = *(const uint2 *)(at0 + k * 16 + 4 * t);
            if (at1)
                other = *(const uint2 *)(at1 + k * 16 + 4 * t);
            q[k][0] = one.x, q[k][1] = other.x, q[k][2] = one.y, q[k][3] = other.y;
            continue;
        }
        q[k][0] = at0 ? *(const u32 *)(at0 + k * 16 + 2 * t) : 0;
        q[k][1] = at1 ? *(const u32 *)(at1 + k * 16 + 2 * t) : 0;
        q[k][2] = at0 ? *(const u32 *)(at0 + k * 16 + 8 + 2 * t) : 0;
        q[k][3] = at1 ? *(const u32 *)(at1 + k * 16 + 8 + 2 * t) : 0;
    }
}

// inverseFast is 1/x to within one unit of the last place.
__device__ __forceinline__ float inverseFast(float x) {
    float r;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
}

// capped is softcap·tanh(score·scale/softcap), which is softcap - 2·softcap/(2^(score·twice) + 1), where twice is
// 2·log2(e)·scale/softcap.
__device__ __forceinline__ float capped(float score, float twice, float softcap) {
    return fmaf(-2 * softcap, inverseFast(exp2Fast(score * twice) + 1), softcap);
}

// State is what a lane has of two rows, g and g+8 of the warp's tile: o, m and t of the chunks so far.
template <int DIM> struct State {
    float o[DIM / 8][4], m[2], t[2];
};

// weigh makes weights of a chunk's scores s, and computes m and t. s[n] has numbers 2t and 2t+1 of eight positions, of
// each of ROWS rows. Row i sees positions first[i] to end[i]-1; all says that every row sees the whole chunk.
template <int ROWS>
__device__ __forceinline__ void weigh(float (&s)[8][2 * ROWS], float (&m)[ROWS], float (&t)[ROWS], int chunk, const int (&first)[ROWS],
                                      const int (&end)[ROWS], bool all, float scale, float softcap) {
    int at = chunk * CHUNK + threadIdx.x % 4 * 2;
    if (softcap > 0) {
        float twice = 2 * LOG2E * scale / softcap;
#pragma unroll
        for (int n = 0; n < 8; n++)
#pragma unroll
            for (int e = 0; e < 2 * ROWS; e++)
                s[n][e] = capped(s[n][e], twice, softcap);
        scale = 1;
    }
    if (!all) {
#pragma unroll
        for (int n = 0; n < 8; n++)
#pragma unroll
            for (int e = 0; e < 2 * ROWS; e++) {
                int pos = at + n * 8 + e % 2;
                s[n][e] = pos >= first[e / 2] && pos < end[e / 2] ? s[n][e] : -INF;
            }
    }
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
        float most = s[0][i * 2];
#pragma unroll
        for (int n = 0; n < 8; n++)
            most = fmaxf(most, fmaxf(s[n][i * 2], s[n][i * 2 + 1]));
        most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
        most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));
        m[i] = most * scale; // scale is positive
        float less = m[i] == -INF ? 0 : -m[i];
        t[i] = 0;
#pragma unroll
        for (int n = 0; n < 8; n++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                s[n][i * 2 + e] = exp2Fast(fmaf(s[n][i * 2 + e], scale, less));
                t[i] = t[i] + s[n][i * 2 + e];
            }
        t[i] = t[i] + __shfl_xor_sync(~0u, t[i], 1);
        t[i] = t[i] + __shfl_xor_sync(~0u, t[i], 2);
    }
}

// joinFactors computes what the sums so far (old) and those of a chunk (add) are multiplied with, and makes M the
// greater of both's m. join joins a sum with a chunk's.
__device__ __forceinline__ void joinFactors(float &M, float m, float &old, float &add) {
    float most = fmaxf(M, m);
    old = M == -INF ? 0 : exp2Fast(M - most);
    add = m == -INF ? 0 : exp2Fast(m - most);
    M = most;
}

__device__ __forceinline__ float join(float sum, float old, float x, float add) { return fmaf(add, x, sum * old); }

