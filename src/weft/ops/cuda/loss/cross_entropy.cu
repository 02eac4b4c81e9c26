// Cross-entropy of logits and labels: losses, gradients, or both from one read of the logits.
#include "cross_entropy.cuh"

// What the blocks of a row tell each other, in two words per block that are 0 at first. The first word is not 0 once it
// is written: the sum is at least 1, or the maximum is -inf, or the sum is NaN.
template <class T, int PARTS>
__device__ void exchange(long long* slots, int part, Running<T>& own, Smooth& smooth) {
    __shared__ float shared[4];
    if (threadIdx.x == 0) {
        volatile long long* words = slots;
        auto pair = [](float a, float b) {
            return static_cast<long long>(__float_as_uint(b)) << 32 | __float_as_uint(a);
        };
        words[PARTS + part] = pair(smooth.x, smooth.weight);
        __threadfence();
        words[part] = pair(own.most, own.sum);
        own = Running<T>(), smooth = Smooth();
        for (int i = 0; i < PARTS; i++) {
            long long word;
            while (!(word = words[i]));
            __threadfence();
            own.take(Running<T>{__int_as_float(int(word)), __int_as_float(int(word >> 32))});
            word = words[PARTS + i];
            smooth.x += __int_as_float(int(word)), smooth.weight += __int_as_float(int(word >> 32));
        }
        shared[0] = own.most, shared[1] = own.sum, shared[2] = smooth.x, shared[3] = smooth.weight;
    }
    __syncthreads();
    own.most = shared[0], own.sum = shared[1], smooth.x = shared[2], smooth.weight = shared[3];
}

// G threads hold a row, or one of PARTS parts of it: HELD vectors each in registers and SHARED in shared memory.
template <class T, class L, int V, bool EVEN, int G, int HELD, int SHARED, int PARTS, bool ONLINE, bool LOSS, bool GRAD,
          bool SMOOTH>
