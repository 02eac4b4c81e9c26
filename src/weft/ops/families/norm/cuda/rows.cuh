// Layer norm, RMS norm and group norm of rows, forward:
//   layer norm  y = (x - mean) * rstd * w + b,  rstd = 1 / sqrt(mean((x - mean)^2) + eps)
//   RMS norm    y = x * rstd * w,               rstd = 1 / sqrt(mean(x^2) + eps)
// w and b may be null; mean and rstd are stored where their addresses are not null. With ADD, the
// row is x + added, which is stored as well. With CHANNELS, as in group norm, `inner` neighbours of
// a row share a weight, and weights repeat after `groups` rows.
#pragma once
#include <weft/block.cuh>
#include <weft/early_launch.cuh>

#include "affine.cuh"
#include "moments.cuh"

using namespace weft;

// Sums over a vector; its elements outside of the row are equal to `shift`.
template <class T, int V>
__device__ float sum_of(const Vector<T, V>& v, float shift, float sum) {
    Vector<float, V> f = to_floats(v);
    float part[2] = {sum, 0};  // two chains of sums, each half as long
#pragma unroll
    for (int j = 0; j < V; j++) part[j % 2] += f[j] - shift;
    return part[0] + part[1];
}
template <class T, int V, bool RAGGED>
__device__ float squares_of(const Vector<T, V>& v, const Row<T, V, RAGGED>& r, int chunk,
                            float shift, float mean, float sum) {
    Vector<float, V> f = to_floats(v);
    bool whole = r.whole(chunk);
    float part[2] = {};
#pragma unroll
    for (int j = 0; j < V; j++) {
        float d = f[j] - shift - mean;
        if (!RAGGED || whole || r.has(chunk, j)) part[j % 2] += d * d;
    }
    return RAGGED || whole ? sum + (part[0] + part[1]) : sum;
}
template <class T, class W, int V>
__device__ Vector<T, V> results(const Vector<T, V>& v, float shift, float mean, float rstd,
                                const Vector<W, V>& w, const Vector<W, V>& b) {
    Vector<float, V> f = to_floats(v), fw = to_floats(w), fb = to_floats(b);
    float offset = -mean * rstd;
#pragma unroll
    for (int j = 0; j < V; j++) {
        // Rounding the offset costs digits only where elements have more of them than shorter types
        // do.
        float z = sizeof(T) < 4 ? fmaf(f[j], rstd, offset) : (f[j] - shift - mean) * rstd;
        f[j] = fmaf(z, fw[j], fb[j]);
    }
    return from_floats<T>(f);
}
template <class T, int V>
__device__ Vector<T, V> sums(const Vector<T, V>& a, const Vector<T, V>& b) {
    Vector<float, V> f = to_floats(a), more = to_floats(b);
#pragma unroll
    for (int j = 0; j < V; j++) f[j] += more[j];
    return from_floats<T>(f);
}

// The blocks of an SM that must fit into its registers, so that some load while others compute.
template <int BLOCK, int REGS>
constexpr int BLOCKS_PER_SM = BLOCK >= 512 ? 1024 / BLOCK
                              : REGS <= 4  ? 1
                                           : (REGS > 8 ? 512 : 768) / BLOCK;

// More than a warp for a row: a block of its own.
template <int G>
constexpr int ROWS_OF_BLOCK = G <= 32 ? 128 / G : 1;

// G threads hold a row: REGS vectors each in registers and SHARED in shared memory. With CACHE,
// weights are loaded right behind the first row and stay in registers too, from one row of a block
// to its next; then rows that share a thread begin at the same place of a vector. With PREFETCH, a
// block takes one row after another, and a vector of the next row is on its way as soon as the
// place of one is free.
template <class T, class W, int V, bool RAGGED, int G, int REGS, int SHARED, bool CENTRED, bool ADD,
          bool CACHE, bool CHANNELS, bool PREFETCH = false>
