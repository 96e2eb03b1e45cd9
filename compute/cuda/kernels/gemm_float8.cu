// Products of F8_E4M3 on Hopper: rows become F8_E4M3, too, and wgmma multiplies the two. FORMAT is FP8.
//
// A row's numbers are divided by a scale, 1/448 of the largest of the row, or of each 128 inputs where the weights
// have scales of such groups, and rounded to F8_E4M3. Tensor cores add up 128 inputs from zero, with few bits; those
// sums are added as float32, ascending, in ranges of inputs (rangesOf8), and the ranges' sums in order. So a row gives
// the same bits whichever kernel computes it, beside however many other rows.
//
// Weights come as they are stored, by bulk copies, and go from shared memory to registers, the operand A. What a lane
// has of a record are 16 bytes of outputs g and g+8 each; within 16 inputs, the four that it has count as 4t to 4t+3.
// Rows are written in that order: input 2t, 2t+1, 2t+8, 2t+9 for each t.
#include "barrier.cuh"
#include "gemm.cuh"

#define BLOCK 128 // inputs of a step: two records

struct Float8Args {
    GemmArgs a;
    const u8 *x;         // [inputs/128, padded, 128], 16 bytes of row r at place (their number in the row's 8) ^ r%8
    const float *scales; // [padded], or [inputs/128, padded]
    int padded;          // rows that there is room for, a multiple of 256
    int groups;          // 1: there is a scale for 128 inputs, of rows as of weights
};

__device__ __forceinline__ int rangesOf8(int blocks) { return blocks < 16 ? 1 : blocks < 32 ? 2 : blocks < 64 ? 4 : 8; }

// Rows of bfloat16 become F8_E4M3. [rows] blocks of a whole number of warps.
struct Float8RowsArgs {
    const bf16 *x; // [rows, ldx], at 16 bytes; numbers past in do not matter
    u8 *to;
    float *scales;
    int ldx, in, padded, groups;
};

// sixteen reads 16 inputs, zeros past the last, and returns the size of the largest.
__device__ __forceinline__ float sixteen(const Float8RowsArgs &a, int first, float (&v)[16]) {
    uint4 half[2] = {};
    if (first < a.in) {
        const uint4 *from = (const uint4 *)(a.x + (i64)blockIdx.x * a.ldx + first);
        half[0] = from[0], half[1] = from[1];
    }
    float most = 0;
#pragma unroll
    for (int i = 0; i < 16; i++) {
        const uint4 &h = half[i / 8];
        u32 word = i / 2 % 4 == 0 ? h.x : i / 2 % 4 == 1 ? h.y : i / 2 % 4 == 2 ? h.z : h.w;
        v[i] = first + i < a.in ? fromBF16((bf16)(word >> i % 2 * 16)) : 0.f;
        most = fmaxf(most, fabsf(v[i]));
    }
    return most;
}

// float8Of rounds two numbers to F8_E4M3; lo is the one at the lower address.
__device__ __forceinline__ u32 float8Of(float lo, float hi) {
    u16 r;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(r) : "f"(hi), "f"(lo));
    return r;
}

// putSixteen writes unit u of a row of 16 inputs each, times by.
__device__ __forceinline__ void putSixteen(u8 *to, int padded, int row, int u, const float (&v)[16], float by) {
    u32 words[4];
#pragma unroll
    for (int t = 0; t < 4; t++)
        words[t] = float8Of(v[2 * t] * by, v[2 * t + 1] * by) | float8Of(v[2 * t + 8] * by, v[2 * t + 9] * by) << 16;
    to += ((i64)(u / 8) * padded + row) * BLOCK + (u % 8 ^ row % 8) * 16;
    *(uint4 *)to = make_uint4(words[0], words[1], words[2], words[3]);
}

