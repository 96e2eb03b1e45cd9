// The paged cache: rotation of queries and keys, storing of keys and values, edits of block tables, and moves of
// blocks. Each row is computed by itself. Tables are [groups, slots, stride] of block numbers.
#include "cache.cuh"
#include "kv.cuh"
#include "turn.cuh"

// rotate_store rotates pairs of queries in place, and pairs of keys on their way to the cache; values go there as they
// are. Each part may be left out: queries if q.at is nil, rotation if angles.at is nil, storing if stores is 0 (then
// keys are rotated in place). Rows without a slot store nothing. Warps share the heads of a row. [rows, n] blocks, any
// n.
struct StoreArgs {
    Rows q, k, v, angles; // angles: [rows, 2·pairs] of float32, cosines and sines
    CacheLayer cache;
    const int *pos, *slot; // [rows]
    int qHeads, kHeads, qDim, kDim;
    int skip, pairs, neighbours; // of a head: numbers before its pairs; pairs; 1: a pair's numbers are neighbours
    int stores;
    const float *qGain, *kGain; // [qDim] and [kDim]: each head is normalised first; or nil
    float qEps, kEps;
    int whole, type; // whole: rotateWhole does it; type: of the cache (kv.cuh)
};

// Pair is where the two numbers of a pair lie in a head, and its angle.
struct Pair {
    int one, other;
    float c, s;
};

__device__ __forceinline__ Pair pairOf(const StoreArgs &a, i64 r, int p) {
    const float *angle = (const float *)a.angles.at + r * a.angles.ld;
    if (a.neighbours)
        return {a.skip + 2 * p, a.skip + 2 * p + 1, angle[p], angle[a.pairs + p]};
    return {a.skip + p, a.skip + p + a.pairs, angle[p], angle[a.pairs + p]};
}

// rotateHead rotates the pairs of one head of x, which begins at column col, and calls write(place, number) with what
// they become. If there is a gain, the head is normalised first, and has no numbers outside pairs. A warp's lanes share
// the head.
template <typename F> __device__ __forceinline__ void rotateHead(const StoreArgs &a, const Rows &x, i64 r, int col, const float *gain, float eps, F write) {
    float inv = 1;
    if (gain) {
        float squares = 0;
        for (int p = threadIdx.x % 32; p < a.pairs * 2; p += 32) {
            float v = get(x, r, col + p);
            squares = fmaf(v, v, squares);
        }
        inv = rsqrtf(sumOfWarp(squares) / (a.pairs * 2) + eps);
    }
    for (int p = threadIdx.x % 32; p < a.pairs; p += 32) {
        Pair at = pairOf(a, r, p);
        float v = get(x, r, col + at.one), w = get(x, r, col + at.other);
        if (gain)
            v = v * inv * gain[at.one], w = w * inv * gain[at.other];
        write(at.one, fmaf(v, at.c, -(w * at.s)));
        write(at.other, fmaf(w, at.c, v * at.s));
    }
}

// WholeHead is rotateHead of whole heads of bfloat16 whose pairs are not neighbours, of a multiple of 4 and up to 256
// numbers. A lane has two neighbouring pairs at a time, and keeps their angles, which are those of all heads of a row.
struct WholeHead {
    float2 c[2], s[2];

    __device__ __forceinline__ WholeHead(const StoreArgs &a, i64 r) {
        const float *angle = (const float *)a.angles.at + r * a.angles.ld + threadIdx.x % 32 * 2;
#pragma unroll
        for (int i = 0; i < 2; i++)
            if (threadIdx.x % 32 * 2 + i * 64 < a.pairs)
                c[i] = *(const float2 *)(angle + i * 64), s[i] = *(const float2 *)(angle + a.pairs + i * 64);
    }

    // rotate rotates the head at x, normalised first if there is a gain, to `to`.
    __device__ __forceinline__ void rotate(const bf16 *x, bf16 *to, int pairs, const float *gain, float eps) const {
        int first = threadIdx.x % 32 * 2;
        Pairs p[2] = {};
#pragma unroll
        for (int i = 0; i < 2; i++)
            if (first + i * 64 < pairs)
                p[i].unpack(*(const u32 *)(x + first + i * 64), *(const u32 *)(x + pairs + first + i * 64));
        if (gain) {
            float inv = rsqrtf(sumOfWarp(p[1].squares(p[0].squares(0))) / (pairs * 2) + eps);
#pragma unroll
            for (int i = 0; i < 2; i++)
                if (first + i * 64 < pairs)
                    p[i].scale(inv, *(const float2 *)(gain + first + i * 64), *(const float2 *)(gain + pairs + first + i * 64));
        }
#pragma unroll
        for (int i = 0; i < 2; i++)
            if (first + i * 64 < pairs)
                p[i].rotate(c[i], s[i], *(u32 *)(to + first + i * 64), *(u32 *)(to + pairs + first + i * 64));
    }
};

