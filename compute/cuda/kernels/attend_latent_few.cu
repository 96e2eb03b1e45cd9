// Latent attention of few rows on Hopper, with wgmma, of the sizes of attend_latent.cu, whose bits it gives. Blocks of
// the cache have a multiple of 16 positions.
//
// A block has some chunks of 16 heads of a row (LatentCut). It joins them if it has the first one; those that come after
// them are joined by attend_latent_join. Of its warpgroups one computes the weights of one chunk after the other
// (weighShares); two multiply values and weights, each every other panel of values (sumShares); the fourth fetches units
// (feed). In the products of both, heads are the columns; positions, and numbers of a value, are the rows.
#include "latent.cuh"

#define SLOTS 8                     // units in shared memory
#define PARTIAL (16 * (VALUES + 2)) // floats that a chunk gives

// In shared memory, from its first multiple of 1024 on: units, queries, the weights of two chunks, scores, the factors
// that two chunks are joined with, and barriers.
enum : u32 {
    QUERIES = SLOTS * UNIT,
    WEIGHTS = QUERIES + PANELS * 16 * 128,
    SCORES = WEIGHTS + 2 * 16 * 128,
    FACTORS = SCORES + 16 * 68 * 4,
    FULL = FACTORS + 2 * 16 * 8,
    EMPTY = FULL + SLOTS * 8,
    WEIGHTS_FULL = EMPTY + SLOTS * 8,
    WEIGHTS_EMPTY = WEIGHTS_FULL + 2 * 8,
};

// multiply begins to add A·B to d, both in shared memory: A, 64 by 16, as 64 rows of 16 or, if ACROSS, as 16 rows of 64
// (its columns); B, 16 by 16, as 16 rows of 16, its columns. fresh: d counts as zero.
template <int ACROSS> __device__ __forceinline__ void multiply(float (&d)[2][4], u64 a, u64 b, bool fresh) {
    asm volatile("{\n.reg .pred p;\nsetp.eq.u32 p, %10, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7}, %8, %9, p, 1, 1, %11, 0;\n}\n"
                 : "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[0][2]), "+f"(d[0][3]), "+f"(d[1][0]), "+f"(d[1][1]), "+f"(d[1][2]), "+f"(d[1][3])
                 : "l"(a), "l"(b), "r"((u32)fresh), "n"(ACROSS));
}

// Share is a block's next chunks: `count` of the n chunks of 16 heads, `head` and on, of few row i, from number `from`
// on. The row's chunks begin at `begin` among those of all rows. x is the number of the first chunk (LatentCut), and
// the block's end at `last`. whole: it is not cut; joins: the block joins these chunks.
struct Share {
    int i, begin, row, slot, until, head, n, from, count, x, last;
    bool whole, joins;

    // partial is where the block leaves what a chunk of the share gives, or all that it joined: PARTIAL floats, [VALUES,
    // 16 heads] and then m and t of each head.
    __device__ __forceinline__ float *partial(const AttendArgs &a, const LatentCut &cut, int chunk) const {
        return a.partial + ((i64)(begin + from + chunk) * cut.parts + head / 16) * PARTIAL;
    }

    // start finds the block's first chunk, and returns whether there is one.
    __device__ __forceinline__ bool start(const AttendArgs &a, const LatentCut &cut) {
        if (blockIdx.x >= cut.blocks)
            return false;
        x = cut.begin(blockIdx.x), last = cut.begin(blockIdx.x + 1);
        i = a.items[x / cut.parts];
        int end = a.few[i].x;
        begin = i ? a.few[i - 1].x : 0;
        x = cut.align(x, begin, end);
        if (last < cut.chunks) {
            int j = a.items[last / cut.parts];
            last = cut.align(last, j ? a.few[j - 1].x : 0, a.few[j].x);
        }
        if (x >= end * cut.parts)
            begin = end, i++;
        return x < last;
    }

    // find reads the share that chunk x is of.
    __device__ __forceinline__ void find(const AttendArgs &a, const LatentCut &cut) {
        int4 of = a.few[i];
        row = of.y, slot = of.z, until = of.w, n = of.x - begin;
        int at = x - begin * cut.parts;
        head = at / n * 16, from = at % n, count = min(n - from, last - x), whole = n <= cut.whole, joins = from == 0;
    }

    // next goes to the next share, and returns whether there is one.
    __device__ __forceinline__ bool next(const LatentCut &cut) {
        x += count;
        if (x >= (begin + n) * cut.parts)
            begin += n, i++;
        return x < last;
    }
};

