// What adapters add to products: x·A, and that times B, of rows that are sorted by adapter. Weights are bfloat16. The
// inputs of A are cut into ranges of 1,024, and those into parts of 128: a part is one chain of mma from zero, and what
// parts and ranges give is added in order, to zero. So a row gives the same bits beside however many other rows.
#include "grouped.cuh"

#define WARPS 8
#define PART 128    // inputs of a warp
#define OUT_TILES 4 // of 16 outputs, of a warp of up
#define AT_ONCE 16  // ranges whose sums are on their way

#define FEW 8          // rows of a chunk of gateDown
#define UNIT_TILES 2   // of 16 outputs of a gate, and of what it gates, that a warp of gateDown computes at once
#define ON_THEIR_WAY 3 // such tiles of B, of 16 of the rank

// AdaptProduct is one weight of every adapter, A or B, and what B's results are added to.
struct AdaptProduct {
    const Group *groups;
    Rows dst;
    int outs, tiles; // of B; tiles: of 16 outputs
};

struct AdaptArgs {
    const int4 *chunks; // of each: adapter, where its rows begin in `rows`, and how many there are
    const int *rows;    // by adapter
    const bf16 *x;      // [rows, ldx]: inputs past the weights' own are finite
    u8 *inner;          // of each product [ranges, room, rank] of float, or [room, rank] of bfloat16 if ranges is 0
    int ldx, groups;    // a chunk of number `groups` has rows without an adapter
    int rank, ranges, room, act;
    float scale;
    int unused;
    Rows dst; // of gates
    AdaptProduct p[MAX_PRODUCTS];
    const Group *next; // of gateDown: A of the product that takes its results
    float *nextInner;  // [blocks, room, rank]
};

// loadEarly reads 16 bytes that nobody reads again, or makes zeros, where it stands: the compiler does not move it
// behind waitForRows.
__device__ __forceinline__ void loadEarly(u32 (&r)[4], const void *from, bool there) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.s32 p, %5, 0;\nmov.u32 %0, 0;\nmov.u32 %1, 0;\nmov.u32 %2, 0;\nmov.u32 %3, 0;\n"
                 "@p ld.global.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];\n}"
                 : "=&r"(r[0]), "=&r"(r[1]), "=&r"(r[2]), "=&r"(r[3])
                 : "l"(from), "r"((int)there)
                 : "memory");
}

// mmaRows adds x·w to d: 16 rows of 16 inputs, times a tile of 16 outputs. Unlike in other kernels, rows are operand A,
// and weights are operand B of two mma: of a lane's words of a record's tile, 0 and 2 are of outputs 0 to 7, 1 and 3 of
// 8 to 15. So d[n] has, as mma says, rows g and g+8 and outputs 2t and 2t+1 of eight n.
__device__ __forceinline__ void mmaRows(float (&d)[2][4], const u32 (&x)[4], const u32 (&w)[4]) {
    mma(d[0], x, w[0], w[2]);
    mma(d[1], x, w[1], w[3]);
}

// sumOfRanges adds the sums of ranges, which are `step` numbers apart.
__device__ __forceinline__ float sumOfRanges(const float *next, i64 step, int ranges) {
    float sum = 0, of[AT_ONCE];
    for (int left = ranges; left > 0; left -= AT_ONCE) {
#pragma unroll
        for (int s = 0; s < AT_ONCE; s++, next += step)
            of[s] = s < left ? *next : 0;
#pragma unroll
        for (int s = 0; s < AT_ONCE; s++)
            sum = sum + of[s]; // which zeros leave as it is
    }
    return sum;
}

