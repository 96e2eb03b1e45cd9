// What all kernels share. A kernel has one parameter, a struct, which Go mirrors field by field (params.go).
//
// Activations are rows of bfloat16 or, where a Rows says wide, of float32. Sums are float32. A product and a sum share
// one rounding only where the source says fmaf: the compiler may not fuse them by itself (--fmad=false). So two kernels
// that must agree to the last bit do.
//
// Where a comment gives the grid of a launch, "[rows, n] blocks" are rows blocks in x and n in y. nil is a null
// pointer.
#pragma once

typedef unsigned short bf16; // bfloat16 as it is stored
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

#define KERNEL extern "C" __global__ void

// A kernel compiled for Hopper or later begins while the one before it in the stream still runs, and lets the next one
// begin (programmatic dependent launch). waitForRows returns once all kernels before are done. Until then a block may
// read weights and what the host wrote for the step, and may write nothing. Every block must call it.
__device__ __forceinline__ void waitForRows() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// letNextBegin lets blocks of the next kernel start where there is room, once all blocks of this one have called it or
// ended.
__device__ __forceinline__ void letNextBegin() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Rows is a buffer of activations: row r begins ld numbers after row r-1.
struct Rows {
    void *at;
    int ld;
    int wide; // 1: float32; 0: bfloat16
};

__device__ __forceinline__ float fromBF16(bf16 x) { return __uint_as_float((u32)x << 16); }

// packBF16 rounds two numbers, half to even; lo is the one at the lower address.
__device__ __forceinline__ u32 packBF16(float lo, float hi) {
    u32 r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
    return r;
}

__device__ __forceinline__ bf16 toBF16(float x) { return (bf16)packBF16(x, 0.f); }

__device__ __forceinline__ float get(const Rows &x, i64 row, int col) {
    i64 i = row * x.ld + col;
    return x.wide ? ((const float *)x.at)[i] : fromBF16(((const bf16 *)x.at)[i]);
}

__device__ __forceinline__ void put(const Rows &x, i64 row, int col, float v) {
    i64 i = row * x.ld + col;
    if (x.wide)
        ((float *)x.at)[i] = v;
    else
        ((bf16 *)x.at)[i] = toBF16(v);
}

// exp2Fast is 2^x to within 2 units of the last place; 2^-inf is 0.
__device__ __forceinline__ float exp2Fast(float x) {
    float r;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
}

#define LOG2E 1.4426950408889634f
#define INF __int_as_float(0x7f800000)

// sumOfWarp adds a number of each lane, in the same order in every lane.
__device__ __forceinline__ float sumOfWarp(float x) {
    for (int d = 16; d > 0; d /= 2)
        x = x + __shfl_xor_sync(~0u, x, d);
    return x;
}

// inTurn goes through what n warps left in scratch, in order, and joins it to x: the numbers of eight are read at once.
template <typename Join> __device__ __forceinline__ float inTurn(float x, const float *scratch, int n, float none, Join join) {
#pragma unroll 1
    for (int i = 0; i < n; i += 8) {
        float v[8];
#pragma unroll
        for (int k = 0; k < 8; k++)
            v[k] = i + k < n ? scratch[i + k] : none;
#pragma unroll
        for (int k = 0; k < 8; k++)
            x = join(x, v[k]);
    }
    return x;
}

// sumInTurn and mostInTurn are the sum of x and these numbers, and the largest one.
__device__ __forceinline__ float sumInTurn(float x, const float *scratch, int n) {
    return inTurn(x, scratch, n, -0.f, [](float x, float v) { return x + v; });
}
__device__ __forceinline__ float mostInTurn(float x, const float *scratch, int n) {
    return inTurn(x, scratch, n, 0.f, [](float x, float v) { return fmaxf(x, v); });
}

// sumOfBlock adds a number of each thread of a block of a whole number of warps; all threads get the sum. scratch has
// room for a number of each warp; no thread still reads what it held before.
__device__ __forceinline__ float sumOfBlock(float x, float *scratch) {
    int warp = threadIdx.x / 32, warps = blockDim.x / 32;
    x = sumOfWarp(x);
    if (threadIdx.x % 32 == 0)
        scratch[warp] = x;
    __syncthreads();
    return sumInTurn(0, scratch, warps);
}

// Activations of a feed-forward, in the order of compute.Activation.
enum { SILU, GELU_TANH, GELU, RELU, SIGMOID, SWIGLU_CLAMPED, NO_ACTIVATION };

__device__ __forceinline__ float sigmoid(float x) { return 1.f / (1.f + exp2Fast(-x * LOG2E)); }

// tanhSlope is 2·√(2/π)·(x + 0.044715·x³). x·sigmoid(tanhSlope(x)) is GELU with a tanh: ½·x·(1 + tanh(tanhSlope(x)/2)).
__device__ __forceinline__ float tanhSlope(float x) { return 1.5957691216057308f * (x + 0.044715f * x * x * x); }

// activate is act(gate)·up. Callers without an up give 1.
__device__ __forceinline__ float activate(int act, float gate, float up) {
    switch (act) {
    case SILU:
        return gate * sigmoid(gate) * up;
    case GELU_TANH:
        return gate * sigmoid(tanhSlope(gate)) * up;
    case GELU:
        return 0.5f * gate * (1.f + erff(gate * 0.7071067811865476f)) * up;
    case RELU:
        return fmaxf(gate, 0.f) * up;
    case SIGMOID:
        return sigmoid(gate) * up;
    case SWIGLU_CLAMPED: {
        float g = fminf(gate, 7.f);
        return (fminf(fmaxf(up, -7.f), 7.f) + 1.f) * g * sigmoid(1.702f * g);
    }
    }
    return gate * up;
}
