// Weights as operand A of wgmma; and what products of F8_E4M3 do whose weights and rows have a scale for each 128 inputs.
#pragma once
#include "gemm.cuh"
#include "wgmma.cuh"

// Operand is operand A of a warp's tile of a step: 64 inputs, or 128 of F8_E4M3.
template <bool F8> struct Operand {
    u32 a[4][4];

    __device__ __forceinline__ void load(const u8 *records, int lane) {
        // Of F8_E4M3 a lane has 16 bytes of outputs g and g+8 in each record. wgmma takes the four of each 16 inputs
        // for inputs 4t to 4t+3: rows are written in that order, too (gemm_float8.cu).
        if constexpr (F8) {
#pragma unroll
            for (int k = 0; k < 4; k++) {
                uint4 v = *(const uint4 *)(records + k / 2 * RECORD + k % 2 * 512 + lane * 16);
                a[k][0] = permute(v.x, v.y, 0x6420), a[k][1] = permute(v.x, v.y, 0x7531);
                a[k][2] = permute(v.z, v.w, 0x6420), a[k][3] = permute(v.z, v.w, 0x7531);
            }
        } else {
            Weights<FORMAT> codes;
            codes.template load<false>(records, lane);
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
        u32 word = *(const u32 *)(records + 1024 + lane / 4 * 4);
        scale[0] = fromBF16((bf16)word) * OF_CODES, scale[1] = fromBF16((bf16)(word >> 16)) * OF_CODES;
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

// OperandOf is what a warp has of a step's weights.
template <bool SCALED> struct OperandOf {
    typedef Operand<true> type;
    static __device__ __forceinline__ const Operand<true> &of(const type &o) { return o; }
};
template <> struct OperandOf<true> {
    typedef Scaled type;
    static __device__ __forceinline__ const Operand<true> &of(const type &o) { return o.o; }
};