// down makes x·A of up to ROWS rows: a block makes 16 numbers of each row, of one range of inputs or, where there is
// one for ALL, of all. [ranges or 1 for each 16 of the rank, chunks, products] blocks of 32·WARPS threads.
template <int ROWS, bool ALL> __device__ __forceinline__ void down(const AdaptArgs &a) {
    constexpr int TILES = (ROWS + 15) / 16, HALVES = ROWS > 8 ? 2 : 1; // tiles of 16 rows, and halves of them
    letNextBegin();
    __shared__ float sums[WARPS][16 * TILES][16];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    int4 c = a.chunks[blockIdx.y];
    int tiles = a.rank / 16, tile = blockIdx.x % tiles, range = blockIdx.x / tiles;
    Group w = {};
    if (c.z > 0 && c.x < a.groups)
        w = a.p[blockIdx.z].groups[c.x];
    bool there = w.w && tile * 16 < w.outs;
    int records = (w.in + 63) / 64, ranges = ALL ? (w.in + WARPS * PART - 1) / (WARPS * PART) : range + 1;
    const u8 *from = w.w + (i64)tile * records * RECORD + lane * 16;
    u32 own[PART / 16][4];
    auto load = [&](int range) {
        int record = (range * WARPS + warp) * 2;
#pragma unroll
        for (int k = 0; k < PART / 16; k++) {
            loadEarly(own[k], from + (i64)(record + k / 4) * RECORD + k % 4 * 512, there && record + k / 4 < records);
        }
    };
    load(range);
    const bf16 *x[TILES][HALVES];
#pragma unroll
    for (int i = 0; i < TILES; i++)
#pragma unroll
        for (int j = 0; j < HALVES; j++) {
            int row = i * 16 + j * 8 + g;
            x[i][j] = row < c.z ? a.x + (i64)a.rows[c.y + row] * a.ldx + 2 * t : 0;
        }
    waitForRows();
    if (!there)
        return;
    float total[TILES] = {};
    for (; range < ranges; range++) {
        if (ALL && range > 0)
            load(range);
        float d[TILES][2][4] = {};
        int first = (range * WARPS + warp) * PART;
#pragma unroll
        for (int i = 0; i < TILES; i++) {
            u32 rows[PART / 16][4];
#pragma unroll
            for (int k = 0; k < PART / 16; k++)
#pragma unroll
                for (int p = 0; p < 4; p++) {
                    const bf16 *row = p % 2 < HALVES ? x[i][p % 2 % HALVES] : 0;
                    rows[k][p] = row && first + k * 16 < records * 64 ? *(const u32 *)(row + first + k * 16 + p / 2 * 8) : 0;
                }
#pragma unroll
            for (int k = 0; k < PART / 16; k++)
                mmaRows(d[i], rows[k], own[k]);
        }
        if (ALL)
            __syncthreads(); // the sums of the range before are read
#pragma unroll
        for (int i = 0; i < TILES; i++)
#pragma unroll
            for (int n = 0; n < 2; n++)
#pragma unroll
                for (int j = 0; j < HALVES; j++)
                    *(float2 *)&sums[warp][i * 16 + j * 8 + g][n * 8 + 2 * t] = make_float2(d[i][n][2 * j], d[i][n][2 * j + 1]);
        __syncthreads();
#pragma unroll
        for (int i = 0; i < TILES; i++) {
            float sum = 0;
#pragma unroll
            for (int v = 0; v < WARPS; v++)
                sum = sum + sums[v][i * 16 + threadIdx.x / 16][threadIdx.x % 16];
            total[i] = total[i] + sum;
        }
    }
#pragma unroll
    for (int i = 0; i < TILES; i++) {
        int row = i * 16 + threadIdx.x / 16;
        if (row >= c.z)
            continue;
        i64 to = (i64)(c.y + row) * a.rank + tile * 16 + threadIdx.x % 16;
        if (ALL)
            ((bf16 *)a.inner)[(i64)blockIdx.z * a.room * a.rank + to] = toBF16(total[i]);
        else
            ((float *)a.inner)[((i64)blockIdx.z * a.ranges + range - 1) * a.room * a.rank + to] = total[i];
    }
}

// gate is activate, compiled once and called.
__device__ __noinline__ float gate(int act, float x, float up) { return activate(act, x, up); }

// loadB loads a lane's words of a warp's tiles of B, number k of the steps of 16 of the rank: of each product MINE
// tiles of 16 outputs, from tile0 on. Where there is no such tile, it makes zeros.
template <int PRODUCTS, int MINE>
__device__ __forceinline__ void loadB(u32 (&own)[PRODUCTS][MINE][4], const Group (&w)[PRODUCTS], int k, int tile0,
                                      const AdaptProduct &p, int lane) {
#pragma unroll
    for (int i = 0; i < PRODUCTS; i++)
#pragma unroll
        for (int m = 0; m < MINE; m++)
            loadEarly(own[i][m], w[i].w + ((i64)(tile0 + m) * ((w[i].in + 63) / 64) + k / 4) * RECORD + k % 4 * 512 + lane * 16,
                      w[i].w && k * 16 < w[i].in && tile0 + m < p.tiles);
}

