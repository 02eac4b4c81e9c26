// Reductions along the last dimension of [rows, n], and along the middle one of [outer, n, inner].
//
// An operation is a struct: State holds what is known of some elements, `none` of no element, `add` takes one more,
// `join` unites two states and `finish` gives the result. States are joined in a fixed order: results do not depend on timing.
#include "last.cuh"
#include "operations.cuh"
#include "vector.cuh"

template <class C> struct Mean : Sum<C> {
    static __device__ C finish(C s, double n) { return s / C(n); }
};
// The first of equal elements; the first NaN if there is one.
template <class C> struct Found {
    C value;
    long long at;
};
template <class C> struct ArgMax {
    using State = Found<C>;
    static __device__ State none() { return {least<C>(), 0x7fffffffffffffffll}; }
    static __device__ State join(State a, State b) {
        bool nan_a = is_nan(a.value), nan_b = is_nan(b.value);
        bool first = nan_a != nan_b ? nan_a : nan_a || a.value == b.value ? a.at < b.at : a.value > b.value;
        return first ? a : b;
    }
    static __device__ void add(State& s, C x, long long at) { s = join(s, {x, at}); }
    static __device__ long long finish(State s, double) { return s.at; }
};
template <class C> struct ArgMin : ArgMax<C> {
    using State = Found<C>;
    static __device__ State none() { return {greatest<C>(), 0x7fffffffffffffffll}; }
    static __device__ State join(State a, State b) {
        bool nan_a = is_nan(a.value), nan_b = is_nan(b.value);
        bool first = nan_a != nan_b ? nan_a : nan_a || a.value == b.value ? a.at < b.at : a.value < b.value;
        return first ? a : b;
    }
    static __device__ void add(State& s, C x, long long at) { s = join(s, {x, at}); }
};
template <class C> struct Norm1 : Sum<C> {
    static __device__ void add(C& s, C x, long long) { s += x < 0 ? -x : x; }
};
template <class C> struct Norm2 : Sum<C> {
    static __device__ void add(C& s, C x, long long) { s += x * x; }
    static __device__ C finish(C s, double) { return sqrt(s); }
};
template <class C> struct NormInf : Max<C> {
    static __device__ C none() { return 0; }
    static __device__ void add(C& s, C x, long long) { s = Max<C>::join(s, x < 0 ? -x : x); }
};
// The mean and the sum of squared differences from it, element by element (Welford 1962); states are joined as Chan,
// Golub and LeVeque do. Its error does not grow with the mean, nor with how far the first elements are from it.
template <class C> struct Moments {
    C count, mean, squares;
};
__device__ inline float reciprocal(float x) { return __fdividef(1, x); }  // of a small integer
__device__ inline double reciprocal(double x) { return 1 / x; }
template <class C> struct Var {
    using State = Moments<C>;
    static __device__ State none() { return {0, 0, 0}; }
    static __device__ void add(State& s, C x, long long) {
        C d = x - s.mean;
        s.count += 1, s.mean += d * reciprocal(s.count), s.squares += d * (x - s.mean);
    }
    static __device__ State join(State a, State b) {
        if (b.count == 0) return a;
        if (a.count == 0) return b;
        C n = a.count + b.count, d = b.mean - a.mean, part = b.count / n;
        return {n, a.mean + d * part, a.squares + b.squares + d * d * a.count * part};
    }
    // `less` is the number of elements less the correction; 0 or less gives NaN or infinity, as in torch.
    static __device__ C finish(State s, double less) { return s.squares / C(less > 0 ? less : 0); }
};
template <class C> struct Any {
    using State = int;
    static __device__ State none() { return 0; }
    static __device__ void add(State& s, C x, long long) { s |= x != 0; }
    static __device__ State join(State a, State b) { return a | b; }
    static __device__ bool finish(State s, double) { return s; }
};
template <class C> struct All {
    using State = int;
    static __device__ State none() { return 1; }
    static __device__ void add(State& s, C x, long long) { s &= x != 0; }
    static __device__ State join(State a, State b) { return a & b; }
    static __device__ bool finish(State s, double) { return s; }
};
template <class C> struct Count {
    using State = long long;
    static __device__ State none() { return 0; }
    static __device__ void add(State& s, C x, long long) { s += x != 0; }
    static __device__ State join(State a, State b) { return a + b; }
    static __device__ long long finish(State s, double) { return s; }
};

