// Rows that the blocks of a cluster share: each block keeps a part of the row in shared memory,
// from the only read of it to the result.
#pragma once
#include <weft/cluster.cuh>
#include <weft/row.cuh>

namespace weft {

// The vectors of a thread, of G threads. Block b of a cluster has vectors b * each to
// (b + 1) * each of a row. EVEN rows are whole vectors.
template <class T, int V, bool EVEN, int G>
struct ClusterRow {
    static constexpr int EACH = 2;   // vectors of a group of copies
    static constexpr int AHEAD = 4;  // groups under way
    PackedRow<T, V, EVEN> row;
    const T* from;
    Packed<T, V>* lying;
    int first, count;

    // Starts copies of the row `number`, which begins at `from`; `memory` has room for each / G
    // vectors of each thread, rounded up.
    __device__ ClusterRow(long long number, const T* from, int n, int each, void* memory)
        : row(number * n, n), from(from), lying(static_cast<Packed<T, V>*>(memory) + threadIdx.x) {
        first = cluster_block() * each + int(threadIdx.x);
        int end = min((cluster_block() + 1) * each, (n + row.lead + V - 1) / V);
        count = max(0, (end - first + G - 1) / G);
#pragma unroll
        for (int group = 0; group < AHEAD; ++group) fetch(group);
    }
    // Returns the number of the thread's vector k in the row.
    __device__ int chunk(int k) const { return first + k * G; }

    // Calls use(v, chunk, there) for EACH vectors as they come, of which the first `there` are.
    template <class Use>
    __device__ void read(Use use) const {
        for (int group = 0; group * EACH < count; ++group) {
            wait_copies<AHEAD - 1>();
            Packed<T, V> v[EACH];
            int there = min(EACH, count - group * EACH);
#pragma unroll
            for (int e = 0; e < EACH; ++e)
                if (e < there) v[e] = lying[(group * EACH + e) * G];
            use(v, chunk(group * EACH), there);
            fetch(group + AHEAD);
        }
    }
    // Calls use(v, chunk) for each vector.
    template <class Use>
    __device__ void again(Use use) const {
#pragma unroll 2
        for (int k = 0; k < count; ++k) use(lying[k * G], chunk(k));
    }

private:
    __device__ void fetch(int group) const {
#pragma unroll
        for (int e = 0; e < EACH; ++e) {
            int k = group * EACH + e;
            if (k < count) row.fetch(lying + k * G, from, chunk(k), lowest());
        }
        commit_copies();
    }
};

}  // namespace weft