// fetchYielded reads what products have yielded for tile r of the chunk's rows, in the warp's MINE tiles of outputs
// from tile0 on. Of row g and, of two HALVES, row g+8, a lane has outputs 2t and 2t+1 of each eight of a tile: two
// float32 or, in x, two bfloat16. row holds the numbers of its rows, below 0 if there is none. p is a.p[product], the
// first of them.
template <bool WIDE, int PRODUCTS, int TILES, int MINE, int HALVES>
__device__ __forceinline__ void fetchYielded(uint2 (&was)[PRODUCTS][TILES][MINE][2][HALVES], const AdaptArgs &a,
                                             int product, const AdaptProduct &p, const int (&row)[TILES][HALVES], int r,
                                             int tile0, int t) {
#pragma unroll
    for (int i = 0; i < PRODUCTS; i++)
#pragma unroll
        for (int m = 0; m < MINE; m++)
#pragma unroll
            for (int n = 0; n < 2; n++)
#pragma unroll
                for (int j = 0; j < HALVES; j++) {
                    const Rows &dst = a.p[product + i].dst;
                    i64 at = (i64)row[r][j] * dst.ld + (tile0 + m) * 16 + n * 8 + 2 * t;
                    uint2 v = {};
                    if (row[r][j] >= 0 && tile0 + m < p.tiles) {
                        if (WIDE && dst.wide)
                            v = *(const uint2 *)((const float *)dst.at + at);
                        else
                            v.x = *(const u32 *)((const bf16 *)dst.at + at);
                    }
                    was[i][r][m][n][j] = v;
                }
}

// takeInner brings the rows between A and B of a chunk to shared memory: of each product, the first being a.p[product],
// 16 numbers of each of ROWS rows, from 16·k on. They are zeros past the product's rank and past the chunk's rows.
// Those of 16 rows it adds from the sums of ranges; those of more, down has added.
template <int PRODUCTS, int ROWS>
__device__ __forceinline__ void takeInner(bf16 (&inner)[PRODUCTS][ROWS][16 + 8], const AdaptArgs &a, int4 c, int product,
                                          const Group (&w)[PRODUCTS], int k) {
    constexpr int TILES = ROWS / 16;
#pragma unroll
    for (int i = 0; i < PRODUCTS * TILES; i++) {
        int q = i / TILES, r = i % TILES * 16 + threadIdx.x / 16, col = k * 16 + threadIdx.x % 16;
        bf16 v = 0;
        if (r < c.z && w[q].w && col < w[q].in) {
            i64 step = (i64)a.room * a.rank, at = (product + q) * max(a.ranges, 1) * step + (i64)(c.y + r) * a.rank + col;
            if (TILES > 1)
                v = ((const bf16 *)a.inner)[at];
            else
                v = toBF16(sumOfRanges((const float *)a.inner + at, step, a.ranges));
        }
        inner[q][r][threadIdx.x % 16] = v;
    }
}

// multiplyInner adds to d what takeInner brought times what loadB loaded, of lane 4g+t.
template <int PRODUCTS, int TILES, int MINE, int ROWS>
__device__ __forceinline__ void multiplyInner(float (&d)[PRODUCTS][TILES][MINE][2][4],
                                              const bf16 (&inner)[PRODUCTS][ROWS][16 + 8],
                                              const u32 (&own)[PRODUCTS][MINE][4], int g, int t) {
#pragma unroll
    for (int i = 0; i < PRODUCTS; i++)
#pragma unroll
        for (int r = 0; r < TILES; r++) {
            u32 x[4];
#pragma unroll
            for (int q = 0; q < 4; q++)
                x[q] = *(const u32 *)&inner[i][r * 16 + q % 2 * 8 + g][2 * t + q / 2 * 8];
#pragma unroll
            for (int m = 0; m < MINE; m++)
                mmaRows(d[i][r][m], x, own[i][m]);
        }
}

// yielded is one of two bfloat16 numbers: the one at the lower address if e is 0, else the other.
__device__ __forceinline__ float yielded(u32 pair, int e) { return __uint_as_float(e ? pair & 0xffff0000 : pair << 16); }

// gated is act(x)·y. SILU is inlined; any other activation is a call.
__device__ __forceinline__ float gated(int act, float x, float y) {
    return act == SILU ? activate(SILU, x, y) : gate(act, x, y);
}