// mostOfBlock is the largest number of a block's threads, of whole warps; all get it. scratch holds 32 numbers.
__device__ __forceinline__ float mostOfBlock(float x, float *scratch) {
    for (int d = 16; d > 0; d /= 2)
        x = fmaxf(x, __shfl_xor_sync(~0u, x, d));
    __syncthreads(); // what was in scratch is read
    if (threadIdx.x % 32 == 0)
        scratch[threadIdx.x / 32] = x;
    __syncthreads();
    for (int w = 0; w < (int)blockDim.x / 32; w++)
        x = fmaxf(x, scratch[w]);
    return x;
}

// mostOfEight is the largest number of eight neighbouring lanes, which are all here.
__device__ __forceinline__ float mostOfEight(float x) {
    for (int d = 4; d > 0; d /= 2)
        x = fmaxf(x, __shfl_xor_sync(0xffu << (threadIdx.x & 24), x, d));
    return x;
}

#define LEAST 1e-30f // of what a scale is made from

KERNEL float8_rows(const Float8RowsArgs a) {
    __shared__ float scratch[32];
    int row = blockIdx.x, units = (a.in + BLOCK - 1) / BLOCK * 8;
    float v[16], most = LEAST;
    if (!a.groups) {
        for (int u = threadIdx.x; u < units; u += blockDim.x)
            most = fmaxf(most, sixteen(a, u * 16, v));
        most = mostOfBlock(most, scratch);
        if (threadIdx.x == 0)
            a.scales[row] = most / 448.f;
    }
    for (int u = threadIdx.x; u < units; u += blockDim.x) { // eight neighbours have 128 inputs
        float own = sixteen(a, u * 16, v);
        if (a.groups) {
            most = fmaxf(mostOfEight(own), LEAST);
            if (u % 8 == 0)
                a.scales[(i64)(u / 8) * a.padded + row] = most / 448.f;
        }
        putSixteen(a.to, a.padded, row, u, v, 448.f / most);
    }
}

// A row of float32, [rows, 16·k] at 16 bytes, is normalised as in norm_wide and becomes F8_E4M3. [rows] blocks of a
// thread for each 16 inputs.
struct Float8NormArgs {
    const float *x, *gain;
    u8 *to;
    float *scales;
    int ldx, in, padded, groups;
    float eps;
    int unused;
};
KERNEL __launch_bounds__(1024) float8_norm(const Float8NormArgs a) {
    __shared__ float scratch[33];
    int row = blockIdx.x, u = threadIdx.x;
    float4 x[4] = {}, gain[4] = {};
    if (u * 16 < a.in)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            x[i] = ((const float4 *)(a.x + (i64)row * a.ldx))[u * 4 + i];
            gain[i] = ((const float4 *)a.gain)[u * 4 + i];
        }
    float squares = 0, most = LEAST, v[16];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        squares = fmaf(x[i].x, x[i].x, squares);
        squares = fmaf(x[i].y, x[i].y, squares);
        squares = fmaf(x[i].z, x[i].z, squares);
        squares = fmaf(x[i].w, x[i].w, squares);
    }
    float inv = rsqrtf(sumOfBlock(squares, scratch) / a.in + a.eps);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        v[4 * i] = x[i].x * inv * gain[i].x, v[4 * i + 1] = x[i].y * inv * gain[i].y;
        v[4 * i + 2] = x[i].z * inv * gain[i].z, v[4 * i + 3] = x[i].w * inv * gain[i].w;
    }
#pragma unroll
    for (int i = 0; i < 16; i++)
        most = fmaxf(most, fabsf(v[i]));
    most = a.groups ? mostOfEight(most) : mostOfBlock(most, scratch);
    if (u >= (a.in + BLOCK - 1) / BLOCK * 8)
        return;
    if (a.groups ? u % 8 == 0 : u == 0)
        a.scales[a.groups ? (i64)(u / 8) * a.padded + row : row] = most / 448.f;
    putSixteen(a.to, a.padded, row, u, v, 448.f / most);
}

