// Cross-entropy of logits and labels: losses, gradients, or both from one read of the logits.
#include "cross_entropy_rows.cuh"

template <class T, class L, int V, bool EVEN, int G, int REGS, int SHARED, bool LOSS, bool GRAD,
          bool SMOOTH>
__global__ void __launch_bounds__(G <= 32 ? 128 : G, 1024 / (G <= 32 ? 128 : G))
    rows(const T* x, const L* target, const T* weight, const T* upstream, const float* total,
         T* loss, float2* partials, T* gradient, int* counter, const Classes c) {
    take_turn();
    hold_rows<T, L, V, EVEN, G, REGS, SHARED, LOSS, GRAD, SMOOTH>(
        x, target, weight, upstream, total, loss, partials, gradient, counter, c);
}

// The loss of all rows, of those that each of them has.
template <class T>
__global__ void __launch_bounds__(256) join_rows(float2* partials, T* loss, const Classes c) {
    take_turn();
    float losses = 0, weights = 0;
    for (long long i = threadIdx.x; i < c.count; i += 256)
        losses += partials[i].x, weights += partials[i].y;
    reduce_losses<256>(losses, weights, nullptr, nullptr, loss, c);
}

// Rows that do not fit on an SM, first pass: each block takes a part of a row.
template <class T, class L, int V, bool EVEN, bool SMOOTH>
__global__ void __launch_bounds__(256)
    parts_of_rows(const T* x, const L* target, const T* weight, float4* found, int parts,
                  int chunks, const Classes c) {
    long long row = blockIdx.x / parts;
    int part = blockIdx.x % parts;
    if (Labels<T, L>{target, weight}.of(row, c) < 0) return;
    PackedRow<T, V, EVEN> r(row * c.n, c.n);
    int end = min((part + 1) * chunks, (c.n + r.lead + V - 1) / V);
    Running<T> own;
    Smooth smooth;
#pragma unroll 4
    for (int k = part * chunks + threadIdx.x; k < end; k += 256) {
        Packed<T, V> v = r.get(x + row * c.stride, k, lowest());
        own.take(v);
        if constexpr (SMOOTH) smooth.take(v, r, k, weight);
    }
    float most = block_max<256>(own.most);
    own.rise(most);
    float sum = block_sum<256>(own.sum);
    if (SMOOTH) smooth.x = block_sum<256>(smooth.x), smooth.weight = block_sum<256>(smooth.weight);
    if (threadIdx.x == 0) found[blockIdx.x] = make_float4(most, sum, smooth.x, smooth.weight);
}

// Second pass: each block joins what was found of its row. The block of the first part has the
// loss; with GRAD there is one for each part.
template <class T, class L, int V, bool EVEN, bool LOSS, bool GRAD, bool SMOOTH>
__global__ void __launch_bounds__(256)
    finish_rows(const T* x, const L* target, const T* weight, const T* upstream, const float* total,
                T* loss, float2* partials, T* gradient, int* counter, const float4* found,
                int parts, int chunks, const Classes c) {
    Labels<T, L> labels{target, weight};
    int blocks = GRAD ? parts : 1, part = blockIdx.x % blocks;
    long long row = blockIdx.x / blocks;
    float norm = GRAD ? labels.template sum<256>(c, total) : 1;
    int label = labels.of(row, c);
    Running<T> own;
    Smooth smooth;
    if (label >= 0)
        for (int i = threadIdx.x; i < parts; i += 256) {
            float4 one = found[row * parts + i];
            own.take(Running<T>{one.x, one.y});
            smooth.x += one.z, smooth.weight += one.w;
        }
    float most = block_max<256>(own.most);
    own.rise(most);
    float sum = block_sum<256>(own.sum);
    if (SMOOTH) smooth.x = block_sum<256>(smooth.x), smooth.weight = block_sum<256>(smooth.weight);
    float x_label = label < 0 ? 0 : to<float>(x[row * c.stride + label]);
    float s =
        GRAD && label >= 0 ? (upstream ? to<float>(upstream[row * c.upstream_step]) : 1) / norm : 0;
    Outcome<SMOOTH> is(most, sum, smooth, label, labels.weigh(label), x_label, s, c);
    if constexpr (GRAD) {
        Exponential<T> e(most);
        PackedRow<T, V, EVEN> all(row * c.n, c.n), r(row * c.n, label < 0 ? 0 : c.n);
        int end = min((part + 1) * chunks, (c.n + r.lead + V - 1) / V);
#pragma unroll 4
        for (int k = part * chunks + threadIdx.x; k < end; k += 256) {
            Packed<T, V> v = r.get(x + row * c.stride, k, lowest());
            all.put(gradient + row * c.n, k, is.gradients(v, e, r.place(k), c.n, weight));
            if (label >= 0 && (label + r.lead) / V == k)
                gradient[row * c.n + label] =
                    to<T>(is.gradient(e(x_label), label, weight) - is.of_label);
        }
    }
    if constexpr (LOSS) {
        bool counts = part == 0 && threadIdx.x == 0;
        if (c.reduction == NONE && counts) loss[row] = to<T>(is.loss);
        if (c.reduction != NONE)
            reduce_losses<256>(counts ? is.loss : 0, counts ? is.weight : 0, partials, counter,
                               loss, c);
    }
}

