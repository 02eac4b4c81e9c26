// Blocks that keep their part of a tensor with channels on chip between two passes over it: the
// first one sums, the second one writes results. Blocks that share channels meet in between.
#pragma once
#include <weft/async.cuh>
#include <weft/cluster.cuh>
#include <weft/grid.cuh>

#include "channels.cuh"

// The vectors of a thread, of TENSORS tensors of one shape. The first `kept` of each stay in shared
// memory, where no other thread reads them; ALL: all of them. The second pass begins with those
// that were read last, which the L2 cache still has.
template <class T, class Walk, int TENSORS, bool ALL>
struct Passes {
    static constexpr int V = Walk::V, BYTES = V * sizeof(T);
    static constexpr int EACH = 2;   // vectors of a group of copies
    static constexpr int AHEAD = 8;  // groups under way
    static constexpr int N = (Walk::FLAT ? 2 : 1) * IN_FLIGHT<T, V> / TENSORS;  // loads of each
    using Vectors = Vector<T, V>[TENSORS];
    const T* const (&from)[TENSORS];
    const Walk& walk;
    int count, kept;

    __device__ Passes(const T* const (&from)[TENSORS], const Walk& walk, int kept)
        : from(from), walk(walk), count(walk.vectors()), kept(min(kept, count)) {
        static_assert(!Walk::RAGGED, "whole vectors");
#pragma unroll
        for (int group = 0; group < AHEAD; group++) copy(group);
    }
    // Calls use(vectors, spot) for each place, in order.
    template <class Use>
    __device__ void first(Use use) const {
        for (int group = 0; group * EACH < kept; group++) {
            wait_copies<AHEAD - 1>();
#pragma unroll
            for (int e = 0; e < EACH; e++)
                if (group * EACH + e < kept) use_kept(group * EACH + e, use);
            copy(group + AHEAD);
        }
        if constexpr (!ALL)
            for (int n = kept; n < count; n += N) use_loaded(n, 1, count - n, use);
    }
    // The same in another order.
    template <class Use>
    __device__ void second(Use use) const {
        if constexpr (!ALL)
            for (int n = count - 1; n >= kept; n -= N) use_loaded(n, -1, n - kept + 1, use);
#pragma unroll 4
        for (int n = 0; n < kept; n++) use_kept(n, use);
    }

    // The same two with more for each place, which ahead(spot) loads for several places together:
    // use(vectors, spot, more).
    template <class Ahead, class Use>
    __device__ void first(Ahead ahead, Use use) const {
        constexpr int GROUPS = 4;
        for (int group = 0; group * EACH < kept; group += GROUPS) {
            decltype(ahead(Spot{})) more[GROUPS * EACH];
#pragma unroll
            for (int i = 0; i < GROUPS * EACH; i++)
                if (group * EACH + i < kept) more[i] = ahead(walk.spot(group * EACH + i));
#pragma unroll
            for (int g = 0; g < GROUPS; g++) {
                wait_copies<AHEAD - 1>();
#pragma unroll
                for (int e = 0; e < EACH; e++)
                    if ((group + g) * EACH + e < kept)
                        use_kept((group + g) * EACH + e, [&](const Vectors& v, const Spot& at) {
                            use(v, at, more[g * EACH + e]);
                        });
                copy(group + g + AHEAD);
            }
        }
        if constexpr (!ALL)
            for (int n = kept; n < count; n += N) use_loaded(n, 1, count - n, ahead, use);
    }
    template <class Ahead, class Use>
    __device__ void second(Ahead ahead, Use use) const {
        if constexpr (!ALL)
            for (int n = count - 1; n >= kept; n -= N) use_loaded(n, -1, n - kept + 1, ahead, use);
        constexpr int GROUP = 8 / TENSORS;
        for (int n = 0; n < kept; n += GROUP) {
            decltype(ahead(Spot{})) more[GROUP];
#pragma unroll
            for (int i = 0; i < GROUP; i++)
                if (n + i < kept) more[i] = ahead(walk.spot(n + i));
#pragma unroll
            for (int i = 0; i < GROUP; i++)
                if (n + i < kept)
                    use_kept(n + i, [&](const Vectors& v, const Spot& at) { use(v, at, more[i]); });
        }
    }