// addTwo makes v, two neighbouring outputs of each product, of what the products have yielded plus, where there are
// weights, what adapters add, d: outputs 2t and 2t+1 of eight n of tile m, of half j of tile r of the rows.
template <bool WIDE, int PRODUCTS, int TILES, int MINE, int HALVES>
__device__ __forceinline__ void addTwo(float (&v)[PRODUCTS][2], const AdaptArgs &a, int product, const Group (&w)[PRODUCTS],
                                       const uint2 (&was)[PRODUCTS][TILES][MINE][2][HALVES],
                                       const float (&d)[PRODUCTS][TILES][MINE][2][4], int r, int m, int n, int j) {
#pragma unroll
    for (int i = 0; i < PRODUCTS; i++) {
        uint2 raw = was[i][r][m][n][j];
        bool wide = WIDE && a.p[product + i].dst.wide;
#pragma unroll
        for (int e = 0; e < 2; e++) {
            v[i][e] = wide ? __uint_as_float(e ? raw.y : raw.x) : yielded(raw.x, e);
            if (w[i].w)
                v[i][e] = v[i][e] + d[i][r][m][n][2 * j + e] * w[i].scale * a.scale;
        }
    }
}

// storeTwo stores v, outputs col and col+1 of a row, or only the first of them if it is the last that product p has.
template <bool WIDE>
__device__ __forceinline__ void storeTwo(const Rows &dst, const int &row, const int &col, const AdaptProduct &p,
                                         const float (&v)[2]) {
    i64 at = (i64)row * dst.ld + col;
    if (col + 1 == p.outs)
        put(dst, row, col, v[0]);
    else if (WIDE && dst.wide)
        *(float2 *)((float *)dst.at + at) = make_float2(v[0], v[1]);
    else
        *(u32 *)((bf16 *)dst.at + at) = packBF16(v[0], v[1]);
}

// up adds the rows that down made, times B, to what the products have yielded; of a GATE, two products, it makes
// act(gate)·up of the sums, also of rows without an adapter. A warp has OUT_TILES tiles of outputs of up to ROWS rows.
// WIDE: some results are float32. [blocks for the tiles of one product after the other, chunks] blocks of 32·WARPS
// threads.
template <int ROWS, bool GATE, bool WIDE> __device__ __forceinline__ void up(const AdaptArgs &a) {
    constexpr int TILES = (ROWS + 15) / 16, HALVES = ROWS > 8 ? 2 : 1; // tiles of 16 rows, and halves of them
    constexpr int PRODUCTS = GATE ? 2 : 1, MINE = OUT_TILES / PRODUCTS;
    __shared__ __align__(16) bf16 inner[PRODUCTS][16 * TILES][16 + 8];
    letNextBegin();
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    int4 c = a.chunks[blockIdx.y];
    int product = 0, block = blockIdx.x;
    while (!GATE && block * WARPS * MINE >= a.p[product].tiles)
        block -= (a.p[product++].tiles + WARPS * MINE - 1) / (WARPS * MINE);
    const AdaptProduct &p = a.p[product];
    int tile0 = (block * WARPS + warp) * MINE;
    Group w[PRODUCTS] = {};
    int rank = 0; // 0: no adapter changes the products
#pragma unroll
    for (int i = 0; i < PRODUCTS; i++) {
        if (c.z > 0 && c.x < a.groups)
            w[i] = a.p[product + i].groups[c.x];
        if (w[i].w)
            rank = max(rank, w[i].in);
    }
    u32 own[PRODUCTS][MINE][4];
    loadB(own, w, 0, tile0, p, lane);
    int row[TILES][HALVES];
#pragma unroll
    for (int r = 0; r < TILES; r++)
#pragma unroll
        for (int j = 0; j < HALVES; j++) {
            int n = r * 16 + j * 8 + g;
            row[r][j] = n < c.z ? a.rows[c.y + n] : -1;
        }
    waitForRows();
    if (c.z <= 0 || !GATE && rank == 0)
        return;

    uint2 was[PRODUCTS][TILES][MINE][2][HALVES]; // what the products have yielded (fetchYielded)
    auto fetch = [&](int r) { fetchYielded<WIDE>(was, a, product, p, row, r, tile0, t); };
    if (TILES == 1)
        fetch(0);
    float d[PRODUCTS][TILES][MINE][2][4] = {};
    for (int k = 0; k * 16 < rank; k++) {
        if (k > 0) {
            loadB(own, w, k, tile0, p, lane);
            __syncthreads(); // the numbers before are read
        }
        takeInner(inner, a, c, product, w, k);
        __syncthreads();
        multiplyInner(d, inner, own, g, t);
    }
#pragma unroll
    for (int r = 0; r < TILES; r++) {
        if (TILES > 1)
            fetch(r);
#pragma unroll
        for (int m = 0; m < MINE; m++)
#pragma unroll
            for (int n = 0; n < 2; n++)
#pragma unroll
                for (int j = 0; j < HALVES; j++) {
                    int col = (tile0 + m) * 16 + n * 8 + 2 * t;
                    if (row[r][j] < 0 || col >= p.outs)
                        continue;
                    float v[PRODUCTS][2];
                    addTwo<WIDE>(v, a, product, w, was, d, r, m, n, j);
                    if (GATE)
#pragma unroll
                        for (int e = 0; e < 2; e++) {
                            float x = rounded(v[0][e]), y = rounded(v[PRODUCTS - 1][e]);
                            v[0][e] = gated(a.act, x, y);
                        }
                    const Rows &dst = GATE ? a.dst : p.dst;
                    storeTwo<WIDE>(dst, row[r][j], col, p, v[0]);
                }
    }
}