STRUCT_TILES

// The place of a thread in a tile.
struct Place {
    int first, w,
        t;  // the number of the plane's first thread; the neighbour; the number among its threads
    long long outer, column;
    bool there;

    __device__ Place(unsigned tile, const Tiles& by, const Classes& c) {
        int each = by.width * by.deep, plane = threadIdx.x / each, inside = threadIdx.x % each;
        unsigned behind = tile / by.beside;
        first = plane * each, w = inside % by.width, t = inside / by.width;
        outer = (long long)behind * by.planes + plane,
        column = (long long)(tile - behind * by.beside) * by.width + w;
        there = plane < by.planes && column < c.inner && outer * c.inner < c.count;
    }
};

// The logits are read twice for a gradient.
template <class T, class L, bool LOSS, bool GRAD, bool SMOOTH>
__global__ void __launch_bounds__(256)
    columns(const T* x, const L* target, const T* weight, const T* upstream, const float* total,
            T* loss, float2* partials, T* gradient, int* counter, const Tiles by, const Classes c) {
    take_turn();
    Labels<T, L> labels{target, weight};
    __shared__ Running<T> found[256];
    __shared__ Smooth smoothed[256];
    int deep = by.deep;
    float norm = GRAD ? labels.template sum<256>(c, total) : 1, losses = 0, weights = 0;
    for (unsigned tile = blockIdx.x; tile < by.count; tile += gridDim.x) {
        Place place(tile, by, c);
        int t = place.t;
        long long row = place.outer * c.inner + place.column;
        long long start = place.outer * c.n * c.inner + place.column;
        // The logits of a label that does not count are read too: otherwise they would wait for the
        // label.
        long long given = place.there ? target[row] : c.ignore;
        Running<T> own, all;
        Smooth smooth, sums;
        float x_label = 0;
        if (place.there)
#pragma unroll 4
            for (int i = t; i < c.n; i += deep) {
                Packed<T, 1> v{bits_of(x[start + i * c.inner])};
                own.take(v);
                if (SMOOTH) smooth.add(v[0], i, weight);
                if (i == given) x_label = v[0];
            }
        int label = labels.checked(given, c);
        if (label < 0) own = all, smooth = sums;
        if (deep == 1) {
            if (!place.there) continue;
            all = own, sums = smooth;
        } else {
            __syncthreads();  // what was found for the tile before has been read
            found[threadIdx.x] = own, smoothed[threadIdx.x] = smooth;
            __syncthreads();
            if (!place.there) continue;
            for (int i = 0; i < deep; i++) {
                int at = place.first + i * by.width + place.w;
                all.take(found[at]);
                if (SMOOTH) sums.x += smoothed[at].x, sums.weight += smoothed[at].weight;
            }
            x_label = label < 0 ? 0 : to<float>(x[start + label * c.inner]);
        }
        float s = GRAD && label >= 0
                      ? (upstream ? to<float>(upstream[row * c.upstream_step]) : 1) / norm
                      : 0;
        Outcome<SMOOTH> is(all.most, all.sum, sums, label, labels.weigh(label), x_label, s, c);
        if (LOSS && t == 0) {
            if (c.reduction == NONE) loss[row] = to<T>(is.loss);
            else losses += is.loss, weights += is.weight;
        }
        if constexpr (GRAD) {
            Exponential<T> e(all.most);
#pragma unroll 4
            for (int i = t; i < c.n; i += deep) {
                float v = label < 0 ? lowest() : to<float>(x[start + i * c.inner]);
                gradient[start + i * c.inner] =
                    to<T>(is.gradient(e(v), i, weight) - (i == label ? is.of_label : 0));
            }
        }
    }
    if (LOSS && c.reduction != NONE)
        reduce_losses<256>(losses, weights, partials, counter, loss, c);
}

