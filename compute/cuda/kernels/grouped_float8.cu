// Products of groups in F8_E4M3 on Hopper: grouped_wgmma.cuh, and what makes rows of F8_E4M3 for them. FORMAT is FP8.
// Rows are rounded as for gemm_float8.cu. Where each has one scale, all inputs are one chain of wgmma, and scales
// multiply its sums; where there are groups, sums are those of gemm_scaled.cuh in one range.
#include "float8.cuh"
#include "grouped_wgmma.cuh"

// float8_spread rounds each row, and writes it to the places of its routes. [rows/8] blocks of a warp for each row.
struct Float8SpreadArgs {
    const bf16 *x;        // [rows, ldx], at 16 bytes
    u8 *to;               // [routes, in], each 16 inputs in the order of float8.cuh
    float *scales;        // [routes], or with groups [in/128, padded]
    const int *at, *slot; // [rows, chosen], [rows]; at is nil if each row is a route, in its place
    int ldx, in, rows, chosen, padded, groups;
};
KERNEL __launch_bounds__(256) float8_spread(const Float8SpreadArgs a) {
    int row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32, units = a.in / 16;
    waitForRows();
    letNextBegin(); // as in spread of experts.cu
    if (row >= a.rows || a.at && a.slot[row] < 0)
        return;
    const bf16 *x = a.x + (i64)row * a.ldx;
    const int *at = a.at ? a.at + (i64)row * a.chosen : nullptr;
    auto read = [&](int u, float(&v)[16]) { // and return the largest absolute value
        uint4 half[2] = {};
        if (u < units)
            half[0] = ((const uint4 *)(x + u * 16))[0], half[1] = ((const uint4 *)(x + u * 16))[1];
        unpacked(half, v);
        return largest(v, LEAST);
    };
    auto places = [&](auto put) {
        for (int c = 0; c < a.chosen; c++)
            put(at ? at[c] : row);
    };
    float v[16], most = LEAST;
    if (!a.groups) {
#pragma unroll 4
        for (int u = lane; u < units; u += 32)
            most = fmaxf(most, read(u, v));
        most = mostOfWarp(most);
        if (lane == 0)
            places([&](int to) { a.scales[to] = most / 448.f; });
    }
#pragma unroll 4
    for (int u = lane; u < units; u += 32) { // eight neighbours have 128 inputs
        float own = read(u, v);
        if (a.groups) {
            most = mostOfEight(own);
            if (u % 8 == 0)
                places([&](int to) { a.scales[(i64)(u / 8) * a.padded + to] = most / 448.f; });
        }
        uint4 codes = sixteenOf(v, 448.f / most);
        places([&](int to) { *(uint4 *)(a.to + (i64)to * a.in + u * 16) = codes; });
    }
}

// scaleSums multiplies sums by the scales of a warp's two outputs, and by those of rows, of which a thread has every
// 128th.
template <int N> __device__ __forceinline__ void scaleSums(float (&d)[N / 2], const float (&ofOutputs)[2], const float (&ofRows)[(N + 127) / 128], float *scratch, int warpgroup) {
    int thread = threadIdx.x % 128;
#pragma unroll
    for (int i = 0; i < (N + 127) / 128; i++)
        if (thread + i * 128 < N)
            scratch[thread + i * 128] = ofRows[i];
    barrierOf(1 + warpgroup, 128);
#pragma unroll
    for (int j = 0; j < N / 8; j++) {
        float2 s = *(const float2 *)(scratch + j * 8 + thread % 4 * 2);
#pragma unroll
        for (int e = 0; e < 4; e++)
            d[j * 4 + e] = d[j * 4 + e] * ofOutputs[e / 2] * (e % 2 ? s.y : s.x);
    }
    barrierOf(1 + warpgroup, 128); // scratch is where sums are staged
}

