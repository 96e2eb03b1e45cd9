// Keys and values in shared memory, and their products with mma, for heads of DIM numbers and a cache of type KV.
// Chunks (attend_tile) hold numbers as they are multiplied, pages of 16 positions (attend_few) hold them as they are
// stored.
#pragma once
#include "attend.cuh"

// Rows of shared memory are PITCH bytes apart. place is where a unit of 8 numbers of a row is. Those of 8 rows lie in
// different banks: they are swizzled, or rows are 16 bytes longer than their numbers.
template <int DIM> constexpr int PITCH = DIM % 64 ? (DIM + 8) * 2 : DIM * 2;
template <int DIM> __device__ __forceinline__ u32 place(int row, int unit) {
    return row * PITCH<DIM> + (DIM % 64 ? unit : unit ^ row % 8) * 16;
}

// placeNext is place of unit 2·k + odd, in a way that leaves k, which is known when the kernel is compiled, for last.
template <int DIM> __device__ __forceinline__ u32 placeNext(int row, int odd, int k) {
    return row * PITCH<DIM> + (DIM % 64 ? odd * 16 + k * 32 : (odd ^ row % 8) * 16 ^ k * 32);
}

// mmaHalf is mma of halves.
__device__ __forceinline__ void mmaHalf(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// multiply is mma of what keys and values are multiplied as: bfloat16, or halves.
__device__ __forceinline__ void multiply(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    if (KV == KV_BF16)
        mma(d, a, b0, b1);
    else
        mmaHalf(d, a, b0, b1);
}

// attendKeys adds the products of a warp's queries and 8·N keys to s.
template <int DIM, int N> __device__ __forceinline__ void attendKeys(float (*s)[4], const u32 (&q)[DIM / 16][4], u32 keys) {
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int k = 0; k < DIM / 16; k++)
#pragma unroll
        for (int n = 0; n < N; n += 2) {
            u32 b[4];
            ldmatrix(b, keys + n * 8 * PITCH<DIM> + placeNext<DIM>(lane / 16 * 8 + lane % 8, lane / 8 % 2, k));
            multiply(s[n], q[k], b[0], b[1]);
            multiply(s[n + 1], q[k], b[2], b[3]);
        }
}

// PAGE is the bytes of a page in shared memory. Codes are as they are stored; rows of F8_E4M3 are CODES bytes apart, an
// odd number of 16, so that those of 8 rows lie in different banks.
template <int DIM> constexpr int CODES = DIM | 16;
template <int DIM> constexpr u32 PAGE = 16 * (KV == KV_FP8 ? CODES<DIM> : KV == KV_Q8_0 ? ROW<DIM> : PITCH<DIM>);

// spot is where unit n of a page's 16 bytes each goes.
template <int DIM> __device__ __forceinline__ u32 spot(int n) {
    if (KV == KV_Q8_0)
        return n * 16;
    return KV == KV_FP8 ? n / (DIM / 16) * CODES<DIM> + n % (DIM / 16) * 16 : place<DIM>(n / (DIM / 8), n % (DIM / 8));
}

// copyUnit copies 16 bytes of a page in the background. Where pages of codes are whole pieces of 256 bytes, the
// second-level cache fetches such a piece at once.
template <int DIM> __device__ __forceinline__ void copyUnit(u32 shared, const void *from) {
    if (CODED && ROW<DIM> % 16 == 0)
        asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16;" ::"r"(shared), "l"(from) : "memory");
    else
        copy16(shared, from, true);
}

// copyFirst copies the first `bytes` of 16 bytes, and zeros for the others.
__device__ __forceinline__ void copyFirst(u32 shared, const void *from, int bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(from), "r"(bytes) : "memory");
}

// Spots are where a lane's units of a page go: a page is ROW units, 16 rows of ROW bytes.
template <int DIM> struct Spots {
    static constexpr int N = (ROW<DIM> + 31) / 32;
    u32 at[N];

    __device__ __forceinline__ Spots() {
#pragma unroll
        for (int j = 0; j < N; j++) {
            at[j] = spot<DIM>(threadIdx.x % 32 + j * 32);
            asm volatile("" : "+r"(at[j])); // in a register, not computed again for each page
        }
    }
};

// loadPage begins to copy a page of 16 rows to shared memory. The rows from number `rows` on become zeros.
template <int DIM> __device__ __forceinline__ void loadPage(u32 to, const Spots<DIM> &spots, const u8 *from, int rows) {
    int lane = threadIdx.x % 32;
    from += lane * 16;
    if (rows >= 16) {
#pragma unroll
        for (int j = 0; j < Spots<DIM>::N; j++)
            if (ROW<DIM> % 32 == 0 || lane + j * 32 < ROW<DIM>)
                copyUnit<DIM>(to + spots.at[j], from + j * 512);
    } else {
#pragma unroll 1
        for (int n = lane; n < ROW<DIM>; n += 32, from += 512)
            if (!CODED)
                copy16(to + spot<DIM>(n), from, n / (DIM / 8) < rows);
            else
                copyFirst(to + spot<DIM>(n), from, min(max(rows * ROW<DIM> - n * 16, 0), 16));
    }
}

