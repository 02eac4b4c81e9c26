// Softmax and log-softmax of rows that the blocks of a cluster share.
#include <weft/block.cuh>

#include "../../../core/cuda/cluster_row.cuh"
#include "softmax.cuh"

// A cluster has one row, of which each block has `each` vectors. EVEN rows are whole vectors.
template <class T, int V, bool EVEN, int G, bool LOG>
__global__ void __launch_bounds__(G, 1536 / G)
    cluster_rows(const T* x, T* y, int n, long long stride, int each) {
    extern __shared__ __align__(16) char memory[];
    long long row = blockIdx.x / cluster_blocks();
    ClusterRow<T, V, EVEN, G> part(row, x + row * stride, n, each, memory);
    Running own;
    part.read([&](const auto& v, int, int there) {
        // One maximum for all vectors: an exponential less than for each.
        float most = top(v[0], lowest());
        for (int e = 1; e < there; e++) most = top(v[e], most);
        float sum = 0;
        for (int e = 0; e < there; e++) sum = sum_of(v[e], base(most), sum);
        own.add(most, sum);
    });
    float most = block_max<G>(own.most);
    float sum = block_sum<G>(own.most == most ? own.sum : own.sum * __expf(own.most - base(most)));
    Running of_block, all;
    of_block.most = most, of_block.sum = sum;
    all = cluster_reduce(of_block, all, [](Running a, const Running& b) {
        a.add(b.most, b.sum);
        return a;
    });
    float from = base(all.most), scale = scale_of<LOG>(all.sum);
    part.again([&](const Packed<T, V>& v, int chunk) {
        part.row.put(y + row * n, chunk, results<LOG>(v, from, scale));
    });
    cluster_wait();
}