// Operands of wgmma: S0 to S3 name 16 sums each, of which D64 writes 64.
#define D4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define D8(i) D4(i), D4(i + 4)
#define D16(i) D8(i), D8(i + 8)
#define D32(i) D16(i), D16(i + 16)
#define D64(i) D32(i), D32(i + 32)
#define S0 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
#define S1 ",%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define S2 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47"
#define S3 ",%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define SUMS_64 D64(0)
#define WGMMA(N, SUMS, A, B, P, OUTPUTS)                                                                              \
    asm volatile("{\n.reg .pred p;\nsetp.eq.u32 p, " P ", 0;\n"                                                       \
                 "wgmma.mma_async.sync.aligned.m64n" N "k32.f32.e4m3.e4m3 {" SUMS "}, {" A "}, " B ", p, 1, 1;\n}"    \
                 : OUTPUTS                                                                                            \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((u32)fresh))

// wgmma adds A·B to d: A is a warpgroup's 64 by 32; B is 32 by N in shared memory, as N rows of 32 inputs. Of d,
// d[4j..4j+3] is what mma would have of columns 8j to 8j+7. fresh: d counts as zero.
template <int N> __device__ __forceinline__ void wgmma(float (&d)[N / 2], const u32 (&a)[4], u64 b, bool fresh) {
    if constexpr (N == 8)
        WGMMA("8", "%0,%1,%2,%3", "%4,%5,%6,%7", "%8", "%9", D4(0));
    else if constexpr (N == 16)
        WGMMA("16", "%0,%1,%2,%3,%4,%5,%6,%7", "%8,%9,%10,%11", "%12", "%13", D8(0));
    else if constexpr (N == 32)
        WGMMA("32", S0, "%16,%17,%18,%19", "%20", "%21", D16(0));
    else if constexpr (N == 64)
        WGMMA("64", S0 S1, "%32,%33,%34,%35", "%36", "%37", D32(0));
    else
        WGMMA("128", S0 S1 S2 S3, "%64,%65,%66,%67", "%68", "%69", SUMS_64);
}

// describe makes the descriptor of rows of 128 bytes in shared memory, whose 16-byte units are swizzled in groups of
// eight rows.
__device__ __forceinline__ u64 describe(u32 shared) {
    return (u64)(shared >> 4 & 0x3fff) | (u64)1 << 16 | (u64)(1024 >> 4) << 32 | (u64)1 << 62;
}

__device__ __forceinline__ void barrierOfGroup(int group) {
    asm volatile("bar.sync %0, 128;" ::"r"(1 + group) : "memory");
}

// clusterGet reads a number from the shared memory of block `rank` of the cluster, at its own address of it.
__device__ __forceinline__ float clusterGet(u32 at, int rank) {
    float v;
    asm volatile("{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %1, %2;\n"
                 "ld.shared::cluster.f32 %0, [there];\n}"
                 : "=f"(v)
                 : "r"(at), "r"(rank)
                 : "memory");
    return v;
}

// fetchAll copies bytes to the same place in all blocks of the cluster, and counts there.
template <int BLOCKS> __device__ __forceinline__ void fetchAll(u32 to, const void *from, int bytes, u32 barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(barrier), "h"((u16)((1 << BLOCKS) - 1))
                 : "memory");
}

// Ring says how a kernel cuts its shared memory: steps of N rows and the weights of TILES tiles, of 128 inputs each.
template <int N, int TILES, int STAGES> struct Ring {
    static constexpr int ROWS_BYTES = N * BLOCK, WEIGHT_BYTES = TILES * 2 * RECORD, SCALE_BYTES = N * 4;
    // From a multiple of 1024 on:
    static constexpr int WEIGHTS = STAGES * ROWS_BYTES, SCALES = WEIGHTS + STAGES * WEIGHT_BYTES;
    static constexpr int BARRIERS = SCALES + STAGES * SCALE_BYTES, END = BARRIERS + STAGES * 16; // full, then empty
};

