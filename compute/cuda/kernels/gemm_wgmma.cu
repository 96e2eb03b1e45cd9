// Products of many rows on Hopper, with wgmma. Weights go straight from memory to registers, in the order that they
// are stored in; rows go through shared memory, which copies in the background fill some steps of 64
// inputs ahead.
#include "gemm.cuh"

#define OUTS 128
#define ROWS 256
#define DEPTH 64
#define STAGE (ROWS * DEPTH * 2)
#define RING 4 // steps whose weights a warp has in registers: two on their way, one at work, one that is read

// wgmma adds A·B to d: A is a warpgroup's 64 by 16, of which a warp has 16 rows as for mma; B is 16 by 256 in
// shared memory, as 256 rows of 16 inputs. Of d, d[4j..4j+3] is what mma would have of columns 8j to 8j+7. fresh: d
// counts as zero.
__device__ __forceinline__ void wgmma(float (&d)[128], const u32 (&a)[4], u64 b, bool fresh) {
    asm volatile("{\n.reg .pred p;\nsetp.eq.u32 p, %133, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
                 "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
                 "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
                 "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
                 "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
                 "}, {%128, %129, %130, %131}, %132, p, 1, 1, 0;\n}\n"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),
                   "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
                   "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]),
                   "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
                   "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),
                   "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]),
                   "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]),
                   "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
                   "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]),
                   "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]),
                   "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]), "+f"(d[64]), "+f"(d[65]),
                   "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]),
                   "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]),
                   "+f"(d[78]), "+f"(d[79]), "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]),
                   "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87]), "+f"(d[88]), "+f"(d[89]),
                   "+f"(d[90]), "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95]),
                   "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99]), "+f"(d[100]), "+f"(d[101]),
                   "+f"(d[102]), "+f"(d[103]), "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107]),
                   "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111]), "+f"(d[112]), "+f"(d[113]),
                   "+f"(d[114]), "+f"(d[115]), "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119]),
                   "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123]), "+f"(d[124]), "+f"(d[125]),
                   "+f"(d[126]), "+f"(d[127])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((u32)fresh));
}

// describe makes the descriptor of a matrix of rows of 128 bytes in shared memory, whose 16-byte units are swizzled
// in groups of eight rows.
__device__ __forceinline__ u64 describe(u32 shared) {
    return (u64)(shared >> 4 & 0x3fff) | (u64)1 << 16 | (u64)(1024 >> 4) << 32 | (u64)1 << 62;
}

