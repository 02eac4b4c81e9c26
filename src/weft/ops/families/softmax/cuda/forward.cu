// Softmax and log-softmax, forward: over rows that one group of threads holds, over rows that are
// longer, and over dimensions that are not the last one.
#include <weft/block.cuh>
#include <weft/early_launch.cuh>

#include "../../../core/cuda/column.cuh"
#include "softmax.cuh"

// G threads hold a row: CACHED vectors each in registers and SHARED in shared memory. EVEN rows are
// whole vectors.
template <class T, int V, bool EVEN, int G, int CACHED, int SHARED, bool LOG>
__global__ void __launch_bounds__(G <= 32 ? 128 : G)
    rows(const T* x, T* y, long long count, int n, long long stride) {
    take_turn();
    constexpr int BLOCK = G <= 32 ? 128 : G;  // more than a warp for a row: a block of its own
    extern __shared__ __align__(16) char memory[];
    auto* lying = reinterpret_cast<Packed<T, V>*>(memory);
    long long row = blockIdx.x * (long long)(BLOCK / G) + threadIdx.x / G;
    bool there = row < count;
    int t = threadIdx.x % G;
    PackedRow<T, V, EVEN> r(row * n, there ? n : 0);
    const T* from_row = x + row * stride;
    T* to_row = y + row * n;
    Packed<T, V> cached[CACHED];
#pragma unroll
    for (int k = 0; k < CACHED; k++) cached[k] = r.get(from_row, k * G + t, lowest());
#pragma unroll 4
    for (int k = 0; k < SHARED; k++)
        r.fetch(&lying[k * G + t], from_row, (CACHED + k) * G + t, lowest());
    float most = lowest();
#pragma unroll
    for (int k = 0; k < CACHED; k++) most = top(cached[k], most), cached[k].forget();
    if constexpr (SHARED > 0) wait_all_copies();  // a thread reads what it has copied itself
#pragma unroll 4
    for (int k = 0; k < SHARED; k++) most = top(lying[k * G + t], most);
    float from = base(block_max<G>(most)), sum = 0;
#pragma unroll
    for (int k = 0; k < CACHED; k++) sum = sum_of(cached[k], from, sum), cached[k].forget();
#pragma unroll 4
    for (int k = 0; k < SHARED; k++) sum = sum_of(lying[k * G + t], from, sum);
    float scale = scale_of<LOG>(block_sum<G>(sum));
#pragma unroll
    for (int k = 0; k < CACHED; k++) r.put(to_row, k * G + t, results<LOG>(cached[k], from, scale));
#pragma unroll 4
    for (int k = 0; k < SHARED; k++)
        r.put(to_row, (CACHED + k) * G + t, results<LOG>(lying[k * G + t], from, scale));
}

// Along n of planes of n x inner neighbours, wherever they begin: a block reads `planes` of them as
// they are in memory, in vectors of V, and writes them in whole ones. Between, G threads have a
// column in shared memory, and CACHED of its elements each in registers.
template <class T, int V, int G, int CACHED, bool LOG>
__global__ void __launch_bounds__(G < 256 ? 256 : G)
    staged(const T* x, T* y, long long outer, int n, int inner, int planes) {
    take_turn();
    constexpr int WHOLE = 16 / sizeof(T), BLOCK = G < 256 ? 256 : G;
    extern __shared__ __align__(16) char memory[];
    T* tile = reinterpret_cast<T*>(memory);
    long long first = blockIdx.x * (long long)planes;
    int size = n * inner, there = int(min(outer - first, (long long)planes)), all = there * size;
    x += first * size, y += first * size;
#pragma unroll 4
    for (int i = threadIdx.x * V; i + V <= all; i += BLOCK * V) store(tile + i, load<V>(x + i));
    for (int i = all / V * V + threadIdx.x; i < all; i += BLOCK) tile[i] = x[i];
    __syncthreads();
    int t = threadIdx.x % G;
    for (int r = threadIdx.x / G; r - int(threadIdx.x) / G < there * inner; r += BLOCK / G) {
        int plane = inner == 1 ? r : r / inner, end = plane < there ? n : 0;
        T* column = tile + plane * size + (r - plane * inner);
        float cached[CACHED], most = lowest(), sum = 0;
#pragma unroll
        for (int k = 0; k < CACHED; k++) {
            cached[k] = k * G + t < end ? to<float>(column[(k * G + t) * inner]) : lowest();
            most = max_nan(most, cached[k]);
        }
        float from = base(block_max<G>(most));
#pragma unroll
        for (int k = 0; k < CACHED; k++) {
            float exponential = __expf(cached[k] - from);
            sum += exponential;
            cached[k] = LOG ? cached[k] - from : exponential;
        }
        float scale = scale_of<LOG>(block_sum<G>(sum));
#pragma unroll
        for (int k = 0; k < CACHED; k++)
            if (k * G + t < end)
                column[(k * G + t) * inner] = to<T>(LOG ? cached[k] - scale : cached[k] * scale);
    }
    __syncthreads();
#pragma unroll 4
    for (int i = threadIdx.x * WHOLE; i + WHOLE <= all; i += BLOCK * WHOLE)
        store_whole(y + i, load<WHOLE>(tile + i));
    for (int i = all / WHOLE * WHOLE + threadIdx.x; i < all; i += BLOCK) y[i] = tile[i];
}