// loadShared reads 16 bytes at an address of shared memory.
__device__ __forceinline__ void loadShared(u32 (&r)[4], u32 at) {
    asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
}

// What follows is gateDown's. PART outputs of a gate, and of what it gates, are a warp's, and so are the PART inputs of
// the next product that they become: STEPS tiles of 16, made a unit of UNIT_TILES tiles at a time.
#define STEPS (PART / 16)
#define UNITS (STEPS / UNIT_TILES)
#define UNIT (2 * UNIT_TILES * 512) // bytes of a slot: a unit's tiles of B of both products, of 16 of the rank
#define OWN (ON_THEIR_WAY * UNIT + STEPS * 512 + STEPS * 256) // bytes of shared memory of a warp: slots, A, results

// copyTilesOfB begins to copy a lane's words of B of both products to shared memory: the tiles of a unit, of number k
// of the steps of 16 of the rank, to one of ON_THEIR_WAY slots. The warp's tiles begin at tile0, and there are `tiles`
// from there on: what is past them, or past a product's rank, becomes zeros. `mine` is the lane's place in slot 0.
__device__ __forceinline__ void copyTilesOfB(const Group (&w)[2], int tile0, int unit, int k, int lane, u32 mine,
                                             int slot, int tiles) {
#pragma unroll
    for (int i = 0; i < 2; i++) {
        int ofTile = (w[i].in + 63) / 64 * RECORD;
        const u8 *from = w[i].w + (i64)(tile0 + unit * UNIT_TILES) * ofTile + k / 4 * RECORD + k % 4 * 512 + lane * 16;
        bool there = w[i].w && k * 16 < w[i].in;
#pragma unroll
        for (int m = 0; m < UNIT_TILES; m++)
            copy16(mine + slot * UNIT + (i * UNIT_TILES + m) * 512, from + m * ofTile, there && unit * UNIT_TILES + m < tiles);
    }
}

// copyTilesOfA begins to copy a lane's words of A of the next product, if it has one, to shared memory: of 16 of the
// rank, from 16·outs on, the tiles of the warp's part of the inputs, which begins at tile0. `to` is the lane's place in
// the first.
__device__ __forceinline__ void copyTilesOfA(const Group &next, int outs, int tile0, u32 to, int lane) {
    if (!next.w)
        return;
    int records = (next.in + 63) / 64;
    const u8 *from = next.w + ((i64)outs * records + tile0 / 4) * RECORD + lane * 16;
#pragma unroll
    for (int k = 0; k < STEPS; k++)
        copy16(to + k * 512, from + k / 4 * RECORD + k % 4 * 512, tile0 / 4 + k / 4 < records);
}

