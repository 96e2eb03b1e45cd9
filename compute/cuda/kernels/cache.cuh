// Where the paged cache has a layer's keys and values. In a block, a layer has keys, [KV heads, block tokens, key size],
// and then values, likewise, of the cache's type.
#pragma once
#include "common.cuh"

// CacheLayer is where a layer keeps its keys and values.
struct CacheLayer {
    bf16 *at;
    const int *table; // [slots, stride] of the layer's group
    i64 block;        // numbers from one block to the next
    int stride, tokens, heads, keyDim, valueDim;
};

// blockOf is where a layer's part of the block begins that has a position of a slot.
__device__ __forceinline__ bf16 *blockOf(const CacheLayer &c, int slot, int pos) {
    return c.at + c.block * c.table[(i64)slot * c.stride + pos / c.tokens];
}