// feed is the work of four warps: they fetch the block's chunks. Those that the step does not write to, which are all but
// the last one of a row that is the only one of its sequence, do not wait for the kernels in front.
__device__ __forceinline__ void feed(const AttendWgmmaArgs &w, u32 base, const LatentCut &cut, Share s) {
    const AttendArgs &a = w.a;
    int warp = uniform(threadIdx.x / 32 % 4);
    Cursor<SLOTS> to = {0, 1};
    bool waited = false;
    do {
        s.find(a, cut);
        const int *table = a.table + (i64)s.slot * a.stride;
        int c = firstSeen(a, s.until) / CHUNK + s.from;
        Boxes next;
        next.begin(table, a.tokens, c, warp, s.until);
        for (int n = 0; n < s.count; n++, c++) {
            Boxes now = next;
            if (n < s.count - 1)
                next.next(table, a.tokens, s.until);
            if (!waited && !(w.alone && (c + 1) * CHUNK < s.until)) {
                waitForRows();
                waited = true;
            }
#pragma unroll
            for (int u = 0; u < UNITS; u++, to.next()) {
                barrierWait(base + EMPTY + to.stage * 8, to.parity);
                fetchUnit(base + to.stage * UNIT, w.cache, warp, (s.until - c * CHUNK + BOX - 1) / BOX, now.row, now.block, u, base + FULL + to.stage * 8);
            }
        }
    } while (s.next(cut));
}

