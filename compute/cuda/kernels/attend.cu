// Attention with tensor cores for heads of DIM numbers, a multiple of 16. This file is compiled once for each type KV
// of the cache (kv.cuh), and once more for large heads (WIDE). Keys and values of BF16 are multiplied as bfloat16, all
// others as halves.
//
// attend_tile is for many rows: a block has a tile of rows and goes through all chunks that they see. attend_few is for
// few rows, whose chunks all blocks share; a block joins what it can. Both give the bits that attend.cuh defines.
#include "attend_few.cuh"

__device__ __forceinline__ void storeShared(u32 at, const u32 (&v)[4]) {
    asm volatile("st.shared.v4.u32 [%0], {%1,%2,%3,%4};" ::"r"(at), "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3]) : "memory");
}

// loadCoded is loadChunk for codes: it reads them, and writes them as halves.
template <int DIM, int THREADS>
__device__ __forceinline__ void loadCoded(const AttendArgs &a, u32 to, const int *table, int chunk, int end, i64 first, int thread, bool keys) {
    constexpr int UNITS = DIM / 16, N = CHUNK * UNITS, EACH = (N + THREADS - 1) / THREADS;
    Codes codes[EACH];
#pragma unroll
    for (int j = 0; j < EACH; j++) {
        int n = thread + j * THREADS, pos = chunk * CHUNK + n / UNITS, block = n < N && pos < end ? table[pos / a.tokens] : -1;
        codes[j] = {};
        if (block >= 0)
            codes[j].read((const u8 *)(a.at + block * a.block) + (first + pos % a.tokens) * ROW<DIM>, n % UNITS);
    }
#pragma unroll
    for (int j = 0; j < EACH; j++) {
        int n = thread + j * THREADS;
        if (n >= N)
            continue;
        u32 one[4], other[4];
        codes[j].widen(one, other, keys);
        storeShared(to + place<DIM>(n / UNITS, n % UNITS * 2), one);
        storeShared(to + place<DIM>(n / UNITS, n % UNITS * 2 + 1), other);
    }
}

// loadChunk begins to copy keys or values of a chunk to shared memory, 64 rows of DIM numbers of 16 bits. Positions
// from `end` on become zeros. `first` is the number of the head's first row in a block of the cache, whose tokens are a
// multiple of 16.
template <int DIM, int THREADS>
__device__ __forceinline__ void loadChunk(const AttendArgs &a, u32 to, const int *table, int chunk, int end, i64 first, int thread) {
    constexpr int UNITS = DIM / 8, EACH = (16 * UNITS + THREADS - 1) / THREADS;
    const u8 *from[CHUNK / 16];
#pragma unroll
    for (int i = 0; i < CHUNK / 16; i++) {
        int pos = chunk * CHUNK + i * 16, block = pos < end ? table[pos / a.tokens] : -1;
        from[i] = block < 0 ? 0 : (const u8 *)(a.at + block * a.block) + (first + pos % a.tokens) * ROW<DIM>;
    }
#pragma unroll
    for (int i = 0; i < CHUNK / 16; i++)
#pragma unroll
        for (int j = 0; j < EACH; j++) {
            int n = thread + j * THREADS, row = i * 16 + n / UNITS;
            if (16 * UNITS % THREADS != 0 && n >= 16 * UNITS)
                continue;
            copy16(to + place<DIM>(row, n % UNITS), from[i] ? from[i] + n * 16 : (const u8 *)a.at, from[i] && chunk * CHUNK + row < end);
        }
}

// attendValues adds the products of weights and 16·K values to part of the output: N numbers from number `first` on.
template <int DIM, int K, int N> __device__ __forceinline__ void attendValues(float (&o)[N / 8][4], const float (*s)[4], u32 values, int first) {
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int k = 0; k < K; k++) {
        u32 w[4] = {packWeights(s[2 * k][0], s[2 * k][1]), packWeights(s[2 * k][2], s[2 * k][3]),
                    packWeights(s[2 * k + 1][0], s[2 * k + 1][1]), packWeights(s[2 * k + 1][2], s[2 * k + 1][3])};
#pragma unroll
        for (int n = 0; n < N / 8; n += 2) {
            u32 b[4];
            ldmatrixT(b, values + k * 16 * PITCH<DIM> + placeNext<DIM>(lane % 16, lane / 16, first / 16 + n / 2));
            multiply(o[n], w, b[0], b[1]);
            multiply(o[n + 1], w, b[2], b[3]);
        }
    }
}

