// Kernels of layer norm, RMS norm and group norm, forward; rows.cuh has the formulas.
#include "rows.cuh"

template <class T, class W, int V, bool RAGGED, int G, int REGS, int SHARED, bool CENTRED, bool ADD,
          bool CACHE, bool CHANNELS, bool PREFETCH>
__global__ void __launch_bounds__(G <= 32 ? 128 : G, BLOCKS_PER_SM<(G <= 32 ? 128 : G), REGS>)
    rows(const T* x, const T* added, const W* w, const W* b, T* y, T* total, float* mean,
         float* rstd, long long count, int n, long long stride, float eps, int inner, int groups) {
    start_next_kernel();
    wait_for_kernels(x + (blockIdx.x * (long long)ROWS_OF_BLOCK<G> + threadIdx.x / G) * stride);
    norm_rows<T, W, V, RAGGED, G, REGS, SHARED, CENTRED, ADD, CACHE, CHANNELS, PREFETCH>(
        x, added, w, b, y, total, mean, rstd, count, n, stride, eps, inner, groups);
}

// Long rows, first pass: each block takes a part of a row and stores its moments, relative to the
// row's shift. Without CENTRED, the mean is taken as 0, and the squares are those of the elements.
template <class T, int V, bool RAGGED, bool CENTRED, bool ADD>
__global__ void __launch_bounds__(256)
    parts_of_rows(const T* x, const T* added, T* total, Moments* found, int n, long long stride,
                  int parts, int chunks) {
    long long row = blockIdx.x / parts;
    int part = blockIdx.x % parts;
    Row<T, V, RAGGED> r{int(row * n % V), n};
    const T* from = x + row * stride;
    float shift = CENTRED ? shift_of(from, true) + (ADD ? shift_of(added + row * n, true) : 0) : 0;
    Moments all;
    int end = min((part + 1) * chunks, (n + r.lead + V - 1) / V);
#pragma unroll 4
    for (int c = part * chunks + threadIdx.x; c < end; c += 256) {
        Vector<T, V> v = r.get(from, c, shift);
        if constexpr (ADD) {
            v = sums(v, r.get(added + row * n, c, 0));
            r.put(total + row * n, c, v);
        }
        float size = 0, mean = 0;
        if constexpr (CENTRED) {
#pragma unroll
            for (int j = 0; j < V; j++) size += r.has(c, j);
            mean = sum_of(v, shift, 0) / size;
        }
        all.add(size, mean, squares_of(v, r, c, shift, mean, 0));
    }
    all = block_moments<256>(all);
    if (threadIdx.x == 0) found[blockIdx.x] = all;
}

// Long rows, second pass: each block joins the moments of its row, and writes its part.
template <class T, class W, int V, bool RAGGED, bool CENTRED, bool CHANNELS>
__global__ void __launch_bounds__(256)
    finish_rows(const T* x, const W* w, const W* b, T* y, float* mean, float* rstd,
                const Moments* found, int n, long long stride, float eps, int parts, int chunks,
                int inner, int groups) {
    long long row = blockIdx.x / parts;
    int part = blockIdx.x % parts;
    Moments all;
    for (int i = threadIdx.x; i < parts; i += 256) all.add(found[row * parts + i]);
    all = block_moments<256>(all);
    const T* from = x + row * stride;
    float shift = CENTRED ? shift_of(from, true) : 0, scale = rsqrtf(all.squares / n + eps);
    if (threadIdx.x == 0 && part == 0) {
        if (CENTRED && mean) mean[row] = shift + all.mean;
        if (rstd) rstd[row] = scale;
    }
    Row<T, V, RAGGED> r{int(row * n % V), n};
    int end = min((part + 1) * chunks, (n + r.lead + V - 1) / V);
#pragma unroll 4
    for (int c = part * chunks + threadIdx.x; c < end; c += 256) {
        int at = c * V - r.lead;
        Vector<T, V> v = r.get(from, c, 0);
        Vector<W, V> vw, vb;
        if constexpr (CHANNELS)
            vw = channel_weights<V, RAGGED>(w, row, at, n, inner, groups, 1),
            vb = channel_weights<V, RAGGED>(b, row, at, n, inner, groups, 0);
        else vw = weights<V, RAGGED>(w, at, n, 1), vb = weights<V, RAGGED>(b, at, n, 0);
        r.put(y + row * n, c, results(v, shift, all.mean, scale, vw, vb));
    }
}