// weighShares computes the weights of the block's chunks, and the factors that these are joined with.
__device__ __forceinline__ void weighShares(const AttendArgs &a, u8 *shared, u32 base, const LatentCut &cut, Share s) {
    int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
    // In the softmax eight threads have a head: of half its positions, thread t has numbers 2t and 2t+1 of each eight.
    int mine = thread / 8, t = thread % 4, half = thread / 4 % 2;
    float *scores = (float *)(shared + SCORES);
    float2 *factors = (float2 *)(shared + FACTORS);
    Cursor<SLOTS> in = {0, 0};
    Cursor<2> to = {0, 1};
    do {
        s.find(a, cut);
        constexpr int ROW = PANELS * 8; // 16-byte units
        const bf16 *q = (const bf16 *)a.q.at + (i64)s.row * a.q.ld + (i64)s.head * (PANELS * 64);
        uint4 v[ROW * 16 / 128];
#pragma unroll
        for (int k = 0; k < ROW * 16 / 128; k++) {
            int n = thread + k * 128;
            v[k] = s.head + n / ROW < a.group ? *(const uint4 *)(q + n * 8) : make_uint4(0, 0, 0, 0);
        }
#pragma unroll
        for (int k = 0; k < ROW * 16 / 128; k++) {
            int n = thread + k * 128, h = n / ROW, unit = n % ROW;
            *(uint4 *)(shared + QUERIES + unit / 8 * (16 * 128) + h * 128 + ((unit ^ h) % 8) * 16) = v[k];
        }
        fenceShared();
        barrierOf(1, 128);
        bool there = s.head + mine < a.group;
        int first = firstSeen(a, s.until), c = first / CHUNK + s.from;
        float M = a.sinks && there ? a.sinks[s.head + mine] * LOG2E : -INF, T = a.sinks && there ? 1 : 0;
        for (int n = 0; n < s.count; n++, c++) {
            float d[2][4];
#pragma unroll
            for (int p = 0; p < PANELS; p++) {
                if (p % UNIT_PANELS == 0)
                    barrierWait(base + FULL + in.stage * 8, in.parity);
                u64 keys = describe(base + in.stage * UNIT + panelOf(p), BOX_BYTES), queries = describe(base + QUERIES + p * 16 * 128, 1024);
                wgmmaFence();
#pragma unroll
                for (int k = 0; k < 4; k++)
                    multiply<0>(d, keys + (k * 32 >> 4), queries + (k * 32 >> 4), p == 0 && k == 0);
                wgmmaCommit();
                if (p % UNIT_PANELS == UNIT_PANELS - 1)
                    in.next();
            }
            ready<0>(d);
#pragma unroll
            for (int i = 0; i < 2; i++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    scores[(i * 8 + lane % 4 * 2 + e % 2) * 68 + warp * 16 + lane / 4 + e / 2 * 8] = d[i][e];
            barrierOf(1, 128);
            float x[8], scale = a.scale;
#pragma unroll
            for (int j = 0; j < 4; j++) {
                float2 v = *(float2 *)(scores + mine * 68 + half * 32 + j * 8 + t * 2);
                x[2 * j] = v.x, x[2 * j + 1] = v.y;
            }
            if (a.softcap > 0) {
                float twice = 2 * LOG2E * scale / a.softcap;
#pragma unroll
                for (int j = 0; j < 8; j++)
                    x[j] = capped(x[j], twice, a.softcap);
                scale = 1;
            }
            int pos = c * CHUNK + half * 32 + t * 2;
            float most = -INF;
#pragma unroll
            for (int j = 0; j < 8; j++) {
                int at = pos + j / 2 * 8 + j % 2;
                x[j] = at >= first && at < s.until ? x[j] : -INF;
                most = fmaxf(most, x[j]);
            }
#pragma unroll
            for (int i = 1; i < 8; i *= 2)
                most = fmaxf(most, __shfl_xor_sync(~0u, most, i));
            float m = most * scale, less = m == -INF ? 0 : -m;
#pragma unroll
            for (int j = 0; j < 8; j++)
                x[j] = exp2Fast(fmaf(x[j], scale, less));
            float sum = 0; // in the order in which weigh adds: the second half goes on from the first one's sum
#pragma unroll
            for (int j = 0; j < 8; j++)
                sum = sum + x[j];
            float before = __shfl_xor_sync(~0u, sum, 4);
            if (half) {
                sum = before;
#pragma unroll
                for (int j = 0; j < 8; j++)
                    sum = sum + x[j];
            }
            sum = sum + __shfl_xor_sync(~0u, sum, 1);
            sum = sum + __shfl_xor_sync(~0u, sum, 2);
            sum = __shfl_sync(~0u, sum, lane | 4);
            float old, add;
            joinFactors(M, m, old, add);
            T = join(T, old, sum, add);
            barrierWait(base + WEIGHTS_EMPTY + to.stage * 8, to.parity);
#pragma unroll
            for (int j = 0; j < 4; j++)
                *(u32 *)(shared + WEIGHTS + to.stage * (16 * 128) + mine * 128 + ((half * 4 + j) ^ mine % 8) * 16 + t * 4) = packBF16(x[2 * j], x[2 * j + 1]);
            if (thread % 8 == 0)
                factors[to.stage * 16 + mine] = make_float2(old, add);
            fenceShared();
            arriveWarp(base + WEIGHTS_FULL + to.stage * 8);
            to.next();
            if (!s.joins && thread % 8 == 0)
                *(float2 *)(s.partial(a, cut, n) + 16 * VALUES + 2 * mine) = make_float2(m, sum);
        }
        if (s.joins && !s.whole && thread % 8 == 0)
            *(float2 *)(s.partial(a, cut, 0) + 16 * VALUES + 2 * mine) = make_float2(M, T);
        if (s.whole) {
            barrierWait(base + WEIGHTS_EMPTY + to.stage * 8, to.parity);
            if (thread % 8 == 0)
                factors[to.stage * 16 + mine] = make_float2(1.f / T, 0);
            arriveWarp(base + WEIGHTS_FULL + to.stage * 8);
            to.next();
        }
    } while (s.next(cut));
}

// sumShares multiplies weights with the values of panels 0, 2, 4, 6 or 1, 3, 5, 7. It joins the outputs if it has the
// first ones, and leaves in `partial` what it does not join, or what others come after.
__device__ __forceinline__ void sumShares(const AttendArgs &a, u8 *shared, u32 base, const LatentCut &cut, Share s) {
    int group = uniform(threadIdx.x / 128) - 1, thread = threadIdx.x % 128, warp = thread / 32, lane = thread % 32, h = lane % 4 * 2;
    int dim = group * 64 + warp * 16 + lane / 4; // and 8 further, of each 128
    const float2 *factors = (const float2 *)(shared + FACTORS);
    int slot = 0; // of the chunk's first unit; a chunk's units may go round the ring
    u32 parity = 0;
    Cursor<2> in = {0, 0};
    do {
        s.find(a, cut);
        auto leave = [&](int chunk, const float (&o)[4][2][4]) {
            float *to = s.partial(a, cut, chunk) + dim * 16 + h;
#pragma unroll
            for (int p = 0; p < 4; p++)
#pragma unroll
                for (int i = 0; i < 2; i++)
#pragma unroll
                    for (int e = 0; e < 2; e++)
                        *(float2 *)(to + (p * 128 + e * 8) * 16 + i * 8) = make_float2(o[p][i][2 * e], o[p][i][2 * e + 1]);
        };
        float sum[4][2][4] = {};
        int c = firstSeen(a, s.until) / CHUNK + s.from;
        for (int n = 0; n < s.count; n++, c++) {
            float o[4][2][4];
            barrierWait(base + WEIGHTS_FULL + in.stage * 8, in.parity);
            int at[UNITS];
            u32 weights = base + WEIGHTS + in.stage * (16 * 128);
#pragma unroll
            for (int u = 0; u < UNITS; u++) {
                at[u] = slot + u;
                u32 wrapped = at[u] >= SLOTS;
                at[u] -= wrapped ? SLOTS : 0;
                barrierWait(base + FULL + at[u] * 8, parity ^ wrapped);
            }
            auto panel = [&](int p) { return base + (group ? at[(2 * p + 1) / UNIT_PANELS] : at[2 * p / UNIT_PANELS]) * UNIT + panelOf(2 * p + group); };
            if ((c + 1) * CHUNK > s.until)
                clearRest(s.until % CHUNK, thread, 2 + group, panel);
            wgmmaFence();
#pragma unroll
            for (int p = 0; p < 4; p++)
#pragma unroll
                for (int k = 0; k < 4; k++)
                    multiply<1>(o[p], describe(panel(p), BOX_BYTES) + (k * 2 * BOX_BYTES >> 4), describe(weights, 1024) + (k * 32 >> 4), k == 0);
            wgmmaCommit();
            float2 factor[2][2];
#pragma unroll
            for (int i = 0; i < 4; i++)
                factor[i / 2][i % 2] = factors[in.stage * 16 + i / 2 * 8 + h + i % 2];
#pragma unroll
            for (int p = 0; p < 4; p++)
                if (p == 0)
                    ready<0>(o[p]);
                else
                    settle(o[p]);
            if (lane == 0) {
#pragma unroll
                for (int u = 0; u < UNITS; u++)
                    barrierArrive(base + EMPTY + at[u] * 8);
            }
            arriveWarp(base + WEIGHTS_EMPTY + in.stage * 8);
            in.next();
            slot += UNITS;
            if (slot >= SLOTS)
                slot -= SLOTS, parity ^= 1;
            if (s.joins) {
#pragma unroll
                for (int p = 0; p < 4; p++)
#pragma unroll
                    for (int i = 0; i < 2; i++)
#pragma unroll
                        for (int e = 0; e < 4; e++)
                            sum[p][i][e] = join(sum[p][i][e], factor[i][e % 2].x, o[p][i][e], factor[i][e % 2].y);
                continue;
            }
            leave(n, o);
        }
        if (!s.whole) {
            if (s.joins)
                leave(0, sum);
            continue;
        }
        barrierWait(base + WEIGHTS_FULL + in.stage * 8, in.parity);
        float inv[2][2];
#pragma unroll
        for (int i = 0; i < 4; i++)
            inv[i / 2][i % 2] = factors[in.stage * 16 + i / 2 * 8 + h + i % 2].x;
        arriveWarp(base + WEIGHTS_EMPTY + in.stage * 8);
        in.next();
#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                int head = s.head + i * 8 + h + e % 2;
                bf16 *to = (bf16 *)a.dst.at + (i64)s.row * a.dst.ld + head * VALUES + dim + e / 2 * 8;
                if (head < a.group)
#pragma unroll
                    for (int p = 0; p < 4; p++)
                        to[p * 128] = toBF16(sum[p][i][e] * inv[i][e % 2]);
            }
    } while (s.next(cut));
}

