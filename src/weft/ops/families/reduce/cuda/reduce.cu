// Reductions along the last dimension of [rows, n], and along the middle one of [outer, n, inner].
// States are joined in a fixed order: results do not depend on timing.
#include <weft/block.cuh>
#include <weft/convert.cuh>
#include <weft/early_launch.cuh>
#include <weft/problem.cuh>

#include "reduce.cuh"

using namespace weft;

STRUCT_PLANESTRIDES
STRUCT_STRIDEDDIMS

// The places of the elements of [outer, n, inner] and of the results: in planes of rows, or along
// any dimensions. A `line` is a row of neighbours, where inner is 1.
struct Planes : PlaneStrides {
    __device__ long long line(long long outer) const { return outer * outer_stride; }
    __device__ long long line_result(long long outer) const { return outer * outer_result; }
    __device__ long long column(long long outer, long long at) const {
        return outer * outer_stride + at;
    }
    __device__ long long row(long long i) const { return i * row_stride; }
    __device__ long long result(long long outer, long long at) const {
        return outer * outer_result + at * inner_result;
    }
    // The place of the column that is `step` behind column `at`, from the place of that one.
    __device__ long long column_behind(long long place, long long, int step) const {
        return place + step;
    }
    __device__ long long result_behind(long long place, long long, int step) const {
        return place + step * inner_result;
    }
    __device__ long long beside() const { return inner_result; }
};
// The place of element i of the dimensions.
__device__ inline long long place_of(const Dims& dims, int i) {
    long long sum = 0;
    for (int d = dims.rank - 1; d > 0; d--) {
        int next = quotient(i, int(dims.magic[d]), dims.shift[d]);
        sum += (i - next * dims.size[d]) * dims.stride[d];
        i = next;
    }
    return sum + i * dims.stride[0];
}
struct Strided : StridedDims {
    __device__ long long line(long long at) const { return place_of(remaining, int(at)); }
    __device__ long long line_result(long long at) const { return place_of(written, int(at)); }
    __device__ long long column(long long, long long at) const {
        return place_of(remaining, int(at));
    }
    __device__ long long row(long long i) const { return place_of(reduced, int(i)); }
    __device__ long long result(long long, long long at) const {
        return place_of(written, int(at));
    }
    __device__ long long column_behind(long long, long long at, int step) const {
        return place_of(remaining, int(at) + step);
    }
    __device__ long long result_behind(long long, long long at, int step) const {
        return place_of(written, int(at) + step);
    }
    __device__ long long beside() const { return written.stride[written.rank - 1]; }
};

constexpr int TURNS = 4;  // loads that a thread issues before it adds them

// States that are independent of each other: additions to one do not wait for another.
template <class Op>
struct Independent {
    typename Op::State s[TURNS];
    __device__ Independent() {
#pragma unroll
        for (int u = 0; u < TURNS; u++) s[u] = Op::none();
    }
    __device__ typename Op::State joined() const {
        return Op::join(Op::join(s[0], s[1]), Op::join(s[2], s[3]));
    }
};

// G threads add part `part` of `parts` of a row of `length` neighbours; `each` is the number of
// vectors in a part, t the number of the thread, `first` that of the first element.
template <class C, int V, int G, class Op, class T>
__device__ void add_row(Independent<Op>& found, const T* p, long long length, int part, int parts,
                        long long each, int t, long long first) {
    auto& s = found.s;
    int lead = length ? int(reinterpret_cast<size_t>(p) / sizeof(T) % V) : 0;
    long long whole = (length + lead) / V, begin = part * each, end = min(whole, begin + each);
    // The elements before the first whole vector, and behind the last one.
    if (part == 0 && lead > 0)
        for (long long at = t; at < min((long long)(V - lead), length); at += G)
            Op::add(s[0], to<C>(p[at]), first + at);
    if (part == parts - 1 && (whole > 0 || lead == 0))
        for (long long at = whole * V - lead + t; at < length; at += G)
            Op::add(s[1], to<C>(p[at]), first + at);
    // All loads of a turn are issued before the first addition.
    for (long long c = max(begin, lead > 0 ? 1ll : 0ll) + t; c < end; c += TURNS * G) {
        Vector<T, V> v[TURNS];
#pragma unroll
        for (int u = 0; u < TURNS; u++)
            if (c + u * G < end) v[u] = load<V>(p + ((c + u * G) * V - lead));
#pragma unroll
        for (int u = 0; u < TURNS; u++)
            if (c + u * G < end)
#pragma unroll
                for (int j = 0; j < V; j++)
                    Op::add(s[u], to<C>(v[u][j]), first + (c + u * G) * V - lead + j);
    }
}