// Targets that are probabilities of all classes, q = (1 - e) target + e / n:
//   loss     = lse sum(weight q) - sum(weight q x)
//   gradient = s (p sum(weight q) - weight q)
// A mean is that of the rows.
template <class T, bool LOSS, bool GRAD>
__global__ void __launch_bounds__(256)
    probabilities(const T* x, const T* target, const T* weight, const T* upstream, T* loss,
                  float2* partials, T* gradient, int* counter, const Tiles by, const Classes c) {
    take_turn();
    __shared__ float4 found[256];  // Running and Smooth
    int deep = by.deep;
    float keep = 1 - c.smoothing, even = c.smoothing / c.n, losses = 0, rows = 0;
    auto q = [&](long long at, int i) {
        return (keep * to<float>(target[at]) + even) * (weight ? to<float>(weight[i]) : 1);
    };
    for (unsigned tile = blockIdx.x; tile < by.count; tile += gridDim.x) {
        Place place(tile, by, c);
        int t = place.t;
        long long outer = place.outer, row = outer * c.inner + place.column;
        long long start = outer * c.n * c.inner + place.column,
                  from = c.inner == 1 ? outer * c.stride : start;
        Running<T> own, all;
        Smooth sums, part;
        if (place.there)
#pragma unroll 4
            for (int i = t; i < c.n; i += deep) {
                Packed<T, 1> v{bits_of(x[from + i * c.inner])};
                float share = q(start + i * c.inner, i);
                own.take(v);
                part.x += share * v[0], part.weight += share;
            }
        __syncthreads();  // what was found for the tile before has been read
        found[threadIdx.x] = make_float4(own.most, own.sum, part.x, part.weight);
        __syncthreads();
        if (!place.there) continue;
        for (int i = 0; i < deep; i++) {
            float4 one = found[place.first + i * by.width + place.w];
            all.take(Running<T>{one.x, one.y});
            sums.x += one.z, sums.weight += one.w;
        }
        if (LOSS && t == 0) {
            float one = (base(all.most) + logf(all.sum)) * sums.weight - sums.x;
            if (c.reduction == NONE) loss[row] = to<T>(one);
            else losses += one, rows += 1;
        }
        if constexpr (GRAD) {
            float s = (upstream ? to<float>(upstream[row * c.upstream_step]) : 1) /
                      (c.reduction == MEAN ? c.count : 1);
            float of_p = s * sums.weight / all.sum;
            Exponential<T> e(all.most);
#pragma unroll 4
            for (int i = t; i < c.n; i += deep) {
                long long at = start + i * c.inner;
                gradient[at] = to<T>(of_p * e(to<float>(x[from + i * c.inner])) - s * q(at, i));
            }
        }
    }
    if (LOSS && c.reduction != NONE) reduce_losses<256>(losses, rows, partials, counter, loss, c);
}
