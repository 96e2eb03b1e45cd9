// What pack.cu and weights.cuh need of CUDA, for a compiler of the host (TestPackOnHost). It stands for mma.cuh.
#pragma once
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

typedef unsigned short bf16;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

#define __device__
#define __forceinline__ inline
#define KERNEL static void

struct uint2 { u32 x, y; };
struct uint4 { u32 x, y, z, w; };
inline uint2 make_uint2(u32 x, u32 y) { return {x, y}; }
inline uint4 make_uint4(u32 x, u32 y, u32 z, u32 w) { return {x, y, z, w}; }
static struct { u32 x; } blockIdx, threadIdx;

inline float __uint_as_float(u32 u) { return std::bit_cast<float>(u); }

// packBF16 rounds half to even.
inline u32 packBF16(float lo, float hi) {
    auto round = [](float f) {
        u32 u = std::bit_cast<u32>(f);
        return f != f ? 0x7fff : (u + 0x7fff + (u >> 16 & 1)) >> 16;
    };
    return round(lo) | round(hi) << 16;
}
inline bf16 toBF16(float x) { return (bf16)packBF16(x, 0); }

// The one asm of pack.cu: cvt.f32.f16 of the half at b to f.
inline float widened(u32 h) {
    u32 e = h >> 10 & 31, m = h & 1023;
    float f = e == 31 ? (m ? NAN : INFINITY) : e ? std::ldexp(1024.f + m, (int)e - 25) : std::ldexp((float)m, -24);
    return h >> 15 ? -f : f;
}
#define asm(...) f = widened(shortAt(b))

// Of products, which are not run; asm of theirs names what that of pack.cu does.
extern float f;
extern const u8 *b;
u32 shortAt(const u8 *b);
u32 permute(u32 lo, u32 hi, u32 sel);
u32 fma2(u32 a, u32 b, u32 c);
u32 masked(u32 a, u32 b, u32 c);
void loadStream(u32 (&v)[4], const u8 *at);
