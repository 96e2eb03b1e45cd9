// Weights on their way from a checkpoint: rows as they are stored become records (weights.cuh). There is a kernel for
// each type; a warp makes a record. Codes stay what they are; scales are rounded to bfloat16, as are F32 and F16
// weights.
#include "weights.cuh"

// Numbers at any address, since a type's blocks have any number of bytes.
__device__ __forceinline__ u32 shortAt(const u8 *b) { return b[0] | b[1] << 8; }
__device__ __forceinline__ float floatAt(const u8 *b) { return __uint_as_float(shortAt(b) | shortAt(b + 2) << 16); }
__device__ __forceinline__ float halfAt(const u8 *b) {
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"((u16)shortAt(b)));
    return f;
}

// half4 is code i of 2n of four bits: the low halves of n bytes come first, then the high ones.
__device__ __forceinline__ u32 half4(const u8 *b, u32 n, u32 i) { return b[i % n] >> i / n * 4 & 15; }

// quarter2 is code i of 4n of two bits: the lowest two bits of n bytes come first.
__device__ __forceinline__ u32 quarter2(const u8 *b, u32 n, u32 i) { return b[i % n] >> i / n * 2 & 3; }

// scale6 and least6 are the scale and the minimum of group g of 8, six bits each, in the 12 bytes of Q4_K and Q5_K.
__device__ __forceinline__ int scale6(const u8 *b, u32 g) { return g < 4 ? b[g] & 63 : b[g + 4] & 15 | b[g - 4] >> 6 << 4; }
__device__ __forceinline__ int least6(const u8 *b, u32 g) { return g < 4 ? b[g + 4] & 63 : b[g + 4] >> 4 | b[g] >> 6 << 4; }