// Any number of blocks of 512 threads. Dynamic shared memory: latentFewShared in attention.go.
KERNEL __launch_bounds__(512, 1) attend_latent_few(const __grid_constant__ AttendWgmmaArgs w) {
    extern __shared__ u8 unaligned[];
    u32 base = (sharedAddress(unaligned) + 1023) & ~1023u;
    u8 *shared = unaligned + (base - sharedAddress(unaligned));
    letNextBegin();
    // What the host lists is there before any kernel of the step begins.
    LatentCut cut(w.a, gridDim.x, w.whole);
    Share s;
    bool some = s.start(w.a, cut);
    if (threadIdx.x == 0) {
        for (int i = 0; i < SLOTS; i++) {
            barrierInit(base + FULL + i * 8, 4);
            barrierInit(base + EMPTY + i * 8, 8);
        }
        for (int i = 0; i < 2; i++) {
            barrierInit(base + WEIGHTS_FULL + i * 8, 4);
            barrierInit(base + WEIGHTS_EMPTY + i * 8, 8);
        }
        barriersReady();
    }
    __syncthreads();
    int group = uniform(threadIdx.x / 128);
    if (!some || group < 3)
        waitForRows();
    if (!some)
        return;
    if (group == 0)
        weighShares(w.a, shared, base, cut, s);
    else if (group < 3)
        sumShares(w.a, shared, base, cut, s);
    else
        feed(w, base, cut, s);
}