// Place of a ring, and how often it went round.
struct Turn {
    int stage;
    u32 parity;
    template <int STAGES> __device__ __forceinline__ void next() {
        if (++stage == STAGES)
            stage = 0, parity ^= 1;
    }
};

// feed fetches blocks first to end-1 of the weights of tiles tile0 and on, and of N rows from row0 on. The OUT blocks of
// a cluster take different outputs of the same rows, and fetch a share of these for each other.
template <int N, int TILES, int STAGES, int OUT>
__device__ __forceinline__ void feed(const Float8Args &w, u32 base, int tile0, int row0, int first, int end, int rank, Turn &at) {
    using R = Ring<N, TILES, STAGES>;
    constexpr int SHARE = R::ROWS_BYTES / OUT;
    const GemmArgs &a = w.a;
    int lane = threadIdx.x % 32, steps = a.tilesIn / 4;
    Place own = placeOf(a, tile0 + lane % TILES);
    const u8 *from = a.p[max(own.product, 0)].w + (i64)(own.product < 0 ? 0 : own.tile) * steps * RECORD;
    for (int b = first; b < end; b++) {
        u32 full = base + R::BARRIERS + at.stage * 8;
        int bytes = min(2, steps - 2 * b) * RECORD;
        barrierWait(full + STAGES * 8, at.parity);
        if (lane == 0)
            barrierExpect(full, R::ROWS_BYTES + TILES * bytes + (w.groups ? R::SCALE_BYTES : 0));
        __syncwarp();
        if (lane < TILES)
            fetch(base + R::WEIGHTS + at.stage * R::WEIGHT_BYTES + lane * 2 * RECORD, from + (i64)b * 2 * RECORD, bytes, full);
        if (lane == TILES) {
            const u8 *rows = w.x + ((i64)b * w.padded + row0) * BLOCK + rank * SHARE;
            u32 to = base + at.stage * R::ROWS_BYTES + rank * SHARE;
            if (OUT > 1)
                fetchAll<OUT>(to, rows, SHARE, full);
            else
                fetch(to, rows, SHARE, full);
        }
        if (lane == TILES + 1 && w.groups)
            fetch(base + R::SCALES + at.stage * R::SCALE_BYTES, w.scales + (i64)b * w.padded + row0, R::SCALE_BYTES, full);
        at.next<STAGES>();
    }
}

// Operand is a warp's weights of 128 inputs, and the scales of outputs g and g+8.
struct Operand {
    u32 a[4][4];
    float scale[2];

    // there: the second record is, too.
    __device__ __forceinline__ void load(const u8 *records, int lane, bool there) {
#pragma unroll
        for (int k = 0; k < 4; k++) {
            uint4 v = make_uint4(0, 0, 0, 0);
            if (k < 2 || there)
                v = *(const uint4 *)(records + k / 2 * RECORD + k % 2 * 512 + lane * 16);
            a[k][0] = permute(v.x, v.y, 0x6420), a[k][1] = permute(v.x, v.y, 0x7531);
            a[k][2] = permute(v.z, v.w, 0x6420), a[k][3] = permute(v.z, v.w, 0x7531);
#pragma unroll
            for (int i = 0; i < 4; i++)
                asm volatile("" : "+r"(a[k][i])); // here and not later
        }
        u32 word = *(const u32 *)(records + 1024 + lane / 4 * 4);
        scale[0] = fromBF16((bf16)word), scale[1] = fromBF16((bf16)(word >> 16));
    }
};

