// Attention of few rows on Hopper, for heads of 64 and 128 numbers and, to bfloat16 and halves, of 96. Like attend.cu,
// whose bits it gives, it is compiled once for each type of the cache.
//
// A block stays on its multiprocessor and takes one part of the chunks after another (RingPart). Its warps have roles:
// four fetch chunks (feed), four read and turn queries (turn), and JOINERS multiply a chunk each and join it to those
// before it (joinChunks). So no warp that multiplies waits for the numbers of blocks, or for queries: under load each
// such load takes as long as the chunks take that are on their way.
#include "attend_few.cuh"
#include "attend_wgmma.cuh"

constexpr int FEEDERS = CHUNK / 16, TURNERS = 4; // a feeder for each page of a chunk
#define SLOTS 6        // shares whose queries are in shared memory
#define MOST_PARTS 30  // that a block takes, besides its first
#define MOST_SPLITS 62 // shares that it has not all of, or in several parts: two of a part
#define NEXT_PARTS 16  // in shared memory: turner 0 is less than so many shares before others

// JOINERS is the number of warps that multiply, and of chunks in shared memory: a place for each.
template <int DIM> constexpr int JOINERS = DIM == 64 || CODED ? 10 : DIM == 96 ? 7 : 6;

// Plan is what lies where in shared memory: chunks, the four pages of keys, then those of values; of each share in
// work, queries and the key and the value of the row itself; sums of the share that is joined; records of chunks;
// shares that are split; next parts; barriers.
template <int DIM> struct Plan {
    static constexpr u32 VALUES = CHUNK / 16 * PAGE<DIM>, PLACE = 2 * VALUES, QUERY = 8 * PITCH<DIM>, NEWEST = 4 * DIM;
    static constexpr u32 QUERIES = JOINERS<DIM> * PLACE, NEWESTS = QUERIES + SLOTS * QUERY, SUMS = NEWESTS + SLOTS * NEWEST;
    static constexpr u32 RECORDS = SUMS + (DIM / 16 + 1) * 512, SPLITS = RECORDS + JOINERS<DIM> * 32, PARTS = SPLITS + 16 + MOST_SPLITS * 32;
    static constexpr u32 FULL = PARTS + NEXT_PARTS * 48, EMPTY = FULL + JOINERS<DIM> * 8, QUERY_FULL = EMPTY + JOINERS<DIM> * 8;
    static constexpr u32 QUERY_EMPTY = QUERY_FULL + SLOTS * 8, TURN = QUERY_EMPTY + SLOTS * 8, PART_FULL = TURN + JOINERS<DIM> * 8;
};

// loadFour, storeFour, loadFloats and storeFloats are of 16 bytes of shared memory.
__device__ __forceinline__ void loadFour(u32 (&v)[4], u32 at) {
    asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3]) : "r"(at) : "memory");
}

__device__ __forceinline__ void storeFour(u32 at, u32 x, u32 y, u32 z, u32 w) {
    asm volatile("st.shared.v4.u32 [%0], {%1,%2,%3,%4};" ::"r"(at), "r"(x), "r"(y), "r"(z), "r"(w) : "memory");
}