__global__ void __launch_bounds__(G <= 32 ? 128 : G, (HELD > 8 ? 512 : 1024) / (G <= 32 ? 128 : G))
    rows(const T* x, const L* target, const T* weight, const T* upstream, const float* total, T* loss, float2* partials,
         T* gradient, int* counter, long long* slots, const Classes c) {
    constexpr int BLOCK = G <= 32 ? 128 : G, TOGETHER = BLOCK / G;  // a row of more than a warp has a block of its own
    extern __shared__ __align__(16) char memory[];
    auto* lying = reinterpret_cast<Packed<T, V>*>(memory);
    Labels<T, L> labels{target, weight};
    float norm = GRAD ? labels.template sum<BLOCK>(c, total) : 1, losses = 0, weights = 0;
    int t = threadIdx.x % G, part = 0;
    long long first = blockIdx.x * (long long)TOGETHER;
    if constexpr (PARTS > 1) {  // blocks of a row wait for each other, so they are numbered in the order of their start
        __shared__ long long ticket;
        if (threadIdx.x == 0)
            ticket = atomicAdd(reinterpret_cast<unsigned long long*>(slots) + c.count * 2 * PARTS, 1ull);
        __syncthreads();
        first = ticket / PARTS, part = ticket % PARTS;
    }
    for (; first < c.count; first += gridDim.x * (long long)TOGETHER) {
        long long row = first + threadIdx.x / G;
        bool there = row < c.count;
        int label = there ? labels.of(row, c) : -1;
        const T* from_row = x + row * c.stride;
        PackedRow<T, V, EVEN> r(row * c.n, label < 0 ? 0 : c.n);  // a row that does not count is not read
        auto chunk = [&](int k) { return (part * (HELD + SHARED) + k) * G + t; };
#pragma unroll
        for (int k = 0; k < SHARED; k++) r.fetch(lying + k * G + t, from_row, chunk(HELD + k), lowest());
        Packed<T, V> held[HELD];
#pragma unroll
        for (int k = 0; k < HELD; k++) held[k] = r.get(from_row, chunk(k), lowest());
        float x_label = label < 0 ? 0 : to<float>(from_row[label]);
        Running<T> own;
        if constexpr (ONLINE) {
#pragma unroll
            for (int k = 0; k < HELD; k++) own.take(held[k]), held[k].forget();
            if (SHARED) asm volatile("cp.async.wait_all;" ::: "memory");
#pragma unroll 2
            for (int k = 0; k < SHARED; k++) own.take(lying[k * G + t]);
        } else {
            float most = top(held[0]);
#pragma unroll
            for (int k = 1; k < HELD; k++) most = larger(most, top(held[k]));
            if (SHARED) asm volatile("cp.async.wait_all;" ::: "memory");
#pragma unroll 4
            for (int k = 0; k < SHARED; k++) most = larger(most, top(lying[k * G + t]));
            own.most = across<G>(most, lowest(), larger);
            Exponential<T> e(own.most);
#pragma unroll
            for (int k = 0; k < HELD; k++) {
#pragma unroll
                for (int j = 0; j < V; j++) own.sum += e(held[k][j]);
                held[k].forget();
            }
#pragma unroll 2
            for (int k = 0; k < SHARED; k++) {
                Packed<T, V> v = lying[k * G + t];
#pragma unroll
                for (int j = 0; j < V; j++) own.sum += e(v[j]);
            }
        }
        Smooth smooth;
        if constexpr (SMOOTH) {
#pragma unroll
            for (int k = 0; k < HELD; k++) smooth.take(held[k], r, chunk(k), weight), held[k].forget();
            for (int k = 0; k < SHARED; k++) smooth.take(lying[k * G + t], r, chunk(HELD + k), weight);
            smooth.x = across<G>(smooth.x, 0, plus), smooth.weight = across<G>(smooth.weight, 0, plus);
        }
        if constexpr (ONLINE) own.rise(across<G>(own.most, lowest(), larger));
        own.sum = across<G>(own.sum, 0, plus);
        if constexpr (PARTS > 1) exchange<T, PARTS>(slots + row * 2 * PARTS, part, own, smooth);
        float s = GRAD && label >= 0 ? (upstream ? to<float>(upstream[row * c.upstream_step]) : 1) / norm : 0;
        Outcome<SMOOTH> is(own.most, own.sum, smooth, label, labels.weigh(label), x_label, s, c);
        if (LOSS && t == 0 && part == 0 && there) {
            if (c.reduction == NONE) loss[row] = to<T>(is.loss);
            else losses += is.loss, weights += is.weight;
        }
        if constexpr (GRAD) {
            Exponential<T> e(own.most);
            PackedRow<T, V, EVEN> all(row * c.n, there ? c.n : 0);
            T* to_row = gradient + row * c.n;
            auto write = [&](const Packed<T, V>& v, int at) {
                all.put(to_row, at, is.gradients(v, e, r.place(at), c.n, weight));
            };
#pragma unroll
            for (int k = 0; k < HELD; k++) write(held[k], chunk(k));
#pragma unroll 2
            for (int k = 0; k < SHARED; k++) write(lying[k * G + t], chunk(HELD + k));
            // The thread that has written the label's element writes it again.
            int at = (label + r.lead) / V;
            if (label >= 0 && at % G == t && (PARTS == 1 || at / ((HELD + SHARED) * G) == part))
                to_row[label] = to<T>(is.gradient(e(x_label), label, weight) - is.of_label);
        }
        if (PARTS > 1) break;
    }
    if (LOSS && c.reduction != NONE) reduce_losses<BLOCK>(losses, weights, partials, counter, loss, c);
}

// Rows that do not fit on an SM, first pass: each block takes a part of a row.
template <class T, class L, int V, bool EVEN, bool SMOOTH>
__global__ void __launch_bounds__(256)
    parts_of_rows(const T* x, const L* target, const T* weight, float4* found, int parts, int chunks, const Classes c) {
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
    float most = across<256>(own.most, lowest(), larger);
    own.rise(most);
    float sum = across<256>(own.sum, 0, plus);
    if (SMOOTH) smooth.x = across<256>(smooth.x, 0, plus), smooth.weight = across<256>(smooth.weight, 0, plus);
    if (threadIdx.x == 0) found[blockIdx.x] = make_float4(most, sum, smooth.x, smooth.weight);
}

