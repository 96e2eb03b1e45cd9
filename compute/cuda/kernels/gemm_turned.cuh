// Products of queries, keys and values of many rows on Hopper, which turn heads as they make results: what the kernels
// of 256 rows (gemm_wgmma.cuh) and rotate_store (cache.cu) do, with the bits of both. Heads have 128 numbers, of
// which number i turns with number 64+i, and may be normalised first; the cache is of bfloat16.
//
// A part is one head of 256 rows. The sums of its first 64 outputs are in the first warpgroup, the others in the
// second: these give each other half of their results, so that each has whole pairs of half of the rows. Queries leave
// as boxes. Keys and values leave row by row, to where the cache has the rows.
#pragma once
#include "cache.cuh"
#include "gemm_wgmma.cuh"
#include "turn.cuh"

#define PAIRS 64 // of a head

// HeadNorm is a norm of each head by itself: the gains of its numbers, or nil if there is no norm.
struct HeadNorm {
    const float *gain;
    float eps, unused;
};

// The three products are those of queries, keys and values, in this order.
struct Turning {
    TensorMap angles; // boxes of 128 bytes by 2·CHUNK rows of [rows, 2·PAIRS] of float32, cosines and sines
    CacheLayer cache;
    const int *pos, *slot; // [rows]
    HeadNorm norms[2];     // of queries and of keys
};
struct TurnedArgs : Turning, WgmmaArgs {};
struct Float8TurnedArgs : Turning, Float8Boxes, Float8Args {};
template <> struct ArgsOf<false, true> {
    typedef TurnedArgs type;
};
template <> struct ArgsOf<true, true> {
    typedef Float8TurnedArgs type;
};

// fetchAngles fetches the angles of 2·CHUNK rows, from number n of these on, as four boxes: cosines of the first half of
// the pairs, those of the second, and sines.
template <typename P, typename Args> __device__ __forceinline__ void fetchAngles(const Args &w, u32 base, const Part &part, int n, int stage) {
    constexpr int BOX = 2 * CHUNK * 128;
    static_assert(4 * BOX <= P::ROWS_BYTES);
    int lane = threadIdx.x % 32, product = placeOf(w.a, part.tile0).product;
    u32 full = base + P::FULL + stage * 8;
    if (product == 0 || product == 1) {
        if (lane == 0)
            barrierExpect(full, 4 * BOX);
        __syncwarp();
        if (lane < 4)
            asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(base + stage * P::ROWS_BYTES + lane * BOX), "l"(&w.angles), "r"(lane * 32), "r"(part.row0 + n * 2 * CHUNK), "r"(full)
                         : "memory");
    } else if (lane == 0)
        barrierArrive(full);
}

__device__ __forceinline__ void storeNumber(u32 at, int x) { asm volatile("st.shared.u32 [%0], %1;" ::"r"(at), "r"(x) : "memory"); }

__device__ __forceinline__ int loadNumber(u32 at) {
    int x;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(x) : "r"(at) : "memory");
    return x;
}

__device__ __forceinline__ float loadFloat(u32 at) {
    float x;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(x) : "r"(at));
    return x;
}

__device__ __forceinline__ uint4 loadUnit(u32 at) {
    uint4 x;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w) : "r"(at) : "memory");
    return x;
}