// 256 threads: two warpgroups of 64 outputs by 256 rows. Inputs are a multiple of 256. SUMS says that there are
// several ranges, whose sums are kept in shared memory meanwhile. Dynamic shared memory: 1024 bytes to align the
// rest; STAGES·STAGE; and ROWS·OUTS·4 with SUMS.
template <int STAGES, bool SUMS> __device__ __forceinline__ void gemmWarpgroups(const GemmArgs &a) {
    constexpr int GROUP = 8;
    extern __shared__ u8 unaligned[];
    u8 *shared = (u8 *)(((u64)unaligned + 1023) & ~(u64)1023);
    int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;

    int rowBlocks = (a.rows + ROWS - 1) / ROWS, outBlocks = gridDim.x / rowBlocks;
    int band = blockIdx.x / (GROUP * outBlocks), bandRows = min(GROUP, rowBlocks - band * GROUP);
    int inBand = blockIdx.x - band * GROUP * outBlocks;
    int row0 = (band * GROUP + inBand % bandRows) * ROWS, tile0 = inBand / bandRows * (OUTS / 16);

    int steps = a.tilesIn / 4;
    Place own = placeOf(a, tile0 + warp);
    const u8 *w = a.p[max(own.product, 0)].w + (i64)(own.product < 0 ? 0 : own.tile) * steps * RECORD;
    const bf16 *x = a.x + (i64)(row0 + thread / 8) * a.ldx + thread % 8 * 8;
    u32 base = sharedAddress(shared), to = thread / 8 * 128 + ((thread % 8) ^ (thread / 8 % 8)) * 16;
    auto load = [&](int step) {
        u32 stage = base + step % STAGES * STAGE + to;
        if (step < steps)
#pragma unroll
            for (int i = 0; i < ROWS / 32; i++)
                copy16(stage + i * 4096, x + (i64)i * 32 * a.ldx + step * DEPTH, true);
        copyCommit();
    };
    Weights<FORMAT> ahead[RING];
    u32 wf[RING][4][4]; // what wgmma reads; of BF16 the same registers
    auto loadWeights = [&](int ring, int step) { ahead[ring].template load<true>(w + min(step, steps - 1) * RECORD, lane); };

    // Sums of ranges, [ROWS][OUTS], with the outputs in another order for each two rows, so that the banks differ.
    float *sums = (float *)(shared + (SUMS ? STAGES * STAGE : 0));
    auto sumAt = [&](int row, int out) { return row * OUTS + (out ^ (row / 2 % 4 * 8)); };
    float d[128];
    float *mine[2]; // where a lane's first sums are: of its two outputs, whose order is the same in all of its rows
#pragma unroll
    for (int i = 0; i < 2; i++)
        mine[i] = sums + sumAt(lane % 4 * 2, warp * 16 + lane / 4 + i * 8);
    auto keep = [&](bool fresh) {
#pragma unroll
        for (int i = 0; i < 128; i++) {
            asm volatile("" : "+f"(d[i])::"memory"); // not before wgmma is done
            float *to = mine[i / 2 % 2] + (i / 4 * 8 + i % 2) * OUTS;
            *to = (fresh ? 0.f : *to) + d[i];
        }
    };
    for (int s = 0; s < STAGES - 2; s++)
        load(s);
    loadWeights(0, 0);
    loadWeights(1, 1);
    // A step's weights are made of codes while the step before is at work; then it has to be done, because the
    // compiler keeps wgmma from running beside what makes its registers. Stored weights need not be made, and two
    // steps are at work.
    constexpr int AT_WORK = FORMAT == BF16 ? 1 : 0;
    auto step = [&](int s, int ring, bool fresh) {
#pragma unroll
        for (int k = 0; k < 4; k++) {
            ahead[ring].tile(k, wf[ring][k]);
#pragma unroll
            for (int i = 0; i < 4 && FORMAT != BF16; i++)
                asm volatile("" : "+r"(wf[ring][k][i])); // here and not later
        }
        asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(AT_WORK) : "memory"); // the one before has read its rows
        copyWait<STAGES - 3>();
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncthreads();
        load(s + STAGES - 2);
        loadWeights((ring + 2) % RING, s + 2);
        u64 rows = describe(base + s % STAGES * STAGE);
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int k = 0; k < 4; k++)
            wgmma(d, wf[ring][k], rows + k * 2, fresh && k == 0);
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    };
    int ranges = SUMS ? rangesOf(steps) : 1;
    for (int range = 0, s = 0; range < ranges; range++) {
        int begin = s, end = rangeStart(steps, range + 1);
#pragma unroll 1
        for (; s < end; s += RING)
#pragma unroll
            for (int i = 0; i < RING; i++)
                step(s + i, i, s == begin && i == 0); // each range's chain starts from zero
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
        if (!SUMS)
            break;
        keep(range == 0);
    }
    copyWait<0>();
    __syncthreads();
    if (!SUMS)
        keep(true); // so that neighbouring threads store neighbouring outputs
    __syncthreads();
    int out = thread % OUTS;
    Place at = placeOf(a, tile0 + out / 16);
    if (at.product < 0 || a.mode == GATED && at.product == 1)
        return;
    for (int row = thread / OUTS; row < ROWS; row += 256 / OUTS)
        finish(a, at, out % 16, row0 + row, sums[sumAt(row, out)], a.mode == GATED ? sums[sumAt(row, out + 16)] : 0);
}

KERNEL __launch_bounds__(256, 1) gemm_wgmma(const GemmArgs a) { gemmWarpgroups<6, false>(a); }
KERNEL __launch_bounds__(256, 1) gemm_wgmma_long(const GemmArgs a) { gemmWarpgroups<3, true>(a); }
