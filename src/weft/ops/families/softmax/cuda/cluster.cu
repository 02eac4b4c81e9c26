// Softmax and log-softmax of rows that the blocks of a cluster share, and their gradients.
#include <weft/block.cuh>

#include "../../../core/cuda/cluster_row.cuh"
#include "softmax.cuh"
#include "softmax_backward.cuh"

// A cluster has one row, of which each block has `each` vectors. EVEN rows are whole vectors.
template <class T, int V, bool EVEN, int G, bool LOG>
__global__ void __launch_bounds__(G, 1536 / G)
    cluster_rows(const T* x, T* y, int n, long long stride, int each) {
    take_turn();
    extern __shared__ __align__(16) char memory[];
    long long row = blockIdx.x / cluster_blocks();
    ClusterRow<T, V, EVEN, G> part(row, {x + row * stride}, n, each, memory, lowest());
    Running own;
    part.read([&](const auto& v, int, int there) {
        // One maximum for all vectors: an exponential less than for each.
        float most = top(v[0][0], lowest());
        for (int e = 1; e < there; e++) most = top(v[e][0], most);
        float sum = 0;
        for (int e = 0; e < there; e++) sum = sum_of(v[e][0], base(most), sum);
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
    part.again([&](const auto& v, int chunk) {
        part.row.put(y + row * n, chunk, results<LOG>(v[0], from, scale));
    });
    cluster_wait();
}

// The gradient: d of g and y.
template <class T, int V, bool EVEN, int G, bool LOG>
__global__ void __launch_bounds__(G, 1536 / G)
    cluster_gradients(const T* g, const T* y, T* d, int n, int each) {
    take_turn();
    extern __shared__ __align__(16) char memory[];
    long long row = blockIdx.x / cluster_blocks();
    ClusterRow<T, V, EVEN, G, 2> part(row, {g + row * n, y + row * n}, n, each, memory, 0);
    float sum = 0;
    part.read([&](const auto& v, int, int there) {
        for (int e = 0; e < there; e++)
#pragma unroll
            for (int j = 0; j < V; j++) sum += term<LOG>(v[e][0][j], v[e][1][j]);
    });
    sum = cluster_reduce(block_sum<G>(sum), 0.0f, Plus());
    part.again([&](const auto& v, int chunk) {
        part.row.put(d + row * n, chunk,
                     v[0].map([&](float f, int j) { return gradient<LOG>(f, v[1][j], sum); }));
    });
    cluster_wait();
}
