// How weights are stored, and how the lanes of a warp read them.
//
// A weight is in records of 16 outputs by 64 inputs. Records of the same outputs follow each other, inputs
// ascending. A record is four tiles of 16 inputs, whose numbers lie in the order in which a warp holds them as
// operand A of mma.m16n8k16: lane 4g+t holds, of outputs g and g+8, inputs 2t, 2t+1 and 2t+8, 2t+9. So a lane has
// 16 pairs of neighbouring inputs in a record: pair 4k+p is that of tile k, output g + p%2·8, inputs 2t + p/2·8.
//
// First come the lanes' codes: `bits` words of each lane, 4 words of every lane at a time, then 2, then 1. Word n of a
// lane holds:
//
//     16 bits  word 4k+p     pair p of tile k
//      8 bits  word 2k+p/2   the pair's codes in bytes p%2 and p%2 + 2
//      4 bits  word k        in bits 4p and 4p + 16
//      2 bits  word k/2      in bits 8(k%2) + 2p and 16 more
//      1 bit   one word      in bits 4k + p and 16 more
//
// Codes of 3, 5 and 6 bits are stored as their low 2, 4 and 4 bits, followed by the other bits. After the codes come
// the scales: for each g those of outputs g and g+8, one for each group of inputs: bfloat16, or a pair of bfloat16 with
// a minimum or a zero point.
//
// A record of F8_E4M3 is two halves of eight outputs: four matrices as wgmma reads them from shared memory, too, with 16
// bytes of each output for 16 inputs, then the outputs' scales. The word of lane 4g+t is that of output g of the half,
// with inputs 2t, 2t+8, 2t+1, 2t+9.
//
// Codes, but those of IQ4, become bfloat16 without a conversion: as the low bits of a number, such as 5·2^-133, whose
// exponent is 0 or, of codes with an eighth bit, 1; those of small floats with an exponent that is smaller by the
// difference of the biases. Scales are stored as multiples that make up for most of that (Stored): weights are made 2^-32
// times what they are, and sums of them become what they are in the end (UNIT).
#pragma once
#include "mma.cuh"

// The formats, as format.go numbers and describes them. FORMAT is the one that a kernel is compiled for.
enum {
    BF16, INT4, INT4_MIN, INT4_ZERO, INT4_ZERO_64, INT5, INT5_MIN, INT8, INT8_ZERO, INT8_ZERO_64,
    INT2_MIN_16, INT3_16, INT6_16, IQ4, FP4, FP8, FORMATS
};

enum { SCALE, SCALE_MIN, SCALE_ZERO }; // what a group of inputs has: s; s and -m; s and minus a zero point

// Format says what a record holds: the bits of a code, the groups of its 64 inputs, what a group has, and base, a power
// of two. A weight is (code - base)·s, code·s - m or (code - zero)·s, rounded once.
struct Format {
    int bits, groups, second, base;
};

__device__ constexpr Format formatOf(int f) {
    switch (f) {
    case INT4: return {4, 2, SCALE, 8};
    case INT4_MIN: return {4, 2, SCALE_MIN, 0};
    case INT4_ZERO: return {4, 2, SCALE_ZERO, 0};
    case INT4_ZERO_64: return {4, 1, SCALE_ZERO, 0};
    case INT5: return {5, 2, SCALE, 16};
    case INT5_MIN: return {5, 2, SCALE_MIN, 0};
    case INT8: return {8, 2, SCALE, 128};
    case INT8_ZERO: return {8, 2, SCALE_ZERO, 0};
    case INT8_ZERO_64: return {8, 1, SCALE_ZERO, 0};
    case INT2_MIN_16: return {2, 4, SCALE_MIN, 0};
    case INT3_16: return {3, 4, SCALE, 4};
    case INT6_16: return {6, 4, SCALE, 32};
    case IQ4: return {4, 2, SCALE, 0};
    case FP4: return {4, 2, SCALE, 0};
    case FP8: return {8, 1, SCALE, 0};
    }
    return {16, 0, SCALE, 0};
}

// scaleWords is how many words of scales a lane reads: those of its two outputs.
__device__ constexpr int scaleWords(int f) { return formatOf(f).groups * (formatOf(f).second == SCALE ? 1 : 2); }

#define HALF_RECORD 528 // bytes of a half of a record of F8_E4M3
#define HALF_SCALES 512 // where its scales are

// recordBytes is the size of a record.
__device__ constexpr int recordBytes(int f) { return formatOf(f).bits * 128 + scaleWords(f) * 32; }

// lowered reports whether weights are made 2^-32 times as large as they are, and unitOf is what sums of them are
// multiplied with.
__device__ constexpr bool lowered(int f) { return f != BF16 && f != IQ4 && formatOf(f).second != SCALE_ZERO; }
__device__ constexpr float unitOf(int f) { return lowered(f) ? 0x1p32f : 1.f; }

// bitOf is where the codes of outputs g (half 0) or g+8 (half 1) begin in the numbers that they become.
__device__ constexpr int bitOf(int f, int half) { return formatOf(f).bits == 4 && f != IQ4 && f != FP4 ? 4 * half : 0; }