// PART is how many numbers of o attend_tile computes at a time, so that registers are enough.
template <int DIM> constexpr int PART = DIM <= 128 ? DIM : 64;

// attendTile is for many rows: eight warps of 16 rows each share the chunks of a KV head in shared memory, which has
// room for two. [tiles, KV heads] blocks of 256 threads. Dynamic shared memory: 2·2·64·PITCH bytes.
template <int DIM> __device__ __forceinline__ void attendTile(const AttendArgs &a) {
    extern __shared__ __align__(128) u8 shared[];
    constexpr u32 HALF = CHUNK * PITCH<DIM>;
    letNextBegin();
    waitForRows();
    int tile = blockIdx.x, head = blockIdx.y, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (tile >= a.count[1])
        return;
    // A tile is rows row0 to row0+rows-1 of one sequence.
    int row0 = a.items[2 * tile], rows = a.items[2 * tile + 1];
    const int *table = a.table + (i64)a.slot[row0] * a.stride;
    u32 base = sharedAddress(shared);
    int first[2], end[2];
    i64 out[2];
    const bf16 *from[2];
    bool there[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        int r = warp * 16 + lane / 4 + 8 * i, token = r / a.group;
        there[i] = token < rows;
        token = row0 + (there[i] ? token : 0);
        int h = head * a.group + r % a.group;
        end[i] = there[i] ? a.until[token] : 0;
        first[i] = firstSeen(a, end[i]);
        out[i] = (i64)token * a.dst.ld + h * DIM;
        from[i] = there[i] ? (const bf16 *)a.q.at + (i64)token * a.q.ld + h * DIM : 0;
    }
    u32 q[DIM / 16][4];
    queries<DIM>(q, from[0], from[1]);
    int last = a.until[row0 + rows - 1];
    int c = firstSeen(a, a.until[row0]) / CHUNK, chunks = (last + CHUNK - 1) / CHUNK;
    i64 keyAt = (i64)head * a.tokens, valueAt = (i64)(a.heads + head) * a.tokens;
    auto load = [&](int c) {
        u32 to = base + c % 2 * 2 * HALF;
        if (c < chunks) {
            if constexpr (CODED) {
                loadCoded<DIM, 256>(a, to, table, c, last, keyAt, threadIdx.x, true);
                loadCoded<DIM, 256>(a, to + HALF, table, c, last, valueAt, threadIdx.x, false);
            } else {
                loadChunk<DIM, 256>(a, to, table, c, last, keyAt, threadIdx.x);
                loadChunk<DIM, 256>(a, to + HALF, table, c, last, valueAt, threadIdx.x);
            }
        }
        copyCommit();
    };
    // All rows of the warp see positions seenFrom to seenTo-1, none sees warpTo or more. A row of no token sees
    // nothing, and what it gives is not stored.
    int lowest = (warp * 16) / a.group, highest = min((warp * 16 + 15) / a.group, rows - 1);
    int seenFrom = lowest < rows ? firstSeen(a, a.until[row0 + highest]) : 0, seenTo = lowest < rows ? a.until[row0 + lowest] : 0;
    int warpTo = lowest < rows ? a.until[row0 + highest] : 0;
    State<DIM> st = {};
#pragma unroll
    for (int i = 0; i < 2; i++) {
        int h = head * a.group + (warp * 16 + lane / 4 + 8 * i) % a.group;
        st.m[i] = a.sinks ? a.sinks[h] * LOG2E : -INF;
        st.t[i] = a.sinks ? 1 : 0;
    }
    load(c);
    for (; c < chunks; c++) {
        u32 keys = base + c % 2 * 2 * HALF;
        float s[8][4] = {}, m[2], t[2], old[2], add[2];
        copyWait<0>();
        __syncthreads(); // chunk c is there, and all have read the one before
        load(c + 1);
        if (c * CHUNK >= warpTo) // no row of the warp sees it: joining it would change nothing
            continue;
        attendKeys<DIM, 8>(s, q, keys);
        weigh(s, m, t, c, first, end, c * CHUNK >= seenFrom && (c + 1) * CHUNK <= seenTo, a.scale, a.softcap);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            joinFactors(st.m[i], m[i], old[i], add[i]);
            st.t[i] = join(st.t[i], old[i], t[i], add[i]);
        }
#pragma unroll
        for (int part = 0; part < DIM; part += PART<DIM>) {
            float o[PART<DIM> / 8][4] = {};
            attendValues<DIM, 4, PART<DIM>>(o, s, keys + HALF, part);
#pragma unroll
            for (int n = 0; n < PART<DIM> / 8; n++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    st.o[part / 8 + n][e] = join(st.o[part / 8 + n][e], old[e / 2], o[n][e], add[e / 2]);
        }
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        if (!there[i])
            continue;
        float inv = 1.f / st.t[i];
#pragma unroll
        for (int n = 0; n < DIM / 8; n++)
            *(u32 *)((bf16 *)a.dst.at + out[i] + n * 8 + lane % 4 * 2) = packBF16(st.o[n][2 * i] * inv, st.o[n][2 * i + 1] * inv);
    }
}