// Second pass: each block joins what was found of its row. The block of the first part has the loss; with GRAD there is
// one for each part.
template <class T, class L, int V, bool EVEN, bool LOSS, bool GRAD, bool SMOOTH>
__global__ void __launch_bounds__(256)
    finish_rows(const T* x, const L* target, const T* weight, const T* upstream, const float* total, T* loss,
                float2* partials, T* gradient, int* counter, const float4* found, int parts, int chunks, const Classes c) {
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
    float most = across<256>(own.most, lowest(), larger);
    own.rise(most);
    float sum = across<256>(own.sum, 0, plus);
    if (SMOOTH) smooth.x = across<256>(smooth.x, 0, plus), smooth.weight = across<256>(smooth.weight, 0, plus);
    float x_label = label < 0 ? 0 : to<float>(x[row * c.stride + label]);
    float s = GRAD && label >= 0 ? (upstream ? to<float>(upstream[row * c.upstream_step]) : 1) / norm : 0;
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
                gradient[row * c.n + label] = to<T>(is.gradient(e(x_label), label, weight) - is.of_label);
        }
    }
    if constexpr (LOSS) {
        bool counts = part == 0 && threadIdx.x == 0;
        if (c.reduction == NONE && counts) loss[row] = to<T>(is.loss);
        if (c.reduction != NONE)
            reduce_losses<256>(counts ? is.loss : 0, counts ? is.weight : 0, partials, counter, loss, c);
    }
}

// Classes along a dimension with `inner` elements behind it: a block takes `width` neighbours of them, with 256 / width
// threads for each. The logits are read twice for a gradient.
template <class T, class L, bool LOSS, bool GRAD, bool SMOOTH>
__global__ void __launch_bounds__(256)
    columns(const T* x, const L* target, const T* weight, const T* upstream, const float* total, T* loss,
            float2* partials, T* gradient, int* counter, int width, const Classes c) {
    Labels<T, L> labels{target, weight};
    __shared__ Running<T> found[256];
    __shared__ Smooth smoothed[256];
    int w = threadIdx.x % width, t = threadIdx.x / width, deep = 256 / width;
    long long tiles = (c.inner + width - 1) / width;
    float norm = GRAD ? labels.template sum<256>(c, total) : 1, losses = 0, weights = 0;
    for (long long tile = blockIdx.x; tile < c.count / c.inner * tiles; tile += gridDim.x) {
        long long outer = tile / tiles, column = tile % tiles * width + w, start = outer * c.n * c.inner + column;
        long long row = outer * c.inner + column;
        bool there = t < deep && column < c.inner;
        int label = there ? labels.of(row, c) : -1;
        Running<T> own, all;
        Smooth smooth, sums;
        if (label >= 0)
#pragma unroll 4
            for (int i = t; i < c.n; i += deep) {
                Packed<T, 1> v{bits(x[start + i * c.inner])};
                own.take(v);
                if (SMOOTH) smooth.add(v[0], i, weight);
            }
        __syncthreads();  // what was found for the tile before has been read
        found[threadIdx.x] = own, smoothed[threadIdx.x] = smooth;
        __syncthreads();
        if (!there) continue;
        for (int i = 0; i < deep; i++) {
            all.take(found[i * width + w]);
            if (SMOOTH) sums.x += smoothed[i * width + w].x, sums.weight += smoothed[i * width + w].weight;
        }
        float x_label = label < 0 ? 0 : to<float>(x[start + label * c.inner]);
        float s = GRAD && label >= 0 ? (upstream ? to<float>(upstream[row * c.upstream_step]) : 1) / norm : 0;
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
    if (LOSS && c.reduction != NONE) reduce_losses<256>(losses, weights, partials, counter, loss, c);
}