// fetchUnit reads what both products have yielded for a unit: of each of its tiles, outputs 2t and 2t+1 of each of the
// lane's EIGHTS. `from` is where the lane's first two of tile 0 of the warp are, in the lane's row of each product.
// Past the `tiles` that there are, or if row is below 0, it makes zeros.
template <int EIGHTS>
__device__ __forceinline__ void fetchUnit(u32 (&then)[2][UNIT_TILES][EIGHTS], const bf16 *const (&from)[2], int unit,
                                          int row, int tiles) {
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int m = 0; m < UNIT_TILES; m++)
#pragma unroll
            for (int n = 0; n < EIGHTS; n++) {
                int tile = unit * UNIT_TILES + m;
                then[i][m][n] = row >= 0 && tile < tiles ? *(const u32 *)(from[i] + tile * 16 + n * 8) : 0;
            }
}

// addRanges makes the rows between A and B of both products, inner[2, FEW, ld], from the sums of ranges that down made:
// 16·steps numbers of each row, zeros past the product's rank and past the chunk's rows.
__device__ __forceinline__ void addRanges(bf16 *inner, int ld, const AdaptArgs &a, int4 c, const Group (&w)[2], int steps) {
    int i = threadIdx.x / (FEW * 16), r = threadIdx.x / 16 % FEW; // the thread's product and row
    bool there = i ? w[1].w : w[0].w;
    int in = i ? w[1].in : w[0].in;
    i64 step = (i64)a.room * a.rank;
    for (int col = threadIdx.x % 16; col < steps * 16; col += 16) {
        float sum = 0;
        if (there && col < in && r < c.z)
            sum = sumOfRanges((const float *)a.inner + i * a.ranges * step + (i64)(c.y + r) * a.rank + col, step, a.ranges);
        inner[(i * FEW + r) * ld + col] = toBF16(sum);
    }
}

// multiplyStep adds to d, of one product, a step of 16 of the rank: the row between A and B times a unit's tiles of B.
// `row` is the lane's first two of its row's numbers of the step, 2t and 2t+1; `at` is its place in the first of the
// tiles, in shared memory.
__device__ __forceinline__ void multiplyStep(float (&d)[UNIT_TILES][2][4], const bf16 *row, u32 at) {
    u32 x[4] = {*(const u32 *)row, 0, *(const u32 *)(row + 8), 0};
#pragma unroll
    for (int m = 0; m < UNIT_TILES; m++) {
        u32 b[4];
        loadShared(b, at + m * 512);
        mmaRows(d[m], x, b);
    }
}

// addAndActivate makes act(gate)·up of one output, e of the lane's two of eight n of a unit's tile m: of what the
// products have yielded plus, where there are weights, what adapters add, d. If eighth is 1, the lane has only the
// second eight.
template <int EIGHTS>
__device__ __forceinline__ float addAndActivate(const AdaptArgs &a, const Group (&w)[2],
                                                const u32 (&was)[2][UNIT_TILES][EIGHTS],
                                                const float (&d)[2][UNIT_TILES][2][4], int m, int n, int eighth, int e) {
    float v[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        u32 raw = was[i][m][n];
        float more = eighth ? d[i][m][1][e] : d[i][m][n][e];
        v[i] = yielded(raw, e);
        if (w[i].w)
            v[i] = v[i] + more * w[i].scale * a.scale;
    }
    float x = rounded(v[0]), y = rounded(v[1]);
    return gated(a.act, x, y);
}

// finishTile makes act(gate)·up of a unit's tile m. It stores the lane's outputs, of which the first of the warp's tile
// 0 is at `to`, with `outs` more to the end of its row; a row below 0 is not stored. `both` becomes what the lane has
// of the tile as operand A of the next product: two outputs of either eight, zeros where there are none.
template <bool HALF, int EIGHTS>
__device__ __forceinline__ void finishTile(u32 (&both)[2], const AdaptArgs &a, const Group (&w)[2],
                                           const u32 (&was)[2][UNIT_TILES][EIGHTS],
                                           const float (&d)[2][UNIT_TILES][2][4], int unit, int m, int eighth, int row,
                                           int outs, bf16 *to) {
#pragma unroll
    for (int n = 0; n < EIGHTS; n++) {
        int col = (unit * UNIT_TILES + m) * 16 + n * 8; // beyond the lane's first
        float v[2];
#pragma unroll
        for (int e = 0; e < 2; e++)
            v[e] = addAndActivate(a, w, was, d, m, n, eighth, e);
        u32 packed = packBF16(v[0], col + 1 < outs ? v[1] : 0);
        bool there = row >= 0 && col < outs;
        both[n] = there ? packed : 0;
        if (there && col + 1 < outs)
            *(u32 *)(to + col) = packed;
        else if (there)
            to[col] = (bf16)packed;
    }
    if (HALF) // lanes 0 to 15 get their rows' second eight; what the others have is of no row
        both[1] = __shfl_xor_sync(~0u, both[0], 16);
}

