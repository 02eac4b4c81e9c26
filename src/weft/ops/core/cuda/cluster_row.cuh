// Rows that the blocks of a cluster share: each block keeps a part of the row in shared memory,
// from the only read of it to the result.
#pragma once
#include <weft/cluster.cuh>
#include <weft/early_launch.cuh>
#include <weft/row.cuh>

namespace weft {

// The vectors of a thread, of G threads, of TENSORS tensors whose rows begin at the same places of
// vectors. Block b of a cluster has vectors b * each to (b + 1) * each of a row. EVEN rows are
// whole vectors.
template <class T, int V, bool EVEN, int G, int TENSORS = 1>
struct ClusterRow {
    static constexpr int EACH = 2;   // vectors of a group of copies
    static constexpr int AHEAD = 4;  // groups under way
    using Vectors = Packed<T, V>[TENSORS];
    PackedRow<T, V, EVEN> row;
    const T* from[TENSORS];
    Packed<T, V>* lying;
    float outside;
    int first, count;

    // Starts copies of the row `number`, which begins at `start` in each tensor. `memory` has room
    // for each / G vectors, rounded up, of each thread and tensor. What is outside of the row reads
    // as `outside`.
    __device__ ClusterRow(long long number, const T* const (&start)[TENSORS], int n, int each,
                          void* memory, float outside)
        : row(number * n, n), lying(static_cast<Packed<T, V>*>(memory) + threadIdx.x),
          outside(outside) {
#pragma unroll
        for (int i = 0; i < TENSORS; ++i) from[i] = start[i];
        first = cluster_block() * each + int(threadIdx.x);
        int end = min((cluster_block() + 1) * each, (n + row.lead + V - 1) / V);
        count = max(0, (end - first + G - 1) / G);
#pragma unroll
        for (int group = 0; group < AHEAD; ++group) fetch(group);
    }
    // Calls use(v, chunk, there) for EACH places as their vectors come, of which the first `there`
    // are; v[e][i] is that of tensor i at place e, number chunk + e * G of the row.
    template <class Use>
    __device__ void read(Use use) const {
        for (int group = 0; group * EACH < count; ++group) {
            wait_copies<AHEAD - 1>();
            Vectors v[EACH];
            int there = min(EACH, count - group * EACH);
#pragma unroll
            for (int e = 0; e < EACH; ++e)
                if (e < there) get(v[e], group * EACH + e);
            use(v, first + group * EACH * G, there);
            fetch(group + AHEAD);
        }
    }
    // Calls use(v, chunk) for each place; v[i] is the vector of tensor i.
    template <class Use>
    __device__ void again(Use use) const {
#pragma unroll 2
        for (int k = 0; k < count; ++k) {
            Vectors v;
            get(v, k);
            use(v, first + k * G);
        }
    }

private:
    __device__ Packed<T, V>* room(int k, int tensor) const {
        return lying + (k * TENSORS + tensor) * G;
    }
    __device__ void get(Vectors& v, int k) const {
#pragma unroll
        for (int i = 0; i < TENSORS; ++i) v[i] = *room(k, i);
    }
    __device__ void fetch(int group) const {
#pragma unroll
        for (int e = 0; e < EACH; ++e) {
            int k = group * EACH + e;
#pragma unroll
            for (int i = 0; i < TENSORS; ++i)
                if (k < count) row.fetch(room(k, i), from[i], first + k * G, outside);
        }
        commit_copies();
    }
};

}  // namespace weft