// attend_latent_join joins the chunks of rows that attend_latent_few cut: those that a block has joined already, and
// those after them. A block has the 16 heads of a share, and 8 numbers of each, of which a thread has one. What chunks
// give comes to shared memory BATCH chunks at a time. [any number, shares of a row, VALUES/8] blocks of 128 threads.
#define BATCH 64

struct LatentJoinArgs {
    AttendArgs a;
    int blocks, unused; // blocks: those of attend_latent_few
};

struct Joining {
    float o[BATCH][128];
    float2 of[BATCH][16]; // m and t, then the sums' factor and t
    float add[BATCH][16]; // the chunk's factor
};

// joinRow joins the chunks of few row i.
__device__ __forceinline__ void joinRow(const AttendArgs &a, const LatentCut &cut, Joining &j, int i) {
    constexpr int HEADS = 4; // of a warp, whose factors it makes
    int thread = threadIdx.x, warp = thread / 32, lane = thread % 32, h = thread % 16, part = blockIdx.y;
    int4 row = a.few[i];
    int begin = i ? a.few[i - 1].x : 0, n = row.x - begin, lead = cut.lead(begin * cut.parts + part * n, n);
    const float *p = a.partial + ((i64)begin * cut.parts + part) * PARTIAL, *own = p + blockIdx.z * 128;
    const float2 *states = (const float2 *)(p + 16 * VALUES);
    i64 next = (i64)cut.parts * PARTIAL; // from one chunk to the next
    waitForRows();
    float O = own[thread], T = states[h].y, M[HEADS];
#pragma unroll
    for (int k = 0; k < HEADS; k++)
        M[k] = states[warp * HEADS + k].x;
    for (int c = lead; c < n; c += BATCH) {
        int count = min(BATCH, n - c);
        for (int k = warp; k < count; k += 4)
            copy16(sharedAddress(&j.o[k][lane * 4]), own + (c + k) * next + lane * 4, true);
        for (int k = thread / 8; k < count; k += 16)
            copy16(sharedAddress(&j.of[k][thread % 8 * 2]), p + (c + k) * next + 16 * VALUES + thread % 8 * 4, true);
        copyCommit();
        copyWait<0>();
        __syncthreads();
        // A lane makes the factors of a chunk, as joinFactors does, from the greatest m before it and its own.
        for (int first = 0; first < count; first += 32)
#pragma unroll
            for (int k = 0; k < HEADS; k++) {
                int at = first + lane;
                float &mine = j.of[min(at, count - 1)][warp * HEADS + k].x;
                float m = at < count ? mine : -INF, most = m, old, add;
#pragma unroll
                for (int d = 1; d < 32; d *= 2)
                    most = fmaxf(most, __shfl_up_sync(~0u, most, d));
                float before = __shfl_up_sync(~0u, most, 1);
                before = lane ? fmaxf(M[k], before) : M[k];
                joinFactors(before, m, old, add);
                M[k] = __shfl_sync(~0u, before, 31);
                if (at < count)
                    mine = old, j.add[at][warp * HEADS + k] = add;
            }
        __syncthreads();
#pragma unroll 4
        for (int k = 0; k < count; k++) {
            float2 of = j.of[k][h];
            float add = j.add[k][h];
            T = join(T, of.x, of.y, add);
            O = join(O, of.x, j.o[k][thread], add);
        }
        __syncthreads();
    }
    if (part * 16 + h < a.group)
        ((bf16 *)a.dst.at)[(i64)row.y * a.dst.ld + (part * 16 + h) * VALUES + blockIdx.z * 8 + thread / 16] = toBF16(O * (1.f / T));
}

KERNEL __launch_bounds__(128) attend_latent_join(const LatentJoinArgs args) {
    letNextBegin();
    // What the host lists is there before any kernel of the step begins. Blocks take the rows that are cut in turn.
    __shared__ Joining j;
    __shared__ u32 cuts[4]; // a bit for each of the threads' rows
    const AttendArgs &a = args.a;
    int rows = a.count[0], before = 0;
    LatentCut cut(a, args.blocks, false);
    for (int first = 0; first < rows; first += 128) {
        int r = first + threadIdx.x;
        u32 mask = __ballot_sync(~0u, r < rows && a.few[r].x - (r ? a.few[r - 1].x : 0) > cut.whole);
        if (threadIdx.x % 32 == 0)
            cuts[threadIdx.x / 32] = mask;
        __syncthreads();
        for (int w = 0; w < 4; w++)
            for (u32 m = cuts[w]; m; m &= m - 1, before++)
                if (before % gridDim.x == blockIdx.x)
                    joinRow(a, cut, j, first + w * 32 + __ffs(m) - 1);
        __syncthreads();
    }
    waitForRows();
}