// begin starts the products of 128 inputs.
template <int N> __device__ __forceinline__ void begin(float (&d)[N / 2], const Operand &o, u32 rows) {
    u64 at = describe(rows);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int k = 0; k < 4; k++)
        wgmma<N>(d, o.a[k], at + k * 2, k == 0);
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// end waits for them and adds them to sum, times scales of rows, if there are.
template <int N>
__device__ __forceinline__ void end(float (&sum)[N / 2], float (&d)[N / 2], const Operand &o, const float *scales, int lane) {
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
    for (int i = 0; i < N / 2; i++)
        asm volatile("" : "+f"(d[i])::"memory"); // not before wgmma is done
    if (!scales) {
#pragma unroll
        for (int i = 0; i < N / 2; i++)
            sum[i] = sum[i] + d[i];
        return;
    }
#pragma unroll
    for (int j = 0; j < N / 8; j++) {
        float2 s = *(const float2 *)(scales + j * 8 + lane % 4 * 2);
#pragma unroll
        for (int h = 0; h < 2; h++) {
            int i = j * 4 + h * 2;
            sum[i] = fmaf(d[i], o.scale[h] * s.x, sum[i]);
            sum[i + 1] = fmaf(d[i + 1], o.scale[h] * s.y, sum[i + 1]);
        }
    }
}