// load16 loads two bytes of shared memory.
__device__ __forceinline__ u32 load16(u32 at) {
    u16 v;
    asm volatile("ld.shared.u16 %0, [%1];" : "=h"(v) : "r"(at) : "memory");
    return v;
}

// load32 loads four bytes of shared memory from an even address; whole says that it is a multiple of 4.
__device__ __forceinline__ u32 load32(u32 at, bool whole) {
    u32 v;
    if (!whole)
        return permute(load16(at), load16(at + 2), 0x5410);
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(at) : "memory");
    return v;
}

// pageKeys adds the products of a warp's queries and the 16 keys of a page to s.
template <int DIM> __device__ __forceinline__ void pageKeys(float (&s)[2][4], const u32 (&q)[DIM / 16][4], u32 page) {
    int lane = threadIdx.x % 32;
    if constexpr (!CODED) {
        attendKeys<DIM, 2>(s, q, page);
    } else if constexpr (KV == KV_FP8) {
#pragma unroll
        for (int k = 0; k < DIM / 16; k += 2) {
            bool two = k + 1 < DIM / 16;
            u32 r[4], lo, hi; // r: four of 16 codes of keys g and g+8, and of the next 16 codes
            ldmatrix(r, page + lane % 16 * CODES<DIM> + k * 16 + (two ? lane / 16 * 16 : 0));
#pragma unroll
            for (int i = 0; i < (two ? 4 : 2); i++) {
                widen(lo, hi, r[i]);
                multiply(s[i % 2], q[k + i / 2], lo, hi);
            }
        }
    } else {
#pragma unroll
        for (int n = 0; n < 2; n++) {
            u32 row = page + (n * 8 + lane / 4) * ROW<DIM>;
#pragma unroll
            for (int k = 0; k < DIM / 16; k++) {
                u32 at = k / 2 * 34 + 2 + k % 2 * 16, scale = load16(row + k / 2 * 34) * 0x10001u, lo, hi;
                widen(lo, hi, load32(row + at + lane % 4 * 4, (ROW<DIM> | at) % 4 == 0));
                multiply(s[n], q[k], mulHalf(lo, scale), mulHalf(hi, scale));
            }
        }
    }
}

// pageValues adds the products of the 16 values of a page, operand A, and the weights w0 and w1, operand B, to o. Rows
// of o are numbers of the value: of each 16, a lane has numbers g and g+8, or, of codes, 2g and 2g+1.
template <int DIM> __device__ __forceinline__ void pageValues(float (&o)[DIM / 16][4], u32 w0, u32 w1, u32 page) {
    int lane = threadIdx.x % 32;
    if constexpr (!CODED) {
#pragma unroll
        for (int n = 0; n < DIM / 16; n++) {
            u32 v[4];
            ldmatrixT(v, page + placeNext<DIM>(lane / 16 * 8 + lane % 8, lane / 8 % 2, n));
            multiply(o[n], v, w0, w1);
        }
    } else if constexpr (KV == KV_FP8) {
#pragma unroll
        for (int n = 0; n < DIM / 16; n += 2) {
            bool two = n + 1 < DIM / 16;
            u32 r[4]; // two codes of positions 2t and 2t+1, and of those 8 further; then likewise of the next 16 codes
            ldmatrixT(r, page + lane % 16 * CODES<DIM> + n * 16 + (two ? lane / 16 * 16 : 0));
#pragma unroll
            for (int i = 0; i < (two ? 2 : 1); i++) {
                u32 v[4];
                widen(v[0], v[1], permute(r[2 * i], 0, 0x3120));
                widen(v[2], v[3], permute(r[2 * i + 1], 0, 0x3120));
                multiply(o[n + i], v, w0, w1);
            }
        }
    } else {
        u32 row = page + lane % 4 * 2 * ROW<DIM>;
#pragma unroll
        for (int n = 0; n < DIM / 16; n++) {
            u32 v[4], at = row + n / 2 * 34;
#pragma unroll
            for (int i = 0; i < 2; i++) { // positions 2t and 2t+1, then those 8 further
                u32 one = at + i * 8 * ROW<DIM>, other = one + ROW<DIM>, codes = 2 + n % 2 * 16 + lane / 4 * 2;
                u32 scales = permute(load16(one), load16(other), 0x5410);
                widen(v[2 * i], v[2 * i + 1], permute(load16(one + codes), load16(other + codes), 0x5140));
                v[2 * i] = mulHalf(v[2 * i], scales), v[2 * i + 1] = mulHalf(v[2 * i + 1], scales);
            }
            multiply(o[n], v, w0, w1);
        }
    }
}