// Calls `visit` with the vectors of a row from `begin` to `end` that are this thread's, of G
// threads. Four loads are under way before the first one is used: a loop that visits each as it
// comes waits for memory every time.
template <int G, class T, int V, bool EVEN, class Visit>
__device__ void each(const PackedRow<T, V, EVEN>& r, const T* row, int begin, int end,
                     Visit visit) {
    for (int c = begin + int(threadIdx.x); c < end; c += 4 * G) {
        Packed<T, V> v[4];
#pragma unroll
        for (int u = 0; u < 4; u++)
            if (c + u * G < end) v[u] = r.get(row, c + u * G, lowest());
#pragma unroll
        for (int u = 0; u < 4; u++)
            if (c + u * G < end) visit(c + u * G, v[u]);
    }
}

// Long rows, first pass: each block takes a part of a row and stores its maximum and sum.
template <class T, int V, bool EVEN>
__global__ void __launch_bounds__(256)
    parts_of_rows(const T* x, float2* found, int n, long long stride, int parts, int chunks) {
    long long row = blockIdx.x / parts;
    int part = blockIdx.x % parts;
    PackedRow<T, V, EVEN> r(row * n, n);
    Running all;
    int end = min((part + 1) * chunks, (n + r.lead + V - 1) / V);
    each<256>(r, x + row * stride, part * chunks, end,
              [&](int, const Packed<T, V>& v) { all.add(v); });
    float most = block_max<256>(all.most);
    float sum = block_sum<256>(all.most == most ? all.sum : all.sum * __expf(all.most - most));
    if (threadIdx.x == 0) found[blockIdx.x] = make_float2(most, sum);
}

// Long rows, second pass: each block joins what was found of its row, and writes its part.
template <class T, int V, bool EVEN, bool LOG>
__global__ void __launch_bounds__(256) finish_rows(const T* x, T* y, const float2* found, int n,
                                                   long long stride, int parts, int chunks) {
    long long row = blockIdx.x / parts;
    int part = blockIdx.x % parts;
    Running all;
    for (int i = threadIdx.x; i < parts; i += 256) {
        float2 one = found[row * parts + i];
        all.add(one.x, one.y);
    }
    float most = block_max<256>(all.most), from = base(most);
    float sum = block_sum<256>(all.most == most ? all.sum : all.sum * __expf(all.most - from));
    float scale = scale_of<LOG>(sum);
    PackedRow<T, V, EVEN> r(row * n, n);
    int end = min((part + 1) * chunks, (n + r.lead + V - 1) / V);
    each<256>(r, x + row * stride, part * chunks, end, [&](int c, const Packed<T, V>& v) {
        r.put(y + row * n, c, results<LOG>(v, from, scale));
    });
}

// Rows longer than the registers of a block, each read twice by one block: the second time it is in
// the L2 cache.
template <class T, int V, bool EVEN, bool LOG>
__global__ void __launch_bounds__(512, 2) rows_twice(const T* x, T* y, int n, long long stride) {
    long long row = blockIdx.x;
    PackedRow<T, V, EVEN> r(row * n, n);
    const T* from_row = x + row * stride;
    int chunks = (n + r.lead + V - 1) / V;
    Running all;
    each<512>(r, from_row, 0, chunks, [&](int, const Packed<T, V>& v) { all.add(v); });
    float most = block_max<512>(all.most), from = base(most);
    float scale = scale_of<LOG>(
        block_sum<512>(all.most == most ? all.sum : all.sum * __expf(all.most - from)));
    each<512>(r, from_row, 0, chunks, [&](int c, const Packed<T, V>& v) {
        r.put(y + row * n, c, results<LOG>(v, from, scale));
    });
}