// Few rows: a block takes 64 outputs of N rows and one of RANGES ranges of inputs; the blocks of a cluster, which take
// the ranges of the same outputs, add their sums in order. Blocks: ranges, then rows/N, then outputs/64, the last two
// rounded up, of 160 threads.
template <int N, int RANGES, int STAGES> __device__ __forceinline__ void gemmRanges(const Float8Args &w) {
    using R = Ring<N, 4, STAGES>;
    constexpr int PITCH = 64 + 4;
    static_assert(N * PITCH * 4 <= R::SCALES, "sums take the place of rows and weights");
    const GemmArgs &a = w.a;
    extern __shared__ u8 unaligned[];
    __shared__ float weightScales[64];
    u32 base = sharedAddress(unaligned), skip = (1024 - base % 1024) % 1024;
    base += skip;
    u8 *shared = unaligned + skip;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, rank = blockIdx.x % RANGES;
    int rowBlocks = (a.rows + N - 1) / N, unit = blockIdx.x / RANGES, row0 = unit % rowBlocks * N, tile0 = unit / rowBlocks * 4;
    int steps = a.tilesIn / 4, blocks = (steps + 1) / 2, first = blocks * rank / RANGES, last = blocks * (rank + 1) / RANGES;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) {
            barrierInit(base + R::BARRIERS + s * 8, 1);
            barrierInit(base + R::BARRIERS + (STAGES + s) * 8, 4);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    if (warp == 4) {
        Turn at = {0, 1};
        feed<N, 4, STAGES, 1>(w, base, tile0, row0, first, last, 0, at);
    } else {
        Turn at = {0, 0};
        float sum[N / 2] = {}, d[N / 2];
        Operand o;
        for (int b = first; b < last; b++) {
            u32 full = base + R::BARRIERS + at.stage * 8;
            barrierWait(full, at.parity);
            o.load(shared + R::WEIGHTS + at.stage * R::WEIGHT_BYTES + warp * 2 * RECORD, lane, b * 2 + 1 < steps);
            begin<N>(d, o, base + at.stage * R::ROWS_BYTES);
            const float *scales = (const float *)(shared + R::SCALES + at.stage * R::SCALE_BYTES);
            end<N>(sum, d, o, w.groups ? scales : nullptr, lane);
            __syncwarp();
            if (lane == 0)
                barrierArrive(full + STAGES * 8);
            at.next<STAGES>();
        }
        barrierOfGroup(0); // all have read rows and weights
        float *to = (float *)shared + lane % 4 * 2 * PITCH + warp * 16 + lane / 4;
#pragma unroll
        for (int i = 0; i < N / 2; i++)
            to[(i / 4 * 8 + i % 2) * PITCH + i / 2 % 2 * 8] = sum[i];
        if (lane % 4 == 0)
            weightScales[warp * 16 + lane / 4] = o.scale[0], weightScales[warp * 16 + lane / 4 + 8] = o.scale[1];
        barrierOfGroup(0);
    }
    if (RANGES > 1)
        clusterSync();
    if (warp < 4) {
        bool gated = a.mode == GATED;
        int outs = gated ? 32 : 64, rows = min(N, a.rows - row0);
        auto total = [&](int row, int out) {
            u32 at = base + (row * PITCH + out) * 4;
            float part[RANGES];
#pragma unroll
            for (int r = 0; r < RANGES; r++)
                part[r] = clusterGet(at, RANGES > 1 ? r : 0);
            float sum = part[0];
#pragma unroll
            for (int r = 1; r < RANGES; r++)
                sum = sum + part[r];
            return w.groups ? sum : sum * weightScales[out] * w.scales[row0 + row];
        };
        for (int n = rank * 128 + threadIdx.x; n < rows * outs; n += RANGES * 128) {
            int row = n / outs, out = n % outs;
            if (gated)
                out = out / 16 * 32 + out % 16;
            Place at = placeOf(a, tile0 + out / 16);
            if (at.product >= 0)
                finish(a, at, out % 16, row0 + row, total(row, out), gated ? total(row, out + 16) : 0);
        }
    }
    if (RANGES > 1) // a block's sums stay until the others have read them; nothing else is told
        asm volatile("barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

// Many rows: a block takes 128 outputs of 128 rows, 64 of them a warpgroup; the blocks of a cluster take different
// outputs of the same rows, which each fetches half of. Blocks stay: each takes one part of the results after the other,
// and fetches ahead while it stores. Whole clusters of 384 threads.
constexpr int ROWS = 128, OUTS = 128, CLUSTER = 2, STAGES = 4, PITCH = OUTS + 4;
typedef Ring<ROWS, OUTS / 16, STAGES> Many;

// Part is what a block multiplies next: rows from row0 on and tiles of outputs from tile0 on.
struct Part {
    int row0, tile0;
};

// Parts are all parts of a product, for clusters.
struct Parts {
    int rowBlocks, outBlocks, count;

    __device__ __forceinline__ Parts(const GemmArgs &a) {
        int tiles = 0;
        for (int i = 0; i < a.products; i++)
            tiles += a.p[i].tiles;
        rowBlocks = (a.rows + ROWS - 1) / ROWS, outBlocks = (tiles * 16 + OUTS * CLUSTER - 1) / (OUTS * CLUSTER);
        count = rowBlocks * outBlocks;
    }

    // at returns part t, as far as it is a block's. Blocks of rows are taken in bands, so that those at work at a time
    // share both rows and weights in the cache.
    __device__ __forceinline__ Part at(int t, int rank) const {
        constexpr int BAND = 16;
        int band = t / (BAND * outBlocks), rows = min(BAND, rowBlocks - band * BAND), in = t - band * BAND * outBlocks;
        return {(band * BAND + in % rows) * ROWS, (in / rows * CLUSTER + rank) * (OUTS / 16)};
    }
};

// four is 4 results of neighbouring outputs.
struct alignas(16) four {
    float v[4];
};

// Column is where a thread stores: 4 outputs, of which it knows all but the row.
struct Column {
    int product, out, n; // n: how many of the 4 are there
    bool vector;         // the 4 can be stored at once
    four bias, upBias;

    __device__ __forceinline__ Column(const GemmArgs &a, int tile, int in) {
        Place at = placeOf(a, tile);
        product = max(at.product, 0), out = at.tile * 16 + in, n = at.product < 0 ? 0 : min(4, a.p[product].outs - out);
        const Product &p = a.p[product];
        vector = n == 4 && ((u64)p.dst.at | p.dst.ld * (p.dst.wide ? 4 : 2)) % (p.dst.wide ? 16 : 8) == 0;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            bias.v[i] = p.bias && i < n ? p.bias[out + i] : 0;
            upBias.v[i] = a.mode == GATED && a.p[1].bias && i < n ? a.p[1].bias[out + i] : 0;
        }
    }

    __device__ __forceinline__ void get(const Rows &dst, int row, four &x) const {
        if (vector && dst.wide) {
            x = *(const four *)((const float *)dst.at + (i64)row * dst.ld + out);
            return;
        }
#pragma unroll
        for (int i = 0; i < 4; i++)
            x.v[i] = i < n ? ::get(dst, row, out + i) : 0;
    }

    __device__ __forceinline__ void put(const Rows &dst, int row, const four &x) const {
        if (vector && dst.wide)
            *(four *)((float *)dst.at + (i64)row * dst.ld + out) = x;
        else if (vector)
            *(uint2 *)((bf16 *)dst.at + (i64)row * dst.ld + out) = make_uint2(packBF16(x.v[0], x.v[1]), packBF16(x.v[2], x.v[3]));
        else
#pragma unroll
            for (int i = 0; i < 4; i++)
                if (i < n)
                    ::put(dst, row, out + i, x.v[i]);
    }
};

// store makes the sums of a warpgroup's outputs results and stores them: a thread the same 4 outputs of every eighth
// row, or sixteenth where half of the outputs are a gate's.
template <bool GATE> __device__ __forceinline__ void store(const Float8Args &w, Part part, const float *sums, int group, int thread) {
    const GemmArgs &a = w.a;
    constexpr int UNITS = GATE ? 8 : 16, EACH = 128 / UNITS, AHEAD = 4; // rows that are read before they are needed
    int unit = thread % UNITS, first = thread / UNITS, from = group * 64 + (GATE ? unit / 4 * 32 + unit % 4 * 4 : unit * 4);
    Column at(a, part.tile0 + from / 16, from % 16);
    const Rows &dst = a.p[at.product].dst;
    bool bias = a.p[at.product].bias, upBias = a.p[1].bias;
#pragma unroll 1
    for (int row0 = first; row0 < min(ROWS, a.rows - part.row0); row0 += EACH * AHEAD) {
        four old[AHEAD];
        float scale[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            int row = part.row0 + row0 + i * EACH;
            if (row >= a.rows)
                continue;
            scale[i] = w.groups ? 1.f : w.scales[row];
            if (!GATE && a.mode == ADD)
                at.get(dst, row, old[i]);
        }
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            int row = part.row0 + row0 + i * EACH;
            if (row >= a.rows)
                continue;
            const float *sum = sums + (row0 + i * EACH) * PITCH + from;
            four x = *(const four *)sum, up;
            if (GATE)
                up = *(const four *)(sum + 16);
#pragma unroll
            for (int j = 0; j < 4; j++) {
                x.v[j] = x.v[j] * scale[i];
                if (bias)
                    x.v[j] = x.v[j] + at.bias.v[j];
                if (GATE) {
                    up.v[j] = up.v[j] * scale[i];
                    if (upBias)
                        up.v[j] = up.v[j] + at.upBias.v[j];
                    x.v[j] = activate(a.act, x.v[j], up.v[j]);
                    continue;
                }
                x.v[j] = x.v[j] * a.scale;
                if (a.softcap > 0)
                    x.v[j] = a.softcap * tanhf(x.v[j] / a.softcap);
                if (a.mode == ADD)
                    x.v[j] = old[i].v[j] + x.v[j];
            }
            at.put(dst, row, x);
        }
    }
}

