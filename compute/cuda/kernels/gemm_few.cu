// Products of up to 16 rows: a stream of weights. A warp takes one tile of 16 outputs, or a gate's and an up's, and
// one range of inputs, through a ring of STAGES parts of 128 inputs in shared memory of its own, which copies in the
// background fill ahead: what counts is how many bytes are on their way at any time.
#include "gemm.cuh"

#define PART (2 * RECORD)     // bytes of a part's weights of one tile
#define PITCH (128 * 2 + 16) // and from one of its rows to the next

// rows is 8·COLS at most. [tiles/TILES] blocks of a warp for each range. Dynamic shared memory:
// ranges·STAGES·(TILES·PART + COLS·8·PITCH).
template <int COLS, int TILES, int STAGES> __device__ __forceinline__ void gemmFew(const GemmArgs &a) {
    extern __shared__ __align__(128) u8 shared[];
    constexpr int WEIGHTS = TILES * PART, STAGE = WEIGHTS + COLS * 8 * PITCH;
    int lane = threadIdx.x % 32, range = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    int first = rangeStart(a.tilesIn / 4, a.ranges, range), end = rangeStart(a.tilesIn / 4, a.ranges, range + 1); // steps of 64 inputs
    int parts = (end - first + 1) / 2;
    u8 *ring = shared + range * STAGES * STAGE;
    // What a lane copies next, and to where: bytes of each tile's weights, and of two rows one of 16 units of 16
    // bytes; of every second row after them, the same. Both are zeros past the last input.
    Place at[TILES];
    const u8 *w[TILES];
#pragma unroll
    for (int i = 0; i < TILES; i++) {
        at[i] = placeOf(a, blockIdx.x * TILES + i);
        w[i] = a.p[at[i].product].w + ((i64)at[i].tile * (a.tilesIn / 4) + first) * RECORD + lane * 16;
    }
    const bf16 *x = a.x + (i64)(lane / 16) * a.ldx + first * 64 + lane % 16 * 8;
    int bytesLeft = (end - first) * RECORD - lane * 16, unitsLeft = (end - first) * 8 - lane % 16;
    u32 base = sharedAddress(ring) + lane * 16, to = base, toRows = WEIGHTS + lane / 16 * PITCH + lane % 16 * 16 - lane * 16;
    auto loadWeights = [&](u32 to, int bytesLeft) {
#pragma unroll
        for (int j = 0; j < (PART + 511) / 512; j++)
            if (PART % 512 == 0 || j < PART / 512 || lane < PART % 512 / 16)
#pragma unroll
                for (int i = 0; i < TILES; i++)
                    copy16(to + i * PART + j * 512, w[i] + j * 512, j * 512 < bytesLeft);
#pragma unroll
        for (int i = 0; i < TILES; i++)
            w[i] += PART;
    };
    auto load = [&](bool more, bool withWeights) {
        if (more) {
            if (withWeights)
                loadWeights(to, bytesLeft);
            // Other warps of the multiprocessor read the rows too. What is in rows that are not there matters to
            // no other row.
#pragma unroll
            for (int i = 0; i < COLS * 4; i++)
                if (i * 2 < a.rows)
                    copy16Shared(to + toRows + i * 2 * PITCH, x + (i64)i * 2 * a.ldx, unitsLeft > 0);
            x += 128, bytesLeft -= PART, unitsLeft -= 16;
            to = to == base + (STAGES - 1) * STAGE ? base : to + STAGE;
        }
        copyCommit();
    };
    float d[TILES][COLS][4] = {};
    Weights<FORMAT> own[TILES];
    // Weights are copied while the kernel before still makes the rows.
    for (int s = 0; s < STAGES - 1; s++)
        if (s < parts)
            loadWeights(base + s * STAGE, bytesLeft - s * PART);
    waitForRows();
    for (int s = 0; s < STAGES - 1; s++)
        load(s < parts, false);
    for (int s = 0; s < parts; s++) {
        copyWait<STAGES - 2>();
        __syncwarp();
        if (s + STAGES - 1 >= parts) // all copies are under way: earlier, the next kernel's would take their turn
            letNextBegin();
        load(s + STAGES - 1 < parts, true);
        const u8 *stage = ring + s % STAGES * STAGE;
#pragma unroll
        for (int k = 0; k < 8; k++) {
            if (k % 4 == 0)
#pragma unroll
                for (int i = 0; i < TILES; i++)
                    own[i].template load<false>(stage + i * PART + k / 4 * RECORD, lane);
            u32 x[COLS][2];
#pragma unroll
            for (int c = 0; c < COLS; c++) {
                const u8 *from = stage + WEIGHTS + (c * 8 + g) * PITCH + k * 32 + t * 4;
                x[c][0] = *(const u32 *)from;
                x[c][1] = *(const u32 *)(from + 16);
            }
#pragma unroll
            for (int i = 0; i < TILES; i++) {
                u32 wf[4];
                own[i].tile(k % 4, wf);
#pragma unroll
                for (int c = 0; c < COLS; c++)
                    mma(d[i][c], wf, x[c][0], x[c][1]);
            }
        }
        __syncwarp();
    }
    // The ranges' sums are added through shared memory: [ranges][values of a lane][32 lanes].
    constexpr int VALUES = TILES * COLS * 4;
    float *sums = (float *)shared, *all = &d[0][0][0];
    copyWait<0>();
    __syncthreads();
#pragma unroll
    for (int i = 0; i < VALUES; i++)
        sums[(range * VALUES + i) * 32 + lane] = all[i];
    __syncthreads();
#pragma unroll 1
    for (int n = threadIdx.x; n < 16 * a.rows; n += blockDim.x) {
        int out = n % 16, row = n / 16, of = row / 8 * 128 + out / 8 * 64 + row % 2 * 32 + out % 8 * 4 + row % 8 / 2;
        float sum = 0, up = 0;
        for (int r = 0; r < (int)blockDim.x / 32; r++) {
            sum = sum + sums[r * VALUES * 32 + of];
            up = up + sums[(r * VALUES + (TILES - 1) * COLS * 4) * 32 + of];
        }
        finish(a, at[0], out, row, sum, up);
    }
}

// Small parts need fewer of them under way, and leave room for more warps.
#define STAGES_OF(N) (FORMAT == BF16 ? N : 4)
KERNEL gemm_8(const GemmArgs a) { gemmFew<1, 1, STAGES_OF(6)>(a); }
KERNEL gemm_8_gated(const GemmArgs a) { gemmFew<1, 2, STAGES_OF(4)>(a); }
KERNEL gemm_16(const GemmArgs a) { gemmFew<2, 1, STAGES_OF(5)>(a); }
KERNEL gemm_16_gated(const GemmArgs a) { gemmFew<2, 2, STAGES_OF(4)>(a); }