// putRow writes a row of `dim` bfloat16 numbers, a multiple of 4, as kvPut does: a lane has four at a time.
__device__ __forceinline__ void putRow(int type, u8 *row, const bf16 *from, int dim) {
    for (int first = 0; first < dim; first += 128) {
        int d = first + threadIdx.x % 32 * 4;
        uint2 two = d < dim ? make_uint2(*(const u32 *)(from + d), *(const u32 *)(from + d + 2)) : make_uint2(0, 0);
        float x[4] = {fromBF16((bf16)two.x), fromBF16((bf16)(two.x >> 16)), fromBF16((bf16)two.y), fromBF16((bf16)(two.y >> 16))};
        if (type == KV_Q8_0) {
            float most = fmaxf(fmaxf(fabsf(x[0]), fabsf(x[1])), fmaxf(fabsf(x[2]), fabsf(x[3])));
            for (int n = 4; n > 0; n /= 2)
                most = fmaxf(most, __shfl_xor_sync(~0u, most, n));
            u16 scale = scaleQ8(most);
            if (d >= (dim + 31) / 32 * 32)
                continue;
            u8 *to = row + d / 32 * 34;
            u32 code[4];
            for (int i = 0; i < 4; i++)
                code[i] = codeQ8(x[i], scale);
            *(u16 *)(to + 2 + d % 32) = (u16)(code[0] | code[1] << 8);
            *(u16 *)(to + 4 + d % 32) = (u16)(code[2] | code[3] << 8);
            if (d % 32 == 0)
                *(u16 *)to = scale;
        } else if (d >= dim) {
            continue;
        } else if (type == KV_FP8) {
            *(u32 *)(row + d) = toFP8(x[0]) | toFP8(x[1]) << 8 | toFP8(x[2]) << 16 | (u32)toFP8(x[3]) << 24;
        } else if (type == KV_F16) {
            *(uint2 *)(row + 2 * d) = make_uint2(nearHalf(x[0]) | (u32)nearHalf(x[1]) << 16, nearHalf(x[2]) | (u32)nearHalf(x[3]) << 16);
        } else {
            *(uint2 *)(row + 2 * d) = two;
        }
    }
}

// rotateUnits rotates the heads of a row that are not normalised, of pairs that are a multiple of 8: a thread has eight
// neighbouring pairs at a time. `first` and `step` are of the row's threads.
__device__ __forceinline__ void rotateUnits(const StoreArgs &a, i64 r, bf16 *x, int heads, int first, int step) {
    int units = a.pairs / 8;
    const float *angles = (const float *)a.angles.at + r * a.angles.ld;
#pragma unroll 1
    for (int i = first; i < heads * units; i += step) {
        int h = i / units, at = (i - h * units) * 8;
        uint4 *one = (uint4 *)(x + h * a.pairs * 2 + at), *other = (uint4 *)((bf16 *)one + a.pairs);
        uint4 v = *one, w = *other;
        u32 vs[4] = {v.x, v.y, v.z, v.w}, ws[4] = {w.x, w.y, w.z, w.w};
#pragma unroll
        for (int j = 0; j < 4; j++) {
            Pairs p;
            p.unpack(vs[j], ws[j]);
            p.rotate(*(const float2 *)(angles + at + j * 2), *(const float2 *)(angles + a.pairs + at + j * 2), vs[j], ws[j]);
        }
        *one = make_uint4(vs[0], vs[1], vs[2], vs[3]), *other = make_uint4(ws[0], ws[1], ws[2], ws[3]);
    }
}

// rotateWhole is rotate_store of heads that WholeHead takes, all of one size. ANY: in a cache of any type; else of
// bfloat16.
template <bool ANY> __device__ __forceinline__ void rotateWhole(const StoreArgs &a, i64 r, int first, int step) {
    const CacheLayer &c = a.cache;
    int dim = a.pairs * 2, slot = a.slot[r];
    const bf16 *q = (const bf16 *)a.q.at + r * a.q.ld, *k = (const bf16 *)a.k.at + r * a.k.ld, *v = (const bf16 *)a.v.at + r * a.v.ld;
    WholeHead head(a, r);
    if (!a.qGain && a.pairs % 8 == 0)
        rotateUnits(a, r, (bf16 *)q, a.qHeads, first * 32 + threadIdx.x % 32, step * 32);
    else
        for (int h = first; h < a.qHeads; h += step)
            head.rotate(q + h * dim, (bf16 *)q + h * dim, a.pairs, a.qGain, a.qEps);
    if (slot < 0)
        return;
    bf16 *block = blockOf(c, slot, a.pos[r]);
    int token = a.pos[r] % c.tokens;
    // Warps that had fewer queries come first.
    for (int n = (first + step - a.qHeads % step) % step; n < 2 * c.heads; n += step) {
        int h = n % c.heads;
        bool key = n < c.heads;
        if constexpr (ANY) {
            int bytes = kvRowBytes(a.type, dim);
            if (key) {
                head.rotate(k + h * dim, (bf16 *)k + h * dim, a.pairs, a.kGain, a.kEps);
                __syncwarp();
            }
            putRow(a.type, (u8 *)block + (key ? 0 : c.heads * c.tokens * bytes) + (h * c.tokens + token) * bytes, (key ? k : v) + h * dim, dim);
            continue;
        }
        bf16 *to = block + (key ? 0 : c.heads * c.tokens * dim) + (h * c.tokens + token) * dim;
        if (key)
            head.rotate(k + h * dim, to, a.pairs, a.kGain, a.kEps);
        else
            for (int d = threadIdx.x % 32; d < a.pairs; d += 32)
                ((u32 *)to)[d] = ((const u32 *)(v + h * dim))[d];
    }
}