// power is 2^n.
__device__ __forceinline__ float power(int n) { return __uint_as_float(127 + n << 23); }

// Stored is what scales, and minima or zero points, of outputs of a half are multiplied with as they are stored.
template <int F> struct Stored {
    float scale, second;

    __device__ __forceinline__ Stored(int half) : scale(1), second(1) {
        int bit = bitOf(F, half);
        if (F == FP4)
            scale = power(126 - 32);
        else if (F == FP8)
            scale = power(120 - 32);
        else if (lowered(F))
            scale = power(133 - 32 - bit), second = power(-32);
        else if (formatOf(F).second == SCALE_ZERO) // a code times 2^127 is 2^-6 of what it is, if it begins at bit 0
            scale = power(6 - bit), second = power(bit - 6);
    }
};

// The levels of IQ4 are 1 to 127 away from zero: below it for codes 0 to 7, above it for 8 to 15. These are the
// distances of codes 0 to 15, four in a word, with the top bit of each byte set.
#define IQ4_0 0xc1d3e8ffu
#define IQ4_1 0x8a96a3b1u
#define IQ4_2 0xa6998d81u
#define IQ4_3 0xf1d9c5b5u

// twice is the lower half of x, or the upper one, in both halves. It costs no instruction: those on pairs can read one
// half twice.
template <bool UPPER> __device__ __forceinline__ u32 twice(u32 x) {
    u32 r;
    if (UPPER)
        asm("{\n.reg .b16 lo, hi;\nmov.b32 {lo, hi}, %1;\nmov.b32 %0, {hi, hi};\n}" : "=r"(r) : "r"(x));
    else
        asm("{\n.reg .b16 lo, hi;\nmov.b32 {lo, hi}, %1;\nmov.b32 %0, {lo, lo};\n}" : "=r"(r) : "r"(x));
    return r;
}

// Weights are a lane's 32 weights of a record: load reads their codes and scales, tile makes bfloat16 of them.
template <int F> struct Weights {
    static constexpr Format is = formatOf(F);
    u32 codes[is.bits], scales[F == BF16 ? 1 : scaleWords(F)];

    // load reads from device memory or from shared memory.
    __device__ __forceinline__ void load(const u8 *record, int lane) {
        if constexpr (F == FP8) {
#pragma unroll
            for (int n = 0; n < 8; n++)
                codes[n] = *(const u32 *)(record + n % 2 * HALF_RECORD + n / 2 * 128 + lane * 4);
            const bf16 *of = (const bf16 *)(record + HALF_SCALES) + lane / 4;
            scales[0] = of[0] | (u32)of[HALF_RECORD / 2] << 16;
            return;
        }
        constexpr int quads = is.bits / 4;
#pragma unroll
        for (int i = 0; i < quads; i++) {
            uint4 v = *(const uint4 *)(record + i * 512 + lane * 16);
            codes[i * 4] = v.x, codes[i * 4 + 1] = v.y, codes[i * 4 + 2] = v.z, codes[i * 4 + 3] = v.w;
        }
        record += quads * 512;
        if constexpr (is.bits & 2) {
            uint2 v = *(const uint2 *)(record + lane * 8);
            codes[quads * 4] = v.x, codes[quads * 4 + 1] = v.y;
            record += 256;
        }
        if constexpr (is.bits & 1) {
            codes[is.bits - 1] = *(const u32 *)(record + lane * 4);
            record += 128;
        }
        constexpr int words = scaleWords(F);
        record += lane / 4 * words * 4;
        if constexpr (words == 1)
            scales[0] = *(const u32 *)record;
        else if constexpr (words == 2) {
            uint2 v = *(const uint2 *)record;
            scales[0] = v.x, scales[1] = v.y;
        } else if constexpr (words > 2) {
#pragma unroll
            for (int i = 0; i < words; i += 4) {
                uint4 v = *(const uint4 *)(record + i * 4);
                scales[i] = v.x, scales[i + 1] = v.y, scales[i + 2] = v.z, scales[i + 3] = v.w;
            }
        }
    }

    // tile makes operand A (mma.cuh) of tile k, 0 to 3, which is known when the kernel is compiled.
    __device__ __forceinline__ void tile(int k, u32 (&f)[4]) const {
        u32 levels[2] = {}; // of IQ4: bytes p of the pairs' first numbers, and of their second
        if constexpr (F == IQ4)
            levels[0] = distances(codes[k]), levels[1] = distances(codes[k] >> 16);
#pragma unroll
        for (int p = 0; p < 4; p++) {
            if constexpr (F == BF16) {
                f[p] = codes[k * 4 + p];
                continue;
            }
            int entry = p % 2 * is.groups + k * is.groups / 4; // of the lane's scales
            u32 word = scales[is.second == SCALE ? entry / 2 : entry];
            bool low = is.second != SCALE || entry % 2 == 0;
            u32 scale = low ? twice<false>(word) : twice<true>(word), second = twice<true>(word);
            u32 v = level(k, p, levels), less = is.second == SCALE_MIN ? second : MINUS_ZEROS;
            if (is.second == SCALE_ZERO)
                v = fma2(v, EACH * 0x7f00, second); // times 2^127
            if (is.base)
                less = fma2(scale, EACH * (0x8000 | is.base << bitOf(F, p % 2)), MINUS_ZEROS); // scale·-base
            f[p] = fma2(v, scale, less);
        }
    }

  private:
    static constexpr u32 ONES = 0x3f803f80, MINUS_ZEROS = 0x80008000; // of bfloat16
    static constexpr u32 EACH = 0x00010001;

    // shifted is x with bit `from` at bit `to`.
    static __device__ __forceinline__ u32 shifted(u32 x, int from, int to) { return from > to ? x >> (from - to) : x << (to - from); }

    // distances looks up the codes in the lower half of x.
    static __device__ __forceinline__ u32 distances(u32 x) {
        // A selector of 8 or more gives the sign of what it selects in all bits: all ones, which & drops.
        return permute(IQ4_0, IQ4_1, x) & permute(IQ4_2, IQ4_3, x ^ 0x8888);
    }

    // level is pair p of tile k before its scale. What IQ4 looks up becomes bfloat16 as the low bits of 128, 0x4300,
    // less 128; small floats by shifting sign, exponent and fraction to their places.
    __device__ __forceinline__ u32 level(int k, int p, const u32 (&levels)[2]) const {
        if constexpr (F == FP8) { // 4 bits of exponent, 3 of fraction
            u32 x = codes[k * 2 + p % 2], parts = p / 2 ? x >> 4 : x << 4;
            return masked(p / 2 ? x : x << 8, EACH * 0x8000, parts & EACH * 0x07f0);
        }
        if constexpr (is.bits == 8)
            return codes[k * 2 + p / 2] >> p % 2 * 8 & EACH * 0xff;
        if constexpr (is.bits == 4 && F != IQ4) {
            u32 two = p < 2 ? codes[k] : codes[k] >> 8, code = two & EACH * (p % 2 ? 0xf0 : 0x0f);
            if (F == FP4) // 2 bits of exponent, 1 of fraction: one product shifts both parts
                code = code * (p % 2 ? 1 << 8 | 1 << 2 : 1 << 12 | 1 << 6) & EACH * 0x81c0;
            return code;
        }
        u32 x = is.bits < 4 ? codes[k / 2] >> (k % 2 * 8 + p * 2) : codes[k] >> p * 4;
        if constexpr (F == IQ4) { // 128 + the distance, less 128, with its sign
            u32 far = masked(permute(levels[0], levels[1], p | (4 + p) << 8), EACH * 0x7f, EACH * 0x4300);
            return fma2(far, ONES, EACH * 0xc300) ^ ~(x << 12) & EACH * 0x8000;
        }
        u32 more = 0; // the code's other bits
        if constexpr (is.bits == 6)
            more = masked(shifted(codes[4 + k / 2], k % 2 * 8 + p * 2, 4), EACH * 0x30, more);
        if constexpr (is.bits == 3 || is.bits == 5)
            more = masked(shifted(codes[is.bits - 1], k * 4 + p, is.bits - 1), EACH << (is.bits - 1), more);
        return masked(x, is.bits < 4 ? EACH * 3 : EACH * 15, more);
    }
};

