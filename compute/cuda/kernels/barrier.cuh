// Hopper's barriers in shared memory (mbarrier), which count arrivals and the bytes that copies bring, and its copies
// in the background. Addresses are of shared memory, as u32.
//
// A barrier has phases. One ends when as many have arrived as it was initialised with, and all expected bytes are
// there. Who waits names the parity of the phase: 0 for the first. A wait for parity 1 returns at once on a new
// barrier, so a producer of a ring of stages starts with parity 1, its consumer with parity 0.
#pragma once
#include "common.cuh"

#define MOST_SHARED 232448 // bytes of shared memory that a block can have: 227 KB

// Cursor is a position in a ring of N stages, each guarded by barriers: a stage, and the parity to wait for.
template <int N> struct Cursor {
    int stage;
    u32 parity;

    __device__ __forceinline__ void next() {
        if (++stage == N)
            stage = 0, parity ^= 1;
    }
};

// TensorMap is a CUtensorMap: it tells the copy engine where boxes of a matrix lie.
struct alignas(64) TensorMap {
    u64 words[16];
};

__device__ __forceinline__ void barrierInit(u32 at, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(arrivals) : "memory");
}

// barriersReady makes barriers that the thread has initialised known to copies and to other blocks of the cluster.
__device__ __forceinline__ void barriersReady() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

// barrierExpect arrives, and lets the phase end only after so many bytes more.
__device__ __forceinline__ void barrierExpect(u32 at, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at), "r"(bytes) : "memory");
}

// barrierArrive arrives at a barrier of this block.
__device__ __forceinline__ void barrierArrive(u32 at) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at) : "memory");
}

// barrierArrive arrives at a barrier of block `rank` of the cluster.
__device__ __forceinline__ void barrierArrive(u32 at, int rank) {
    asm volatile("{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [there];\n}" ::"r"(at), "r"(rank)
                 : "memory");
}

// barrierArriveCopied has the thread arrive when its copies so far (cp.async) are there.
__device__ __forceinline__ void barrierArriveCopied(u32 at) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(at) : "memory");
}

// barrierWait waits until the phase of this parity has ended.
__device__ __forceinline__ void barrierWait(u32 at, u32 parity) {
    asm volatile("{\n.reg .pred p;\nagain:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@!p bra again;\n}" ::"r"(at), "r"(parity)
                 : "memory");
}

// clusterSync waits for all threads of the cluster.
__device__ __forceinline__ void clusterSync() {
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// fetch copies bytes, a multiple of 16, to shared memory in the background; they count at the barrier.
__device__ __forceinline__ void fetch(u32 to, const void *from, int bytes, u32 barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), "l"(from),
                 "r"(bytes), "r"(barrier)
                 : "memory");
}

// readOnce is for fetch of what is not read again before long: the second-level cache gives it up first, and keeps what
// every step reads, among it the kernels' own instructions. readAgain is for what other blocks read soon.
__device__ __forceinline__ u64 readOnce() {
    u64 policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0;" : "=l"(policy));
    return policy;
}
__device__ __forceinline__ u64 readAgain() {
    u64 policy;
    asm("createpolicy.fractional.L2::evict_normal.b64 %0;" : "=l"(policy));
    return policy;
}

// fetch as above, with one of these.
__device__ __forceinline__ void fetch(u32 to, const void *from, int bytes, u32 barrier, u64 policy) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(barrier), "l"(policy)
                 : "memory");
}

// fenceShared makes what the thread wrote to shared memory visible to copies and tensor cores that come later: they
// reach it by another path (the async proxy).
__device__ __forceinline__ void fenceShared() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