// Joins the states of `parts` blocks of BLOCK threads in the last one of them to come here. False
// in others. `states` has room for them; `counter` is 0 before and after.
template <class Op, int BLOCK>
__device__ bool join_parts(typename Op::State& all, typename Op::State* states, int* counter,
                           int part, int parts) {
    if (threadIdx.x == 0) states[part] = all;
    if (!is_last_block(counter, parts)) return false;
    all = Op::none();
    for (int i = threadIdx.x; i < parts; i += BLOCK) all = Op::join(all, states[i]);
    all = block_reduce<BLOCK>(all, Op::none(), Op::join);
    return true;
}

// G threads reduce a row of neighbours, or a part of it; the last block of a row joins the parts.
// `each` is the number of vectors in a part, `scale` what `finish` needs.
template <class T, class C, class O, template <class> class Operation, int V, int G, class Place>
__global__ void __launch_bounds__(G < 256 ? 256 : G)
    rows(const T* x, O* y, void* found, int* counters, const Place place, long long count,
         long long n, int parts, long long each, double scale) {
    take_turn();
    using Op = Operation<C>;
    using State = typename Op::State;
    constexpr int BLOCK = G < 256 ? 256 : G;
    long long row = blockIdx.x / parts * (long long)(BLOCK / G) + threadIdx.x / G;
    int part = blockIdx.x % parts, t = threadIdx.x % G;
    bool there = row < count;
    const T* p = x + (there ? place.line(row) : 0);
    Independent<Op> own;
    add_row<C, V, G>(own, p, there ? n : 0, part, parts, each, t, 0);
    State all = block_reduce<G>(own.joined(), Op::none(), Op::join);
    if (parts > 1) {  // then G is the number of threads
        State* states = static_cast<State*>(found) + row * parts;
        if (!join_parts<Op, BLOCK>(all, states, counters + row, part, parts)) return;
    }
    if (there && t == 0) y[place.line_result(row)] = to<O>(Op::finish(all, scale));
}

// The same for rows of `lines` lines of n neighbours, anywhere in memory: G threads have a line at
// a time, and `parts` blocks a row.
template <class T, class C, class O, template <class> class Operation, int V, int G>
__global__ void __launch_bounds__(256)
    lines(const T* x, O* y, void* found, int* counters, const Strided place, int lines, int n,
          int parts, double scale) {
    take_turn();
    using Op = Operation<C>;
    using State = typename Op::State;
    constexpr int TOGETHER = 256 / G;
    long long row = blockIdx.x / parts;
    int part = blockIdx.x % parts;
    const T* p = x + place.line(row);
    Independent<Op> own;
    for (int line = part * TOGETHER + threadIdx.x / G; line < lines; line += parts * TOGETHER) {
        long long first = (long long)line * n;
        add_row<C, V, G>(own, p + place.row(first), n, 0, 1, n, threadIdx.x % G, first);
    }
    State all = block_reduce<256>(own.joined(), Op::none(), Op::join);
    if (parts > 1) {
        State* states = static_cast<State*>(found) + row * parts;
        if (!join_parts<Op, 256>(all, states, counters + row, part, parts)) return;
    }
    if (threadIdx.x == 0) y[place.line_result(row)] = to<O>(Op::finish(all, scale));
}

// Small planes of n x inner neighbours without gaps: a block reads `planes` of them as they are in
// memory, in vectors of V, and D threads have a column.
template <class T, class C, class O, template <class> class Operation, int V, int D>
__global__ void __launch_bounds__(256)
    small_planes(const T* x, O* y, const Planes place, long long outer, int n, int inner,
                 int planes, double scale) {
    take_turn();
    using Op = Operation<C>;
    extern __shared__ __align__(16) char memory[];
    T* staged = reinterpret_cast<T*>(memory);
    long long first = blockIdx.x * (long long)planes;
    int size = n * inner, there = int(min(outer - first, (long long)planes)), all = there * size;
    const T* p = x + first * size;
#pragma unroll 4
    for (int i = threadIdx.x * V; i + V <= all; i += 256 * V) store(staged + i, load<V>(p + i));
    for (int i = all / V * V + threadIdx.x; i < all; i += 256) staged[i] = p[i];
    __syncthreads();
    int t = threadIdx.x % D;
    for (int k = threadIdx.x / D; k - threadIdx.x / D < there * inner; k += 256 / D) {
        int plane = inner == 1 ? k : k / inner, column = k - plane * inner;
        bool mine = plane < there;
        typename Op::State s = Op::none();
        if (mine)
#pragma unroll 4
            for (int i = t; i < n; i += D)
                Op::add(s, to<C>(staged[plane * size + i * inner + column]), i);
        s = block_reduce<D>(s, Op::none(), Op::join);
        if (mine && t == 0) y[place.result(first + plane, column)] = to<O>(Op::finish(s, scale));
    }
}

