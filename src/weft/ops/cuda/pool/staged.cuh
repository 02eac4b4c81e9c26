// Pooling through shared memory. What a block reads is one interval of memory: whole planes, or all rows that some rows of the
// result need. It arrives in vectors of 16 bytes at any sizes and alignment; windows are read from shared memory.
#pragma once
#include "../group.cuh"
#include "disjoint.cuh"

// Of a block: `planes` planes, or `rows` rows of the result of one plane; `bands` blocks have a plane.
struct Chunk {
    static constexpr bool BOX = false;
    long long plane;  // elements between planes of the input, which may have gaps between rows
    int row, column;  // elements between rows, and between columns
    int rows, planes;
    unsigned bands;
};

// A tensor of any strides, whose planes are counted by two dimensions: a block has some along one of them, a box in memory.
struct Box {
    static constexpr bool BOX = true;
    int plane, row, column;  // elements between them in shared memory
    int rows, planes;
    unsigned bands, others;  // `others` counts planes along the other dimension
    int high;                // rows of the input in a box
    unsigned each, other;    // planes of the result from one plane to the next, along either dimension
    long long down, along, other_along;  // elements of the input between rows, and between planes
    Size inner, middle;      // of the box, innermost first
    int count, pitch[2];     // elements of the box; between those in shared memory, of the middle and outer size
    long long stride[3];     // of the input, innermost first
};

__device__ inline __half larger(__half a, __half b) { return __hmax_nan(a, b); }
__device__ inline __nv_bfloat16 larger(__nv_bfloat16 a, __nv_bfloat16 b) { return __hmax_nan(a, b); }
__device__ inline double larger(double a, double b) { return b > a || b != b ? b : a; }

// Copies `count` neighbours into shared memory.
template <class T>
__device__ const T* stage(const T* from, int count) {
    extern __shared__ uint4 room[];
    constexpr int V = 16 / sizeof(T);
    int lead = int(reinterpret_cast<size_t>(from) % 16 / sizeof(T)), end = lead + count;
    T* held = reinterpret_cast<T*>(room);
    for (int i = threadIdx.x * V; i < end; i += 256 * V) {
        const T* source = from + (i - lead);
        if (i >= lead && i + V <= end) {
            unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(held + i));
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(source) : "memory");
        } else {  // the ends, whose vectors may reach beyond the tensor
#pragma unroll 1
            for (int k = max(i, lead); k < min(i + V, end); ++k) held[k] = from[k - lead];
        }
    }
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
    return held + lead;
}

// Copies a box, whose first element is `from`.
template <class T>
__device__ const T* stage(const T* from, const Box& box) {
    extern __shared__ uint4 room[];
    T* held = reinterpret_cast<T*>(room);
#pragma unroll 4
    for (int i = threadIdx.x; i < box.count; i += 256) {
        int a, b, c = int(box.middle.split(box.inner.split(unsigned(i), a), b));
        held[a + b * box.pitch[0] + c * box.pitch[1]] = from[a * box.stride[0] + b * box.stride[1] + c * box.stride[2]];
    }
    __syncthreads();
    return held;
}

// The windows of a block along one dimension. Those of adaptive pooling take divisions to find: each is found once.
template <class A>
struct Found {
    static constexpr int MOST = 64;
    const int2* table;

    // Window `begin` is the block's first; all threads call this before stage().
    __device__ Found(int2* room, int begin, int count, int size, int out) : table(room - begin) {
        if constexpr (!A::FIXED)
            for (int i = threadIdx.x; i < count; i += 256)
                room[i] = make_int2(A::first(begin + i, size, out), A::last(begin + i, size, out));
    }
    template <class F>
    __device__ void each(int o, int size, int out, F f) const {
        if constexpr (A::FIXED) {
            A::each(o, size, out, f);
        } else {
            int2 span = table[o];
            for (int at = span.x; at < span.y; ++at) f(at, 0);
        }
    }
    __device__ int count(int o, int size, int out, bool padding) const {
        if constexpr (A::FIXED) return A::count(o, size, out, padding);
        else return table[o].y - table[o].x;
    }
};

// A block's part: f(task) for each of its threads' tasks, which are Q rows of the result at one column and channel.
struct Task {
    int row, column, rows;  // of the result; fewer than Q rows at the end of a block's part
    int at;                 // of the first result from the part's first
    int offset;             // of the plane's and the channel's first element from the part's first
};