// A state of another lane, word by word.
template <class S>
__device__ S from_lane(S s, int d) {
    static_assert(sizeof(S) % 4 == 0, "whole words");
    int words[sizeof(S) / 4];
    memcpy(words, &s, sizeof(S));
#pragma unroll
    for (int i = 0; i < int(sizeof(S) / 4); i++) words[i] = __shfl_down_sync(~0u, words[i], d);
    memcpy(&s, words, sizeof(S));
    return s;
}

// The state of a group of G threads, in its first thread. All threads of the block take part.
template <int G, class Op>
__device__ typename Op::State across(typename Op::State s) {
    using State = typename Op::State;
    constexpr int LANES = G < 32 ? G : 32;
#pragma unroll
    for (int d = LANES / 2; d > 0; d /= 2) s = Op::join(s, from_lane(s, d));
    if constexpr (G > 32) {
        __shared__ State part[G / 32];
        if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = s;
        __syncthreads();
        s = threadIdx.x % 32 < G / 32 ? part[threadIdx.x % 32] : Op::none();
#pragma unroll
        for (int d = 16; d > 0; d /= 2) s = Op::join(s, from_lane(s, d));
        __syncthreads();
    }
    return s;
}

// G threads reduce a row, or a part of it; the last block of a row joins the parts.
// `each` is the number of vectors in a part, `scale` what `finish` needs.
template <class T, class C, class O, template <class> class Operation, int V, int G>
__global__ void __launch_bounds__(256) rows(const T* x, O* y, void* found, int* counters, long long count, long long n,
                                            long long stride, int parts, long long each, double scale) {
    using Op = Operation<C>;
    using State = typename Op::State;
    long long row = blockIdx.x / parts * (long long)(256 / G) + threadIdx.x / G;
    int part = blockIdx.x % parts, t = threadIdx.x % G;
    bool there = row < count;
    const T* p = x + row * stride;
    int lead = there ? int(reinterpret_cast<size_t>(p) / sizeof(T) % V) : 0;
    long long chunks = there ? (n + lead + V - 1) / V : 0, end = min(chunks, (part + 1) * each);
    constexpr int TURNS = 4;  // states that are independent of each other: additions of one do not wait for another
    State s[TURNS];
#pragma unroll
    for (int u = 0; u < TURNS; u++) s[u] = Op::none();
    auto take = [&](State& state, long long chunk) {
        long long at = chunk * V - lead;
        if (at >= 0 && at + V <= n) {
            Vector<T, V> v = load<V>(p + at);
#pragma unroll
            for (int j = 0; j < V; j++) Op::add(state, to<C>(v[j]), at + j);
        } else {
#pragma unroll
            for (int j = 0; j < V; j++)
                if (at + j >= 0 && at + j < n) Op::add(state, to<C>(p[at + j]), at + j);
        }
    };
    long long c = part * each + t;
    for (; c + (TURNS - 1) * G < end; c += TURNS * G)
#pragma unroll
        for (int u = 0; u < TURNS; u++) take(s[u], c + u * G);
    for (; c < end; c += G) take(s[0], c);
    State all = across<G, Op>(Op::join(Op::join(s[0], s[1]), Op::join(s[2], s[3])));
    if (parts > 1) {  // then G is 256
        State* states = static_cast<State*>(found) + row * parts;
        if (threadIdx.x == 0) states[part] = all;
        if (!is_last(counters + row, parts)) return;
        all = Op::none();
        for (int i = threadIdx.x; i < parts; i += 256) all = Op::join(all, states[i]);
        all = across<G, Op>(all);
    }
    if (there && t == 0) y[row] = to<O>(Op::finish(all, scale));
}