// WARPS is the most warps of a block of attend_few.
template <int DIM> constexpr int WARPS = (CODED ? 16 : 12) / (DIM <= 128 ? 1 : 2);

// Chunk is a chunk of a share, as a warp of attend_few computes it.
struct Chunk {
    int x;           // its number (Cut)
    int i, begin, n; // which of the few rows it is of, and where the n chunks of that row begin among those of all rows
    int row, slot, until; // of this row
    int head, part, nth;  // the KV head, the first of its query heads, and which of the row's chunks
    int at;               // its first position
    const u8 *page;       // the keys of 16 positions, page lane%4; nil if the row sees none of them

    // find finds chunk x, of row i, whose chunks begin at `begin`; `of` is a.few[i].
    __device__ __forceinline__ void find(const AttendArgs &a, const Cut &cut, int x, int i, int begin, int4 of) {
        this->x = x, this->i = i, this->begin = begin, n = of.x - begin, row = of.y, slot = of.z, until = of.w;
        int share = (x - begin * cut.shares) / n;
        nth = x - begin * cut.shares - share * n, head = share / cut.parts, part = (share - head * cut.parts) * 8;
    }

    // advance goes on by so many chunks: to later shares and rows, too. x is the caller's to advance.
    __device__ __forceinline__ void advance(const AttendArgs &a, int by) {
        for (nth += by; nth >= n;) {
            nth -= n, part += 8;
            if (part < a.group)
                continue;
            part = 0;
            if (++head < a.heads)
                continue;
            int4 of = a.few[++i];
            head = 0, begin += n, n = of.x - begin, row = of.y, slot = of.z, until = of.w;
        }
    }

    // lookUp finds the chunk's first position and its keys in the cache.
    template <int DIM> __device__ __forceinline__ void lookUp(const AttendArgs &a) {
        int from = firstSeen(a, until);
        at = (from / CHUNK + nth) * CHUNK;
        int pos = at + threadIdx.x % 4 * 16, n = pos / a.tokens, block = pos < until && pos + 16 > from ? a.table[(i64)slot * a.stride + n] : -1;
        page = block < 0 ? 0 : (const u8 *)(a.at + block * a.block) + (head * a.tokens + pos - n * a.tokens) * ROW<DIM>;
    }
};