// cacheRows is the work of two warps that store keys and values: each has a chunk of every stage. Before a part's are
// there, a warp writes to shared memory, for each row, its number among the rows of 2·PAIRS numbers that the cache could
// have from the layer's first one on, were there one head; or -1, if it is not stored. Then it stores two rows at a
// time: a lane has 16 bytes of one. `stages` are those that a part's weights and rows pass.
template <typename P, typename Args, typename All> __device__ __forceinline__ void cacheRows(const Args &w, u32 base, int stages, const All &parts) {
    const GemmArgs &a = w.a;
    const CacheLayer &c = w.cache;
    const Leaving<P> leaving(a);
    int lane = threadIdx.x % 32, own = threadIdx.x / 32 % 2, rank = clusterRank(), stage = 0, unit = lane % 8, half = lane / 8 % 2;
    u32 parities = 0; // of LEFT: a bit for each stage
    u32 at[4];        // of a lane's 16 bytes of every second one of eight rows
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int row = lane / 16 + i * 2;
        at[i] = half * CHUNK * 128 + row * 128 + (unit ^ row) * 16;
    }
    waitForRows();
    for (int t = blockIdx.x / CLUSTER; t < parts.count; t += gridDim.x / CLUSTER) {
        Part part = parts.at(t, rank);
        Place place = placeOf(a, part.tile0);
        bool cached = place.product > 0;
        bf16 *to = c.at + (i64)(place.tile / (2 * PAIRS / 16) + (place.product == 2 ? c.heads : 0)) * c.tokens * (2 * PAIRS) + half * PAIRS + unit * 8;
        u32 rows = base + P::CACHED + own * CHUNK * 4;
#pragma unroll 1
        for (int n = cached ? own : P::CHUNKS; n < P::CHUNKS; n += 2) {
            int row = part.row0 + n * CHUNK + lane, slot = row < a.rows ? w.slot[row] : -1, number = -1;
            if (slot >= 0) {
                int pos = w.pos[row];
                number = (int)(c.block / (2 * PAIRS)) * c.table[(i64)slot * c.stride + pos / c.tokens] + pos % c.tokens;
            }
            storeNumber(base + P::CACHED + (n * CHUNK + lane) * 4, number);
        }
        __syncwarp();
        stage = (stage + stages) % P::STAGES;
        for (int i = 0; i < leaving.stages; i++) {
            barrierWait(base + P::LEFT + stage * 8, parities >> stage & 1);
            parities ^= 1u << stage;
            if (cached) {
                u32 from = leaving.at(base, stage, own), numbers = rows + i * 2 * CHUNK * 4 + lane / 16 * 4;
#pragma unroll 1
                for (int first = 0; first < CHUNK; first += 8) {
                    uint4 x[4];
                    int number[4];
#pragma unroll
                    for (int k = 0; k < 4; k++)
                        x[k] = loadUnit(from + at[k] + first * 128), number[k] = loadNumber(numbers + (first + k * 2) * 4);
#pragma unroll
                    for (int k = 0; k < 4; k++)
                        if (number[k] >= 0)
                            *(uint4 *)(to + (i64)number[k] * (2 * PAIRS)) = x[k];
                }
                __syncwarp();
                if (lane < P::BLOCKS * P::THREADS / 64)
                    barrierArrive(base + P::EMPTY + stage * 8, lane % P::BLOCKS);
            }
            if (++stage == P::STAGES)
                stage = 0;
        }
    }
}

// Below, x of a chunk are results of bfloat16, packed by two rows, of pairs lane/4 and 8 further of a warp's 16: x[0] and
// x[1] have the pairs' first numbers of rows lane%4·2 and one more, x[2] and x[3] those of eight rows further, x[4] to
// x[7] the second numbers.

// headSquares are a lane's part of the sums of squares of the four rows, as Pairs::squares makes it of two neighbouring
// pairs: lanes with an even one and the odd one after it give each other one of theirs.
__device__ __forceinline__ four headSquares(const u32 (&x)[8]) {
    four sum;
    bool odd = threadIdx.x / 4 % 2;
#pragma unroll
    for (int j = 0; j < 4; j += 2) {
        u32 v[2], w[2]; // first and second numbers of both pairs
        v[0] = odd ? x[j + 1] : x[j], w[0] = odd ? x[4 + j + 1] : x[4 + j];
        v[1] = __shfl_xor_sync(~0u, odd ? x[j] : x[j + 1], 4), w[1] = __shfl_xor_sync(~0u, odd ? x[4 + j] : x[4 + j + 1], 4);
#pragma unroll
        for (int e = 0; e < 2; e++) {
            auto number = [&](u32 pair) { return fromBF16((bf16)(pair >> e * 16)); };
            Pairs p;
            p.v[0] = number(odd ? v[1] : v[0]), p.w[0] = number(odd ? w[1] : w[0]);
            p.v[1] = number(odd ? v[0] : v[1]), p.w[1] = number(odd ? w[0] : w[1]);
            sum.v[j + e] = p.squares(0);
        }
    }
    return sum;
}