template <class T, class Y, class X, class K>
struct Part {
    const PoolShape& p;
    const K& k;
    long long plane, other = 0;
    int planes, row, rows, top, high;  // `high` rows of the input are staged, from `top` on
    int before = 0;                    // planes that are staged before the first one

    __device__ Part(const PoolShape& p, const K& k) : p(p), k(k) {
        unsigned at = blockIdx.x / k.bands;
        row = int(blockIdx.x % k.bands) * k.rows, rows = min(k.rows, p.out_rows - row);
        if constexpr (K::BOX) other = at % k.others, at /= k.others;
        plane = (long long)at * k.planes;
        planes = int(min((long long)k.planes, p.planes - plane));
        top = Y::first(row, p.height, p.out_rows);
        high = Y::last(row + rows - 1, p.height, p.out_rows) - top;  // every window has a row
        if constexpr (K::BOX) {  // boxes are equal: at an end, one begins earlier
            high = k.high, top = min(top, p.height - high);
            before = k.planes - planes;
        }
    }
    __device__ const T* load(const T* x) const {
        if constexpr (K::BOX) {
            return stage(x + (plane - before) * k.along + other * k.other_along + top * k.down, k);
        } else {
            int last = int((planes - 1) * k.plane) + (high - 1) * k.row + (p.width - 1) * k.column + int(p.inner.size);
            return stage(x + plane * k.plane + (long long)top * k.row, last);
        }
    }
    // The number of the part's first result.
    __device__ long long result() const {
        long long first = plane;
        if constexpr (K::BOX) first = plane * k.each + other * k.other;
        return (first * p.out_rows + row) * p.out_columns * p.inner.size;
    }
    template <int Q, class F>
    __device__ void each(F f) const {
        int tasks = planes * int(p.rows.size * p.columns.size * p.inner.size), apart = 1;
        if constexpr (K::BOX) apart = k.each;
        for (int t = threadIdx.x; t < tasks; t += 256) {
            int c, column, group;
            int n = int(p.rows.split(p.columns.split(p.inner.split(unsigned(t), c), column), group));
            int first = group * Q, left = rows - first;
            if (left <= 0) continue;
            int at = ((n * apart * p.out_rows + first) * p.out_columns + column) * int(p.inner.size) + c;
            f(Task{row + first, column, min(left, Q), at, (n + before) * int(k.plane) + c});
        }
    }
};

// Q windows below each other: what they share of a row is combined once. R says how; see MaxOf. WHOLE: no column is outside.
// Positions outside are read at the edge, which is in their window too where taps are neighbours: a maximum may have it twice.
template <class R, class T, class Y, class X, int Q, bool WHOLE>
__device__ void column_of(typename R::Type (&out)[Q], const T* from, int top, int high, int left, int width, int row,
                          int apart) {
    using C = typename R::Type;
    constexpr int SPAN = (Q - 1) * Y::STEP + (Y::TAPS - 1) * Y::APART + 1;
    int at[X::TAPS];
#pragma unroll
    for (int k = 0; k < X::TAPS; ++k) {
        int w = left + k * X::APART;
        at[k] = (WHOLE ? w : min(max(w, 0), width - 1)) * apart;
    }
#pragma unroll
    for (int r = 0; r < SPAN; ++r) {  // rows that no window has are not read
        int h = top + r, held = min(Y::BEFORE ? max(h, 0) : h, high - 1);
        C line;
#pragma unroll
        for (int k = 0; k < X::TAPS; ++k) {
            C v = R::open(from[held * row + at[k]]);
            if (!WHOLE && !(R::TWICE && X::APART == 1)) v = unsigned(left + k * X::APART) < unsigned(width) ? v : R::none();
            line = k ? R::join(line, v) : v;
        }
        if (!(R::TWICE && Y::APART == 1)) line = h == held ? line : R::none();
#pragma unroll
        for (int q = 0; q < Q; ++q) {
            int down = r - q * Y::STEP;
            if (down >= 0 && down % Y::APART == 0 && down / Y::APART < Y::TAPS) out[q] = down ? R::join(out[q], line) : line;
        }
    }
}