// A column of which each thread has a maximum and a sum of exponentials.
struct Softened : Column {
    using Column::Column;
    // The maximum and the sum of exponentials of a column, from what its threads have.
    __device__ Running join(const Running& own, int width) const {
        __shared__ float most[256], sum[256];
        most[threadIdx.x] = own.most, sum[threadIdx.x] = own.sum;
        __syncthreads();
        Running all;
        if (there)
            for (int i = 0; i < deep; i++) all.add(most[i * width + w], sum[i * width + w]);
        return all;
    }
    template <class T>
    __device__ Running of(const T* x, long long inner, int width) const {
        Running own;
        if (there)
#pragma unroll 4
            for (int i = begin + t; i < end; i += deep) {
                float v = to<float>(x[i * inner]);
                own.add(v, v == lowest() ? 0 : 1);
            }
        return join(own, width);
    }
    template <bool LOG, class T>
    __device__ void write(const T* x, T* y, long long inner, const Running& all) const {
        if (!there) return;
        float from = base(all.most), scale = scale_of<LOG>(all.sum);
#pragma unroll 4
        for (int i = begin + t; i < end; i += deep)
            y[i * inner] = to<T>(result<LOG>(to<float>(x[i * inner]), from, scale));
    }
};

template <class T, bool LOG>
__global__ void __launch_bounds__(256)
    columns(const T* x, T* y, int n, long long inner, int width, long long tiles) {
    take_turn();
    Softened c(n, inner, width, tiles, 1, n);
    long long start = c.outer * n * inner + c.first + c.w;
    Running all = c.of(x + start, inner, width);
    c.write<LOG>(x + start, y + start, inner, all);
}

// The same in two passes, with several blocks for a column: found[outer][part][inner].
template <class T>
__global__ void __launch_bounds__(256)
    parts_of_columns(const T* x, float2* found, int n, long long inner, int width, long long tiles,
                     int parts, int each) {
    take_turn();
    Softened c(n, inner, width, tiles, parts, each);
    Running all = c.of(x + c.outer * n * inner + c.first + c.w, inner, width);
    if (c.there && c.t == 0)
        found[(c.outer * parts + c.part) * inner + c.first + c.w] = make_float2(all.most, all.sum);
}
template <class T, bool LOG>
__global__ void __launch_bounds__(256)
    finish_columns(const T* x, T* y, const float2* found, int n, long long inner, int width,
                   long long tiles, int parts, int each) {
    take_turn();
    Softened c(n, inner, width, tiles, parts, each);
    long long start = c.outer * n * inner + c.first + c.w;
    Running own;
    if (c.there)
        for (int i = c.t; i < parts; i += c.deep) {
            float2 one = found[(c.outer * parts + i) * inner + c.first + c.w];
            own.add(one.x, one.y);
        }
    Running all = c.join(own, width);
    c.write<LOG>(x + start, y + start, inner, all);
}

// Short columns: a thread holds up to N elements of V neighbouring columns, which are read once.
template <class T, int V, int N, bool LOG>
__global__ void __launch_bounds__(256)
    short_columns(const T* x, T* y, int n, long long inner, long long groups) {
    take_turn();
    long long group = blockIdx.x * 256ll + threadIdx.x, beside = inner / V;
    if (group >= groups) return;
    long long start = group / beside * n * inner + group % beside * V;
    Vector<T, V> cached[N];
#pragma unroll
    for (int i = 0; i < N; i++)
        if (i < n) cached[i] = load<V>(x + start + i * inner);
#pragma unroll
    for (int j = 0; j < V; j++) {
        float most = lowest(), sum = 0;
#pragma unroll
        for (int i = 0; i < N; i++)
            if (i < n) most = max_nan(most, to<float>(cached[i][j]));
        float from = base(most);
#pragma unroll
        for (int i = 0; i < N; i++)
            if (i < n) sum += __expf(to<float>(cached[i][j]) - from);
        float scale = scale_of<LOG>(sum);
#pragma unroll
        for (int i = 0; i < N; i++)
            cached[i][j] = to<T>(result<LOG>(to<float>(cached[i][j]), from, scale));
    }
#pragma unroll
    for (int i = 0; i < N; i++)
        if (i < n) store_whole(y + start + i * inner, cached[i]);
}

// A dimension of one element: 1, or 0 for the logarithm, unless the element is not finite.
template <class T, bool LOG>
__global__ void __launch_bounds__(256) single(const T* x, T* y, long long n) {
    take_turn();
    long long i = blockIdx.x * 256ll + threadIdx.x;
    if (i < n) {
        float v = to<float>(x[i]) - to<float>(x[i]);
        y[i] = to<T>(LOG ? v : 1 + v);
    }
}
