// Gradients of attention for f16 and bf16 on Hopper by five products, in the structure of
// FlashAttention-3 (Shah et al. 2024). Two warpgroups have 64 keys K and values V each. Queries Q
// and the gradients dO of their results are copied by TMA and stream past them, the last ones
// first:
//   S' = K Q',   dW' = V dO',   W = exp2(S - lse),   dS = W * (dW - delta),
//   dV += W' dO,   dK += dS' Q,   and for each tile of queries   dQ = dS K.
// W and dS are left operands in registers; dS also goes through shared memory to the product dQ.
//
// The blocks of other keys have dQ of the same queries. Each adds its part to floats in memory, in
// the order of the keys, so that all runs have the same bits: a word for each tile counts the parts
// that are there. Blocks draw their keys in this order, so that they wait for blocks that run. A
// last kernel rounds the sums. If a block has all keys, it stores dQ itself.
#pragma once
#include <weft/early_launch.cuh>
#include <weft/pipeline.cuh>
#include <weft/wgmma.cuh>
#include "results.cuh"
#include "streamed_rows.cuh"
#include "tickets.cuh"

// Keys of a block.
constexpr int KEYS = 128;

// The keys of a block, as the warp that copies hands them over: those from `first` on, or -1 as the
// end of all work. They are number `number` of their head. Tiles of queries go from `begin` on.
struct Strip {
    int batch, head, first, number, begin;
};

// The tiles that a strip streams, the last queries first; heads that share keys take turns.
struct Streaming {
    int head = 0, tile, begin;

    __device__ Streaming(const Streamed& streamed, int begin)
        : tile(streamed.tiles - 1), begin(begin) {}
    __device__ bool more() const { return tile >= begin; }
    // Returns true for the last one.
    __device__ bool last(const Problem& p) const { return tile == begin && head == p.group - 1; }
    __device__ void next(const Problem& p) {
        if (++head == p.group) head = 0, --tile;
    }
    __device__ int query_head(const Problem& p, const Strip& of) const {
        return of.head * p.group + head;
    }
    // The number of the tile among those of all heads of queries.
    __device__ int number(const Problem& p, const Streamed& streamed, const Strip& of) const {
        return (of.batch * p.heads + query_head(p, of)) * streamed.tiles + tile;
    }
};

// Copies the slabs of a tile of ROWS rows.
template <int ROWS, int HEAD>
__device__ void load_tile(unsigned to, const TensorMap& map, Barrier& full, int row, int head,
                          int batch) {
#pragma unroll
    for (int i = 0; i < (HEAD + 63) / 64; ++i)
        load_box(to + i * slab_bytes(ROWS), map, full, i * 64, row, head, batch);
}

// Returns threadIdx.x. The compiler does not know what it is, and keeps no registers with what
// follows from it for a whole loop.
__device__ inline int thread_now() {
    int thread;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    return thread;
}

// Returns a count of parts that other blocks publish; what they have added is there.
__device__ inline unsigned parts_there(const unsigned* done) {
    unsigned count;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(count) : "l"(done) : "memory");
    return count;
}

// Publishes a count of parts, after the copies that added them.
__device__ inline void publish_parts(unsigned* done, unsigned count) {
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(done), "r"(count) : "memory");
}

// Orders what copies of boxes have written, or will, beside what threads do.
__device__ inline void order_copies() { asm volatile("fence.proxy.async.global;" ::: "memory"); }