// multiplyPart adds to d the warp's part of the results times 16 outputs of A. `results` is the lane's place in the
// results of the part's first 16 inputs, ofA in A's tile of them.
__device__ __forceinline__ void multiplyPart(float (&d)[2][4], const uint2 *results, u32 ofA) {
#pragma unroll
    for (int k = 0; k < STEPS; k++) {
        uint2 both = results[k * 32];
        u32 x[4] = {both.x, 0, both.y, 0}, b[4];
        loadShared(b, ofA + k * 512);
        mmaRows(d, x, b);
    }
}

// addParts adds what multiplyPart made of each warp's part, [FEW, 16] of float where the warp's shared memory begins,
// and stores it in nextInner. A thread has number 16·outs + threadIdx.x%16 of row threadIdx.x/16.
__device__ __forceinline__ void addParts(const AdaptArgs &a, int4 c, const u8 *shared, int outs) {
    int row = threadIdx.x / 16;
    float sum = 0;
    if (row < c.z) {
#pragma unroll
        for (int v = 0; v < WARPS; v++)
            sum = sum + ((const float *)(shared + v * OWN))[threadIdx.x];
        a.nextInner[((i64)blockIdx.x * a.room + c.y + row) * a.rank + outs * 16 + threadIdx.x % 16] = sum;
    }
}

