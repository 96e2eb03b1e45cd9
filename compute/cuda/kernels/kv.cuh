// The types of the cache. A row is the key or value of one head and token, `dim` numbers.
#pragma once
#include "common.cuh"

// The types as cache.go numbers them. A row of Q8_0 is blocks of 34 bytes: a scale, in IEEE half precision (a "half"),
// then 32 codes of 8 bits.
enum { KV_BF16, KV_F16, KV_FP8, KV_Q8_0 };

__device__ __forceinline__ float fromHalf(u16 x) {
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(x));
    return f;
}

__device__ __forceinline__ u16 toHalf(float x) {
    u16 h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
    return h;
}

// packHalf rounds two numbers to halves; lo is the one at the lower address.
__device__ __forceinline__ u32 packHalf(float lo, float hi) {
    u32 r;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
    return r;
}

// addHalf and mulHalf take two halves in each word.
__device__ __forceinline__ u32 addHalf(u32 a, u32 b) {
    u32 r;
    asm("add.rn.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
    return r;
}

__device__ __forceinline__ u32 mulHalf(u32 a, u32 b) {
    u32 r;
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
    return r;
}

// halvesOf makes halves of two bfloat16 numbers, limited to the largest finite half, 65504. NaN stay NaN.
__device__ __forceinline__ u32 halvesOf(u32 two) {
    u32 r = packHalf(fromBF16((bf16)two), __uint_as_float(two & 0xffff0000));
    asm("min.NaN.f16x2 %0, %0, %1;" : "+r"(r) : "r"(0x7bff7bff));
    asm("max.NaN.f16x2 %0, %0, %1;" : "+r"(r) : "r"(0xfbfffbff));
    return r;
}

// fromFP8 and toFP8 convert e4m3, whose bits in the places of a float's are the number times 2^-120. toFP8 rounds half
// to even and limits to the largest, 448. NaN stay NaN.
__device__ __forceinline__ float fromFP8(u8 x) {
    if ((x & 0x7f) == 0x7f)
        return __int_as_float(0x7fc00000);
    return __uint_as_float((u32)(x & 0x80) << 24 | (u32)(x & 0x7f) << 20) * 0x1p120f;
}

__device__ __forceinline__ u8 toFP8(float x) {
    u32 sign = __float_as_uint(x) >> 24 & 0x80;
    if (x != x)
        return 0x7f;
    u32 u = __float_as_uint(fminf(fabsf(x), 448.f) * 0x1p-120f);
    return (u8)(sign | (u + 0x7ffff + (u >> 20 & 1)) >> 20);
}

// kvRowBytes is the size of a row.
__device__ __forceinline__ int kvRowBytes(int type, int dim) {
    return type == KV_FP8 ? dim : type == KV_Q8_0 ? (dim + 31) / 32 * 34 : 2 * dim;
}

// kvNumber is number d of a row.
template <int TYPE> __device__ __forceinline__ float kvNumber(const u8 *row, int d) {
    if (TYPE == KV_F16)
        return fromHalf(((const u16 *)row)[d]);
    if (TYPE == KV_FP8)
        return fromFP8(row[d]);
    if (TYPE == KV_Q8_0) {
        row += d / 32 * 34;
        return fromHalf(*(const u16 *)row) * (float)(signed char)row[2 + d % 32];
    }
    return fromBF16(((const bf16 *)row)[d]);
}

// nearHalf rounds to the nearest half that is finite.
__device__ __forceinline__ u16 nearHalf(float x) { return toHalf(fminf(fmaxf(x, -65504.f), 65504.f)); }

// scaleQ8 is the scale of a block of Q8_0 whose largest absolute value is `most`: at most 515.5, so that the largest
// code times it is a finite half. codeQ8 is the code of a number.
__device__ __forceinline__ u16 scaleQ8(float most) { return toHalf(fminf(most / 127.f, 515.5f)); }

__device__ __forceinline__ u8 codeQ8(float x, u16 scale) {
    float by = fromHalf(scale);
    return (u8)(signed char)(int)(by > 0 ? fminf(fmaxf(rintf(x / by), -127.f), 127.f) : 0);
}

// kvPut writes number d of a row. A warp's lanes call it together, for 32 numbers from a multiple of 32 on; lanes past
// the row's end (not there) give 0.
__device__ __forceinline__ void kvPut(int type, u8 *row, int d, bool there, float x) {
    if (type == KV_Q8_0) {
        float most = fabsf(x);
        for (int n = 16; n > 0; n /= 2)
            most = fmaxf(most, __shfl_xor_sync(~0u, most, n));
        u16 scale = scaleQ8(most);
        row += d / 32 * 34;
        row[2 + d % 32] = codeQ8(x, scale);
        if (d % 32 == 0)
            *(u16 *)row = scale;
        return;
    }
    if (!there)
        return;
    if (type == KV_F16)
        ((u16 *)row)[d] = nearHalf(x);
    else if (type == KV_FP8)
        row[d] = toFP8(x);
    else
        ((bf16 *)row)[d] = toBF16(x);
}