// Rows of a few neighbours: a block reads 256 rows as they are in memory, in vectors of V, and a thread has a row.
template <class T, class C, class O, template <class> class Operation, int V>
__global__ void __launch_bounds__(256) short_rows(const T* x, O* y, long long count, int n, double scale) {
    using Op = Operation<C>;
    extern __shared__ __align__(16) char memory[];
    T* kept = reinterpret_cast<T*>(memory);
    long long first = blockIdx.x * 256ll;
    int rows = int(min(count - first, 256ll)), all = rows * n;
    const T* p = x + first * n;
#pragma unroll 4
    for (int i = threadIdx.x * V; i + V <= all; i += 256 * V) store(kept + i, load<V>(p + i));
    for (int i = all / V * V + threadIdx.x; i < all; i += 256) kept[i] = p[i];
    __syncthreads();
    if (threadIdx.x >= rows) return;
    typename Op::State s = Op::none();
#pragma unroll 4
    for (int i = 0; i < n; i++) Op::add(s, to<C>(kept[threadIdx.x * n + i]), i);
    y[first + threadIdx.x] = to<O>(Op::finish(s, scale));
}

// Where the elements of [outer, n, inner] and the results are: in planes of rows, or along any dimensions.
struct Planes {
    long long outer_stride, row_stride, outer_result, inner_result;
    __device__ long long column(long long outer, long long at) const { return outer * outer_stride + at; }
    __device__ long long row(long long i) const { return i * row_stride; }
    __device__ long long result(long long outer, long long at) const { return outer * outer_result + at * inner_result; }
    __device__ bool dense() const { return inner_result == 1; }
};
struct Dims {
    int rank;
    unsigned size[5];
    long long stride[5];

    __device__ long long at(unsigned i) const {
        long long sum = 0;
        for (int d = rank - 1; d > 0; d--) {
            unsigned next = i / size[d];
            sum += (i - next * size[d]) * stride[d];
            i = next;
        }
        return sum + i * stride[0];
    }
};
struct Strided {
    Dims kept, reduced, written;  // `kept` in x is `written` in y
    __device__ long long column(long long, long long at) const { return kept.at(unsigned(at)); }
    __device__ long long row(long long i) const { return reduced.at(unsigned(i)); }
    __device__ long long result(long long, long long at) const { return written.at(unsigned(at)); }
    __device__ bool dense() const { return false; }
};

// Along the middle of [outer, n, inner]: a block takes `width` groups of V neighbours of `inner`, with 256 / width
// threads for each. Neighbouring threads take neighbours of `inner`, or with ALONG neighbours of n.
template <class T, class C, class O, template <class> class Operation, int V, class Place, bool ALONG>
__global__ void __launch_bounds__(256) columns(const T* x, O* y, void* found, int* counters, Place place, long long n,
                                               long long inner, int width, long long tiles, int parts, long long each,
                                               double scale) {
    using Op = Operation<C>;
    using State = typename Op::State;
    __shared__ State shared[256 * V];
    int part = blockIdx.x % parts;
    long long tile = blockIdx.x / parts, outer = tile / tiles;
    int deep = 256 / width;
    int w = ALONG ? threadIdx.x / deep : threadIdx.x % width, t = ALONG ? threadIdx.x % deep : threadIdx.x / width;
    int next = ALONG ? 1 : width;  // from a thread of a column to the next one
    long long column = (tile % tiles * width + w) * V;
    bool there = t < deep && w < width && column < inner;
    State s[V];
#pragma unroll
    for (int j = 0; j < V; j++) s[j] = Op::none();
    if (there) {
        const T* p = x + place.column(outer, column);
#pragma unroll 4
        for (long long i = part * each + t; i < min(n, (part + 1) * each); i += deep) {
            Vector<T, V> v = load<V>(p + place.row(i));
#pragma unroll
            for (int j = 0; j < V; j++) Op::add(s[j], to<C>(v[j]), i);
        }
    }
    auto united = [&]() {  // the lower half of the threads of a column takes over the upper half, until one is left
        for (int left = deep; left > 1; left = (left + 1) / 2) {
            int half = (left + 1) / 2;
            if (there && t >= half && t < left)
#pragma unroll
                for (int j = 0; j < V; j++) shared[j * 256 + threadIdx.x] = s[j];
            __syncthreads();
            if (there && t + half < left)
#pragma unroll
                for (int j = 0; j < V; j++) s[j] = Op::join(s[j], shared[j * 256 + threadIdx.x + half * next]);
            __syncthreads();
        }
    };
    united();
    if (parts > 1) {
        State* states = static_cast<State*>(found) + outer * parts * inner + column;
        if (there && t == 0)
#pragma unroll
            for (int j = 0; j < V; j++) states[part * inner + j] = s[j];
        if (!is_last(counters + tile, parts)) return;
#pragma unroll
        for (int j = 0; j < V; j++) s[j] = Op::none();
        if (there)
            for (int i = t; i < parts; i += deep)
#pragma unroll
                for (int j = 0; j < V; j++) s[j] = Op::join(s[j], states[i * inner + j]);
        united();
    }
    if (!there || t > 0) return;
    Vector<O, V> results;
#pragma unroll
    for (int j = 0; j < V; j++) results[j] = to<O>(Op::finish(s[j], scale));
    if (place.dense()) {  // neighbours of `inner` are neighbours in y
        store_whole(y + place.result(outer, column), results);
        return;
    }
#pragma unroll
    for (int j = 0; j < V; j++) y[place.result(outer, column + j)] = results[j];
}