template <int N, typename K, bool GATE, typename Args>
__device__ __forceinline__ void multiplyPart(const Args &w, u8 *shared, u32 base, Cursor<Layout<K>::STAGES> &at, const Part &part, u32 &turn) {
    using L = Layout<K>;
    constexpr bool SCALED = K::SCALED, TURNS = SCALED && N == 128;
    constexpr int STEPS = K::STEPS;
    typedef typename OperandOf<SCALED>::type StepWeights;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = warp / 4, stage = at.stage;
    u32 full = base + L::FULL, empty = base + L::EMPTY, parity = at.parity;
    const u8 *weights = shared + L::WEIGHTS + warp * STEPS * K::STEP_BYTES;
    float d[N / 2], sum[SCALED ? N / 2 : 1], ofOutputs[2] = {}, ofRows[(N + 127) / 128] = {};
#pragma unroll
    for (int i = 0; i < N / 2; i++)
        (SCALED ? sum[SCALED ? i : 0] : d[i]) = 0;
    if constexpr (!SCALED) {
        Place own = placeOf(w.a, part.tile0 + warp);
        if (own.product >= 0) { // all records have the same scales
            const u8 *record = w.a.p[own.product].groups[part.group].w + (i64)own.tile * w.steps * K::STEP_BYTES;
            const bf16 *of = (const bf16 *)(record + HALF_SCALES) + lane / 4;
            ofOutputs[0] = fromBF16(of[0]) * OF_CODES, ofOutputs[1] = fromBF16(of[HALF_RECORD / 2]) * OF_CODES;
        }
#pragma unroll
        for (int i = 0; i < (N + 127) / 128; i++)
            if (threadIdx.x % 128 + i * 128 < part.rows)
                ofRows[i] = w.scales[part.row0 + threadIdx.x % 128 + i * 128];
    }
    StepWeights operands[2]; // of a step: one is multiplied while the next is made
    auto load = [&](StepWeights &o, int j, bool wait) { // those of step j of the stage
        if (wait)
            barrierWait(full + stage * 8, parity);
        o.load(weights + stage * L::WEIGHT_BYTES + j * K::STEP_BYTES, lane);
    };
    auto release = [&](int stage) { // tells both blocks of the cluster, since they fetch it for each other
        __syncwarp();
        if (lane < CLUSTER)
            barrierArrive(empty + stage * 8, lane);
    };
    auto before = [&] { return stage == 0 ? L::STAGES - 1 : stage - 1; };
    load(operands[0], 0, false);
    int s = 0;
    auto step = [&](const StepWeights &now, StepWeights &next, int j) {
        u64 rows = describe(ofWarp(base + stage * L::ROWS_BYTES + j * N * 128));
        int of = stage;
        if constexpr (TURNS) {
            barrierWait(base + L::TURN + group * 8, turn);
            turn ^= 1;
        }
        wgmmaFence();
#pragma unroll
        for (int k = 0; k < 4; k++)
            wgmma<true, N>(d, OperandOf<SCALED>::of(now).a[k], rows + k * 2, SCALED && k == 0);
        wgmmaCommit();
        if constexpr (!SCALED) {
            wgmmaWait<1>();
            if (j == 0 && s > 0)
                release(before());
        }
        if (j == STEPS - 1 && ++stage == L::STAGES)
            stage = 0, parity ^= 1;
        if (++s < w.steps)
            load(next, (j + 1) % STEPS, (j + 1) % STEPS == 0);
        if constexpr (SCALED) {
            wgmmaWait<0>();
            settle(d);
            if constexpr (TURNS)
                if (lane == 0)
                    barrierArrive(base + L::TURN + (group ^ 1) * 8);
            addScaled<N, false>(sum, d, now, (const float *)(shared + L::SCALES + of * L::SCALE_BYTES + j * L::STEP_SCALES) + part.row0 % BEFORE, lane);
            if (j == STEPS - 1 || s == w.steps)
                release(of);
        }
    };
#pragma unroll 1
    while (s + 1 < w.steps) {
        step(operands[0], operands[1], 0);
        step(operands[1], operands[0], 1 % STEPS);
    }
    if (s < w.steps) { // an odd number
        step(operands[0], operands[1], 0);
        if (STEPS > 1 && ++stage == L::STAGES)
            stage = 0, parity ^= 1;
    }
    u8 *staged = shared + L::RESULTS + group * L::STAGED;
    if constexpr (!SCALED) {
        wgmmaWait<0>();
        settle(d);
        release(before());
        scaleSums<N>(d, ofOutputs, ofRows, (float *)staged, group);
    }
    at = {stage, parity};
    constexpr int STORED = N < CHUNK ? CHUNK : N;
    float results[STORED / 2];
#pragma unroll
    for (int i = 0; i < STORED / 2; i++)
        results[i] = i >= N / 2 ? 0 : SCALED ? sum[SCALED ? i : 0] : d[i % (N / 2)];
    if constexpr (GATE)
        storeGated<STORED>(w.a, staged, results, part, group);
    else
        storePlain<STORED>(w.a, staged, results, part, group);
}

// resultOf is a thread's sums of eight outputs of rows g and g+8, number i on, with their biases.
__device__ __forceinline__ void resultOf(const GroupedArgs &a, const Part &part, const float (&sum)[64], int i, float (&x)[8]) {
    int lane = threadIdx.x % 32;
    Place at = placeOf(a, part.tile0 + i / 8);
    bool biased = part.biased && at.product >= 0;
#pragma unroll
    for (int e = 0; e < 8; e++) {
        float bias = biased ? biasOf(a.p[at.product].groups[part.group], at.tile * 16 + e / 4 * 8 + lane % 4 * 2 + e % 2) : 0.f;
        x[e] = fmaf(sum[i + e], UNIT, bias);
    }
}

