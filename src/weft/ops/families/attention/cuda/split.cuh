// Keys in parts: blocks, or warps of a block, compute partial results, and the last block of a
// tile, or the block, combines them. Blocks of a cluster combine them together.
#pragma once
#include <weft/cluster.cuh>
#include "softmax.cuh"

// Who computes the keys of a tile: a block, several blocks, or the blocks of a cluster.
enum Split { WHOLE, BLOCKS, CLUSTER };

// Partial results of a part of the keys: o[BM][PITCH], then the logarithms of the sums. GLOBAL: in
// global memory, for other blocks.
template <int HEAD, int BM, bool GLOBAL>
struct Partial {
    // In shared memory, 4 rows of a fragment's store are in different banks.
    static constexpr int PITCH = GLOBAL ? HEAD : HEAD + 8, SIZE = BM * (PITCH + 1);
    float* base;
    __device__ Partial of(long long part) const { return {base + part * SIZE}; }
    __device__ float* row(int r) const { return base + r * PITCH; }
    __device__ float* log(int r) const { return base + BM * PITCH + r; }

    __device__ static float read(const float* at) {
        if constexpr (GLOBAL) return __ldcg(at);
        else return *at;
    }
    __device__ static Vector<float, 4> read_vector(const float* at) {
        float4 x;
        if constexpr (GLOBAL) x = __ldcg(reinterpret_cast<const float4*>(at));
        else x = *reinterpret_cast<const float4*>(at);
        return {x.x, x.y, x.z, x.w};
    }
    __device__ static void write(float* at, float x) {
        if constexpr (GLOBAL) __stcg(at, x);
        else *at = x;
    }
    __device__ static void write_two(float* at, float x, float y) {
        if constexpr (GLOBAL) __stcg(reinterpret_cast<float2*>(at), make_float2(x, y));
        else *reinterpret_cast<float2*>(at) = make_float2(x, y);
    }

    __device__ void write_four(int r, int column, const Vector<float, 4>& x) const {
        float4* at = reinterpret_cast<float4*>(row(r) + column);
        float4 made = make_float4(x[0], x[1], x[2], x[3]);
        if constexpr (GLOBAL) __stcg(at, made);
        else *at = made;
    }

    // The results of a warp whose first row is `first`, and their logarithms to base 2; rows from
    // `rows` on are left out.
    template <int M, int WIDTH>
    __device__ void write_rows(const float (&o)[M][WIDTH][4], const float (&logs)[M][2], int first,
                               int rows = BM) const {
        int lane = threadIdx.x % 32;
#pragma unroll
        for (int i = 0; i < M * 2; ++i) {
            int r = first + i * 8 + lane / 4;
            if (r >= rows) continue;
            if (lane % 4 == 0) write(log(r), logs[i / 2][i % 2]);
#pragma unroll
            for (int n = 0; n < WIDTH; ++n)
                write_two(row(r) + n * 8 + lane % 4 * 2, o[i / 2][n][i % 2 * 2],
                          o[i / 2][n][i % 2 * 2 + 1]);
        }
    }
};

// Threads that wait for each other: those of a block, or THREADS of a warpgroup at barrier `id`.
template <int THREADS>
struct Team {
    static constexpr int SIZE = THREADS;
    int id = 0;
    __device__ int thread() const { return threadIdx.x % THREADS; }
    __device__ void wait() const {
        if (id) barrier_sync<THREADS>(id);
        else __syncthreads();
    }
    // True for the last of `teams` that call it with this counter, which becomes 0 again. What all
    // of them have written before is visible to it in the L2 cache. `shared` is a word of shared
    // memory. One thread orders the writes of all: fences of every thread take longer.
    __device__ bool is_last(int* counter, int teams, int* shared) const {
        wait();
        if (thread() == 0) {
            int before;
            asm volatile("atom.acq_rel.gpu.global.add.s32 %0, [%1], 1;"
                         : "=r"(before)
                         : "l"(__cvta_generic_to_global(counter))
                         : "memory");
            *shared = before == teams - 1;
            if (*shared) *counter = 0;
        }
        wait();
        return *shared;
    }
};