// Newest is the key and the value of a row's own token. Of each a lane has numbers 2·lane and 2·lane+1, and those half
// a head further. Attention takes them from here, not from the cache.
template <int DIM> struct Newest {
    u32 key[2], value[2];
    float2 c, s; // cosines and sines of the key's angles
    bool there;  // the chunk that read was given is the row's last

    // read reads what make takes, if c is the row's last chunk.
    __device__ __forceinline__ void read(const AttendTurnedArgs &a, const Chunk &c) {
        int d = threadIdx.x % 32 * 2;
        there = c.nth == c.n - 1;
        if (!there || d >= DIM / 2)
            return;
        const bf16 *k = (const bf16 *)a.k.at + (i64)c.row * a.k.ld + c.head * DIM + d, *v = (const bf16 *)a.v.at + (i64)c.row * a.v.ld + c.head * DIM + d;
        const float *angle = (const float *)a.angles.at + (i64)c.row * a.angles.ld + d;
        key[0] = *(const u32 *)k, key[1] = *(const u32 *)(k + DIM / 2);
        value[0] = *(const u32 *)v, value[1] = *(const u32 *)(v + DIM / 2);
        this->c = *(const float2 *)angle, s = *(const float2 *)(angle + DIM / 2);
    }

    // make normalises and rotates the key that was read. Key and value go to the cache, from the first share of the KV
    // head alone; values lie toValues bytes behind keys.
    __device__ __forceinline__ void make(const AttendTurnedArgs &a, const Chunk &c, i64 toValues) {
        if (!there)
            return;
        int pos = c.until - 1, d = threadIdx.x % 32 * 2;
        Pairs p = {};
        if (d < DIM / 2)
            p.unpack(key[0], key[1]);
        if (a.kGain) {
            const float *gain = a.kGain + d % (DIM / 2);
            float2 one = *(const float2 *)gain, other = *(const float2 *)(gain + DIM / 2);
            p.scale(rsqrtf(sumOfWarp(p.squares(0)) / DIM + a.kEps), one, other);
        }
        p.rotate(this->c, s, key[0], key[1]);
        u8 *to = (u8 *)__shfl_sync(~0u, (u64)c.page, pos % CHUNK / 16) + pos % 16 * ROW<DIM> + d * 2;
        if (c.part == 0 && d < DIM / 2) {
            *(u32 *)to = key[0], *(u32 *)(to + DIM) = key[1];
            *(u32 *)(to + toValues) = value[0], *(u32 *)(to + toValues + DIM) = value[1];
        }
    }

    // put puts x, the key or the value, into page p of chunk c, at `page` in shared memory, if that is its place.
    __device__ __forceinline__ void put(const u32 (&x)[2], const Chunk &c, int p, u32 page) const {
        int pos = c.until - 1, d = threadIdx.x % 32 * 2;
        if (!there || pos % CHUNK / 16 != p)
            return;
        if (d < DIM / 2) {
            storeWord(page + place<DIM>(pos % 16, d / 8) + d % 8 * 2, x[0]);
            storeWord(page + place<DIM>(pos % 16, (DIM / 2 + d) / 8) + d % 8 * 2, x[1]);
        }
        __syncwarp();
    }
};

// Tag is what a block of attend_few has to know of a chunk to join it.
struct __align__(16) Tag {
    enum { FIRST = 1, LAST = 2, SPLIT = 4 }; // the first of its share, the last, one of a share that is split
    int row;    // of the batch
    int head;   // the first query head of its share
    int number; // among the chunks of all few rows, as in `partial`
    int what;   // FIRST, LAST and SPLIT, and 8 times the query heads of its share
};

// tagOf makes the tag of chunk c. The block has chunks first to last-1: a share that is not within these is split.
__device__ __forceinline__ Tag tagOf(const AttendArgs &a, const Chunk &c, int first, int last) {
    int start = c.x - c.nth;
    return {c.row, c.head * a.group + c.part, c.begin + c.nth,
            (c.nth == 0 ? Tag::FIRST : 0) | (c.nth == c.n - 1 ? Tag::LAST : 0) |
                (start + c.n > last || start < first ? Tag::SPLIT : 0) | min(a.group - c.part, 8) << 3};
}

// chunkQueries loads the queries of chunk c, up to 8 heads of one row, as rows g of operand A; rows g+8 are zeros. With
// AttendTurnedArgs it turns them too.
template <int DIM, typename Args>
__device__ __forceinline__ void chunkQueries(u32 (&q)[DIM / 16][4], const Args &a, const Chunk &c, int lane) {
    int h = c.part + lane / 4;
    queries<DIM>(q, h < a.group ? (const bf16 *)a.q.at + (i64)c.row * a.q.ld + (c.head * a.group + h) * DIM : 0, 0);
    if constexpr (sizeof(Args) > sizeof(AttendArgs))
        turnQueries<DIM>(q, (const float *)a.angles.at + (i64)c.row * a.angles.ld, a.qGain, a.qEps);
}