// gateDown is up of a GATE of up to FEW rows, and down of the product that takes its results: a block's outputs are a
// range of its inputs, a warp's a part. It copies its weights to shared memory before the rows are there. [ranges,
// chunks] blocks of 32·WARPS threads. Dynamic shared memory: of each warp ON_THEIR_WAY units of UNIT_TILES tiles of B
// of both products, a part of A, and its results; and the rows between A and B, [2, FEW, rank + 8].
//
// HALF: there are at most FEW/2 rows. Lanes of rows g and g+4 have the same row, so that no lane is idle, and each has
// eight outputs of a tile's 16.
template <bool HALF> __device__ __forceinline__ void gateDown(const AdaptArgs &a, int4 c) {
    constexpr int EIGHTS = HALF ? 1 : 2; // outputs of a tile that a lane has, by eight
    extern __shared__ __align__(16) u8 shared[];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    int own = HALF ? g % 4 : g, eighth = HALF ? g / 4 : 0; // the lane's row, and its first eight outputs
    u32 mine = sharedAddress(shared) + warp * OWN + lane * 16, ofA = mine + ON_THEIR_WAY * UNIT;
    uint2 *results = (uint2 *)(shared + (warp + 1) * OWN - STEPS * 256) + lane; // of each step, as fragments
    bf16 *inner = (bf16 *)(shared + WARPS * OWN);
    int tile0 = (blockIdx.x * WARPS + warp) * STEPS; // of a gate's outputs, and of next's inputs
    Group w[2] = {}, next = {};
    if (c.z > 0 && c.x < a.groups)
        w[0] = a.p[0].groups[c.x], w[1] = a.p[1].groups[c.x], next = a.next[c.x];
    int steps = (max(w[0].w ? w[0].in : 0, w[1].w ? w[1].in : 0) + 15) / 16, ld = a.rank + 8;
    int tiles = a.p[0].tiles - tile0;                         // left for the warp
    int outs = a.p[0].outs - tile0 * 16 - eighth * 8 - 2 * t; // for the lane
    int unit = 0, k = 0, slot = 0; // of B's copies: which unit comes next, its step of the rank, and where it goes
    auto copyB = [&]() { // begins the next copy; past the last, its group of copies is empty
        if (unit < UNITS && steps > 0) {
            copyTilesOfB(w, tile0, unit, k, lane, mine, slot, tiles);
            if (++k == steps)
                k = 0, unit++;
            slot = slot + 1 == ON_THEIR_WAY ? 0 : slot + 1;
        }
        copyCommit();
    };
    auto copyA = [&](int outs) { copyTilesOfA(next, outs, tile0, ofA, lane); };
    for (int i = 0; i < ON_THEIR_WAY; i++) {
        if (i == ON_THEIR_WAY - 1)
            copyA(0);
        copyB();
    }
    int row = own < c.z ? a.rows[c.y + own] : -1;
    waitForRows();
    if (c.z <= 0)
        return;

    // Of its row a lane has outputs 2t and 2t+1 of each of its EIGHTS: here are the first in the warp's tile 0.
    const bf16 *of[2]; // what the products have yielded
#pragma unroll
    for (int i = 0; i < 2; i++)
        of[i] = (const bf16 *)a.p[i].dst.at + (i64)row * a.p[i].dst.ld + tile0 * 16 + eighth * 8 + 2 * t;
    bf16 *to = (bf16 *)a.dst.at + (i64)row * a.dst.ld + tile0 * 16 + eighth * 8 + 2 * t;
    u32 was[2][UNIT_TILES][EIGHTS], then[2][UNIT_TILES][EIGHTS]; // of this unit and the next
    fetchUnit(then, of, 0, row, tiles);
    addRanges(inner, ld, a, c, w, steps);
    __syncthreads();
    int from = 0; // the slot that is multiplied next
#pragma unroll 1
    for (int unit = 0; unit < UNITS; unit++) {
#pragma unroll
        for (int i = 0; i < 2 * UNIT_TILES * EIGHTS; i++)
            ((u32 *)was)[i] = ((u32 *)then)[i];
        if (unit + 1 < UNITS)
            fetchUnit(then, of, unit + 1, row, tiles);
        float d[2][UNIT_TILES][2][4] = {};
        for (int k = 0; k < steps; k++) {
            copyWait<ON_THEIR_WAY - 1>(); // a lane reads what it copied
#pragma unroll
            for (int i = 0; i < 2; i++)
                multiplyStep(d[i], inner + (i * FEW + own) * ld + k * 16 + 2 * t, mine + from * UNIT + i * UNIT_TILES * 512);
            from = from + 1 == ON_THEIR_WAY ? 0 : from + 1;
            copyB();
        }
#pragma unroll
        for (int m = 0; m < UNIT_TILES; m++) {
            u32 both[2];
            finishTile<HALF>(both, a, w, was, d, unit, m, eighth, row, outs, to);
            results[(unit * UNIT_TILES + m) * 32] = make_uint2(both[0], both[1]);
        }
    }
    if (!next.w)
        return;

    // The results times A, 16 of the rank at a time. Each warp puts the sums of its part where its copies of B were.
    for (int outs = 0; outs * 16 < next.outs; outs++) {
        if (outs > 0) {
            __syncthreads(); // A and the sums before are read
            copyA(outs);
            copyCommit();
        }
        copyWait<0>();
        __syncwarp(); // B is read
        float d[2][4] = {};
        multiplyPart(d, results, ofA);
#pragma unroll
        for (int n = 0; n < 2; n++)
            *(float2 *)(shared + warp * OWN + (g * 16 + n * 8 + 2 * t) * 4) = make_float2(d[n][0], d[n][1]);
        __syncthreads();
        addParts(a, c, shared, outs);
    }
}

KERNEL __launch_bounds__(256, 3) adapt_down_8(const AdaptArgs a) { down<8, false>(a); }
KERNEL __launch_bounds__(256, 2) adapt_down_32(const AdaptArgs a) { down<32, true>(a); }
KERNEL __launch_bounds__(256, 2) adapt_up_8(const AdaptArgs a) { up<8, false, false>(a); }
KERNEL __launch_bounds__(256, 2) adapt_up_32(const AdaptArgs a) { up<32, false, false>(a); }
KERNEL __launch_bounds__(256, 2) adapt_wide_8(const AdaptArgs a) { up<8, false, true>(a); }
KERNEL __launch_bounds__(256, 2) adapt_wide_32(const AdaptArgs a) { up<32, false, true>(a); }
KERNEL __launch_bounds__(256, 2) adapt_gate_8(const AdaptArgs a) { up<8, true, false>(a); }
KERNEL __launch_bounds__(256, 2) adapt_gate_32(const AdaptArgs a) { up<32, true, false>(a); }
KERNEL __launch_bounds__(256, 2) adapt_gate_down(const AdaptArgs a) {
    letNextBegin();
    int4 c = a.chunks[blockIdx.y];
    if (c.z <= FEW / 2)
        gateDown<true>(a, c);
    else
        gateDown<false>(a, c);
}