// headScales gives what the norms of the four rows multiply with, of headSquares of the four warps that have a head, in
// the order of sumOfWarp.
__device__ __forceinline__ four headScales(const four *squares, float eps) {
    four v[4], scale;
#pragma unroll
    for (int warp = 0; warp < 4; warp++)
        v[warp] = squares[warp * 32];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float sum = v[0].v[i] + v[2].v[i] + (v[1].v[i] + v[3].v[i]);
        sum = sum + __shfl_xor_sync(~0u, sum, 4);
        sum = sum + __shfl_xor_sync(~0u, sum, 16);
        sum = sum + __shfl_xor_sync(~0u, sum, 8);
        scale.v[i] = rsqrtf(sum / (2 * PAIRS) + eps);
    }
    return scale;
}

// turn turns pairs as Pairs::scale and rotate do (turn.cuh). `angles` gives the cosine and the sine of x[i], of one of
// its rows; `gains` those of x[0], x[1], x[4] and x[5]; `scale` is that of the four rows' norms. Both are 1 if there is
// no norm.
template <typename F> __device__ __forceinline__ void turn(u32 (&x)[8], const four &scale, const float (&gains)[4], F angles) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float one[2], other[2];
#pragma unroll
        for (int e = 0; e < 2; e++) {
            float v = fromBF16((bf16)(x[i] >> e * 16)), u = fromBF16((bf16)(x[4 + i] >> e * 16)), norm = scale.v[i / 2 * 2 + e];
            v = v * norm * gains[i % 2], u = u * norm * gains[2 + i % 2];
            float2 angle = angles(i, e);
            one[e] = fmaf(v, angle.x, -(u * angle.y));
            other[e] = fmaf(u, angle.x, v * angle.y);
        }
        x[i] = packBF16(one[0], one[1]), x[4 + i] = packBF16(other[0], other[1]);
    }
}

template <bool F8, int N, typename P, typename Args>
__device__ __forceinline__ void leaveTurned(const Args &w, const float (&d)[N / 2], u8 *shared, u32 base, const Part &part, int &stage, u32 &parity) {
    constexpr int CHUNKS = P::CHUNKS;
    const GemmArgs &a = w.a;
    const Leaving<P> leaving(a);
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    Place place = placeOf(a, part.tile0 + warp);
    if (place.product < 0 || place.product == 2) { // values, or none
        leave<F8, N, P>(w, d, base, part, stage, parity);
        return;
    }
    // The results of chunk c: packed[c][2j] and [2j+1] are of outputs lane/4 and lane/4 + 8 of rows j·8 + lane%4·2 and
    // one more. They are not scaled.
    u32 packed[CHUNKS][8];
    {
        Own<F8> own(a, place);
        bool biased = a.p[place.product].bias;
        const float *rowScales = F8 ? scalesOf(w) + part.row0 + lane % 4 * 2 : nullptr;
#pragma unroll
        for (int i = 0; i < N / 2; i += 4) {
            float2 scale = F8 ? *(const float2 *)(rowScales + i * 2) : float2{};
            float x[4];
#pragma unroll
            for (int e = 0; e < 4; e++) {
                x[e] = summed(d[i + e]);
                if (F8)
                    x[e] = x[e] * own.scales[e / 2] * (e % 2 ? scale.y : scale.x);
                if (biased)
                    x[e] = x[e] + own.bias[e / 2];
            }
            packed[i / 16][i % 16 / 2] = packBF16(x[0], x[1]), packed[i / 16][i % 16 / 2 + 1] = packBF16(x[2], x[3]);
        }
    }
    // Of each chunk, the first warpgroup keeps rows 0 to 15 and takes those of the second, which keeps the others: then
    // packed[c][0] to [3] are of the head's first half, the others of its second. What is given is where the thread's
    // sums of ranges were.
    static_assert(P::KEPT == CHUNKS);
    bool second = warp >= 4;
    auto given = [&](int c, int thread) { return (uint4 *)(shared + P::RESULTS) + thread / 128 * CHUNKS * 128 + c * 128 + thread % 128; };
    auto give = [&](int from) {
#pragma unroll
        for (int c = 0; c < CHUNKS; c++)
            *given(c, threadIdx.x) = uint4{packed[c][from], packed[c][from + 1], packed[c][from + 2], packed[c][from + 3]};
    };
    auto take = [&](int to) {
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            uint4 x = *given(c, threadIdx.x ^ P::THREADS / 2);
            packed[c][to] = x.x, packed[c][to + 1] = x.y, packed[c][to + 2] = x.z, packed[c][to + 3] = x.w;
        }
    };
    if (second)
        give(0);
    else
        give(4);
    barrierOf(3 + warp % 4, 64);
    if (second)
        take(0);
    else
        take(4);
    barrierOf(3 + warp % 4, 64);
    const HeadNorm norm = w.norms[place.product];
    four scale[CHUNKS]; // of the norms of a thread's rows
    float gains[4];
    int pair = warp % 4 * 16 + lane / 4;
