// Layer norm, RMS norm and group norm of rows, forward:
//   layer norm  y = (x - mean) * rstd * w + b,  rstd = 1 / sqrt(mean((x - mean)^2) + eps)
//   RMS norm    y = x * rstd * w,               rstd = 1 / sqrt(mean(x^2) + eps)
// w and b may be null; mean and rstd are stored where their addresses are not null. With ADD, the row is x + added,
// which is stored as well. With CHANNELS, as in group norm, `inner` neighbours of a row share a weight, and weights repeat
// after `groups` rows.
#include "affine.cuh"
#include "group.cuh"
#include "moments.cuh"

// Sums over a vector; its elements outside of the row are equal to `shift`.
template <class T, int V>
__device__ float sum_of(const Vector<T, V>& v, float shift, float sum) {
#pragma unroll
    for (int j = 0; j < V; j++) sum += to<float>(v[j]) - shift;
    return sum;
}
template <class T, int V, bool RAGGED>
__device__ float squares_of(const Vector<T, V>& v, const Row<T, V, RAGGED>& r, int chunk, float shift, float mean, float sum) {
    bool whole = r.whole(chunk);
#pragma unroll
    for (int j = 0; j < V; j++) {
        float d = to<float>(v[j]) - shift - mean;
        if (whole || r.has(chunk, j)) sum += d * d;
    }
    return sum;
}
template <class T, class W, int V>
__device__ Vector<T, V> results(Vector<T, V> v, float shift, float mean, float rstd, const Vector<W, V>& w,
                                const Vector<W, V>& b) {
#pragma unroll
    for (int j = 0; j < V; j++)
        v[j] = to<T>(fmaf((to<float>(v[j]) - shift - mean) * rstd, to<float>(w[j]), to<float>(b[j])));
    return v;
}
template <class T, int V>
__device__ Vector<T, V> sums(Vector<T, V> a, const Vector<T, V>& b) {
#pragma unroll
    for (int j = 0; j < V; j++) a[j] = to<T>(to<float>(a[j]) + to<float>(b[j]));
    return a;
}

// G threads hold a row: HELD vectors each in registers and SHARED in shared memory. With KEEP, weights stay in registers
// too, from one row of a block to its next; then rows that share a thread begin at the same place of a vector.
template <class T, class W, int V, bool RAGGED, int G, int HELD, int SHARED, bool CENTRED, bool ADD, bool KEEP,
          bool CHANNELS>