__device__ void norm_rows(const T* x, const T* added, const W* w, const W* b, T* y, T* total,
                          float* mean, float* rstd, long long count, int n, long long stride,
                          float eps, int inner, int groups) {
    constexpr int ROWS = ROWS_OF_BLOCK<G>;
    constexpr int CACHED = CACHE ? REGS : 1;
    constexpr bool HIDE = REGS * V > 32;
    // A block with much of its row in shared memory waits once instead of twice: its threads square
    // deviations from their own means, and join these. Where the row is in registers, that takes
    // more of them than there are.
    constexpr bool OWN = CENTRED && SHARED >= 8;
    // Copies to shared memory do not wait for their data; they need whole vectors of 16 bytes.
    constexpr bool COPIED = SHARED > 0 && !RAGGED && !ADD && V * sizeof(T) == 16;
    static_assert(!PREFETCH || (!RAGGED && !ADD && !CACHE && ROWS == 1),
                  "rows that are read ahead");
    unsigned zero = n < 0;
    extern __shared__ char memory[];
    auto* staged = reinterpret_cast<Vector<T, V>*>(memory);
    int t = threadIdx.x % G;
    Vector<W, V> cached_w[CACHED], cached_b[CACHED];
    auto load_weights = [&](int lead) {
#pragma unroll
        for (int k = 0; k < CACHED; k++) {
            cached_w[k] = weights<V, RAGGED>(w, (k * G + t) * V - lead, n, 1);
            cached_b[k] = weights<V, RAGGED>(b, (k * G + t) * V - lead, n, 0);
        }
    };
    Vector<T, V> regs[REGS];
    float coming = 0;  // the shift of the next row
    for (long long first = blockIdx.x * (long long)ROWS; first < count;
         first += gridDim.x * (long long)ROWS) {
        long long row = first + threadIdx.x / G, next = row + gridDim.x;
        bool there = row < count, more = PREFETCH && next < count,
             fetched = PREFETCH && first > blockIdx.x,
             begins = CACHE && first == blockIdx.x * (long long)ROWS;
        Row<T, V, RAGGED> r{int(row * n % V), there ? n : 0};
        const T *from = x + row * stride, *from_next = x + next * stride;
        float shift =
            CENTRED ? shift_of(from, there) + (ADD ? shift_of(added + row * n, there) : 0) : 0;
        if (fetched) shift = coming;
        if (CENTRED && PREFETCH) coming = shift_of(from_next, more);
        auto get = [&](int chunk) {
            Vector<T, V> v = r.get(from, chunk, shift);
            if constexpr (ADD) {
                v = sums(v, r.get(added + row * n, chunk, 0));
                r.put(total + row * n, chunk, v);
            }
            return v;
        };
        auto copy = [&](const T* of, int k) {
            int chunk = (REGS + k) * G + t;
            if (r.whole(chunk)) copy_async<16>(staged + k * G + t, of + chunk * V);
        };
        if (!fetched) {
            if constexpr (COPIED)
#pragma unroll
                for (int k = 0; k < SHARED; k++) copy(from, k);
#pragma unroll
            for (int k = 0; k < REGS; k++) regs[k] = r.get_ahead(from, k * G + t, shift);
            if constexpr (ADD) {  // a load behind a store would wait for it
                Vector<T, V> more[REGS];
#pragma unroll
                for (int k = 0; k < REGS; k++) more[k] = r.get_ahead(added + row * n, k * G + t, 0);
                if (begins) load_weights(r.lead);
#pragma unroll
                for (int k = 0; k < REGS; k++) {
                    regs[k] = sums(regs[k], more[k]);
                    r.put(total + row * n, k * G + t, regs[k]);
                }
            }
            if (!ADD && begins) load_weights(r.lead);
            if constexpr (SHARED > 0 && !COPIED) {
#pragma unroll 2
                for (int k = 0; k < SHARED; k++) staged[k * G + t] = get((REGS + k) * G + t);
            }
        }
        float middle = 0, sum = 0, own = 0;
        if constexpr (CENTRED) {
#pragma unroll
            for (int k = 0; k < REGS; k++) sum = sum_of(regs[k], shift, sum);
            if constexpr (COPIED) wait_all_copies();
#pragma unroll 2
            for (int k = 0; k < SHARED; k++)
                if (!COPIED || r.whole((REGS + k) * G + t))
                    sum = sum_of(staged[k * G + t], shift, sum);
            if constexpr (OWN) {
                for (int k = 0; k < REGS + SHARED; k++) own += r.count(k * G + t);
                middle = own > 0 ? sum / own : 0;
            } else {
                middle = block_sum<G>(sum) / n;
            }
            sum = 0;
            if constexpr (HIDE)
#pragma unroll
                for (int k = 0; k < REGS; k++) hide(regs[k], zero);
        }
#pragma unroll
        for (int k = 0; k < REGS; k++) sum = squares_of(regs[k], r, k * G + t, shift, middle, sum);
        if constexpr (COPIED && !CENTRED) wait_all_copies();
#pragma unroll 2
        for (int k = 0; k < SHARED; k++)
            if (!COPIED || r.whole((REGS + k) * G + t))
                sum = squares_of(staged[k * G + t], r, (REGS + k) * G + t, shift, middle, sum);
        float total_squares;
        if constexpr (OWN) {
            Moments all;
            all.add(own, middle, sum);
            all = block_moments<G>(all);
            middle = all.mean, total_squares = all.squares;
        } else {
            total_squares = block_sum<G>(sum);
        }
        float scale = rsqrtf(total_squares / n + eps);
        if constexpr (HIDE)
#pragma unroll
            for (int k = 0; k < REGS; k++) hide(regs[k], zero);
        if (there && t == 0) {
            if (CENTRED && mean) mean[row] = shift + middle;
            if (rstd) rstd[row] = scale;
        }
        auto put = [&](int k, const Vector<T, V>& v) {
            int at = (k * G + t) * V - r.lead;
            Vector<W, V> vw, vb;
            if constexpr (CACHE) vw = cached_w[k], vb = cached_b[k];
            else if constexpr (CHANNELS)
                vw = channel_weights<V, RAGGED>(w, row, at, r.n, inner, groups, 1),
                vb = channel_weights<V, RAGGED>(b, row, at, r.n, inner, groups, 0);
            else vw = weights<V, RAGGED>(w, at, r.n, 1), vb = weights<V, RAGGED>(b, at, r.n, 0);
            r.put(y + row * n, k * G + t, results(v, shift, middle, scale, vw, vb));
        };
#pragma unroll
        for (int k = 0; k < REGS; k++) {
            put(k, regs[k]);
            if (more) regs[k] = r.get(from_next, k * G + t, coming);
        }
        if constexpr (SHARED > 0) {
#pragma unroll 2
            for (int k = 0; k < SHARED; k++) {
                if (!COPIED || r.whole((REGS + k) * G + t)) put(REGS + k, staged[k * G + t]);
                if (COPIED && more) copy(from_next, k);
            }
        }
    }
}
