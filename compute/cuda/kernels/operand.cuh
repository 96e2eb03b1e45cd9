// Weights as operand A of wgmma; and what products of F8_E4M3 do whose weights and rows have a scale for each 128 inputs.
#pragma once
#include "gemm.cuh"
#include "wgmma.cuh"

// Rows and weights have a scale for each 128 inputs, or one. BY_BLOCK: 64 neighbouring outputs share theirs, too, from a
// multiple of 64 on.
#define BY_GROUP 1
#define BY_BLOCK 2

// Operand is operand A of a warp's tile of a step: 64 inputs, or 128 of F8_E4M3.
template <bool F8> struct Operand {
    u32 a[4][4];

    __device__ __forceinline__ void load(const u8 *records, int lane) {
        // wgmma takes the four numbers of a word for inputs 4t to 4t+3 of 16: rows are written in that order, too
        // (sixteenOf in float8.cuh).
        if constexpr (F8) {
            u32 from = sharedAddress(records) + lane / 8 % 2 * HALF_RECORD + lane / 16 * 128 + lane % 8 * 16;
#pragma unroll
            for (int k = 0; k < 4; k++)
                ldmatrix(a[k], from + k / 2 * RECORD + k % 2 * 256);
        } else {
            Weights<FORMAT> codes;
            codes.load(records, lane);
#pragma unroll
            for (int k = 0; k < 4; k++)
                codes.tile(k, a[k]);
        }
#pragma unroll
        for (int k = 0; k < 4; k++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                asm volatile("" : "+r"(a[k][i])); // here and not later
    }
};

// Scaled is a warp's weights of a step, and the scales of outputs g and g+8. even: each lane has the same for both.
struct Scaled {
    Operand<true> o;
    float scale[2];
    bool even;

    __device__ __forceinline__ void load(const u8 *records, int lane) {
        o.load(records, lane);
        const bf16 *of = (const bf16 *)(records + HALF_SCALES) + lane / 4;
        scale[0] = fromBF16(of[0]) * OF_CODES, scale[1] = fromBF16(of[HALF_RECORD / 2]) * OF_CODES;
        even = !__any_sync(~0u, scale[0] != scale[1]);
    }
};

// addScaled adds a step's sums d to sum, times scales of outputs and of rows, which are at `scales`, a multiple of 8 bytes if
// PAIRS. Where two outputs have the same scale, as in blocks of 128 outputs, its products with those of rows are made once
// for both.
template <int N, bool PAIRS = true> __device__ __forceinline__ void addScaled(float (&sum)[N / 2], const float (&d)[N / 2], const Scaled &o, const float *scales, int lane) {
    auto add = [&](auto scaleOf) {
#pragma unroll
        for (int j = 0; j < N / 8; j++) {
            const float *at = scales + j * 8 + lane % 4 * 2;
            float2 s = PAIRS ? *(const float2 *)at : make_float2(at[0], at[1]);
            float by[4];
            scaleOf(s, by);
#pragma unroll
            for (int e = 0; e < 4; e++)
                sum[j * 4 + e] = fmaf(d[j * 4 + e], by[e], sum[j * 4 + e]);
        }
    };
    if (o.even)
        add([&](float2 s, float(&by)[4]) { by[0] = by[2] = o.scale[0] * s.x, by[1] = by[3] = o.scale[0] * s.y; });
    else
        add([&](float2 s, float(&by)[4]) { by[0] = o.scale[0] * s.x, by[1] = o.scale[0] * s.y, by[2] = o.scale[1] * s.x, by[3] = o.scale[1] * s.y; });
}

// BlockScales are products of the scales of a thread's two rows in a step and of the two blocks of outputs of a part.
struct BlockScales {
    float by[2][2]; // [block][row]

    // load reads the scales of rows g and g+8 from `rows` on, and those of two blocks from a record of each.
    __device__ __forceinline__ void load(const float *rows, const u8 *first, const u8 *second) {
#pragma unroll
        for (int b = 0; b < 2; b++) {
            float scale = fromBF16(*(const bf16 *)((b ? second : first) + HALF_SCALES)) * OF_CODES;
            by[b][0] = scale * rows[0], by[b][1] = scale * rows[8];
        }
    }
};

// beginRows begins a step's products of a warpgroup's 64 rows, operand A, and of eight tiles of weights, operand B: at
// `weights` are the tiles' first records, then their second ones.
__device__ __forceinline__ void beginRows(float (&d)[64], u32 rows, u32 weights) {
    u64 a = describe(ofWarp(rows)), b = describeUnits(ofWarp(weights), 128, HALF_RECORD);
    wgmmaFence();
#pragma unroll
    for (int k = 0; k < 4; k++)
        wgmmaShared<128>(d, a + k * 2, b + (k / 2 * 8 * RECORD + k % 2 * 256) / 16, k == 0);
    wgmmaCommit();
}

// OperandOf is what a warp has of a step's weights.
template <int SCALED> struct OperandOf {
    typedef Operand<true> type;
    static __device__ __forceinline__ const Operand<true> &of(const type &o) { return o; }
};
template <> struct OperandOf<BY_GROUP> {
    typedef Scaled type;
    static __device__ __forceinline__ const Operand<true> &of(const type &o) { return o.o; }
};