__global__ void __launch_bounds__(G <= 32 ? 128 : G)
    rows(const T* x, const T* added, const W* w, const W* b, T* y, T* total, float* mean, float* rstd, long long count,
         int n, long long stride, float eps, int inner, int groups) {
    constexpr int BLOCK = G <= 32 ? 128 : G, ROWS = BLOCK / G;  // more than a warp for a row: a block of its own
    constexpr int KEPT = KEEP ? HELD : 1;
    constexpr bool HIDE = HELD * V >= 32;
    unsigned zero = n < 0;
    extern __shared__ char memory[];
    auto* lying = reinterpret_cast<Vector<T, V>*>(memory);
    int t = threadIdx.x % G;
    Vector<W, V> kept_w[KEPT], kept_b[KEPT];
    if constexpr (KEEP) {
        int lead = (blockIdx.x * (long long)ROWS + threadIdx.x / G) * n % V;
#pragma unroll
        for (int k = 0; k < HELD; k++) {
            kept_w[k] = weights<V, RAGGED>(w, (k * G + t) * V - lead, n, 1);
            kept_b[k] = weights<V, RAGGED>(b, (k * G + t) * V - lead, n, 0);
        }
    }
    for (long long first = blockIdx.x * (long long)ROWS; first < count; first += gridDim.x * (long long)ROWS) {
        long long row = first + threadIdx.x / G;
        bool there = row < count;
        Row<T, V, RAGGED> r{int(row * n % V), there ? n : 0};
        const T* from = x + row * stride;
        float shift = CENTRED ? shift_of(from, there) + (ADD ? shift_of(added + row * n, there) : 0) : 0;
        auto get = [&](int chunk) {
            Vector<T, V> v = r.get(from, chunk, shift);
            if constexpr (ADD) {
                v = sums(v, r.get(added + row * n, chunk, 0));
                r.put(total + row * n, chunk, v);
            }
            return v;
        };
        Vector<T, V> held[HELD];
#pragma unroll
        for (int k = 0; k < HELD; k++) held[k] = get(k * G + t);
        float middle = 0, sum = 0;
        if constexpr (SHARED > 0) {
#pragma unroll 2
            for (int k = 0; k < SHARED; k++) {
                Vector<T, V> v = get((HELD + k) * G + t);
                if constexpr (CENTRED) sum = sum_of(v, shift, sum);
                lying[k * G + t] = v;
            }
        }
        if constexpr (CENTRED) {
#pragma unroll
            for (int k = 0; k < HELD; k++) sum = sum_of(held[k], shift, sum);
            middle = across<G>(sum, 0, plus) / n;
            sum = 0;
            if constexpr (HIDE)
#pragma unroll
                for (int k = 0; k < HELD; k++) hide(held[k], zero);
        }
#pragma unroll
        for (int k = 0; k < HELD; k++) sum = squares_of(held[k], r, k * G + t, shift, middle, sum);
#pragma unroll 2
        for (int k = 0; k < SHARED; k++) sum = squares_of(lying[k * G + t], r, (HELD + k) * G + t, shift, middle, sum);
        float scale = rsqrtf(across<G>(sum, 0, plus) / n + eps);
        if constexpr (HIDE)
#pragma unroll
            for (int k = 0; k < HELD; k++) hide(held[k], zero);
        if (there && t == 0) {
            if (CENTRED && mean) mean[row] = shift + middle;
            if (rstd) rstd[row] = scale;
        }
        auto put = [&](int k, const Vector<T, V>& v) {
            int at = (k * G + t) * V - r.lead;
            Vector<W, V> vw, vb;
            if constexpr (KEEP)
                vw = kept_w[k], vb = kept_b[k];
            else if constexpr (CHANNELS)
                vw = channel_weight<V>(w, row, at, r.n, inner, groups, 1), vb = channel_weight<V>(b, row, at, r.n, inner, groups, 0);
            else
                vw = weights<V, RAGGED>(w, at, r.n, 1), vb = weights<V, RAGGED>(b, at, r.n, 0);
            r.put(y + row * n, k * G + t, results(v, shift, middle, scale, vw, vb));
        };
#pragma unroll
        for (int k = 0; k < HELD; k++) put(k, held[k]);
        if constexpr (SHARED > 0) {
#pragma unroll 2
            for (int k = 0; k < SHARED; k++) put(HELD + k, lying[k * G + t]);
        }
    }
}

// Long rows, first pass: each block takes a part of a row and stores its moments, relative to the row's shift.
// Without CENTRED, the mean is taken as 0, and the squares are those of the elements.
template <class T, int V, bool RAGGED, bool CENTRED, bool ADD>
__global__ void __launch_bounds__(256)
    parts_of_rows(const T* x, const T* added, T* total, Moments* found, int n, long long stride, int parts, int chunks) {
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
    all = across<256>(all);
    if (threadIdx.x == 0) found[blockIdx.x] = all;
}

// Long rows, second pass: each block joins the moments of its row, and writes its part.
template <class T, class W, int V, bool RAGGED, bool CENTRED, bool CHANNELS>
__global__ void __launch_bounds__(256)
    finish_rows(const T* x, const W* w, const W* b, T* y, float* mean, float* rstd, const Moments* found, int n,
                long long stride, float eps, int parts, int chunks, int inner, int groups) {
    long long row = blockIdx.x / parts;
    int part = blockIdx.x % parts;
    Moments all;
    for (int i = threadIdx.x; i < parts; i += 256) all.add(found[row * parts + i]);
    all = across<256>(all);
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
            vw = channel_weight<V>(w, row, at, n, inner, groups, 1), vb = channel_weight<V>(b, row, at, n, inner, groups, 0);
        else
            vw = weights<V, RAGGED>(w, at, n, 1), vb = weights<V, RAGGED>(b, at, n, 0);
        r.put(y + row * n, c, results(v, shift, all.mean, scale, vw, vb));
    }
}