// A team combines `count` parts of the first `rows` rows. `table` is shared memory for a float per
// row and part. WRITE(row, column, four results) stores results, LOG(row, sum) the logarithm of a
// sum to base 2.
template <int HEAD, int BM, bool GLOBAL, int THREADS, class Write, class Log>
__device__ void combine(Team<THREADS> team, Partial<HEAD, BM, GLOBAL> part, int count, int rows,
                        float* table, Write write, Log log) {
    constexpr int LANES = 8, ACROSS = HEAD / 4;
    int thread = team.thread();
    for (int i = thread; i < rows * count; i += THREADS)
        table[i] = part.read(part.of(i % count).log(i / count));
    team.wait();
    // The weights of the parts; LANES lanes have a row.
    int lane = thread % LANES;
    for (int first = 0; first < rows; first += THREADS / LANES) {
        int r = first + thread / LANES, own = r < rows ? count : 0;
        float base = NONE, sum = 0, *weight = table + r * count;
        for (int i = lane; i < own; i += LANES) base = fmaxf(base, weight[i]);
        base = group_reduce<LANES>(base, Larger());
        if (base == NONE) base = 0;
        for (int i = lane; i < own; i += LANES) sum += weight[i] = exp2_approx(weight[i] - base);
        sum = group_reduce<LANES>(sum, Plus());
        float factor = sum == 0 ? 0 : 1 / sum;
        for (int i = lane; i < own; i += LANES) weight[i] *= factor;
        if (lane == 0 && r < rows) log(r, sum == 0 ? NONE : base + log2f(sum));
    }
    team.wait();
    // Loads of several vectors and parts are in flight together: one after another would wait for
    // memory most of the time.
    auto add = [&](auto items, auto at_once) {
        constexpr int ITEMS = decltype(items)::value, PARTS = decltype(at_once)::value;
        for (int first = thread; first < rows * ACROSS; first += ITEMS * THREADS) {
            Vector<float, 4> value[ITEMS] = {};
#pragma unroll 1
            for (int i = 0; i < count; i += PARTS) {
                Vector<float, 4> x[PARTS][ITEMS];
#pragma unroll
                for (int j = 0; j < PARTS; ++j)
#pragma unroll
                    for (int u = 0; u < ITEMS; ++u) {
                        int n = min(first + u * THREADS, rows * ACROSS - 1);
                        x[j][u] = part.read_vector(part.of(min(i + j, count - 1)).row(n / ACROSS) +
                                                   n % ACROSS * 4);
                    }
#pragma unroll
                for (int j = 0; j < PARTS; ++j)
#pragma unroll
                    for (int u = 0; u < ITEMS; ++u) {
                        int r = min(first + u * THREADS, rows * ACROSS - 1) / ACROSS;
                        float weight = table[r * count + min(i + j, count - 1)];
                        if (i + j < count) {
#pragma unroll
                            for (int e = 0; e < 4; ++e) value[u][e] += weight * x[j][u][e];
                        }
                    }
            }
#pragma unroll
            for (int u = 0; u < ITEMS; ++u) {
                int n = first + u * THREADS;
                if (n < rows * ACROSS) write(n / ACROSS, n % ACROSS * 4, value[u]);
            }
        }
    };
    if (rows * ACROSS <= THREADS) add(Count<1>(), Count<8>());
    else if (rows * ACROSS <= 2 * THREADS) add(Count<2>(), Count<8>());
    else add(Count<4>(), Count<4>());
}

// The last block of a tile combines its parts; TABLE, WRITE and LOG are those of `combine`.
template <int HEAD, int BM, int THREADS, class Write, class Log>
__device__ void finish_parts(float* partial, int* counters, int number, int count, int rows,
                             float* table, Write write, Log log) {
    __shared__ int last;
    if (!Team<THREADS>().is_last(counters + number, count, &last)) return;
    Partial<HEAD, BM, true> all{partial};
    combine<HEAD, BM, true>(Team<THREADS>(), all.of(static_cast<long long>(number) * count), count,
                            min(BM, rows), table, write, log);
}

