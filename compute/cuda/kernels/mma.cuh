// The tensor cores' instructions of compute capability 8.0, and copies to shared memory that do not wait.
#pragma once
#include "common.cuh"

// mma adds A·B to d: A is 16 by 16, B 16 by 8, both bfloat16. Lane 4g+t holds:
//
//     of A  row g in a0 and a2, row g+8 in a1 and a3: columns 2t and 2t+1 in a0 and a1, 8 further in a2 and a3
//     of B  column g: rows 2t and 2t+1 in b0, 8 further in b1
//     of d  row g in d0 and d1, row g+8 in d2 and d3: columns 2t and 2t+1
//
// In kernels of products A is 16 outputs by 16 inputs of the weights, B 16 inputs by 8 rows of activations.
__device__ __forceinline__ void mma(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// fma2 is a·b + c of two bfloat16 numbers each, rounded once.
__device__ __forceinline__ u32 fma2(u32 a, u32 b, u32 c) {
    u32 r;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
    return r;
}

// masked is x & mask | with, in one instruction.
__device__ __forceinline__ u32 masked(u32 x, u32 mask, u32 with) {
    u32 r;
    asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(r) : "r"(x), "r"(mask), "r"(with));
    return r;
}

// permute makes a word of bytes of lo (numbers 0 to 3) and hi (4 to 7): hex digit i of sel names byte i. A digit of 8
// or more gives the top bit of byte digit-8 in all bits.
__device__ __forceinline__ u32 permute(u32 lo, u32 hi, u32 sel) {
    u32 r;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(lo), "r"(hi), "r"(sel));
    return r;
}

// ldmatrix loads four matrices of 8 by 8 numbers of 16 bits. Lane i gives the address of row i%8 of matrix i/8; lane
// 4g+t gets numbers 2t and 2t+1 of row g of each matrix. ldmatrixT gives it number g of rows 2t and 2t+1.
__device__ __forceinline__ void ldmatrix(u32 (&r)[4], u32 shared) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared)
                 : "memory");
}

__device__ __forceinline__ void ldmatrixT(u32 (&r)[4], u32 shared) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared)
                 : "memory");
}

__device__ __forceinline__ u32 sharedAddress(const void *p) { return (u32)__cvta_generic_to_shared(p); }

// copy16 copies 16 bytes to shared memory in the background, or zeros where there is nothing to read.
__device__ __forceinline__ void copy16(u32 shared, const void *from, bool there) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(from), "r"(there ? 16 : 0) : "memory");
}

// copy16Once is copy16 of what is not read again before long (readOnce of barrier.cuh). The policy is the number that
// createpolicy makes for that: one that is in a register is moved for each copy. `shared` differs by lane: of an address
// that a warp's lanes share in part, the assembler of 13.0 makes an instruction that names registers which nothing sets.
__device__ __forceinline__ void copy16Once(u32 shared, const void *from, bool there) {
#if __CUDA_ARCH__ >= 900
    asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2, %3;" ::"r"(shared), "l"(from), "r"(there ? 16 : 0),
                 "l"(0x12f0000000000000ull)
                 : "memory");
#else
    copy16(shared, from, there);
#endif
}

// copy16Shared is copy16 for what other warps of the multiprocessor read at about the same time: it goes through the
// multiprocessor's own cache.
__device__ __forceinline__ void copy16Shared(u32 shared, const void *from, bool there) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(from), "r"(there ? 16 : 0) : "memory");
}

__device__ __forceinline__ void copyCommit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// copyWait waits until all groups of copies are done but the last n.
template <int n> __device__ __forceinline__ void copyWait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory");
}