// OF_CODES makes a scale of FP8, as it is stored, one of codes that are multiplied as they are, not made bfloat16: 2^-32
// times it, since their sums become what they are by UNIT, too.
#define OF_CODES 0x1p-120f

// anyWeights makes operand A of a record's four tiles, whose format is known only when the kernel runs.
__device__ __forceinline__ void anyWeights(int f, const u8 *record, int lane, u32 (&to)[4][4]) {
#define WEIGHTS_OF(F)                                                                                       \
    case F: {                                                                                               \
        Weights<F> w;                                                                                       \
        w.load(record, lane);                                                               \
        for (int k = 0; k < 4; k++)                                                                         \
            w.tile(k, to[k]);                                                                               \
        break;                                                                                              \
    }
    switch (f) {
        WEIGHTS_OF(BF16)
        WEIGHTS_OF(INT4)
        WEIGHTS_OF(INT4_MIN)
        WEIGHTS_OF(INT4_ZERO)
        WEIGHTS_OF(INT4_ZERO_64)
        WEIGHTS_OF(INT5)
        WEIGHTS_OF(INT5_MIN)
        WEIGHTS_OF(INT8)
        WEIGHTS_OF(INT8_ZERO)
        WEIGHTS_OF(INT8_ZERO_64)
        WEIGHTS_OF(INT2_MIN_16)
        WEIGHTS_OF(INT3_16)
        WEIGHTS_OF(INT6_16)
        WEIGHTS_OF(IQ4)
        WEIGHTS_OF(FP4)
        WEIGHTS_OF(FP8)
    }
#undef WEIGHTS_OF
}

// anyRecordBytes is recordBytes of a format that is known only when the kernel runs.
__device__ __forceinline__ int anyRecordBytes(int f) {
    Format is = formatOf(f);
    return is.bits * 128 + is.groups * (is.second == SCALE ? 32 : 64);
}