template <int ROWS>
struct Together {
    static constexpr int COUNT = ROWS;
};

// Along the middle of [outer, n, inner]: a block takes U x `width` groups of V neighbours of
// `inner`, with 256 / width threads for each. Neighbouring threads take neighbours of `inner`, or
// with ALONG neighbours of n; the U groups of a thread are `width` groups apart, so that those of a
// block are neighbours too. The loads of TURNS rows are issued before the first addition.
template <class T, class C, class O, template <class> class Operation, int V, int U, int TURNS,
          class Place, bool ALONG>
__global__ void __launch_bounds__(256)
    columns(const T* x, O* y, void* found, int* counters, const Place place, long long n,
            long long inner, unsigned width, int deep, unsigned tiles, unsigned parts,
            long long each, double scale) {
    start_next_kernel();
    using Op = Operation<C>;
    using State = typename Op::State;
    __shared__ State shared[256 * V];
    // Divisions take long beside short columns.
    unsigned tile = parts == 1 ? blockIdx.x : blockIdx.x / parts, part = blockIdx.x - tile * parts;
    unsigned plane = tile < tiles ? 0 : tile / tiles, by = ALONG ? deep : width,
             far = by == 256 ? 0 : threadIdx.x / by;
    long long outer = plane;
    int near = threadIdx.x - far * by, w = ALONG ? far : near, t = ALONG ? near : far,
        apart = width * V;
    int next = ALONG ? 1 : width;  // from a thread of a column to the next one
    long long column = ((long long)(tile - plane * tiles) * (width * U) + w) * V;
    bool works = t < deep && w < width && column < inner;
    int left = int(min(inner - column, 0x7fffffffll));
    long long first = works ? place.column(outer, column) : 0;
    int groups = 0;  // that exist
    const T* p[U];
    State s[U][V];
#pragma unroll
    for (int u = 0; u < U; u++) {
        bool there = works && u * apart < left;
        groups += there;
        // The loads of a group that does not exist are those of the first one: a condition for each
        // would make them wait.
        p[u] = x + (u > 0 && there ? place.column_behind(first, column, u * apart) : first);
#pragma unroll
        for (int j = 0; j < V; j++) s[u][j] = Op::none();
    }
    long long i = part * each + t, end = groups > 0 ? min(n, (part + 1) * each) : 0;
    wait_for_kernels(p[0]);
    auto take = [&](auto together) {
        constexpr int ROWS = decltype(together)::COUNT;
        Vector<T, V> v[ROWS][U];
#pragma unroll
        for (int k = 0; k < ROWS; k++) {
            long long row = place.row(i + k * deep);
#pragma unroll
            for (int u = 0; u < U; u++) v[k][u] = load<V>(p[u] + row);
        }
#pragma unroll
        for (int k = 0; k < ROWS; k++)
#pragma unroll
            for (int u = 0; u < U; u++)
#pragma unroll
                for (int j = 0; j < V; j++) Op::add(s[u][j], to<C>(v[k][u][j]), i + k * deep);
        i += ROWS * deep;
    };
    // The last rows at once: those that are not there are loaded from the first one's place.
    auto take_last = [&] {
        constexpr int ROWS = TURNS > 4 ? 3 : TURNS > 1 ? TURNS - 1 : 1;
        Vector<T, V> v[ROWS][U];
#pragma unroll
        for (int k = 0; k < ROWS; k++) {
            long long row = place.row(i + k * deep < end ? i + k * deep : i);
#pragma unroll
            for (int u = 0; u < U; u++) v[k][u] = load<V>(p[u] + row);
        }
#pragma unroll
        for (int k = 0; k < ROWS; k++)
            if (i + k * deep < end)
#pragma unroll
                for (int u = 0; u < U; u++)
#pragma unroll
                    for (int j = 0; j < V; j++) Op::add(s[u][j], to<C>(v[k][u][j]), i + k * deep);
    };
    while (i + (TURNS - 1) * deep < end) take(Together<TURNS>());
    if constexpr (TURNS > 4)
        if (i + 3 * deep < end) take(Together<4>());
    if constexpr (TURNS > 1)
        if (i < end) take_last();
    auto united = [&](int u) {  // the first quarter of the threads of a column takes over the
                                // others, until one is left
        for (int left = deep, quarter; left > 1; left = quarter) {
            quarter = (left + 3) / 4;
            if (u < groups && t >= quarter && t < left)
#pragma unroll
                for (int j = 0; j < V; j++) shared[j * 256 + threadIdx.x] = s[u][j];
            __syncthreads();
            if (u < groups && t < quarter)
#pragma unroll
                for (int j = 0; j < V; j++) {
                    State more[3];
#pragma unroll
                    for (int k = 0; k < 3; k++) {
                        int behind = (k + 1) * quarter;
                        more[k] = t + behind < left ? shared[j * 256 + threadIdx.x + behind * next]
                                                    : Op::none();
                    }
                    s[u][j] = Op::join(Op::join(s[u][j], more[0]), Op::join(more[1], more[2]));
                }
        }  // the next quarter writes to other places than those that are read
        __syncthreads();
    };
#pragma unroll
    for (int u = 0; u < U; u++) united(u);
    if (parts > 1) {
        State* states = static_cast<State*>(found) + outer * parts * inner + column;
#pragma unroll
        for (int u = 0; u < U; u++)
            if (u < groups && t == 0)
#pragma unroll
                for (int j = 0; j < V; j++) states[part * inner + u * apart + j] = s[u][j];
        if (!is_last_block(counters + tile, parts)) return;
#pragma unroll
        for (int u = 0; u < U; u++) {
#pragma unroll
            for (int j = 0; j < V; j++) s[u][j] = Op::none();
            if (u < groups)
#pragma unroll 4
                for (unsigned i = t; i < parts; i += deep)
#pragma unroll
                    for (int j = 0; j < V; j++)
                        s[u][j] = Op::join(s[u][j], states[i * inner + u * apart + j]);
            united(u);
        }
    }
#pragma unroll
    for (int u = 0; u < U; u++) {
        if (u >= groups || t > 0) return;
        Vector<O, V> results;
#pragma unroll
        for (int j = 0; j < V; j++) results[j] = to<O>(Op::finish(s[u][j], scale));
        if (u == 0) first = place.result(outer, column);
        O* to_results = y + (u > 0 ? place.result_behind(first, column, u * apart) : first);
        if (place.beside() == 1) {  // neighbours of `inner` are neighbours in y
            store_whole(to_results, results);
            continue;
        }
#pragma unroll
        for (int j = 0; j < V; j++) to_results[j * place.beside()] = results[j];
    }
}