// multiply is the work of the warpgroups that multiply.
__device__ __forceinline__ void multiply(const Float8Args &w, u8 *shared, u32 base, const Parts &parts, int rank) {
    const GemmArgs &a = w.a;
    int thread = threadIdx.x % 128, group = threadIdx.x / 128, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int steps = a.tilesIn / 4, blocks = (steps + 1) / 2, ranges = rangesOf8(blocks);
    Turn at = {0, 0};
    float *sums = (float *)(shared + Many::END); // [ROWS][PITCH]
    float *to = sums + lane % 4 * 2 * PITCH + warp * 16 + lane / 4;
    float sum[ROWS / 2], d[ROWS / 2];
    Operand now, next;
    auto load = [&](Operand &o, int b) {
        barrierWait(base + Many::BARRIERS + at.stage * 8, at.parity);
        o.load(shared + Many::WEIGHTS + at.stage * Many::WEIGHT_BYTES + warp * 2 * RECORD, lane, b * 2 + 1 < steps);
    };
    for (int t = blockIdx.x / CLUSTER; t < parts.count; t += gridDim.x / CLUSTER) {
        load(now, 0);
        int b = 0;
#pragma unroll 1
        for (int range = 0; range < ranges; range++) {
            int border = blocks * (range + 1) / ranges;
#pragma unroll
            for (int i = 0; i < ROWS / 2; i++)
                sum[i] = 0;
#pragma unroll 1
            while (b < border) {
                int stage = at.stage;
                begin<ROWS>(d, now, base + stage * Many::ROWS_BYTES);
                at.next<STAGES>();
                if (++b < blocks)
                    load(next, b);
                const float *scales = (const float *)(shared + Many::SCALES + stage * Many::SCALE_BYTES);
                end<ROWS>(sum, d, now, w.groups ? scales : nullptr, lane);
                __syncwarp();
                if (lane < CLUSTER)
                    barrierArrive(base + Many::BARRIERS + (STAGES + stage) * 8, lane);
                if (b == blocks)
                    break;
                now = next;
            }
#pragma unroll
            for (int i = 0; i < ROWS / 2; i++) {
                float &total = to[(i / 4 * 8 + i % 2) * PITCH + i / 2 % 2 * 8];
                float v = range == 0 ? sum[i] : total + sum[i];
                total = range < ranges - 1 || w.groups ? v : v * now.scale[i / 2 % 2];
            }
        }
        barrierOfGroup(group);
        Part part = parts.at(t, rank);
        if (a.mode == GATED)
            store<true>(w, part, sums, group, thread);
        else
            store<false>(w, part, sums, group, thread);
        barrierOfGroup(group);
    }
}

