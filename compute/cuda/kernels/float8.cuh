// How numbers become F8_E4M3, for products of them.
#pragma once
#include "common.cuh"

#define LEAST 1e-30f // stands for the largest number of a row of zeros, so that scales are not 0

// float8Of rounds two numbers to F8_E4M3; lo is the one at the lower address.
__device__ __forceinline__ u32 float8Of(float lo, float hi) {
    u16 r;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(r) : "f"(hi), "f"(lo));
    return r;
}

// sixteenOf rounds 16 inputs, times by, and puts them in the order of weights (weights.cuh): inputs 2t, 2t+8, 2t+1, 2t+9
// for each t of 0 to 3.
__device__ __forceinline__ uint4 sixteenOf(const float (&v)[16], float by) {
    u32 words[4];
#pragma unroll
    for (int t = 0; t < 4; t++)
        words[t] = float8Of(v[2 * t] * by, v[2 * t + 8] * by) | float8Of(v[2 * t + 1] * by, v[2 * t + 9] * by) << 16;
    return make_uint4(words[0], words[1], words[2], words[3]);
}

// unpacked makes numbers of 16 of bfloat16.
__device__ __forceinline__ void unpacked(const uint4 (&half)[2], float (&v)[16]) {
#pragma unroll
    for (int i = 0; i < 16; i++) {
        const uint4 &h = half[i / 8];
        u32 word = i / 2 % 4 == 0 ? h.x : i / 2 % 4 == 1 ? h.y : i / 2 % 4 == 2 ? h.z : h.w;
        v[i] = fromBF16((bf16)(word >> i % 2 * 16));
    }
}

// largest returns the largest absolute value of 16, or x if that is larger.
__device__ __forceinline__ float largest(const float (&v)[16], float x) {
#pragma unroll
    for (int i = 0; i < 16; i++)
        x = fmaxf(x, fabsf(v[i]));
    return x;
}

// mostOfEight is the largest number of eight neighbouring lanes, all of which call it.
__device__ __forceinline__ float mostOfEight(float x) {
    for (int d = 4; d > 0; d /= 2)
        x = fmaxf(x, __shfl_xor_sync(0xffu << (threadIdx.x & 24), x, d));
    return x;
}

// mostOfWarp is the largest number of a warp.
__device__ __forceinline__ float mostOfWarp(float x) {
    for (int d = 16; d > 0; d /= 2)
        x = fmaxf(x, __shfl_xor_sync(~0u, x, d));
    return x;
}