// The blocks of a cluster combine their parts of the first `rows` rows, which lie at the same place
// in the shared memory of each; WRITE and LOG are those of `combine`. A result is of one thread,
// which reads all parts of it at once.
template <int HEAD, int BM, int THREADS, class Write, class Log>
__device__ void combine_cluster(Partial<HEAD, BM, false> part, int rows, Write write, Log log) {
    constexpr int ACROSS = HEAD / 4, MOST = 8;
    cluster_sync();
    int blocks = cluster_blocks();
    for (int n = threadIdx.x * blocks + cluster_block(); n < rows * ACROSS; n += THREADS * blocks) {
        int r = n / ACROSS, column = n % ACROSS * 4;
        float weight[MOST], base = NONE, sum = 0;
        float4 x[MOST];
#pragma unroll
        for (int i = 0; i < MOST; ++i) {
            weight[i] = i < blocks ? load_from(i, part.log(r)) : NONE;
            if (i < blocks)
                x[i] = load_from(i, reinterpret_cast<const float4*>(part.row(r) + column));
        }
#pragma unroll
        for (int i = 0; i < MOST; ++i) base = fmaxf(base, weight[i]);
        float from = base == NONE ? 0 : base;
        Vector<float, 4> value = {};
#pragma unroll
        for (int i = 0; i < MOST; ++i) {
            if (i >= blocks) continue;
            float w = exp2_approx(weight[i] - from);
            sum += w;
            value[0] += w * x[i].x, value[1] += w * x[i].y;
            value[2] += w * x[i].z, value[3] += w * x[i].w;
        }
        float factor = sum == 0 ? 0 : 1 / sum;
#pragma unroll
        for (int e = 0; e < 4; ++e) value[e] *= factor;
        write(r, column, value);
        if (column == 0) log(r, sum == 0 ? NONE : base + log2f(sum));
    }
    cluster_sync();  // no block ends while others read its memory
}

// Combines the results that ACROSS warps have written to shared memory, `count` rows of each, and
// those of the other parts of the keys. `partial` and `counters` are those of SPLIT == BLOCKS;
// WRITE and LOG are those of `combine`.
template <int HEAD, int BM, int THREADS, int SPLIT, int ACROSS, class Write, class Log>
__device__ void combine_warps(Partial<HEAD, BM, false> shared, int count, float* partial,
                              int* counters, int number, int part, int parts, Write write,
                              Log log) {
    float* table = shared.of(ACROSS).base;
    __syncthreads();
    if constexpr (SPLIT == WHOLE) {
        combine<HEAD, BM, false>(Team<THREADS>(), shared, ACROSS, count, table, write, log);
    } else if constexpr (SPLIT == CLUSTER) {
        Partial<HEAD, BM, false> own{table + ACROSS * BM};
        combine<HEAD, BM, false>(
            Team<THREADS>(), shared, ACROSS, count, table,
            [&](int r, int c, const Vector<float, 4>& x) { own.write_four(r, c, x); },
            [&](int r, float x) { own.write(own.log(r), x); });
        combine_cluster<HEAD, BM, THREADS>(own, count, write, log);
    } else {
        auto mine =
            Partial<HEAD, BM, true>{partial}.of(static_cast<long long>(number) * parts + part);
        combine<HEAD, BM, false>(
            Team<THREADS>(), shared, ACROSS, count, table,
            [&](int r, int c, const Vector<float, 4>& x) { mine.write_four(r, c, x); },
            [&](int r, float x) { mine.write(mine.log(r), x); });
        finish_parts<HEAD, BM, THREADS>(partial, counters, number, parts, count, shared.base, write,
                                        log);
    }
}

// Four results as elements of a row, by one store where rows are whole vectors.
template <class T>
__device__ void store_four(T* row, int column, int width, bool whole, const Vector<float, 4>& x) {
    if (whole) {
        Vector<T, 4> made;
#pragma unroll
        for (int e = 0; e < 4; ++e) made[e] = to<T>(x[e]);
        if (column < width) store(row + column, made);
    } else {
#pragma unroll
        for (int e = 0; e < 4; ++e)
            if (column + e < width) row[column + e] = to<T>(x[e]);
    }
}
