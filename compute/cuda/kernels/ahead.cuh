// How warps that stream packed weights for few rows make bfloat16 of them beside the tensor cores' work (gemm_few.cu,
// grouped_few.cu).
#pragma once
#include "gemm.cuh"

// SMALL says that records are small: the memory is faster if a part has four of them.
constexpr bool SMALL = RECORD < 1024;

// Ahead is what a warp holds of TILES tiles' records and of 8 rows while it makes bfloat16 of one record and the tensor
// cores multiply the one before: record n has place n % 2. All loops are unrolled, so that places are known when the
// kernel is compiled.
template <int TILES> struct Ahead {
    Weights<FORMAT> own[2][TILES];
    u32 x[2][2][4];           // operand B of 32 inputs each
    u32 made[2][TILES][4][4]; // operand A of a record's four tiles of 16 inputs
    u32 rows[2][2][4];        // x, once the weights beside it are made

    // read reads record n of a part. ldmatrix finds its inputs of the row that this lane names at `row`.
    template <int PART> __device__ __forceinline__ void read(int n, const u8 *part, u32 row, int lane) {
        loadRecords<PART>(own[n % 2], part, n, lane);
#pragma unroll
        for (int i = 0; i < 2; i++)
            ldmatrix(x[n % 2][i], row + n * 128 + i * 64);
    }

    __device__ __forceinline__ void keepRows(int place) {
#pragma unroll
        for (int i = 0; i < 8; i++)
            rows[place][i / 4][i % 4] = x[place][i / 4][i % 4];
    }

    // make makes the first record's numbers.
    __device__ __forceinline__ void make() {
#pragma unroll
        for (int i = 0; i < TILES; i++)
#pragma unroll
            for (int k = 0; k < 4; k++)
                own[0][i].tile(k, made[0][i][k]);
        keepRows(0);
    }

    // multiply adds the products of record n to d, and makes the next one's numbers. The compiler would make them
    // before or after all products, not in the time that each takes. So operands get 0 from numbers just made, which it
    // takes for a dependence: zero is 0, which it does not know.
    __device__ __forceinline__ void multiply(int n, float (&d)[TILES][1][4], u32 zero) {
        int place = n % 2, next = place ^ 1;
#pragma unroll
        for (int k = 0; k < 4; k++)
#pragma unroll
            for (int i = 0; i < TILES; i++) {
                mma(d[i][0], made[place][i][k], rows[place][k / 2][k % 2 * 2], rows[place][k / 2][k % 2 * 2 + 1]);
                u32(&last)[4] = made[next][i][k];
                own[next][i].tile(k, last);
                if (i < TILES - 1)
                    continue;
                u32 *b = (k < 3 ? rows[place][(k + 1) / 2] : x[next][0]) + (k + 1) % 2 * 2;
                b[0] = masked(last[0], zero, b[0]);
                b[1] = masked(last[3], zero, b[1]);
                if (k == 2) // what was read for the record after the next one is there
                    b[0] = masked(own[place][i].codes[0], zero, b[0]);
            }
        keepRows(next);
    }
};
