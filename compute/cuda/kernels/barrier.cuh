// Hopper's barriers in shared memory, which count arrivals and the bytes that copies bring, and its copies.
#pragma once
#include "common.cuh"

// TensorMap is a CUtensorMap: where boxes of a matrix lie.
struct alignas(64) TensorMap {
    u64 words[16];
};

__device__ __forceinline__ void barrierInit(u32 at, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(arrivals) : "memory");
}

// barrierExpect arrives, and lets the phase end only after so many bytes.
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

// barrierWait waits until the phase of a parity has ended.
__device__ __forceinline__ void barrierWait(u32 at, u32 parity) {
    asm volatile("{\n.reg .pred p;\nagain:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@!p bra again;\n}" ::"r"(at), "r"(parity)
                 : "memory");
}

__device__ __forceinline__ void clusterSync() {
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// fetch copies bytes to shared memory in the background; they count at the barrier.
__device__ __forceinline__ void fetch(u32 to, const void *from, int bytes, u32 barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), "l"(from),
                 "r"(bytes), "r"(barrier)
                 : "memory");
}

// fenceShared puts what the thread wrote to shared memory before what copies and tensor cores do there afterwards: they
// reach it on another way.
__device__ __forceinline__ void fenceShared() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