template <class T>
struct MaxOf {
    using Type = T;
    static constexpr bool TWICE = true;  // a maximum may take an element twice
    static __device__ T none() { return to<T>(-INFINITY); }
    static __device__ T open(T v) { return v; }
    static __device__ T join(T a, T b) { return larger(a, b); }
};

template <class T>
struct SumOf {
    using Type = typename Wider<T>::Type;
    static constexpr bool TWICE = false;
    static __device__ Type none() { return 0; }
    static __device__ Type open(T v) { return to<Type>(v); }
    static __device__ Type join(Type a, Type b) { return a + b; }
};

// LAST: columns are no neighbours, such as where channels are last in memory. Q is 1 where places of maxima are kept, and for adaptive windows.
template <class T, class Code, class Y, class X, int Q, bool WHOLE, bool LAST, class K>
__global__ void __launch_bounds__(256) max_staged(const T* __restrict__ x, T* __restrict__ y, Code* __restrict__ where,
                                                  const PoolShape p, const K k) {
    using H = typename Held<Code>::Type;
    __shared__ int2 down[Found<Y>::MOST], along[Found<X>::MOST];
    Part<T, Y, X, K> part(p, k);
    Found<Y> ys(down, part.row, part.rows, p.height, p.out_rows);
    Found<X> xs(along, 0, p.out_columns, p.width, p.out_columns);
    const T* from = part.load(x);
    int apart = LAST ? k.column : 1, next = p.out_columns * int(p.inner.size);
    long long base = part.result();
    part.template each<Q>([&](const Task& task) {
        const T* own = from + task.offset;
        if constexpr (Y::FIXED && !KEPT<Code>) {
            T out[Q];
            column_of<MaxOf<T>, T, Y, X, Q, WHOLE>(out, own, task.row * Y::STEP - Y::BEFORE - part.top, part.high,
                                                   task.column * X::STEP - X::BEFORE, p.width, k.row, apart);
#pragma unroll
            for (int q = 0; q < Q; ++q)
                if (q < task.rows) y[base + (task.at + q * next)] = out[q];
        } else {
            Most<T, H, 1> most;
            ys.each(task.row, p.height, p.out_rows, [&](int h, int ky) {
                xs.each(task.column, p.width, p.out_columns, [&](int w, int kx) {
                    most.take({own[(h - part.top) * k.row + w * apart]}, code_of<H, Y, X>(h, w, ky, kx, p.width));
                });
            });
            most.store_at(y, where, base + task.at);
        }
    });
}

template <class T, class Y, class X, int Q, bool WHOLE, bool LAST, class K>
__global__ void __launch_bounds__(256) mean_staged(const T* __restrict__ x, T* __restrict__ y, int divisor, int padding,
                                                   const PoolShape p, const K k) {
    using R = SumOf<T>;
    using C = typename R::Type;
    __shared__ int2 down[Found<Y>::MOST], along[Found<X>::MOST];
    Part<T, Y, X, K> part(p, k);
    Found<Y> ys(down, part.row, part.rows, p.height, p.out_rows);
    Found<X> xs(along, 0, p.out_columns, p.width, p.out_columns);
    const T* from = part.load(x);
    int apart = LAST ? k.column : 1, next = p.out_columns * int(p.inner.size);
    long long base = part.result();
    part.template each<Q>([&](const Task& task) {
        const T* own = from + task.offset;
        C out[Q] = {};
        if constexpr (Y::FIXED) {
            column_of<R, T, Y, X, Q, WHOLE>(out, own, task.row * Y::STEP - Y::BEFORE - part.top, part.high,
                                            task.column * X::STEP - X::BEFORE, p.width, k.row, apart);
        } else {
            ys.each(task.row, p.height, p.out_rows, [&](int h, int) {
                xs.each(task.column, p.width, p.out_columns,
                        [&](int w, int) { out[0] += R::open(own[(h - part.top) * k.row + w * apart]); });
            });
        }
        int wide = xs.count(task.column, p.width, p.out_columns, padding);
#pragma unroll
        for (int q = 0; q < Q; ++q) {
            if (q >= task.rows) continue;
            C by = divisor ? divisor : wide * ys.count(task.row + q, p.height, p.out_rows, padding);
            y[base + (task.at + q * next)] = to<T>(out[q] / by);
        }
    });
}