    // Stores a result. Where vectors are read again, it leaves the L2 cache to these.
    __device__ void put(T* y, const Spot& at, const Vector<T, V>& v) const {
        if constexpr (!ALL && BYTES == 16)
            __stcs(reinterpret_cast<uint4*>(y + at.at), *reinterpret_cast<const uint4*>(&v));
        else store_whole(y + at.at, v);
    }

private:
    __device__ Vector<T, V>* room(int n, int tensor) const {
        extern __shared__ uint4 rooms[];
        auto* vectors = reinterpret_cast<Vector<T, V>*>(rooms);
        return vectors + (n * TENSORS + tensor) * Walk::THREADS + threadIdx.x;
    }
    __device__ void copy(int group) const {
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            int n = group * EACH + e;
            if (n >= kept) continue;
            long long at = walk.spot(n).at;
#pragma unroll
            for (int k = 0; k < TENSORS; k++) copy_async<BYTES>(room(n, k), from[k] + at);
        }
        commit_copies();
    }
    template <class Use>
    __device__ void use_kept(int n, Use use) const {
        Vectors v;
#pragma unroll
        for (int k = 0; k < TENSORS; k++) v[k] = *room(n, k);
        use(v, walk.spot(n));
    }
    // The first `there` of N vectors from n on.
    template <class Use>
    __device__ void use_loaded(int n, int step, int there, Use use) const {
        use_loaded(
            n, step, there, [](const Spot&) { return 0; },
            [&](const Vectors& v, const Spot& at, int) { use(v, at); });
    }
    template <class Ahead, class Use>
    __device__ void use_loaded(int n, int step, int there, Ahead ahead, Use use) const {
        Spot at[N];
        Vector<T, V> v[TENSORS][N];
        decltype(ahead(Spot{})) more[N];
#pragma unroll
        for (int i = 0; i < N; i++) at[i] = walk.spot(i < there ? n + i * step : n);
#pragma unroll
        for (int k = 0; k < TENSORS; k++) load_all(v[k], from[k], at, there);
#pragma unroll
        for (int i = 0; i < N; i++) more[i] = ahead(at[i]);
#pragma unroll
        for (int i = 0; i < N; i++) {
            if (i >= there) continue;
            Vectors one;
#pragma unroll
            for (int k = 0; k < TENSORS; k++) one[k] = v[k][i];
            use(one, at[i], more[i]);
        }
    }
};

// The blocks of a channel: one has it ALONE, they are a CLUSTER, or the GRID runs at the same time.
enum Meeting { ALONE, CLUSTER, GRID };

// Waits for the blocks of a channel; what they have written is visible in the L2 cache. The result
// is for leave().
template <Meeting MEETING>
__device__ int meet(int* counter, int blocks) {
    if constexpr (MEETING == GRID) return meet_blocks(counter, blocks);
    cluster_sync();
    return 0;
}
template <Meeting MEETING>
__device__ void leave(int* counter, int blocks, int ticket) {
    if constexpr (MEETING == GRID) leave_blocks(counter, blocks, ticket);
}

// Two sums of a channel.
struct Pair {
    float a = 0, b = 0;
    __device__ void add(const Pair& other) { a += other.a, b += other.b; }
};

// Blocks of an SM: threads with several channels take more registers.
template <class Walk>
constexpr int BLOCKS = (Walk::K == 1 ? 1024 : 512) / Walk::THREADS;

// The channels of a block: thread c has channel c of these, those from `period` on have none.
template <class Walk>
struct BlockChannels {
    static constexpr int K = Walk::K, WIDEST = 8 * K;
    // Elements of a thread's vectors belong to other channels than those of its neighbours' do.
    static constexpr bool PLANES = Walk::FLAT && Walk::FOLDED;
    const Walk& walk;
    int width, period, first, channel;
    bool mine;