// Columns of [n, inner] without gaps, whose rows are no whole vectors: `fold` rows together are. A
// thread reads vectors at a distance of such rows, so that its V elements are always of the same
// columns; they are joined column by column at the end. A block takes `each` of the folded rows
// with 256 / width threads for each vector of one, the last also takes the rows left over.
template <class T, class C, class O, template <class> class Operation, int V>
__global__ void __launch_bounds__(256)
    folded(const T* x, O* y, void* found, int* counters, long long n, int inner, int width,
           int fold, int parts, long long each, double scale) {
    take_turn();
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
            for (int j = 0; j < V; j++)
                s[j] = Op::join(s[j], shared[j * 256 + threadIdx.x + half * width]);
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
    if (parts == 1 || !is_last_block(counters, parts)) return;
    int share = 256 / inner, c = threadIdx.x % inner,
        k = threadIdx.x / inner;  // threads that join the parts of a column
    State all = Op::none();
    if (k < share) {
#pragma unroll 8
        for (int i = k; i < parts; i += share)
            all = Op::join(all, states[(long long)i * inner + c]);
        shared[threadIdx.x] = all;
    }
    __syncthreads();
    if (threadIdx.x >= inner) return;
    all = Op::none();
    for (int k = 0; k < share; k++) all = Op::join(all, shared[k * inner + threadIdx.x]);
    y[threadIdx.x] = to<O>(Op::finish(all, scale));
}