// Columns of [n, inner] without gaps, whose rows are no whole vectors: `fold` rows together are. A thread reads vectors at a
// distance of such rows, so that its V elements are always of the same columns; they are joined column by column at the end.
// A block takes `each` of the folded rows with 256 / width threads for each vector of one, the last also takes the rows left over.
template <class T, class C, class O, template <class> class Operation, int V>
__global__ void __launch_bounds__(256) folded(const T* x, O* y, void* found, int* counters, long long n, int inner, int width,
                                              int fold, int parts, long long each, double scale) {
    using Op = Operation<C>;
    using State = typename Op::State;
    __shared__ State shared[256 * V];
    int deep = 256 / width, w = threadIdx.x % width, t = threadIdx.x / width, part = blockIdx.x;
    long long whole = n / fold;
    bool there = t < deep;
    State s[V];
    int first[V];  // the row of each element among those folded
#pragma unroll
    for (int j = 0; j < V; j++) s[j] = Op::none(), first[j] = (w * V + j) / inner;
    if (there) {
        const T* p = x + w * V;
#pragma unroll 4
        for (long long i = part * each + t; i < min(whole, (part + 1) * each); i += deep) {
            Vector<T, V> v = load<V>(p + i * width * V);
#pragma unroll
            for (int j = 0; j < V; j++) Op::add(s[j], to<C>(v[j]), i * fold + first[j]);
        }
    }
    for (int left = deep; left > 1; left = (left + 1) / 2) {  // as in `columns`
        int half = (left + 1) / 2;
        if (there && t >= half && t < left)
#pragma unroll
            for (int j = 0; j < V; j++) shared[j * 256 + threadIdx.x] = s[j];
        __syncthreads();
        if (there && t + half < left)
#pragma unroll
            for (int j = 0; j < V; j++) s[j] = Op::join(s[j], shared[j * 256 + threadIdx.x + half * width]);
        __syncthreads();
    }
    if (t == 0)
#pragma unroll
        for (int j = 0; j < V; j++) shared[w * V + j] = s[j];
    __syncthreads();
    State* states = static_cast<State*>(found);
    if (threadIdx.x < inner) {  // at most 128 columns
        int c = threadIdx.x;
        State all = Op::none();
        for (int k = 0; k < fold; k++) all = Op::join(all, shared[k * inner + c]);
        if (part == parts - 1)
            for (long long i = whole * fold; i < n; i++) Op::add(all, to<C>(x[i * inner + c]), i);
        if (parts == 1) y[c] = to<O>(Op::finish(all, scale));
        else states[(long long)part * inner + c] = all;
    }
    if (parts == 1 || !is_last(counters, parts)) return;
    int share = 256 / inner, c = threadIdx.x % inner, k = threadIdx.x / inner;  // threads that join the parts of a column
    State all = Op::none();
    if (k < share) {
#pragma unroll 8
        for (int i = k; i < parts; i += share) all = Op::join(all, states[(long long)i * inner + c]);
        shared[threadIdx.x] = all;
    }
    __syncthreads();
    if (threadIdx.x >= inner) return;
    all = Op::none();
    for (int k = 0; k < share; k++) all = Op::join(all, shared[k * inner + threadIdx.x]);
    y[threadIdx.x] = to<O>(Op::finish(all, scale));
}