// chunkScores computes the scores s of chunk c: of head g, positions 2t and 2t+1 of every eight. Its keys are in the
// warp's pages, `ring` in shared memory, or on their way there; bit p of `pages` says that there is a page p. In their
// place the pages of its values are put on their way, which are `toValues` bytes behind the keys in the cache.
template <int DIM, bool TURNED, typename Load>
__device__ __forceinline__ void chunkScores(float (&s)[8][2], const u32 (&q)[DIM / 16][4], u32 ring, const Load &load,
                                            const Newest<DIM> &newest, const Chunk &c, u32 pages, i64 toValues) {
#pragma unroll
    for (int p = 0; p < 4; p++) {
        copyWait<3>();
        __syncwarp();
        if (pages >> p & 1) {
            if constexpr (TURNED)
                newest.put(newest.key, c, p, ring + p * PAGE<DIM>);
            float d[2][4] = {};
            pageKeys<DIM>(d, q, ring + p * PAGE<DIM>);
            s[2 * p][0] = d[0][0], s[2 * p][1] = d[0][1], s[2 * p + 1][0] = d[1][0], s[2 * p + 1][1] = d[1][1];
        }
        __syncwarp();
        load(c, p, toValues);
    }
}

// chunkOutputs adds to o the products of the weights s of chunk c, which `weigh` made of scores, and of its values.
// These are in the warp's pages or on their way there, as keys are for chunkScores. In their place the keys of
// chunk `next` are put on their way.
template <int DIM, bool TURNED, typename Load>
__device__ __forceinline__ void chunkOutputs(float (&o)[DIM / 16][4], const float (&s)[8][2], u32 ring, const Load &load,
                                             const Newest<DIM> &newest, const Chunk &c, u32 pages, const Chunk &next) {
#pragma unroll
    for (int p = 0; p < 4; p++) {
        u32 w0 = packWeights(s[2 * p][0], s[2 * p][1]), w1 = packWeights(s[2 * p + 1][0], s[2 * p + 1][1]);
        copyWait<3>();
        __syncwarp();
        if constexpr (TURNED)
            newest.put(newest.value, c, p, ring + p * PAGE<DIM>);
        if (pages >> p & 1)
            pageValues<DIM>(o, w0, w1, ring + p * PAGE<DIM>);
        __syncwarp();
        load(next, p, 0);
    }
}

// storeOutputs stores a chunk's o in shared memory, [heads, DIM + 8]. A lane has numbers of heads 2t and 2t+1, in the
// order of pageValues.
template <int DIM> __device__ __forceinline__ void storeOutputs(float *to, int heads, const float (&o)[DIM / 16][4], int lane) {
    constexpr int OUT = DIM + 8;
#pragma unroll
    for (int e = 0; e < 4; e++) {
        int h = lane % 4 * 2 + e % 2;
        if (h < heads)
#pragma unroll
            for (int n = 0; n < DIM / 16; n++)
                to[h * OUT + n * 16 + (CODED ? lane / 4 * 2 + e / 2 : e / 2 * 8 + lane / 4)] = o[n][e];
    }
}

// loadSum loads what a lane has of a head's sum O, DIM floats of shared memory: numbers 2·lane and 2·lane+1 of each 64.
template <int DIM> __device__ __forceinline__ void loadSum(float (&O)[(DIM + 63) / 64 * 2], const float *sum, int lane) {
#pragma unroll
    for (int k = 0; k < (DIM + 63) / 64; k++)
        if (2 * lane + 64 * k < DIM)
            O[2 * k] = sum[2 * lane + 64 * k], O[2 * k + 1] = sum[2 * lane + 64 * k + 1];
}

// storeSum stores what loadSum loads.
template <int DIM> __device__ __forceinline__ void storeSum(float *sum, const float (&O)[(DIM + 63) / 64 * 2], int lane) {
#pragma unroll
    for (int k = 0; k < (DIM + 63) / 64; k++)
        if (2 * lane + 64 * k < DIM)
            sum[2 * lane + 64 * k] = O[2 * k], sum[2 * lane + 64 * k + 1] = O[2 * k + 1];
}