#pragma unroll
    for (int i = 0; i < 4; i++)
        gains[i] = norm.gain ? norm.gain[i / 2 * PAIRS + pair + i % 2 * 8] : 1.f;
    if (norm.gain) {
#pragma unroll
        for (int c = 0; c < CHUNKS; c++)
            *(four *)given(c, threadIdx.x) = headSquares(packed[c]);
        barrierOf(1 + second, 128);
#pragma unroll
        for (int c = 0; c < CHUNKS; c++)
            scale[c] = headScales((const four *)given(c, second * 128 + lane), norm.eps);
        barrierOf(1 + second, 128); // sums of ranges may come again
    } else {
#pragma unroll
        for (int c = 0; c < CHUNKS; c++)
            scale[c] = {1, 1, 1, 1};
    }
    // Where angles of pair lane/4 of the warp's lie, and of the one 8 further, of the first two of a lane's rows.
    u32 angle[2][2], to = (second * 16 + lane / 16 * 8 + lane % 8) * 128 + (warp % 4 * 2 + lane / 8 % 2 ^ lane % 8) * 16;
#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
            int row = lane % 4 * 2 + e, number = warp % 2 * 4 + lane / 16 + h * 2;
            angle[h][e] = warp % 4 / 2 * CHUNK * 256 + (second * 16 + row) * 128 + (number ^ row) * 16 + lane / 4 % 4 * 4;
        }
#pragma unroll
    for (int first = 0; first < CHUNKS; first += 2) {
        u32 from = base + stage * P::ROWS_BYTES;
        barrierWait(base + P::FULL + stage * 8, parity);
#pragma unroll
        for (int c = 0; c < 2; c++)
            turn(packed[first + c], scale[first + c], gains, [&](int i, int e) {
                u32 at = from + angle[i % 2][e] + c * CHUNK * 128 + i / 2 * 1024;
                return float2{loadFloat(at), loadFloat(at + 2 * CHUNK * 256)};
            });
        if (!P::APART) // results go where angles were
            barrierOf(7, P::THREADS);
#pragma unroll
        for (int c = 0; c < 2; c++)
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const u32(&x)[8] = packed[first + c];
                storeMatrices(leaving.at(base, stage, c) + to + h * CHUNK * 128, x[h * 4], x[h * 4 + 1], x[h * 4 + 2], x[h * 4 + 3]);
            }
        fenceShared();
        __syncwarp();
        if (lane == 0)
            barrierArrive(base + P::LEFT + stage * 8);
        if (++stage == P::STAGES)
            stage = 0, parity ^= 1;
    }
}

#define TURNED_KERNEL(NAME, F8)                                                                                        \
    KERNEL __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(384, 1) NAME(const __grid_constant__ ArgsOf<F8, true>::type w) { \
        gemmWgmma<F8, 256, 2, 1, false, true>(w);                                                                      \
    }