KERNEL rotate_store(const StoreArgs a) {
    letNextBegin();
    waitForRows();
    i64 r = blockIdx.x;
    int lane = threadIdx.x % 32;
    int first = (blockIdx.y * blockDim.x + threadIdx.x) / 32, step = gridDim.y * blockDim.x / 32; // of the row's warps
    if (a.whole) {
        rotateWhole<false>(a, r, first, step);
        return;
    }
    if (a.q.at)
        for (int h = first; h < a.qHeads; h += step)
            rotateHead(a, a.q, r, h * a.qDim, a.qGain, a.qEps, [&](int d, float v) { put(a.q, r, h * a.qDim + d, v); });
    if (!a.stores) {
        if (a.k.at)
            for (int h = first; h < a.kHeads; h += step)
                rotateHead(a, a.k, r, h * a.kDim, a.kGain, a.kEps, [&](int d, float v) { put(a.k, r, h * a.kDim + d, v); });
        return;
    }
    int slot = a.slot[r];
    if (slot < 0)
        return;
    const CacheLayer &c = a.cache;
    bf16 *block = blockOf(c, slot, a.pos[r]);
    int token = a.pos[r] % c.tokens, rotated = a.angles.at ? 2 * a.pairs : 0;
    for (int h = first; h < c.heads; h += step) {
        bf16 *to = block + (h * c.tokens + token) * c.keyDim;
        if (rotated)
            rotateHead(a, a.k, r, h * c.keyDim, a.kGain, a.kEps, [&](int d, float v) { to[d] = toBF16(v); });
        for (int d = lane; d < c.keyDim; d += 32)
            if (d < a.skip || d >= a.skip + rotated)
                to[d] = toBF16(get(a.k, r, h * c.keyDim + d));
        if (!a.v.at)
            continue;
        to = block + c.heads * c.tokens * c.keyDim + (h * c.tokens + token) * c.valueDim;
        for (int d = lane; d < c.valueDim; d += 32)
            to[d] = toBF16(get(a.v, r, h * c.valueDim + d));
    }
}

// rotate_store_any is rotate_store of whole heads, in a cache of any type.
KERNEL rotate_store_any(const StoreArgs a) {
    letNextBegin();
    waitForRows();
    rotateWhole<true>(a, blockIdx.x, (blockIdx.y * blockDim.x + threadIdx.x) / 32, gridDim.y * blockDim.x / 32);
}

// latent_rows is for queries and latents of latent attention: the pairs of each head of q, which follow `nope` numbers,
// go rotated to the end of the head of `wide`; latents go to the cache, their first `rank` numbers normalised as
// norm_groups does, the rest rotated. A warp takes a head, or the latent. [rows, n] blocks, any n.
struct LatentArgs {
    Rows q, wide, latent;
    StoreArgs rotation; // of which angles, pairs and neighbours are used
    CacheLayer cache;
    const int *pos, *slot;
    const float *gain;
    float eps;
    int heads, nope, rank;
};
KERNEL latent_rows(const LatentArgs a) {
    waitForRows();
    letNextBegin(); // not before queries are there: products of heads that follow do not wait for them
    i64 r = blockIdx.x;
    int lane = threadIdx.x % 32;
    int first = (blockIdx.y * blockDim.x + threadIdx.x) / 32, step = gridDim.y * blockDim.x / 32; // of the row's warps
    for (int h = first; h <= a.heads; h += step) {
        if (h < a.heads) {
            int to = h * (a.rank + 2 * a.rotation.pairs) + a.rank;
            rotateHead(a.rotation, a.q, r, h * (a.nope + 2 * a.rotation.pairs) + a.nope, 0, 0, [&](int d, float v) { put(a.wide, r, to + d, v); });
            continue;
        }
        int slot = a.slot[r];
        if (slot < 0)
            continue;
        const CacheLayer &c = a.cache;
        bf16 *to = blockOf(c, slot, a.pos[r]) + a.pos[r] % c.tokens * c.keyDim;
        float squares = 0;
        for (int i = lane; i < a.rank; i += 32) {
            float v = get(a.latent, r, i);
            squares = fmaf(v, v, squares);
        }
        float inv = rsqrtf(sumOfWarp(squares) / a.rank + a.eps);
        for (int i = lane; i < a.rank; i += 32)
            to[i] = toBF16(get(a.latent, r, i) * inv * a.gain[i]);
        rotateHead(a.rotation, a.latent, r, a.rank, 0, 0, [&](int d, float v) { to[a.rank + d] = toBF16(v); });
    }
}