// startSum makes m, t and o of a query head (here M, T and O) what they are before its first chunk.
template <int DIM> __device__ __forceinline__ void startSum(const AttendArgs &a, float &M, float &T, float (&O)[(DIM + 63) / 64 * 2], int head) {
    M = a.sinks ? a.sinks[head] * LOG2E : -INF, T = a.sinks ? 1 : 0;
#pragma unroll
    for (int k = 0; k < (DIM + 63) / 64 * 2; k++)
        O[k] = 0;
}

// storePartial copies what a chunk gave for a query head, o, m and t in DIM + 2 floats, to `partial`. `number` is the
// chunk's among those of all few rows.
template <int DIM> __device__ __forceinline__ void storePartial(const AttendArgs &a, const float *from, int number, int head, int lane) {
    float *to = a.partial + ((i64)number * a.heads * a.group + head) * (DIM + 2);
    for (int d = 2 * lane; d < DIM + 2; d += 64)
        *(float2 *)(to + d) = *(const float2 *)(from + d);
}

// attendFew is for few rows. The warps of a block take its chunks in turn, a round at a time; after each round they
// join what they have, in order. If several blocks have chunks of a share, o, m and t of each of its chunks go to
// `partial`, and the block that finishes last joins them (joinShare).
//
// A warp has four pages of 16 positions in shared memory: first a chunk's keys, then, page by page, its values, and
// then the keys of its next chunk. So four pages are always on their way. Queries are operand A where they meet keys;
// weights are operand B where they meet values: what a lane has of the scores is what it needs of the weights.
//
// With AttendTurnedArgs it turns queries and keys itself. Of the cache it then reads nothing that the step writes:
// pages are on their way before the kernels in front of it are done.
//
// Any number of blocks of up to WARPS warps. Dynamic shared memory: fewShared in attention.go.
template <int DIM, typename Args> __device__ __forceinline__ void attendFew(const Args &a) {
    constexpr bool TURNED = sizeof(Args) > sizeof(AttendArgs);
    constexpr int OUT = DIM + 8, PAIRS = (DIM + 63) / 64;
    extern __shared__ __align__(128) u8 shared[];
    int warps = blockDim.x / 32, warp = threadIdx.x / 32, lane = threadIdx.x % 32, heads = min(a.group, 8);
    u32 ring = sharedAddress(shared) + warp * 4 * PAGE<DIM>;
    Tag *tags = (Tag *)(shared + warps * 4 * PAGE<DIM>); // [warps] of each warp's chunk
    int *joins = (int *)(tags + warps);                  // 1: this block is to join a share that is split
    float *outs = (float *)(tags + warps + 1);           // [warps, heads, OUT]: o, then m and t
    float *sums = outs + warps * heads * OUT;            // [heads, OUT]: likewise, of the chunks so far of a share
    letNextBegin();
    // What the host lists is there before any kernel of the step begins.
    Cut cut(a);
    if (blockIdx.x >= cut.blocks) {
        waitForRows();
        return;
    }
    // The block has chunks from x to past-1, of rows i to j, before borders are moved to the ends of shares.
    int x = cut.begin(blockIdx.x), past = cut.begin(blockIdx.x + 1);
    int i = a.items[x / cut.shares], j = a.items[min(past, cut.chunks - 1) / cut.shares];
    int4 row = a.few[i], pastRow = a.few[j];
    int begin = i ? a.few[i - 1].x : 0, pastBegin = j ? a.few[j - 1].x : 0;
    if (!TURNED)
        waitForRows();
    // Then they are from first to last-1.
    int first = cut.align(x, begin, row.x), last = past < cut.chunks ? cut.align(past, pastBegin, pastRow.x) : past;
    if (first >= last) {
        if (TURNED)
            waitForRows();
        return;
    }
    if (first >= row.x * cut.shares) // the last share of the row is another block's
        begin = row.x, row = a.few[++i];
    u32 q[DIM / 16][4];
    Newest<DIM> newest = {};
    Spots<DIM> spots;
    i64 toValues = (i64)a.heads * a.tokens * ROW<DIM>;
    // load puts page p of a chunk on its way: of its keys, or of what is `further` bytes behind them. A page of which
    // the row sees nothing is not copied, but copyWait counts it. Where Newest has the row's last position, that is
    // zeros.
    auto load = [&](const Chunk &c, int p, i64 further) {
        const u8 *from = (const u8 *)__shfl_sync(~0u, (u64)c.page, p);
        if (from)
            loadPage<DIM>(ring + p * PAGE<DIM>, spots, from + further, c.until - TURNED - c.at - p * 16);
        copyCommit();
    };
    // The warp's first chunk. From here on `now` is what the warp computes in a round, `next` what it computes in the
    // one after; a warp that has none left still joins.
    Chunk now = {};
    now.find(a, cut, first, i, begin, row);
    now.x += warp;
    if (now.x < last) {
        now.advance(a, warp);
        now.lookUp<DIM>(a);
#pragma unroll 1
        for (int p = 0; p < 4; p++)
            load(now, p, 0);
        if (!TURNED)
            chunkQueries<DIM>(q, a, now, lane);
    }
    if constexpr (TURNED) {
        if (a.qGain && lane < DIM / 16)
            prefetch((lane % 2 ? a.kGain : a.qGain) + lane / 2 * 32);
        waitForRows();
        if (now.x < last) {
            newest.read(a, now);
            chunkQueries<DIM>(q, a, now, lane);
            newest.make(a, now, toValues);
        }
    }
    for (int round = first; round < last; round += warps) {
        Chunk next = now;
        next.x += warps;
        next.page = 0;
        if (now.x < last) {
            if (next.x < last)
                next.advance(a, warps);
            u32 pages = __ballot_sync(~0u, now.page != 0);
            float s[8][2] = {}, m[1], t[1];
            chunkScores<DIM, TURNED>(s, q, ring, load, newest, now, pages, toValues);
            if (next.x < last) {
                next.lookUp<DIM>(a);
                if (!CODED && !TURNED || next.row != now.row || next.head != now.head || next.part != now.part)
                    chunkQueries<DIM>(q, a, next, lane);
            }
            int from[1] = {firstSeen(a, now.until)}, until[1] = {now.until};
            weigh<1>(s, m, t, now.at / CHUNK, from, until, now.at >= from[0] && now.at + CHUNK <= now.until, a.scale, a.softcap);
            float o[DIM / 16][4] = {}; // of heads lane % 4 · 2 and + 1
            chunkOutputs<DIM, TURNED>(o, s, ring, load, newest, now, pages, next);
            float *to = outs + warp * heads * OUT;
            if (lane % 4 == 0 && lane / 4 < heads)
                *(float2 *)(to + lane / 4 * OUT + DIM) = make_float2(m[0], t[0]);
            storeOutputs<DIM>(to, heads, o, lane);
            if (lane == 0)
                tags[warp] = tagOf(a, now, first, last);
        }
        __syncthreads();
        // The chunks of the round are joined, each query head by one warp. M, T and O are m, t and o of those so far.
        for (int h = warp; h < heads; h += warps) {
            float *sum = sums + h * OUT, M = sum[DIM], T = sum[DIM + 1], O[2 * PAIRS];
            loadSum<DIM>(O, sum, lane);
#pragma unroll 1
            for (int w = 0; w < min(warps, last - round); w++) {
                Tag tag = tags[w];
                int head = tag.head + h;
                if (h >= tag.what >> 3)
                    continue;
                const float *from = outs + (w * heads + h) * OUT;
                if (tag.what & Tag::SPLIT) {
                    storePartial<DIM>(a, from, tag.number, head, lane);
                    continue;
                }
                if (tag.what & Tag::FIRST)
                    startSum<DIM>(a, M, T, O, head);
                float old, add, inv;
                joinFactors(M, from[DIM], old, add);
                T = join(T, old, from[DIM + 1], add);
                if (tag.what & Tag::LAST)
                    inv = 1.f / T;
                bf16 *to = (bf16 *)a.dst.at + (i64)tag.row * a.dst.ld + head * DIM;
#pragma unroll
                for (int k = 0; k < PAIRS; k++) {
                    int d = 2 * lane + 64 * k;
                    if (d >= DIM)
                        continue;
                    float2 o = *(const float2 *)(from + d);
                    O[2 * k] = join(O[2 * k], old, o.x, add), O[2 * k + 1] = join(O[2 * k + 1], old, o.y, add);
                    if (tag.what & Tag::LAST)
                        *(u32 *)(to + d) = packBF16(O[2 * k] * inv, O[2 * k + 1] * inv);
                }
            }
            __syncwarp(); // all lanes have read M and T
            if (lane == 0)
                sum[DIM] = M, sum[DIM + 1] = T;
            storeSum<DIM>(sum, O, lane);
        }
        // Split shares of which the block has just done its last chunk: there are at most two, those of the block's
        // first and of its last chunk.
        int ends[2] = {-1, -1};
        Tag ended[2];
        for (int w = 0; w < min(warps, last - round); w++) {
            Tag tag = tags[w];
            if (tag.what & Tag::SPLIT && (tag.what & Tag::LAST || round + w == last - 1)) {
                ends[1] = ends[0], ended[1] = ended[0];
                ends[0] = round + w, ended[0] = tag;
            }
        }
        if (ends[0] >= 0)
            __threadfence(); // others that see `arrived` see what went to partial
        __syncthreads();
#pragma unroll
        for (int e = 0; e < 2; e++) {
            if (ends[e] < 0)
                continue;
            Tag tag = ended[e];
            int i = a.items[tag.number], begin = i ? a.few[i - 1].x : 0, n = a.few[i].x - begin, start = ends[e] - (tag.number - begin);
            if (threadIdx.x == 0) {
                int mine = ends[e] + 1 - max(first, start), *arrived = a.arrived + i * a.heads * a.group + tag.head;
                bool all = atomicAdd(arrived, mine) + mine == n;
                if (all) {
                    *arrived = 0;
                    __threadfence();
                }
                *joins = all;
            }
            __syncthreads();
            if (*joins)
                joinShare<DIM>(a, tag.row, tag.head, tag.what >> 3, begin, n);
            __syncthreads();
        }
        now = next;
        if constexpr (TURNED)
            if (now.x < last) {
                newest.read(a, now);
                newest.make(a, now, toValues);
            }
    }
}