// A type has blocks of VALUES values in BYTES bytes, laid out as package quant says. For value i of block b, code is
// the record's code, scale the scale of its group, and second what the group has beside the scale.
#define TYPE(name, values, bytes, format)                                                                              \
    struct name : Plain {                                                                                              \
        static constexpr int VALUES = values, BYTES = bytes, FORMAT = format;
#define CODE static __device__ __forceinline__ u32 code(const u8 *b, u32 i)
#define SCALE_OF static __device__ __forceinline__ float scale(const u8 *b, u32 i)
#define SECOND static __device__ __forceinline__ float second(const u8 *b, u32 i)
#define END }

struct Plain {
    SCALE_OF { return 1.f; }
    SECOND { return 0.f; }
};

TYPE(F32, 1, 4, BF16)
    CODE { return toBF16(*(const float *)b); }
END;

TYPE(F16, 1, 2, BF16)
    CODE { return toBF16(halfAt(b)); }
END;

TYPE(BFLOAT16, 1, 2, BF16)
    CODE { return *(const bf16 *)b; }
END;

TYPE(Q4_0, 32, 18, INT4)
    CODE { return half4(b + 2, 16, i); }
    SCALE_OF { return halfAt(b); }
END;

TYPE(Q4_1, 32, 20, INT4_MIN)
    CODE { return half4(b + 4, 16, i); }
    SCALE_OF { return halfAt(b); }
    SECOND { return halfAt(b + 2); }
END;

TYPE(Q5_0, 32, 22, INT5)
    CODE { return half4(b + 6, 16, i) | (b[2 + i / 8] >> i % 8 & 1) << 4; }
    SCALE_OF { return halfAt(b); }
END;

TYPE(Q5_1, 32, 24, INT5_MIN)
    CODE { return half4(b + 8, 16, i) | (b[4 + i / 8] >> i % 8 & 1) << 4; }
    SCALE_OF { return halfAt(b); }
    SECOND { return halfAt(b + 2); }
END;

TYPE(Q8_0, 32, 34, INT8)
    CODE { return b[2 + i] ^ 128; } // 128 more than stored
    SCALE_OF { return halfAt(b); }
END;

TYPE(Q2_K, 256, 84, INT2_MIN_16)
    CODE { return quarter2(b + 16 + i / 128 * 32, 32, i % 128); }
    SCALE_OF { return halfAt(b + 80) * (b[i / 16] & 15); }
    SECOND { return -(halfAt(b + 82) * (b[i / 16] >> 4)); }
END;

TYPE(Q3_K, 256, 110, INT3_16)
    CODE { return quarter2(b + 32 + i / 128 * 32, 32, i % 128) | (b[i % 32] >> i / 32 & 1) << 2; }
    SCALE_OF {
        return halfAt(b + 108) * ((b[96 + i / 16 % 8] >> i / 128 * 4 & 15 | (b[104 + i / 16 % 4] >> i / 64 * 2 & 3) << 4) - 32);
    }
END;

TYPE(Q4_K, 256, 144, INT4_MIN)
    CODE { return half4(b + 16 + i / 64 * 32, 32, i % 64); }
    SCALE_OF { return halfAt(b) * scale6(b + 4, i / 32); }
    SECOND { return -(halfAt(b + 2) * least6(b + 4, i / 32)); }
END;

TYPE(Q5_K, 256, 176, INT5_MIN)
    CODE { return half4(b + 48 + i / 64 * 32, 32, i % 64) | (b[16 + i % 32] >> i / 32 & 1) << 4; }
    SCALE_OF { return halfAt(b) * scale6(b + 4, i / 32); }
    SECOND { return -(halfAt(b + 2) * least6(b + 4, i / 32)); }
END;

TYPE(Q6_K, 256, 210, INT6_16)
    CODE { return half4(b + i / 128 * 64, 64, i % 128) | quarter2(b + 128 + i / 128 * 32, 32, i % 128) << 4; }
    SCALE_OF { return halfAt(b + 208) * (signed char)b[192 + i / 16]; }
END;

TYPE(IQ4_NL, 32, 18, IQ4)
    CODE { return half4(b + 2, 16, i); }
    SCALE_OF { return halfAt(b); }
END;

TYPE(IQ4_XS, 256, 136, IQ4)
    CODE { return half4(b + 8 + i / 32 * 16, 16, i % 32); }
    SCALE_OF { return halfAt(b) * ((int)(b[4 + i / 64] >> i / 32 % 2 * 4 & 15 | (shortAt(b + 2) >> i / 32 * 2 & 3) << 4) - 32); }
END;

TYPE(MXFP4, 32, 17, FP4) // scale: 2^(b[0] - 127), of which 2^-127 is not a normal float
    CODE { return half4(b + 1, 16, i); }
    SCALE_OF { return __uint_as_float(b[0] ? b[0] << 23 : 1 << 22); }
END;

TYPE(U4_32, 32, 21, INT4_ZERO)
    CODE { return b[5 + i / 2] >> i % 2 * 4 & 15; }
    SCALE_OF { return floatAt(b); }
    SECOND { return -b[4]; }
END;

TYPE(U4_128, 128, 69, INT4_ZERO_64)
    CODE { return b[5 + i / 2] >> i % 2 * 4 & 15; }
    SCALE_OF { return floatAt(b); }
    SECOND { return -b[4]; }
END;

TYPE(U8_32, 32, 37, INT8_ZERO)
    CODE { return b[5 + i]; }
    SCALE_OF { return floatAt(b); }
    SECOND { return -b[4]; }
END;

TYPE(U8_128, 128, 133, INT8_ZERO_64)
    CODE { return b[5 + i]; }
    SCALE_OF { return floatAt(b); }
    SECOND { return -b[4]; }
END;

TYPE(F8_E4M3, 1, 1, FP8)
    CODE { return b[0]; }
END;

struct PackArgs {
    u8 *to;              // the records of the rows
    const u8 *from;      // [rows, rowBytes]
    const float *scales; // of F8_E4M3: [rows, ⌈in/group⌉], or nil
    i64 rowBytes;
    u32 rows, in, group; // group: inputs that share a scale of F8_E4M3
    u32 records;         // of all rows; past the last row and input they hold zeros
};

// putCode adds a code to a lane's words of a record: number `odd` of pair p of tile k. HALVES: as F8_E4M3 has them.
template <int BITS, bool HALVES> __device__ __forceinline__ void putCode(u32 (&words)[BITS], int k, int p, int odd, u32 code) {
    int at = 0; // the next words
    if constexpr (BITS == 16)
        words[k * 4 + p] |= code << odd * 16;
    else if constexpr (HALVES)
        words[k * 2 + p % 2] |= code << p / 2 * 8 + odd * 16;
    else if constexpr (BITS == 8)
        words[k * 2 + p / 2] |= code << p % 2 * 8 + odd * 16;
    else {
        if constexpr (BITS >= 4) {
            words[k] |= (code & 15) << p * 4 + odd * 16;
            code >>= 4, at = 4;
        }
        if constexpr (BITS & 2) {
            words[at + k / 2] |= (code & 3) << k % 2 * 8 + p * 2 + odd * 16;
            code >>= 2, at += 2;
        }
        if constexpr (BITS & 1)
            words[at] |= code << k * 4 + p + odd * 16;
    }
}

// packRecords makes a record with each warp. [records/8] blocks of 256 threads.
template <class T> __device__ __forceinline__ void packRecords(const PackArgs &a) {
    constexpr Format is = formatOf(T::FORMAT);
    u32 record = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (record >= a.records)
        return;
    u32 steps = (a.in + 63) / 64, row = record / steps * 16 + lane / 4, first = record % steps * 64;
    u32 words[is.bits] = {};
#pragma unroll
    for (u32 half = 0; half < 2; half++) {
        if (row + half * 8 >= a.rows)
            continue;
        const u8 *stored = a.from + (row + half * 8) * a.rowBytes;
#pragma unroll
        for (int n = 0; n < 16; n++) {
            // A type's block is whole tiles, or one value.
            u32 tile = first + n / 4 * 16, at = lane % 4 * 2 + n / 2 % 2 * 8 + n % 2;
            if (tile + (T::VALUES == 1 ? at : 0) >= a.in)
                continue;
            u32 code = T::VALUES == 1 ? T::code(stored + (tile + at) * T::BYTES, 0)
                                      : T::code(stored + tile / T::VALUES * T::BYTES, tile % T::VALUES + at);
            putCode<is.bits, T::FORMAT == FP8>(words, n / 4, half + n / 2 % 2 * 2, n % 2, code);
        }
    }
    u8 *to = a.to + (i64)record * recordBytes(T::FORMAT);
    if constexpr (T::FORMAT == FP8) {
#pragma unroll
        for (int n = 0; n < 8; n++)
            *(u32 *)(to + n % 2 * HALF_RECORD + n / 2 * 128 + lane * 4) = words[n];
        if (lane % 4 < 2) { // one of the lane's two outputs
            u32 half = lane % 4, out = row + half * 8;
            float scale = 0;
            if (out < a.rows && first < a.in)
                scale = a.scales ? a.scales[(i64)out * ((a.in + a.group - 1) / a.group) + first / a.group] : 1.f;
            *(bf16 *)(to + half * HALF_RECORD + HALF_SCALES + lane / 4 * 2) = toBF16(scale * Stored<FP8>(half).scale);
        }
        return;
    }
    constexpr int quads = is.bits / 4;
#pragma unroll
    for (int i = 0; i < quads; i++)
        *(uint4 *)(to + i * 512 + lane * 16) = make_uint4(words[i * 4], words[i * 4 + 1], words[i * 4 + 2], words[i * 4 + 3]);
    to += quads * 512;
    if constexpr (is.bits & 2) {
        *(uint2 *)(to + lane * 8) = make_uint2(words[quads * 4], words[quads * 4 + 1]);
        to += 256;
    }
    if constexpr (is.bits & 1) {
        *(u32 *)(to + lane * 4) = words[is.bits - 1];
        to += 128;
    }
    if constexpr (is.groups > 0) {
        to += lane / 4 * scaleWords(T::FORMAT) * 4;
        for (u32 n = lane % 4; n < is.groups * 2; n += 4) { // number of a scale of the lane's two outputs
            u32 out = row + n / is.groups * 8, in = first + n % is.groups * (64 / is.groups);
            float scale = 0, second = 0;
            if (out < a.rows && in < a.in) {
                const u8 *b = a.from + out * a.rowBytes + in / T::VALUES * T::BYTES;
                scale = T::scale(b, in % T::VALUES), second = T::second(b, in % T::VALUES);
            }
            const Stored<T::FORMAT> stored(n / is.groups);
            scale = scale * stored.scale, second = second * stored.second;
            if (is.second == SCALE)
                ((bf16 *)to)[n] = toBF16(scale);
            else
                ((u32 *)to)[n] = packBF16(scale, second);
        }
    }
}

#define PACK(type)                                                                                                     \
    KERNEL pack_##type(const PackArgs a) { packRecords<type>(a); }
PACK(F32)
PACK(F16)
KERNEL pack_BF16(const PackArgs a) { packRecords<BFLOAT16>(a); }
PACK(Q4_0)
PACK(Q4_1)
PACK(Q5_0)
PACK(Q5_1)
PACK(Q8_0)
PACK(Q2_K)
PACK(Q3_K)
PACK(Q4_K)
PACK(Q5_K)
PACK(Q6_K)
PACK(IQ4_NL)
PACK(IQ4_XS)
PACK(MXFP4)
PACK(U4_32)
PACK(U4_128)
PACK(U8_32)
PACK(U8_128)
PACK(F8_E4M3)