// store_any stores keys and values in a cache of any type (kv.cuh). A warp takes a head's key or value. v.at is nil if
// there are no values. [rows, n] blocks, any n.
struct StoreAnyArgs {
    Rows k, v;
    CacheLayer cache;
    const int *pos, *slot;
    int type, unused;
};
KERNEL store_any(const StoreAnyArgs a) {
    letNextBegin();
    waitForRows();
    i64 r = blockIdx.x;
    const CacheLayer &c = a.cache;
    int lane = threadIdx.x % 32;
    int first = (blockIdx.y * blockDim.x + threadIdx.x) / 32, step = gridDim.y * blockDim.x / 32; // of the row's warps
    int slot = a.slot[r];
    if (slot < 0)
        return;
    u8 *block = (u8 *)blockOf(c, slot, a.pos[r]);
    int token = a.pos[r] % c.tokens, keyBytes = kvRowBytes(a.type, c.keyDim), valueBytes = kvRowBytes(a.type, c.valueDim);
    for (int n = first; n < (a.v.at ? 2 : 1) * c.heads; n += step) {
        bool value = n >= c.heads;
        int h = value ? n - c.heads : n, dim = value ? c.valueDim : c.keyDim;
        u8 *row = value ? block + (i64)c.heads * c.tokens * keyBytes + (i64)(h * c.tokens + token) * valueBytes
                        : block + (i64)(h * c.tokens + token) * keyBytes;
        for (int d = lane; d < (dim + 31) / 32 * 32; d += 32)
            kvPut(a.type, row, d, d < dim, d < dim ? get(value ? a.v : a.k, r, h * dim + d) : 0);
    }
}

// edit_tables sets entries of the tables. Of edits of the same entry the last one wins. One block.
struct EditArgs {
    int *tables;      // [groups, slots, stride]
    const int *edits; // [n, 4] of slot, group, entry, block
    int n, slots, stride;
};
KERNEL edit_tables(const EditArgs a) {
    letNextBegin();
    waitForRows();
    // Edits are made in rounds of a block's threads. Within a round, only the last edit of an entry is made.
    for (int first = 0; first < a.n; first += blockDim.x) {
        int i = first + threadIdx.x;
        if (i < a.n) {
            const int *e = a.edits + 4 * i;
            bool last = true;
            for (int j = i + 1; j < a.n && j < first + (int)blockDim.x; j++)
                last = last && !(a.edits[4 * j] == e[0] && a.edits[4 * j + 1] == e[1] && a.edits[4 * j + 2] == e[2]);
            if (last)
                a.tables[((i64)e[1] * a.slots + e[0]) * a.stride + e[2]] = e[3];
        }
        __syncthreads();
    }
}

// move_blocks copies blocks within the cache, or from or to a packed buffer, where a block's layers follow each other.
// No move of a launch reads what another one writes. [layers, n] blocks of 256 threads.
struct MoveArgs {
    u8 *const *base;           // [layers] where a layer's part of block 0 is
    const i64 *bytes, *offset; // [layers] of a layer's part of a block: its size, and where it is in a packed block
    u8 *packed;
    const int *moves;          // [n, 2] from and to: block numbers, or places in the packed buffer
    i64 packedBlock;           // bytes
    int fromPacked, toPacked;
};
KERNEL move_blocks(const MoveArgs a) {
    letNextBegin();
    waitForRows();
    int l = blockIdx.x;
    const int *m = a.moves + 2 * blockIdx.y;
    u8 *from = a.fromPacked ? a.packed + m[0] * a.packedBlock + a.offset[l] : a.base[l] + m[0] * a.bytes[l];
    u8 *to = a.toPacked ? a.packed + m[1] * a.packedBlock + a.offset[l] : a.base[l] + m[1] * a.bytes[l];
    for (i64 i = threadIdx.x * 16; i < a.bytes[l]; i += blockDim.x * 16)
        *(uint4 *)(to + i) = *(const uint4 *)(from + i);
}