// BS: queries of a tile. Rings have QUERIES tiles of queries, DOUTS of their gradients, BLOCKS of
// keys and values, SCORES of dS and SUMS of dQ.
template <class T, int HEAD, int BS, int QUERIES, int DOUTS, int BLOCKS, int SCORES, int SUMS>
__device__ void stream_queries(const TensorMap& q, const TensorMap& k, const TensorMap& v,
                               const TensorMap& dout, const TensorMap& rows, const TensorMap& sums,
                               const TensorMap& dq, T* dk, T* dv, unsigned* done, int* counters,
                               const Problem& p, const Gradients& g, const Streamed& streamed) {
    constexpr bool DIVIDED = divided(HEAD);
    constexpr int N = BS / 8, WIDTH = HEAD / 8, TILE = tile_bytes(BS, HEAD),
                  LEFT = tile_bytes(KEYS, HEAD),
                  SCORE = (DIVIDED ? (BS + 63) / 64 : 2) * slab_bytes(KEYS),
                  SUM = 4 * sum_floats(HEAD, BS);
    constexpr int OWN = sum_queries(HEAD, BS), M = OWN / 8;
    static_assert(OWN % 16 == 0, "whole fragments");
    extern __shared__ __align__(16) unsigned char memory[];
    __shared__ Stages<BLOCKS> blocks;
    __shared__ Stages<QUERIES> queries;
    __shared__ Stages<DOUTS> douts;
    __shared__ Stages<SUMS> outs;
    __shared__ Stages<2> handed;
    __shared__ Strip strips[2];
    __shared__ __align__(128) float logs[QUERIES][(BS + 31) / 32 * 32];
    __shared__ __align__(128) float deltas[DOUTS][(BS + 31) / 32 * 32];
    unsigned lefts = slab_aligned(shared_address(memory)), qs = lefts + BLOCKS * 2 * LEFT,
             ds = qs + QUERIES * TILE, scores_at = ds + DOUTS * TILE,
             sums_at = scores_at + SCORES * SCORE;
    if (threadIdx.x == 0) {
        blocks.init(1, 8), queries.init(1, 8), douts.init(1, 8), outs.init(8, 1);
        handed.init(1, 8 + SUMS);
    }
    __syncthreads();
    int warpgroup = warpgroup_index(), lane = threadIdx.x % 32;
    int warp = shuffle(int(threadIdx.x / 32 % 4), 0);
    auto release = [&](Barrier& b) {
        if (lane == 0) b.arrive();
    };
    Turn<2> hand;
    // Waits for the next strip, strips[hand.stage], and returns false at the end of all work.
    auto take = [&] {
        handed.wait_full(hand);
        return strips[hand.stage].first >= 0;
    };
    auto end_strip = [&] {
        __syncwarp();
        release(handed.empty[hand.stage]);
        hand.next();
    };

    if (warpgroup == 2) {
        fewer_registers<24>();
        if (warp == 0) {
            if (lane) return;
            prefetch_map(q), prefetch_map(k), prefetch_map(v), prefetch_map(dout);
            prefetch_map(rows), prefetch_map(sums);
            wait_for_kernels();
            Turn<BLOCKS> block;
            Turn<QUERIES> to_query;
            Turn<DOUTS> to_dout;
            // Also the first strip is drawn: those before it are in blocks that run.
            int id = atomicAdd(counters, 1), across = (p.keys + KEYS - 1) / KEYS,
                shared_heads = p.heads / p.group, all = p.batch * shared_heads;
#pragma unroll 1
            for (;; hand.next(), block.next()) {
                Strip work;
                work.first = -1;
                if (id < across * all) {
                    Place at(p, across, shared_heads, 0, all, id);
                    work.batch = at.batch, work.head = at.head, work.number = across - 1 - at.tile;
                    work.first = work.number * KEYS;
                    work.begin = p.causal ? min(streamed.tiles, work.first / BS) : 0;
                }
                handed.wait_empty(hand);
                strips[hand.stage] = work, handed.full[hand.stage].arrive();
                if (work.first < 0) break;
                blocks.wait_empty(block);
                Barrier& full = blocks.full[block.stage];
                unsigned to = lefts + block.stage * 2 * LEFT;
                full.arrive_expecting(2 * LEFT);
                load_tile<KEYS, HEAD>(to, k, full, work.first, work.head, work.batch);
                load_tile<KEYS, HEAD>(to + LEFT, v, full, work.first, work.head, work.batch);
#pragma unroll 1
                for (Streaming at(streamed, work.begin); at.more(); at.next(p)) {
                    int head = at.query_head(p, work), row = at.tile * BS,
                        number = at.number(p, streamed, work);
                    queries.wait_empty(to_query);
                    Barrier& full_q = queries.full[to_query.stage];
                    full_q.arrive_expecting(TILE + 4 * BS);
                    load_tile<BS, HEAD>(qs + to_query.stage * TILE, q, full_q, row, head,
                                        work.batch);
                    load_box(shared_address(logs[to_query.stage]), rows, full_q, 0, 2 * number);
                    to_query.next();
                    douts.wait_empty(to_dout);
                    Barrier& full_d = douts.full[to_dout.stage];
                    full_d.arrive_expecting(TILE + 4 * BS);
                    load_tile<BS, HEAD>(ds + to_dout.stage * TILE, dout, full_d, row, head,
                                        work.batch);
                    load_box(shared_address(deltas[to_dout.stage]), rows, full_d, 0,
                             2 * number + 1);
                    to_dout.next();
                }
                // Not before: strips are drawn in the order in which they start.
                id = atomicAdd(counters, 1);
            }
            Tickets::end(counters);
            return;
        }
        if (warp > SUMS) return;
        wait_for_kernels();
        // A warp for each place of dQ adds it to the sums.
        int mine = warp - 1, turn = 0, parity = 0;
        for (; take(); end_strip()) {
            const Strip& work = strips[hand.stage];
#pragma unroll 1
            for (Streaming at(streamed, work.begin); at.more(); at.next(p)) {
                bool other = turn != mine;
                if (++turn == SUMS) turn = 0;
                if (other) continue;
                outs.full[mine].wait(parity);
                __syncwarp();  // no lane tests a phase that has passed
                parity ^= 1;
                int number = at.number(p, streamed, work);
                unsigned from = sums_at + mine * SUM, before = work.number;
                bool follows = !streamed.whole && before;
                // All lanes wait, together: a lane alone would keep those that wait for it.
                while (follows && __any_sync(~0u, parts_there(done + number) < before))
                    __nanosleep(20);
                if (lane == 0) {
                    if (follows) order_copies();
                    if (streamed.whole) {
#pragma unroll
                        for (int i = 0; i < (HEAD + 63) / 64; ++i)
                            store_box(dq, from + i * slab_bytes(BS), i * 64, at.tile * BS,
                                      at.query_head(p, work), work.batch);
                    } else if (!before) {
                        store_box(sums, from, 0, number * (SUM / 1024));
                    } else {
                        add_box(sums, from, 0, number * (SUM / 1024));
                    }
                    commit_stores();
                    wait_stores_read<0>();
                    outs.empty[mine].arrive();
                    if (!streamed.whole) {
                        wait_stores<0>();
                        order_copies();
                        publish_parts(done + number, before + 1);
                    }
                }
                __syncwarp();
            }
        }
        if (lane == 0) wait_stores<0>();
        return;
    }
    more_registers<240>();
    wait_for_kernels();
    // Descriptors are sums of one number and constants: registers are scarce.
    unsigned base = wgmma_rows(lefts), mine = warpgroup * slab_bytes(64);
    auto by_rows = [&](int at) { return wgmma_moved(wgmma_rows(0), (base & 0x3fff) * 16 + at); };
    auto by_columns = [&](int rows, int at) {
        return wgmma_moved(wgmma_columns(0, slab_bytes(rows)), (base & 0x3fff) * 16 + at);
    };
    constexpr int QS = BLOCKS * 2 * LEFT, DS = QS + QUERIES * TILE, SS = DS + DOUTS * TILE;
    // Steps of this block so far, and its strips: where rings are at follows from them.
    unsigned steps = 0, block = 0;
    auto full_queries = [&](unsigned n) { queries.full[n % QUERIES].wait(n / QUERIES % 2); };
    float s[N][4], dw[N][4];
    unsigned packed[BS / 16][4];
    // S' or dW': fixed rows by streamed rows.
    auto multiply = [&](float (&c)[N][4], int operand, int right) {
#pragma unroll
        for (int i = 0; i < HEAD / 16; ++i) {
            unsigned long long to = by_rows(right + i / 4 * slab_bytes(BS) + i % 4 * 32);
            wgmma<T>(c,
                     by_rows(mine + (block % BLOCKS * 2 + operand) * LEFT +
                             i / 4 * slab_bytes(KEYS) + i % 4 * 32),
                     to, i > 0);
        }
        wgmma_commit();
    };
    auto add = [&](float (&c)[WIDTH][4], int right) {
#pragma unroll
        for (int i = 0; i < BS / 16; ++i)
            wgmma_left<T>(c, packed[i], by_columns(BS, right + i * slab_bytes(16)));
        wgmma_commit();
    };
    if constexpr (SCORES == 1) barrier_arrive<256>(3 - warpgroup);
    for (; take(); end_strip()) {
        const Strip& work = strips[hand.stage];
        // After these the compiler knows that the lanes agree.
        int begin = shuffle(work.begin, 0);
        float dks[WIDTH][4] = {}, dvs[WIDTH][4] = {};
        Streaming at(streamed, begin);
        blocks.full[block % BLOCKS].wait(block / BLOCKS % 2);
        bool fresh = true;
        // NEXT: the scores of the next tile are computed before dQ and dK of this one. Behind the
        // last tile they are those of this one, and nobody reads them.
        auto step = [&](auto next) {
            constexpr bool NEXT = decltype(next)::value;
            [[maybe_unused]] unsigned following = steps + !at.last(p);
            int thread = thread_now(), lane = thread % 32, key0 = strips[hand.stage].first;
            auto release = [&](Barrier& b) {
                if (lane == 0) b.arrive();
            };
            douts.full[steps % DOUTS].wait(steps / DOUTS % 2);
            wgmma_begin();
            multiply(dw, 1, DS + steps % DOUTS * TILE);
            wgmma_wait<1>();
            wgmma_results(s);
            // Also the last product of the step before is done.
            if (!fresh) release(queries.empty[(steps - 1) % QUERIES]);
            fresh = false;
            int row = at.tile * BS;
            if (key0 + KEYS > p.keys || (p.causal && row < key0 + KEYS - 1)) {
                int first_key = key0 + thread / 128 * 64 + thread / 32 % 4 * 16 + lane / 4,
                    first_row = row + lane % 4 * 2;
#pragma unroll
                for (int i = 0; i < N; ++i)
#pragma unroll
                    for (int e = 0; e < 4; ++e) {
                        int key = first_key + e / 2 * 8, of = first_row + i * 8 + e % 2;
                        if (key >= p.keys || (p.causal && key > of)) s[i][e] = -INFINITY;
                    }
            }
            const float* log = logs[steps % QUERIES] + lane % 4 * 2;
#pragma unroll
            for (int i = 0; i < N; ++i) {
                float2 of = *reinterpret_cast<const float2*>(log + i * 8);
#pragma unroll
                for (int e = 0; e < 4; ++e)
                    s[i][e] = exp2_approx(fmaf(s[i][e], p.scale, e % 2 ? -of.y : -of.x));
            }
#pragma unroll
            for (int i = 0; i < BS / 16; ++i) c_to_a<T>(packed[i], s[2 * i], s[2 * i + 1]);
            wgmma_begin();
            add(dvs, DS + steps % DOUTS * TILE);
            wgmma_wait<1>();
            wgmma_results(dw);
            const float* delta = deltas[steps % DOUTS] + lane % 4 * 2;
#pragma unroll
            for (int i = 0; i < N; ++i) {
                float2 of = *reinterpret_cast<const float2*>(delta + i * 8);
#pragma unroll
                for (int e = 0; e < 4; ++e) dw[i][e] = s[i][e] * (dw[i][e] - (e % 2 ? of.y : of.x));
            }
            // The registers of s and of `packed` are free when these are all there.
            wgmma_results(dw);
            // The compiler moves a wait up to the last branch: this one stays behind the scores.
            if constexpr (NEXT) full_queries(following);
            wgmma_wait<0>();
            release(douts.empty[steps % DOUTS]);
#pragma unroll
            for (int i = 0; i < BS / 16; ++i) c_to_a<T>(packed[i], dw[2 * i], dw[2 * i + 1]);
            if constexpr (NEXT) {
                wgmma_begin();
                multiply(s, 0, QS + following % QUERIES * TILE);
            }
            // The other warpgroup has multiplied what was in this place. If there are two places,
            // it has come to the barrier below between two steps.
            if constexpr (SCORES == 1) barrier_sync<256>(2 + warpgroup);
            unsigned to = scores_at + steps % SCORES * SCORE + slab_bytes(thread / 32 * 16);
            constexpr int ACROSS = DIVIDED ? 4 : OWN / 16;  // fragments of a slab
#pragma unroll
            for (int i = 0; i < BS / 16; ++i)
                store_matrices_x4(to + i / ACROSS * slab_bytes(KEYS) +
                                      swizzle<128>(lane % 16, i % ACROSS * 2 + lane / 16),
                                  packed[i]);
            publish_tiles();
            barrier_sync<256>(1);
            thread = thread_now(), lane = thread % 32;
            float sum[M][4];
            wgmma_begin();
#pragma unroll
            for (int i = 0; i < KEYS / 16; ++i) {
                int rows = i * slab_bytes(16), slab = warpgroup * slab_bytes(KEYS);
                wgmma<T, true, true>(
                    sum, by_columns(KEYS, block % BLOCKS * 2 * LEFT + rows + (DIVIDED ? slab : 0)),
                    by_columns(KEYS, SS + steps % SCORES * SCORE + rows + (DIVIDED ? 0 : slab)),
                    i > 0);
            }
            wgmma_commit();
            add(dks, QS + steps % QUERIES * TILE);
            wgmma_wait<1>();
            wgmma_results(sum);
            if constexpr (SCORES == 1) barrier_arrive<256>(3 - warpgroup);
            if constexpr (NEXT) wgmma_results(s);
            outs.empty[steps % SUMS].wait(steps / SUMS % 2 ^ 1);
            unsigned char* place = memory + (sums_at - shared_address(memory)) + steps % SUMS * SUM;
            if (streamed.whole) {
                // Rows of queries; a lane names one of them and a vector.
                int r = (DIVIDED ? 0 : thread / 128 * OWN) + lane / 16 * 8 + lane % 8;
                unsigned slab =
                    sums_at + steps % SUMS * SUM + (DIVIDED ? thread / 128 * slab_bytes(BS) : 0);
#pragma unroll
                for (int i = 0; i < M / 2; ++i) {
                    float x[2][4];
                    unsigned words[4];
#pragma unroll
                    for (int e = 0; e < 8; ++e)
                        x[e / 4][e % 4] = sum[2 * i + e / 4][e % 4] * p.scale * LN2;
                    c_to_a<T>(words, x[0], x[1]);
                    store_matrices_x4<true>(
                        slab + swizzle<128>(r + i * 16, thread / 32 % 4 * 2 + lane / 8 % 2), words);
                }
            } else {
                float4* vectors =
                    reinterpret_cast<float4*>(place) + thread / 128 * M * 128 + thread % 128;
#pragma unroll
                for (int i = 0; i < M; ++i)
                    vectors[i * 128] = make_float4(sum[i][0], sum[i][1], sum[i][2], sum[i][3]);
            }
            publish_tiles();
            __syncwarp();
            release(outs.full[steps % SUMS]);
            ++steps;
        };
        if (at.more()) {
            full_queries(steps);
            wgmma_begin();
            multiply(s, 0, QS + steps % QUERIES * TILE);
            wgmma_wait<0>();
            wgmma_results(s);
            // With all steps in one loop, long heads have registers enough.
            constexpr bool PEELED = HEAD < 128;
#pragma unroll 1
            for (; PEELED ? !at.last(p) : at.more(); at.next(p)) step(Is<true>());
            if constexpr (PEELED) step(Is<false>());
        }
        wgmma_wait<0>();
        wgmma_results(dks), wgmma_results(dvs);
        if (!fresh) release(queries.empty[(steps - 1) % QUERIES]);
        release(blocks.empty[block % BLOCKS]);
        ++block;
#pragma unroll
        for (int i = 0; i < WIDTH; ++i)
#pragma unroll
            for (int e = 0; e < 4; ++e) dks[i][e] *= p.scale * LN2;
        auto store_all = [&](const float (&x)[WIDTH][4], T* to, const Strides& by, int width) {
            bool vectors = (width | by.batch | by.head | by.row) % 8 == 0;
            T* row0 = to + by.at(work.batch, work.head, 0);
            store_results<T>(x, work.first + warpgroup * 64 + warp * 16, p.keys, width, vectors,
                             [&](int r) { return row0 + r * by.row; });
        };
        store_all(dks, dk, g.dk, p.depth);
        store_all(dvs, dv, g.dv, p.width);
    }
}