__device__ __forceinline__ void loadFloats(float (&v)[4], u32 at) {
    asm volatile("ld.shared.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3]) : "r"(at) : "memory");
}

__device__ __forceinline__ void storeFloats(u32 at, float x, float y, float z, float w) {
    asm volatile("st.shared.v4.f32 [%0], {%1,%2,%3,%4};" ::"r"(at), "f"(x), "f"(y), "f"(z), "f"(w) : "memory");
}

// Record says what a place's chunk is: of a row that sees positions up to until-1, from position `at` on; of `heads`
// query heads from `head` on; number `nth` in partial; of share number `share` that the block takes.
struct Record {
    enum { FIRST = 1, LAST = 2, SPLIT = 4, END = 8, STOP = 16 }; // of its share; END: the part's last of it; STOP: none
    int until, at, flags, share, row, head, nth, heads;
};

// RingPart is where a part begins: at chunk x, of share `share` of row i, whose chunks are begin to end-1 among those
// of all rows. It ends where the next part begins. All shares' chunks are numbered as in Cut.
struct RingPart {
    int x, i, begin, end;
    int row, slot, until, share;
};

// RingArgs is what the kernels take. Parts past the last have no chunks. taken: parts that blocks have taken besides
// their first, which has the block's number, and blocks that are done; both 0 between kernels.
template <typename Args> struct RingArgs {
    Args a;
    const RingPart *parts; // [most + 1]
    int *taken;
    int most, unused;
};

// Walk goes through the shares of a block's parts, all of chunks x to last-1.
template <int DIM> struct Walk {
    u32 base;
    int part;             // how many parts came before
    int first, x, last;   // chunks: the part's first one, the next one
    int i, begin, n;      // which of the few rows; its chunks are n from `begin` on, among those of all rows
    int row, slot, until;
    int perHead, shares;  // shares of a KV head, and of a row
    int share, nth;       // of the row, and which of the share's chunks
    int4 ahead;           // the next row, if there is one
    bool alone;           // no block has another part than its first one

    __device__ __forceinline__ Walk(const AttendArgs &a, const RingPart *parts, int most, u32 base) : base(base), part(0) {
        perHead = (a.group + 7) / 8, shares = a.heads * perHead;
        alone = parts[gridDim.x].x == parts[most].x;
        const int4 *p = (const int4 *)(parts + blockIdx.x);
        begins(a, p[0], p[1], parts[blockIdx.x + 1].x);
    }

    __device__ __forceinline__ void begins(const AttendArgs &a, int4 one, int4 other, int last) {
        this->last = last;
        first = x = one.x, i = one.y, begin = one.z, n = one.w - begin;
        row = other.x, slot = other.y, until = other.z, share = other.w;
        nth = x - begin * shares - share * n;
        look(a);
    }

    __device__ __forceinline__ void look(const AttendArgs &a) {
        if (x < last && (begin + n) * shares < last)
            ahead = a.few[i + 1];
    }

    // more reports whether there is a share, of this part or of the one that turner 0 took then.
    __device__ __forceinline__ bool more(const AttendArgs &a) {
        if (x >= last && !alone) {
            using P = Plan<DIM>;
            u32 v[8], at = base + P::PARTS + part % NEXT_PARTS * 48, past;
            barrierWait(base + P::PART_FULL + part % NEXT_PARTS * 8, part / NEXT_PARTS % 2);
            loadFour((u32(&)[4])v[0], at), loadFour((u32(&)[4])v[4], at + 16);
            asm volatile("ld.shared.u32 %0, [%1];" : "=r"(past) : "r"(at + 32) : "memory");
            part++;
            begins(a, make_int4(uniform(v[0]), uniform(v[1]), uniform(v[2]), uniform(v[3])), make_int4(uniform(v[4]), uniform(v[5]), uniform(v[6]), uniform(v[7])),
                   uniform(past));
        }
        return x < last;
    }

    // next goes to the next share of the part, from its first chunk on.
    __device__ __forceinline__ void next(const AttendArgs &a) {
        x += n - nth, nth = 0;
        if (++share < shares)
            return;
        share = 0, i++, begin += n;
        if (x < last) {
            n = ahead.x - begin, row = ahead.y, slot = ahead.z, until = ahead.w;
            look(a);
        }
    }
};

// feed is the work of the warps that fetch: feeder f has page f of each chunk, its keys and its values. Lanes read the
// numbers of the cache blocks of 32 chunks at a time, before those of the 32 before are all used. NEW: the row's own
// position is not in the cache yet.
template <int DIM, int NEW> __device__ __forceinline__ void feed(const AttendArgs &a, Walk<DIM> w, u32 base, int f) {
    using P = Plan<DIM>;
    int lane = threadIdx.x % 32, shareNo = 0, splits = 0;
    Cursor<JOINERS<DIM>> to = {0, 1};
    Spots<DIM> spots;
    i64 toValues = (i64)a.heads * a.tokens * ROW<DIM>;
    // find is the cache block of this lane's chunk of the 32 from number nth on, -1 if the row sees none of its page.
    auto find = [&](int slot, int until, int nth) {
        int from = firstSeen(a, until), pos = (from / CHUNK + nth + lane) * CHUNK + f * 16;
        return pos < until && pos + 16 > from ? a.table[(i64)slot * a.stride + pos / a.tokens] : -1;
    };
    auto arrive = [&] { // when the lane's copies are there; and what it wrote to the record
        u32 at = base + P::FULL + to.stage * 8;
        barrierArriveCopied(at);
        if (f == 0 && lane == 0)
            barrierArrive(at);
    };
    int block = 0;
    for (; w.more(a); shareNo++) {
        if (w.x == w.first)
            block = find(w.slot, w.until, w.nth);
        int from = firstSeen(a, w.until), head = w.share / w.perHead, first = w.share % w.perHead * 8;
        int start = w.x - w.nth, split = start < w.first || start + w.n > w.last, end = min(w.last, start + w.n);
        for (int nth = w.nth, x = w.x; x < end;) {
            // Those of the next 32 chunks: of this share, of the row's next one, or of the next row.
            bool more = x + 32 < end, same = more || w.share + 1 < w.shares;
            int next = more || end < w.last ? find(same ? w.slot : w.ahead.z, same ? w.until : w.ahead.w, more ? nth + 32 : 0) : -1;
            for (int k = 0; k < 32 && x < end; k++, x++, nth++, to.next()) {
                int at = (from / CHUNK + nth) * CHUNK, pos = at + f * 16, page = __shfl_sync(~0u, block, k);
                barrierWait(base + P::EMPTY + to.stage * 8, to.parity);
                if (f == 0 && lane == 0) {
                    u32 record = base + P::RECORDS + to.stage * 32;
                    int flags = (nth == 0 ? Record::FIRST : 0) | (nth == w.n - 1 ? Record::LAST : 0) | (split ? Record::SPLIT : 0) |
                                (x == end - 1 ? Record::END : 0);
                    storeFour(record, w.until, at, flags, shareNo);
                    storeFour(record + 16, w.row, head * a.group + first, w.begin + nth, min(a.group - first, 8));
                }
                if (page >= 0) {
                    const u8 *source = (const u8 *)(a.at + page * a.block) + (head * a.tokens + pos % a.tokens) * ROW<DIM>;
                    u32 place = base + to.stage * P::PLACE + f * PAGE<DIM>;
                    loadPage<DIM>(place, spots, source, w.until - NEW - pos);
                    loadPage<DIM>(place + P::VALUES, spots, source + toValues, w.until - NEW - pos);
                }
                arrive();
            }
            block = next;
        }
        if (split && f == 0 && lane == 0) {
            u32 at = base + P::SPLITS + 16 + splits++ * 32;
            storeFour(at, w.row, head * a.group + first, min(a.group - first, 8), w.i);
            storeFour(at + 16, w.begin, w.n, end - max(start, w.first), 0);
        }
        w.next(a);
    }
#pragma unroll 1
    for (int i = 0; i < JOINERS<DIM>; i++, to.next()) {
        barrierWait(base + P::EMPTY + to.stage * 8, to.parity);
        if (f == 0 && lane == 0)
            storeFour(base + P::RECORDS + to.stage * 32, 0, 0, Record::STOP, 0);
        arrive();
    }
    if (f == 0 && lane == 0)
        storeWord(base + P::SPLITS, splits);
}

// leave counts a block that takes no more parts; the last one makes the counters 0 again.
__device__ __forceinline__ void leave(int *taken) {
    if (atomicAdd(taken + 1, 1) == gridDim.x - 1)
        taken[0] = taken[1] = 0;
}

// turn is the work of the warps that read queries, of shares in turn. Lanes hold them as operand A, and leave them so
// for the warps that multiply. TURNED: they turn them, and the row's own key, and store this and the value. Turner 0
// takes parts, too, each when it begins the one before. A turner waits for rows when it knows where its first ones are.
template <int DIM, typename Args> __device__ __forceinline__ void turn(const RingArgs<Args> &args, Walk<DIM> w, u32 base, int turner) {
    using P = Plan<DIM>;
    constexpr bool TURNED = sizeof(Args) > sizeof(AttendArgs);
    const Args &a = args.a;
    int lane = threadIdx.x % 32, n = 0;
    Cursor<SLOTS> to = {0, 1};
    int took = 0, pending = 0; // pending: others do not know yet what turner 0 took
    auto publish = [&] {
        if (pending == 0)
            return;
        int p = min(__shfl_sync(~0u, took, 0) + (int)gridDim.x, args.most - 1);
        if (lane < 9) // and where the part after it begins
            storeWord(base + P::PARTS + w.part % NEXT_PARTS * 48 + lane * 4, ((const int *)(args.parts + p))[lane]);
        __syncwarp();
        if (lane == 0)
            barrierArrive(base + P::PART_FULL + w.part % NEXT_PARTS * 8);
        pending = 0;
    };
    for (; w.more(a); w.next(a), n++, to.next()) {
        auto take = [&] {
            if (turner != 0 || w.x != w.first || w.alone)
                return;
            if (lane == 0)
                took = w.part < MOST_PARTS ? atomicAdd(args.taken, 1) : args.most;
            pending = 1;
        };
        if (n % TURNERS != turner) {
            take();
            publish();
            continue;
        }
        int head = w.share / w.perHead, first = w.share % w.perHead * 8, h = first + lane / 4;
        bool newest = w.x - w.nth + w.n <= w.last; // the block has the row's last chunk
        u32 q[DIM / 16][4], key[2], value[2];
        float2 c, s;
        int d = lane * 2, pos = w.until - 1, inBlock = head * a.tokens + pos % a.tokens, block = 0;
        if (TURNED && newest)
            block = a.table[(i64)w.slot * a.stride + pos / a.tokens];
        if (n == turner)
            waitForRows();
        if constexpr (TURNED) {
            if (newest && d < DIM / 2) {
                const bf16 *k = (const bf16 *)a.k.at + (i64)w.row * a.k.ld + head * DIM + d, *v = (const bf16 *)a.v.at + (i64)w.row * a.v.ld + head * DIM + d;
                const float *angle = (const float *)a.angles.at + (i64)w.row * a.angles.ld + d;
                key[0] = *(const u32 *)k, key[1] = *(const u32 *)(k + DIM / 2);
                value[0] = *(const u32 *)v, value[1] = *(const u32 *)(v + DIM / 2);
                c = *(const float2 *)angle, s = *(const float2 *)(angle + DIM / 2);
            }
        }
        queries<DIM>(q, h < a.group ? (const bf16 *)a.q.at + (i64)w.row * a.q.ld + (head * a.group + h) * DIM : 0, 0);
        if constexpr (TURNED)
            turnQueries<DIM>(q, (const float *)a.angles.at + (i64)w.row * a.angles.ld, a.qGain, a.qEps);
        take();
        barrierWait(base + P::QUERY_EMPTY + to.stage * 8, to.parity);
#pragma unroll
        for (int k = 0; k < DIM / 16; k += 2)
            storeFour(base + P::QUERIES + to.stage * P::QUERY + k * 256 + lane * 16, q[k][0], q[k][2], q[k + 1][0], q[k + 1][2]);
        if constexpr (TURNED) {
            if (newest) {
                Pairs p = {};
                if (d < DIM / 2)
                    p.unpack(key[0], key[1]);
                if (a.kGain) {
                    const float *gain = a.kGain + d % (DIM / 2);
                    float2 one = *(const float2 *)gain, other = *(const float2 *)(gain + DIM / 2);
                    p.scale(rsqrtf(sumOfWarp(p.squares(0)) / DIM + a.kEps), one, other);
                }
                p.rotate(c, s, key[0], key[1]);
                if (d < DIM / 2) {
                    u32 at = base + P::NEWESTS + to.stage * P::NEWEST + d * 2;
                    storeWord(at, key[0]), storeWord(at + DIM, key[1]);
                    storeWord(at + 2 * DIM, value[0]), storeWord(at + 3 * DIM, value[1]);
                    if (first == 0) {
                        u8 *page = (u8 *)(a.at + block * a.block) + (i64)inBlock * ROW<DIM>;
                        i64 toValues = (i64)a.heads * a.tokens * ROW<DIM>;
                        *(u32 *)(page + d * 2) = key[0], *(u32 *)(page + d * 2 + DIM) = key[1];
                        *(u32 *)(page + toValues + d * 2) = value[0], *(u32 *)(page + toValues + d * 2 + DIM) = value[1];
                    }
                }
            }
        }
        __syncwarp();
        if (lane == 0)
            barrierArrive(base + P::QUERY_FULL + to.stage * 8);
        publish();
    }
    if (turner == 0 && lane == 0 && !w.alone)
        leave(args.taken);
}

// Joiner is a warp that multiplies, and what its lanes do with a chunk; g is lane/4 and t is lane%4. A chunk's scores
// are the product of queries, operand A, and keys: rows 0 to 7 of A are the share's query heads, rows 8 to 15 are
// zeros, and a lane has scores of head g. A chunk's output is the product of values, operand A, and the weights of
// these heads: a lane has it of heads 2t and 2t+1. m and t of attend.cuh are m and sum here, M and T of all chunks so
// far.
template <int DIM> struct Joiner {
    using P = Plan<DIM>;
    const AttendArgs &a;
    u32 base;
    int mine, lane, t, g; // mine: the warp's number, and its place's
    u32 place, sums;      // where the warp's chunks are; where this lane has sums: 16 bytes of every 512

    __device__ __forceinline__ Joiner(const AttendArgs &a, u32 base, int mine)
        : a(a), base(base), mine(mine), lane(threadIdx.x % 32), t(lane % 4), g(lane / 4), place(base + mine * P::PLACE),
          sums(base + P::SUMS + lane * 16) {}

    // loadTurned loads a share's queries, which `turn` left in its slot.
    __device__ __forceinline__ void loadTurned(u32 (&q)[DIM / 16][4], int slot) const {
#pragma unroll
        for (int k = 0; k < DIM / 16; k += 2) {
            u32 v[4];
            loadFour(v, base + P::QUERIES + slot * P::QUERY + k * 256 + lane * 16);
            q[k][0] = v[0], q[k][2] = v[1], q[k + 1][0] = v[2], q[k + 1][2] = v[3];
            q[k][1] = q[k][3] = q[k + 1][1] = q[k + 1][3] = 0;
        }
    }

    // placeNewest puts the row's own key and value, the last that it sees, into the chunk that begins at position `at`.
    __device__ __forceinline__ void placeNewest(int slot, int at, int until) const {
        int pos = until - 1 - at, u = lane % (DIM / 8);
        if (lane < DIM / 4) {
            u32 v[4];
            loadFour(v, base + P::NEWESTS + slot * P::NEWEST + lane * 16);
            storeFour(place + lane / (DIM / 8) * P::VALUES + ::place<DIM>(pos, u), v[0], v[1], v[2], v[3]);
        }
        __syncwarp();
    }

    // multiplyChunk computes m and the sum of weights of head g, and the output o of heads 2t and 2t+1, for the chunk
    // that begins at position `at`. The row sees positions `from` to until-1. o is zero before.
    __device__ __forceinline__ void multiplyChunk(float (&m)[1], float (&sum)[1], float (&o)[DIM / 16][4], const u32 (&q)[DIM / 16][4], int at,
                                                  int from, int until) const {
        int first[1] = {from}, end[1] = {until};
        float s[8][4] = {}, x[8][2];
        if constexpr (!CODED)
            attendKeys<DIM, 8>(s, q, place);
        else
#pragma unroll
            for (int p = 0; p < 4; p++)
                pageKeys<DIM>((float(&)[2][4])s[2 * p], q, place + p * PAGE<DIM>);
#pragma unroll
        for (int i = 0; i < 8; i++)
            x[i][0] = s[i][0], x[i][1] = s[i][1];
        weigh<1>(x, m, sum, at / CHUNK, first, end, at >= from && at + CHUNK <= until, a.scale, a.softcap);
#pragma unroll
        for (int p = 0; p < 4; p++) {
            u32 w0 = packWeights(x[2 * p][0], x[2 * p][1]), w1 = packWeights(x[2 * p + 1][0], x[2 * p + 1][1]);
            if (at + p * 16 < until && at + p * 16 + 16 > from)
                pageValues<DIM>(o, w0, w1, place + P::VALUES + p * PAGE<DIM>);
        }
    }

    // storePartial stores what multiplyChunk computed, for joinShare: to chunk number `nth` of partial, of `heads`
    // query heads from `head` on.
    __device__ __forceinline__ void storePartial(int nth, int head, int heads, float m, float sum, const float (&o)[DIM / 16][4]) const {
        float *to = a.partial + ((i64)nth * a.heads * a.group + head) * (DIM + 2);
        if (t == 0 && g < heads)
            *(float2 *)(to + g * (DIM + 2) + DIM) = make_float2(m, sum);
#pragma unroll
        for (int e = 0; e < 4; e++)
            if (2 * t + e % 2 < heads)
#pragma unroll
                for (int i = 0; i < DIM / 16; i++)
                    to[(2 * t + e % 2) * (DIM + 2) + i * 16 + (CODED ? g * 2 + e / 2 : e / 2 * 8 + g)] = o[i][e];
        __threadfence(); // others that see `arrived` see it
    }

    // bringSums brings m and the sum of weights, which a lane has of head g, to the lanes of outputs: more and mores
    // are those of heads 2t and 2t+1. M and T become what these heads begin with where they have a sink: `heads` query
    // heads of the row from `head` on.
    __device__ __forceinline__ void bringSums(float (&more)[2], float (&mores)[2], float (&M)[2], float (&T)[2], float m, float sum, int head, int heads) const {
#pragma unroll
        for (int e = 0; e < 2; e++) {
            more[e] = __shfl_sync(~0u, m, t * 8 + e * 4), mores[e] = __shfl_sync(~0u, sum, t * 8 + e * 4);
            if (a.sinks && 2 * t + e < heads)
                M[e] = a.sinks[head + 2 * t + e] * LOG2E, T[e] = 1;
        }
    }

    // leaveSums leaves what a lane has of heads 2t and 2t+1 so far for the warp that has the share's next chunk: o, in
    // pieces of 16 bytes, then M and T.
    __device__ __forceinline__ void leaveSums(int heads, const float (&o)[DIM / 16][4], const float (&M)[2], const float (&T)[2]) const {
        storeFloats(sums + DIM / 16 * 512, M[0], M[1], T[0], T[1]);
        if (2 * t < heads)
#pragma unroll
            for (int i = 0; i < DIM / 16; i++)
                storeFloats(sums + i * 512, o[i][0], o[i][1], o[i][2], o[i][3]);
    }

    // storeShare stores a share's results, o/T, to `heads` query heads of a row from `head` on. They pass through the
    // place of the share's queries, which no warp reads any more, so that a lane stores 16 bytes at a time.
    __device__ __forceinline__ void storeShare(int slot, int row, int head, int heads, const float (&o)[DIM / 16][4], const float (&T)[2]) const {
        float inv[2] = {1.f / T[0], 1.f / T[1]};
        u32 results = base + P::QUERIES + slot * P::QUERY;
        if constexpr (CODED) {
#pragma unroll
            for (int i = 0; i < DIM / 16; i++)
#pragma unroll
                for (int e = 0; e < 2; e++)
                    storeWord(results + ::place<DIM>(2 * t + e, 2 * i + g / 4) + g % 4 * 4,
                              packBF16(o[i][e] * inv[e], o[i][2 + e] * inv[e]));
        } else {
#pragma unroll
            for (int i = 0; i < DIM / 16; i += 2)
                storeMatrices(results + ::place<DIM>(lane % 8, 2 * i + lane / 8),
                              packBF16(o[i][0] * inv[0], o[i][1] * inv[1]), packBF16(o[i][2] * inv[0], o[i][3] * inv[1]),
                              packBF16(o[i + 1][0] * inv[0], o[i + 1][1] * inv[1]), packBF16(o[i + 1][2] * inv[0], o[i + 1][3] * inv[1]));
        }
        __syncwarp();
#pragma unroll 1
        for (int i = lane; i < heads * (DIM / 8); i += 32) {
            int h = i / (DIM / 8), u = i % (DIM / 8);
            u32 v[4];
            loadFour(v, results + ::place<DIM>(h, u));
            *(uint4 *)((bf16 *)a.dst.at + (i64)row * a.dst.ld + (head + h) * DIM + u * 8) = make_uint4(v[0], v[1], v[2], v[3]);
        }
        __syncwarp();
    }
};

// joinChunks is the work of a warp that multiplies: chunks mine, mine + JOINERS and so on of the block's. Warps
// multiply theirs at the same time, but join them one after the other, in the chunks' order (TURN).
template <int DIM, int NEW> __device__ __forceinline__ void joinChunks(const AttendArgs &a, u32 base, int mine) {
    using P = Plan<DIM>;
    Joiner<DIM> w(a, base, mine);
    u32 parity = 0;
    for (int n = mine;; n += JOINERS<DIM>, parity ^= 1) {
        barrierWait(base + P::FULL + mine * 8, parity);
        u32 r[8]; // the chunk's Record
        loadFour((u32(&)[4])r[0], base + P::RECORDS + mine * 32);
        loadFour((u32(&)[4])r[4], base + P::RECORDS + mine * 32 + 16);
        int until = uniform(r[0]), at = uniform(r[1]), flags = uniform(r[2]), share = uniform(r[3]), heads = uniform(r[7]);
        if (flags & Record::STOP)
            return;
        int slot = share % SLOTS, from = firstSeen(a, until);
        barrierWait(base + P::QUERY_FULL + slot * 8, share / SLOTS % 2);
        u32 q[DIM / 16][4];
        w.loadTurned(q, slot);
        if (NEW && at + CHUNK >= until)
            w.placeNewest(slot, at, until);
        float m[1], sum[1], o[DIM / 16][4] = {};
        w.multiplyChunk(m, sum, o, q, at, from, until);
        __syncwarp();
        if (w.lane == 0)
            barrierArrive(base + P::EMPTY + mine * 8);
        int row = uniform(r[4]), head = uniform(r[5]);
        if (flags & Record::SPLIT)
            w.storePartial(r[6], head, heads, m[0], sum[0], o);
        // Of heads 2t and 2t+1: the chunk's m and sum, what joins them (joinFactors), and the share's m and t.
        float more[2], mores[2], old[2], add[2], M[2] = {-INF, -INF}, T[2] = {0, 0};
        w.bringSums(more, mores, M, T, m[0], sum[0], head, heads);
        if (n > 0)
            barrierWait(base + P::TURN + mine * 8, mine ? parity : parity ^ 1);
        if (!(flags & Record::SPLIT)) {
            float v[4] = {}; // join's sums
            if (!(flags & Record::FIRST)) {
                loadFloats(v, w.sums + DIM / 16 * 512);
                M[0] = v[0], M[1] = v[1], T[0] = v[2], T[1] = v[3];
            }
#pragma unroll
            for (int e = 0; e < 2; e++) {
                joinFactors(M[e], more[e], old[e], add[e]);
                T[e] = join(T[e], old[e], mores[e], add[e]);
            }
            v[0] = v[1] = v[2] = v[3] = 0;
#pragma unroll
            for (int i = 0; i < DIM / 16; i++) {
                if (!(flags & Record::FIRST) && 2 * w.t < heads)
                    loadFloats(v, w.sums + i * 512);
#pragma unroll
                for (int e = 0; e < 4; e++)
                    o[i][e] = join(v[e], old[e % 2], o[i][e], add[e % 2]);
            }
            if (!(flags & Record::LAST))
                w.leaveSums(heads, o, M, T);
        }
        __syncwarp();
        if (w.lane == 0)
            barrierArrive(base + P::TURN + (mine == JOINERS<DIM> - 1 ? 0 : mine + 1) * 8);
        if (!(flags & Record::END))
            continue;
        if (!(flags & Record::SPLIT))
            w.storeShare(slot, row, head, heads, o, T);
        if (w.lane == 0)
            barrierArrive(base + P::QUERY_EMPTY + slot * 8);
    }
}

// attendRing: up to a block for each multiprocessor. Dynamic shared memory: ringShared in attention.go.
template <int DIM, typename Args> __device__ __forceinline__ void attendRing(const RingArgs<Args> &args) {
    using P = Plan<DIM>;
    constexpr bool TURNED = sizeof(Args) > sizeof(AttendArgs);
    extern __shared__ __align__(128) u8 shared[];
    u32 base = sharedAddress(shared);
    const Args &a = args.a;
    int warp = uniform(threadIdx.x / 32);
    letNextBegin();
    // What the host lists is there before any kernel of the step begins.
    Walk<DIM> walk(a, args.parts, args.most, base);
    if (threadIdx.x == 0) {
        for (int i = 0; i < JOINERS<DIM>; i++) {
            barrierInit(base + P::FULL + i * 8, FEEDERS * 32 + 1); // lanes that copy, and the record
            barrierInit(base + P::EMPTY + i * 8, 1);
            barrierInit(base + P::TURN + i * 8, 1);
        }
        for (int i = 0; i < SLOTS; i++) {
            barrierInit(base + P::QUERY_FULL + i * 8, 1);
            barrierInit(base + P::QUERY_EMPTY + i * 8, 1);
        }
        for (int i = 0; i < NEXT_PARTS; i++)
            barrierInit(base + P::PART_FULL + i * 8, 1);
        barriersReady();
    }
    __syncthreads();
    if (walk.x >= walk.last) {
        waitForRows();
        if (threadIdx.x == 0 && !walk.alone)
            leave(args.taken);
        return;
    }
    if (!TURNED || warp >= FEEDERS + TURNERS)
        waitForRows();
    if (warp < FEEDERS)
        feed<DIM, TURNED>(a, walk, base, warp);
    else if (warp < FEEDERS + TURNERS)
        turn<DIM>(args, walk, base, warp - FEEDERS);
    else
        joinChunks<DIM, TURNED>(a, base, warp - FEEDERS - TURNERS);
    __syncthreads();
    // A split share's row, first query head, how many, and which of the few rows; where its chunks begin in partial,
    // how many there are, and how many the block has done.
    int splits = *(int *)(shared + P::SPLITS);
    int4 *split = (int4 *)(shared + P::SPLITS + 16);
    if (threadIdx.x < splits) {
        int4 of = split[2 * threadIdx.x], has = split[2 * threadIdx.x + 1];
        int *arrived = a.arrived + of.w * a.heads * a.group + of.y;
        __threadfence();
        has.w = atomicAdd(arrived, has.z) + has.z == has.y;
        if (has.w) {
            *arrived = 0;
            __threadfence();
        }
        split[2 * threadIdx.x + 1] = has;
    }
    __syncthreads();
    for (int e = 0; e < splits; e++) {
        int4 of = split[2 * e], has = split[2 * e + 1];
        if (has.w)
            joinShare<DIM>(a, of.x, of.y, of.z, has.x, has.y);
    }
}

#define RING(DIM, NAME, ARGS)                                                            \
    KERNEL __launch_bounds__((FEEDERS + TURNERS + JOINERS<DIM>) * 32, 1)                 \
        attend_ring_##NAME(const RingArgs<ARGS> a) { attendRing<DIM>(a); }
RING(64, 64, AttendArgs)
RING(128, 128, AttendArgs)
#if KV < 2
RING(96, 96, AttendArgs)
#endif
#if KV == 0
RING(64, 64_turned, AttendTurnedArgs)
RING(96, 96_turned, AttendTurnedArgs)
RING(128, 128_turned, AttendTurnedArgs)
#endif
