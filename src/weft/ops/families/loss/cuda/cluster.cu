// Cross-entropy of rows that the blocks of a cluster share.
#include "../../../core/cuda/cluster_row.cuh"
#include "cross_entropy.cuh"

// What the blocks of a row find.
template <class T>
struct Found {
    Running<T> running;
    Smooth smooth;

    __device__ Found operator+(const Found& other) const {
        Found all = *this;
        all.running.take(other.running);
        all.smooth.x += other.smooth.x, all.smooth.weight += other.smooth.weight;
        return all;
    }
};

// A cluster has one row, of which each block has `each` vectors. EVEN rows are whole vectors.
// `partials` has the loss of each row, which `join_rows` joins.
template <class T, class L, int V, bool EVEN, int G, bool LOSS, bool GRAD, bool SMOOTH>
__global__ void __launch_bounds__(G, 1536 / G)
    cluster_rows(const T* x, const L* target, const T* weight, const T* upstream,
                 const float* total, T* loss, float2* partials, T* gradient, int each,
                 const Classes c) {
    take_turn();
    extern __shared__ __align__(16) char memory[];
    long long row = blockIdx.x / cluster_blocks();
    const T* from = x + row * c.stride;
    ClusterRow<T, V, EVEN, G> part(row, {from}, c.n, each, memory, lowest());
    Labels<T, L> labels{target, weight};
    int label = labels.of(row, c);
    float x_label = label < 0 ? 0 : to<float>(from[label]);
    float norm = GRAD ? labels.template sum<G>(c, total) : 1;
    Found<T> own;
    part.read([&](const auto& v, int chunk, int there) {
        float most = top(v[0][0]);
        for (int e = 1; e < there; e++) most = max_nan(most, top(v[e][0]));
        own.running.rise(most);
        Exponential<T> exponential(own.running.most);
        for (int e = 0; e < there; e++) {
            own.running.sum = exponential.add(v[e][0], own.running.sum);
            if constexpr (SMOOTH) own.smooth.take(v[e][0], part.row, chunk + e * G, weight);
        }
    });
    float most = block_max<G>(own.running.most);
    own.running.rise(most);
    own.running.most = most, own.running.sum = block_sum<G>(own.running.sum);
    if constexpr (SMOOTH)
        own.smooth = {block_sum<G>(own.smooth.x), block_sum<G>(own.smooth.weight)};
    own = cluster_reduce(own, Found<T>{}, Plus());
    float s =
        GRAD && label >= 0 ? (upstream ? to<float>(upstream[row * c.upstream_step]) : 1) / norm : 0;
    Outcome<SMOOTH> is(own.running.most, own.running.sum, own.smooth, label, labels.weigh(label),
                       x_label, s, c);
    if (LOSS && cluster_block() == 0 && threadIdx.x == 0) {
        if (c.reduction == NONE) loss[row] = to<T>(is.loss);
        else partials[row] = make_float2(is.loss, is.weight);
    }
    if constexpr (GRAD) {
        Exponential<T> e(own.running.most);
        T* to_row = gradient + row * c.n;
        part.again([&](const auto& v, int chunk) {
            int at = part.row.place(chunk);
            part.row.put(to_row, chunk,
                         label < 0 ? Packed<T, V>{} : is.gradients(v[0], e, at, c.n, weight));
            // The thread that has written the label's element writes it again.
            if (label >= max(at, 0) && label < at + V)
                to_row[label] = to<T>(is.gradient(e(x_label), label, weight) - is.of_label);
        });
    }
    cluster_wait();
}
