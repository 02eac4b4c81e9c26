// Layer norm and RMS norm of rows that the blocks of a cluster share; rows.cuh has the formulas.
#include "../../../core/cuda/cluster_row.cuh"
#include "rows.cuh"

// A cluster has one row, of which each block has `each` vectors.
template <class T, class W, int V, bool RAGGED, int G, bool CENTRED>
__global__ void __launch_bounds__(G, 1536 / G)
    cluster_rows(const T* x, const W* w, const W* b, T* y, float* mean, float* rstd, int n,
                 long long stride, float eps, int each) {
    take_turn();
    extern __shared__ __align__(16) char memory[];
    long long row = blockIdx.x / cluster_blocks();
    ClusterRow<T, V, !RAGGED, G> part(row, {x + row * stride}, n, each, memory, 0);
    // Sums of differences from the mean of the thread's first vector: these are about as small as
    // those from the mean of the row. All numbers are less `first`, so that the mean has its
    // digits.
    float first = CENTRED ? shift_of(x + row * stride, true) : 0;
    float pivot = 0, count = 0, sum = 0, squares = 0;
    part.read([&](const auto& v, int chunk, int there) {
        for (int e = 0; e < there; e++) {
            int at = part.row.place(chunk + e * G);
            auto has = [&](int j) { return !RAGGED || part.row.has(at + j); };
            float size = 0;
#pragma unroll
            for (int j = 0; j < V; j++) size += has(j);
            if (CENTRED && count == 0 && size > 0) {
#pragma unroll
                for (int j = 0; j < V; j++) pivot += has(j) ? v[e][0][j] - first : 0;
                pivot /= size;
            }
            count += size;
#pragma unroll
            for (int j = 0; j < V; j++) {
                float d = has(j) ? v[e][0][j] - first - pivot : 0;
                sum += d, squares = fmaf(d, d, squares);
            }
        }
    });
    Moments all;
    if constexpr (CENTRED) {
        float shift = count > 0 ? sum / count : 0;
        squares -= sum * shift;
        all.count = count, all.mean = pivot + shift, all.squares = squares < 0 ? 0 : squares;
        all = block_moments<G>(all);
    } else {
        all.squares = block_sum<G>(squares);
    }
    all = cluster_reduce(all, Moments{}, [](Moments a, const Moments& other) {
        if constexpr (CENTRED) a.add(other);
        else a.squares += other.squares;
        return a;
    });
    all = shuffle(all, 0);  // all threads of all blocks have joined in the same order
    float scale = rsqrtf(all.squares / n + eps);
    if (cluster_block() == 0 && threadIdx.x == 0) {
        if (CENTRED && mean) mean[row] = first + all.mean;
        if (rstd) rstd[row] = scale;
    }
    part.again([&](const auto& v, int chunk) {
        int at = part.row.place(chunk);
        Vector<float, V> fw = to_floats(weights<V, RAGGED>(w, at, n, 1));
        Vector<float, V> fb = to_floats(weights<V, RAGGED>(b, at, n, 0));
        part.row.put(y + row * n, chunk, v[0].map([&](float f, int j) {
            return fmaf((f - first - all.mean) * scale, fw[j], fb[j]);
        }));
    });
    cluster_wait();
}