    __device__ explicit BlockChannels(const ChannelShape& s, const Walk& walk)
        : walk(walk), width(s.width), period(s.width * K) {
        if constexpr (PLANES) period = walk.fold;
        first = walk.tile * period, channel = first + int(threadIdx.x) % period;
        mine = threadIdx.x < period && channel < s.channels;
    }
    // The sums of all threads of each channel, in the thread that has it.
    __device__ Pair join(Pair (&own)[K]) const {
        if constexpr (PLANES) return join_planes(own);
        constexpr int WARPS = Walk::THREADS / 32;
        __shared__ Pair slots[WARPS][WIDEST];
        halve<16, K>(own, slots[warp_index()] + lane_index() % width * K, true);
        __syncthreads();
        Pair sum;
        if (threadIdx.x < period)
#pragma unroll
            for (int warp = 0; warp < WARPS; warp++) sum.add(slots[warp][threadIdx.x]);
        return sum;
    }
    // The same for small planes: a warp has a channel, whose elements are those of several threads.
    __device__ Pair join_planes(Pair (&own)[K]) const {
        __shared__ Pair all[K][Walk::THREADS + 2];  // rows begin in other banks
        __shared__ Pair sums[Walk::THREADS / 32];
#pragma unroll
        for (int k = 0; k < K; k++) all[k][threadIdx.x] = own[k];
        __syncthreads();
        Pair sum;
        if (warp_index() < period)
            for (int e = lane_index(); e < walk.plane * walk.deep; e += 32) {
                int t = e / walk.plane, at = (warp_index() - t) * walk.plane + e;
                sum.add(all[at % K][t * width + at / K]);
            }
        for (int d = 16; d > 0; d /= 2) sum.add(shuffle_xor(sum, d));
        if (lane_index() == 0) sums[warp_index()] = sum;
        __syncthreads();
        return threadIdx.x < period ? sums[threadIdx.x] : Pair{};
    }
    // The sums of N numbers that add(part, found, sum) adds for each part of a channel, in the
    // thread that has the channel. Threads share the parts.
    template <int N, class Add>
    __device__ void join_parts(float (&sum)[N], const ChannelShape& s, const Pair* found,
                               Add add) const {
        constexpr int LOADS = 9;  // under way together: all of most calls
        __shared__ float slots[N][Walk::THREADS];
        int step = Walk::THREADS / period;
        auto* own = reinterpret_cast<const float2*>(found) + min(channel, s.channels - 1);
        for (int p = threadIdx.x / period; p < s.parts; p += LOADS * step) {
            float2 one[LOADS];
#pragma unroll
            for (int i = 0; i < LOADS; i++)
                if (p + i * step < s.parts)
                    one[i] = __ldcg(own + (p + i * step) * (long long)s.channels);
#pragma unroll
            for (int i = 0; i < LOADS; i++)
                if (p + i * step < s.parts) add(p + i * step, one[i], sum);
        }
#pragma unroll
        for (int i = 0; i < N; i++) {
            for (int d = 16; d >= period; d /= 2) sum[i] += shuffle_xor(sum[i], d);
            slots[i][threadIdx.x] = sum[i];
        }
        __syncthreads();
        step = max(period, 32);
#pragma unroll
        for (int i = 0; i < N; i++)
            for (int t = threadIdx.x + step; t < Walk::THREADS; t += step)
                if (threadIdx.x < period) sum[i] += slots[i][t];
    }
    // The sums of all blocks of each channel, in the thread that has it. Blocks have met, with this
    // ticket, unless each is ALONE.
    template <Meeting MEETING>
    __device__ Pair join_all(Pair (&own)[K], const ChannelShape& s, Pair* found, int* counters,
                             int& ticket) const {
        Pair part = join(own);
        if constexpr (MEETING == ALONE) return part;
        if (mine) found[walk.part * walk.channels + channel] = part;
        ticket = meet<MEETING>(counters + walk.tile, s.parts);
        float sum[2] = {};
        join_parts(sum, s, found,
                   [](int, float2 one, float (&sum)[2]) { sum[0] += one.x, sum[1] += one.y; });
        return {sum[0], sum[1]};
    }
    // Stores the gradients of weight and bias where they are not null: of the sums of
    // dy * (x - mean) and of dy.
    template <class W>
    __device__ void put_gradients(W* dw, W* db, const Pair& all, float scale) const {
        if (!mine || walk.part != 0) return;
        if (dw) dw[channel] = to<W>(all.a * scale);
        if (db) db[channel] = to<W>(all.b);
    }
    // What the threads of channels have, in all threads with vectors of these.
    template <int N>
    __device__ void share(const float (&own)[N], float (&all)[N][K]) const {
        __shared__ float slots[N][WIDEST];
#pragma unroll
        for (int i = 0; i < N; i++)
            if (threadIdx.x < period) slots[i][threadIdx.x] = own[i];
        __syncthreads();
#pragma unroll
        for (int i = 0; i < N; i++)
#pragma unroll
            for (int k = 0; k < K; k++) all[i][k] = slots[i][place(k)];
    }

private:
    // Stores the sums of a warp. Of two lanes with the same N channels, D lanes apart, each goes on
    // with half of them, until it has one; `stores`: no other lane has this one.
    template <int D, int N>
    __device__ void halve(Pair (&own)[K], Pair* to, bool stores) const {
        if (D < width) {
            if (stores)
#pragma unroll
                for (int k = 0; k < N; k++) to[k] = own[k];
        } else if constexpr (D > 0) {
            constexpr int HALF = N / 2;
            bool upper = lane_index() & D;
            if constexpr (N == 1) own[0].add(shuffle_xor(own[0], D));
#pragma unroll
            for (int k = 0; k < HALF; k++) {
                Pair low = own[k], high = own[k + HALF];
                own[k] = upper ? high : low;
                own[k].add(shuffle_xor(upper ? low : high, D));
            }
            bool mine = stores && (N > 1 || !upper);
            halve<D / 2, (N > 1 ? HALF : 1)>(own, upper ? to + HALF : to, mine);
        }
    }
    // The number of the channel of element k of the thread's vectors among those of the block.
    __device__ int place(int k) const {
        if constexpr (PLANES) return walk.there ? walk.real(k) - first : 0;
        return int(threadIdx.x) % width * K + k;
    }
};