__device__ __forceinline__ void gemmMany(const Float8Args &w) {
    extern __shared__ u8 unaligned[];
    u32 base = sharedAddress(unaligned), skip = (1024 - base % 1024) % 1024;
    base += skip;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) {
            barrierInit(base + Many::BARRIERS + s * 8, 1);
            barrierInit(base + Many::BARRIERS + (STAGES + s) * 8, CLUSTER * 8);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    clusterSync();
    Parts parts(w.a);
    int rank = blockIdx.x % CLUSTER;
    if (threadIdx.x >= 256) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x < 288) {
            Turn at = {0, 1};
            for (int t = blockIdx.x / CLUSTER; t < parts.count; t += gridDim.x / CLUSTER) {
                Part part = parts.at(t, rank);
                feed<ROWS, OUTS / 16, STAGES, CLUSTER>(w, base, part.tile0, part.row0, 0, (w.a.tilesIn / 4 + 1) / 2, rank, at);
            }
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        multiply(w, unaligned + skip, base, parts, rank);
    }
    clusterSync(); // a block's memory stays until the others copy nothing to it
}

KERNEL __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(384, 1) gemm_float8_many(const __grid_constant__ Float8Args w) { gemmMany(w); }

#define FEW(N, RANGES, STAGES, RESIDENT)                                                                               \
    KERNEL __cluster_dims__(RANGES, 1, 1) __launch_bounds__(160, RESIDENT)                                             \
        gemm_float8_##N##_##RANGES(const __grid_constant__ Float8Args w) {                                             \
        gemmRanges<N, RANGES, STAGES>(w);                                                                              \
    }
#define FEW_ROWS(N, STAGES, RESIDENT)                                                                                  \
    FEW(N, 1, STAGES, RESIDENT) FEW(N, 2, STAGES, RESIDENT) FEW(N, 4, STAGES, RESIDENT) FEW(N, 8, STAGES, RESIDENT)
FEW_ROWS(8, 7, 3)
FEW_ROWS(16, 6, 3)
FEW_ROWS(32, 5, 3)
FEW_ROWS(64, 6, 2)
FEW_ROWS(128, 4, 2)