#if KV == 0 && !defined WIDE
// attend_join joins the chunks of few rows that attend_latent_chunk computed. [few rows, query heads] blocks of dim
// threads.
struct JoinArgs {
    AttendArgs a;
    int dim;
};
KERNEL attend_join(const JoinArgs j) {
    letNextBegin();
    waitForRows();
    const AttendArgs &a = j.a;
    int i = blockIdx.x, h = blockIdx.y, d = threadIdx.x, heads = a.heads * a.group;
    if (i >= a.count[0])
        return;
    int4 of = a.few[i];
    float M = a.sinks ? a.sinks[h] * LOG2E : -INF, T = a.sinks ? 1 : 0, O = 0;
    int begin = i ? a.few[i - 1].x : 0;
    const float *p = a.partial + ((i64)begin * heads + h) * (j.dim + 2);
#pragma unroll 4
    for (int n = begin; n < of.x; n++, p += (i64)heads * (j.dim + 2)) {
        float old, add, o = p[d], m = p[j.dim], t = p[j.dim + 1];
        joinFactors(M, m, old, add);
        T = join(T, old, t, add);
        O = join(O, old, o, add);
    }
    ((bf16 *)a.dst.at)[(i64)of.y * a.dst.ld + h * j.dim + d] = toBF16(O * (1.f / T));
}

#endif

#define ATTEND(DIM)                                                                                    \
    KERNEL __launch_bounds__(256, 1) attend_tile_##DIM(const AttendArgs a) { attendTile<DIM>(a); }     \
    KERNEL __launch_bounds__(WARPS<DIM> * 32, 1) attend_few_##DIM(const AttendArgs a) { attendFew<DIM>(a); }
#ifdef WIDE
ATTEND(192)
ATTEND(256)
#else
ATTEND(64)
ATTEND(80)
ATTEND(96)
ATTEND(128)
#if KV == 0
#define ATTEND_TURNED(DIM) \
    KERNEL __launch_bounds__(WARPS<DIM> * 32, 1) attend_few_##DIM##_turned(const AttendTurnedArgs a) { attendFew<DIM>(a); }
ATTEND_TURNED(64)
ATTEND_TURNED(96)
ATTEND_TURNED(128)
#endif
#endif
