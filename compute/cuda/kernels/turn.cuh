// Norms and rotation of whole heads of bfloat16 whose pairs are not neighbours: number i of a head is a pair with the
// number half a head further. Whichever lanes have which pairs, the bits are the same.
#pragma once
#include "common.cuh"

// Pairs are two neighbouring pairs: v of the head's first half, w of its second.
struct Pairs {
    float v[2], w[2];

    __device__ __forceinline__ void unpack(u32 one, u32 other) {
        v[0] = fromBF16((bf16)one), v[1] = fromBF16((bf16)(one >> 16));
        w[0] = fromBF16((bf16)other), w[1] = fromBF16((bf16)(other >> 16));
    }

    // squares adds their squares to a sum.
    __device__ __forceinline__ float squares(float sum) const {
#pragma unroll
        for (int j = 0; j < 2; j++) {
            sum = fmaf(v[j], v[j], sum);
            sum = fmaf(w[j], w[j], sum);
        }
        return sum;
    }

    __device__ __forceinline__ void scale(float inv, float2 one, float2 other) {
        v[0] = v[0] * inv * one.x, v[1] = v[1] * inv * one.y;
        w[0] = w[0] * inv * other.x, w[1] = w[1] * inv * other.y;
    }

    // rotate gives them packed, as unpack takes them. c and s are cosines and sines.
    __device__ __forceinline__ void rotate(float2 c, float2 s, u32 &one, u32 &other) const {
        one = packBF16(fmaf(v[0], c.x, -(w[0] * s.x)), fmaf(v[1], c.y, -(w[1] * s.y)));
        other = packBF16(fmaf(w[0], c.x, v[0] * s.x), fmaf(w[1], c.y, v[1] * s.y));
    }
};