// storeRows stores sums of a warp's 16 rows as bfloat16, 64 outputs at a time: through shared memory, [16][64], units of
// 16 bytes swizzled. Of GATE, a tile of a gate is followed by that of what it gates.
template <bool GATE> __device__ __forceinline__ void storeRows(const GroupedArgs &a, u8 *staged, const float (&sum)[64], const Part &part, int row0) {
    int lane = threadIdx.x % 32, unit = lane % 8, row = lane / 8;
    u32 write = sharedAddress(staged) + lane % 16 * 128;
    auto put = [&](int n, const float(&x)[8]) { // 16 outputs
        storeUpright(write + (n * 2 + lane / 16 ^ lane % 8) * 16, packBF16(x[0], x[1]), packBF16(x[2], x[3]), packBF16(x[4], x[5]), packBF16(x[6], x[7]));
    };
    auto store = [&](int tile) { // of which, and of three more, a lane has a unit of every fourth row
        __syncwarp();
        Place at = placeOf(a, part.tile0 + tile);
        const Rows &dst = a.p[max(at.product, 0)].dst;
        bf16 *to = (bf16 *)dst.at + (i64)(part.row0 + row0) * dst.ld + at.tile * 16 + unit % 2 * 8;
#pragma unroll
        for (int r = row; r < 16; r += 4)
            if (at.product >= 0 && row0 + r < part.rows)
                *(uint4 *)(to + (i64)r * dst.ld) = *(const uint4 *)(staged + r * 128 + (unit ^ r % 8) * 16);
        __syncwarp();
    };
    if constexpr (!GATE) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
#pragma unroll
            for (int n = 0; n < 4; n++) {
                float x[8];
                resultOf(a, part, sum, half * 32 + n * 8, x);
                put(n, x);
            }
            store(half * 4 + unit / 2);
        }
        return;
    }
    bool plain = true;
    auto make = [&](int act) {
#pragma unroll
        for (int n = 0; n < 4; n++) {
            float gate[8], up[8];
            resultOf(a, part, sum, n * 16, gate);
            resultOf(a, part, sum, n * 16 + 8, up);
            plain = gatePlain(act, gate, up) && plain;
            put(n, gate);
        }
    };
    if (a.act == SILU)
        make(SILU);
    else if (a.act == SWIGLU_CLAMPED)
        make(SWIGLU_CLAMPED);
    else
        plain = false;
    if (__any_sync(~0u, !plain))
#pragma unroll 1
        for (int n = 0; n < 4; n++) {
            float gate[8], up[8];
#pragma unroll
            for (int of = 0; of < 4; of++)
                if (of == n) {
                    resultOf(a, part, sum, of * 16, gate);
                    resultOf(a, part, sum, of * 16 + 8, up);
                }
#pragma unroll 1
            for (int i = 0; i < 8; i++)
                gate[i] = activate(a.act, gate[i], up[i]);
            put(n, gate);
        }
    store(unit / 2 * 2);
}

// As multiplyRows of gemm_scaled.cuh. A warpgroup without rows waits and frees stages all the same.
template <typename K, bool GATE, typename Args>
__device__ __forceinline__ void multiplyRowsPart(const Args &w, u8 *shared, u32 base, Cursor<Layout<K>::STAGES> &at, const Part &part) {
    using L = Layout<K>;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = warp / 4;
    bool idle = group * 64 >= part.rows;
    float d[64], sum[64];
#pragma unroll
    for (int i = 0; i < 64; i++)
        sum[i] = 0;
#pragma unroll 1
    for (int s = 0; s < w.steps; s++, at.next()) {
        barrierWait(base + L::FULL + at.stage * 8, at.parity);
        if (!idle) {
            u32 weights = L::WEIGHTS + at.stage * L::WEIGHT_BYTES;
            beginRows(d, base + at.stage * L::ROWS_BYTES + group * 64 * 128, base + weights);
            const float *rows = (const float *)(shared + L::SCALES + at.stage * L::SCALE_BYTES) + part.row0 % BEFORE;
            BlockScales scales;
            scales.load(rows + warp * 16 + lane / 4, shared + weights, shared + weights + (GATE ? 1 : 4) * RECORD);
            wgmmaWait<0>();
            settle(d);
#pragma unroll
            for (int i = 0; i < 64; i++)
                sum[i] = fmaf(d[i], scales.by[GATE ? i / 8 % 2 : i / 32][i / 2 % 2], sum[i]);
        }
        __syncwarp();
        if (lane < CLUSTER) // tells both blocks of the cluster, since they fetch rows for each other
            barrierArrive(base + L::EMPTY + at.stage * 8, lane);
    }
    if (!idle)
        storeRows<GATE>(w.a, shared + L::RESULTS + warp * 2048, sum, part, warp * 16);
}

GROUPED_KERNEL(grouped_float8_256, ManyFloat8Args, true, 0, 256, 1)
GROUPED_KERNEL(grouped_float8_128, ManyFloat8Args, true, 0, 128, 1)
GROUPED_KERNEL(grouped_float8_32, ManyFloat8Args, true, 0, 32, 2)
GROUPED_KERNEL(grouped_float8_groups_128, ManyFloat8Args, true, BY_GROUP, 128, 1)
GROUPED_KERNEL(grouped_float8_groups_32, ManyFloat8Args, true, BY_GROUP, 32, 2)
GROUPED_KERNEL(grouped_float8_blocks_192, ManyFloat8Args, true, BY_BLOCK, 192, 1)
