// Pooling through shared memory. What a block reads is one interval of memory: whole planes, or all
// rows that some rows of the result need. It arrives in vectors of 16 bytes at any sizes and
// alignment; windows are read from shared memory.
#pragma once
#include <weft/async.cuh>

#include "disjoint.cuh"

STRUCT_CHUNKSHAPE
STRUCT_STRIDEDSHAPE

struct Chunk : ChunkShape {
    static constexpr bool STRIDED = false;
};

// Segments begin at multiples of WIDE bytes from each other; of 2 bytes, they are copied through
// registers.
template <int WIDE>
struct StridedChunk : StridedShape {
    static constexpr bool STRIDED = true;
};

// Copies elements `lead` to `end` of an address that is a multiple of WIDE bytes, as thread `lane`
// of `lanes`.
template <int WIDE, class T>
__device__ void copy_run(T* to_, const T* from, int lead, int end, int lane, int lanes) {
    constexpr int V = WIDE / sizeof(T);
    for (int i = lane * V; i < end; i += lanes * V) {
        if (i >= lead && i + V <= end) {
            copy_async<WIDE>(to_ + i, from + i);
        } else {  // the ends, whose vectors may reach beyond the tensor
#pragma unroll 1
            for (int k = max(i, lead); k < min(i + V, end); ++k) to_[k] = from[k];
        }
    }
}

// Copies `count` neighbours into shared memory.
template <class T>
__device__ const T* stage(const T* from, int count) {
    extern __shared__ uint4 room[];
    T* staged = reinterpret_cast<T*>(room);
    int lead = int(reinterpret_cast<size_t>(from) % 16 / sizeof(T));
    copy_run<16>(staged, from - lead, lead, lead + count, threadIdx.x, 256);
    wait_all_copies();
    __syncthreads();
    return staged + lead;
}

// Copies a chunk, whose first element is `from`.
template <class T, int WIDE>
__device__ const T* stage(const T* from, const StridedChunk<WIDE>& chunk) {
    extern __shared__ uint4 room[];
    T* staged = reinterpret_cast<T*>(room);
    if constexpr (WIDE < 4) {
#pragma unroll 4
        for (int i = threadIdx.x; i < chunk.segments * int(chunk.run.size); i += 256) {
            int at, a, b;
            unsigned segment = split(chunk.run, unsigned(i), at);
            int c = int(split(chunk.second, split(chunk.first, segment, a), b));
            staged[at + a * chunk.pitch[0] + b * chunk.pitch[1] + c * chunk.pitch[2]] =
                from[at + (a * chunk.apart[0] + b * chunk.apart[1] + c * chunk.apart[2])];
        }
        __syncthreads();
        return staged;
    } else {
        int lead = int(reinterpret_cast<size_t>(from) % WIDE / sizeof(T)),
            end = lead + int(chunk.run.size);
        int lane = threadIdx.x & (chunk.lanes - 1), groups = 256 / chunk.lanes;
        for (int s = threadIdx.x / chunk.lanes; s < chunk.segments; s += groups) {
            int a, b, c = int(split(chunk.second, split(chunk.first, unsigned(s), a), b));
            const T* source =
                from - lead + (a * chunk.apart[0] + b * chunk.apart[1] + c * chunk.apart[2]);
            copy_run<WIDE>(staged + (a * chunk.pitch[0] + b * chunk.pitch[1] + c * chunk.pitch[2]),
                           source, lead, end, lane, chunk.lanes);
        }
        wait_all_copies();
        __syncthreads();
        return staged + lead;
    }
}

// The windows of a block along one dimension. Those of adaptive pooling take divisions to find:
// each is found once.
template <class A>
struct Found {
    static constexpr int MOST = A::FIXED ? 1 : 64;
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

// A block's part: f(task) for each of its threads' tasks, which are Q rows of the result at one
// column and channel.
struct Task {
    int row, column, rows;  // of the result; fewer than Q rows at the end of a block's part
    int at;  // of the first result from the part's first
    int offset;  // of the plane's and the channel's first element from the part's first
};

template <class T, class Y, class X, class K>
struct Part {
    const PoolShape& p;
    const K& k;
    long long plane;
    int planes, row, rows, top, high;  // `high` rows of the input are staged, from `top` on
    int begin[2],
        before[2];  // of a chunk: its first channel and image, and how many another block has

    __device__ Part(const PoolShape& p, const K& k) : p(p), k(k) {
        unsigned at = blockIdx.x / k.bands;
        row = int(blockIdx.x % k.bands) * k.rows, rows = min(k.rows, p.out_rows - row);
        top = Y::first(row, p.height, p.out_rows);
        if constexpr (K::STRIDED) {  // chunks are equal: the last ones begin earlier
            unsigned number[2] = {at % k.blocks, at / k.blocks};
            for (int i = 0; i < 2; ++i) {
                int first = int(number[i]) * k.counts[i];
                begin[i] = min(first, k.all[i] - k.counts[i]), before[i] = first - begin[i];
            }
            high = k.high, top = min(top, p.height - high);
            plane = (long long)begin[1] * k.all[0] + begin[0], planes = k.counts[0] * k.counts[1];
        } else {
            plane = (long long)at * k.planes,
            planes = int(min((long long)k.planes, p.planes - plane));
            high = Y::last(row + rows - 1, p.height, p.out_rows) - top;  // every window has a row
        }
    }
    __device__ const T* load(const T* x) const {
        if constexpr (K::STRIDED) {
            return stage(x + (begin[0] * k.strides[0] + begin[1] * k.strides[1] + top * k.down), k);
        } else {
            int last = int((planes - 1) * k.plane) + (high - 1) * k.row + (p.width - 1) * k.column +
                       int(p.inner.size);
            return stage(x + plane * k.plane + (long long)top * k.row, last);
        }
    }
    // The number of the part's first result.
    __device__ long long result() const {
        return (plane * p.out_rows + row) * p.out_columns * p.inner.size;
    }
    template <int Q, class F>
    __device__ void each(F f) const {
        int tasks = planes * int(p.rows.size * p.columns.size * p.inner.size);
        for (int t = threadIdx.x; t < tasks; t += 256) {
            int c, column, group, offset;
            int n =
                int(split(p.rows, split(p.columns, split(p.inner, unsigned(t), c), column), group));
            int first = group * Q, left = rows - first;
            if (left <= 0) continue;
            if constexpr (K::STRIDED) {
                int channel, image = int(split(k.channels, unsigned(n), channel));
                if (channel < before[0] || image < before[1]) continue;
                offset = channel * k.plane[0] + image * k.plane[1];
                n = image * k.all[0] + channel;
            } else {
                offset = n * int(k.plane) + c;
            }
            int at = ((n * p.out_rows + first) * p.out_columns + column) * int(p.inner.size) + c;
            f(Task{row + first, column, min(left, Q), at, offset});
        }
    }
};

// Q windows below each other: what they share of a row is combined once. R says how; see MaxOf.
// WHOLE: no column is outside. Positions outside are read at the edge, which is in their window too
// where taps are neighbours: a maximum may have it twice.
template <class R, class T, class Y, class X, int Q, bool WHOLE>
__device__ void column_of(typename R::Type (&out)[Q], const T* from, int top, int high, int left,
                          int width, int row, int apart) {
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
        int h = top + r, staged = min(Y::BEFORE ? max(h, 0) : h, high - 1);
        C line;
#pragma unroll
        for (int k = 0; k < X::TAPS; ++k) {
            C v = R::open(from[staged * row + at[k]]);
            bool there = WHOLE || (R::TWICE && X::APART == 1) ||
                         unsigned(left + k * X::APART) < unsigned(width);
            if (k) line = there ? R::join(line, v) : line;
            else line = there ? v : R::none();
        }
        if (!(R::TWICE && Y::APART == 1)) line = h == staged ? line : R::none();
#pragma unroll
        for (int q = 0; q < Q; ++q) {
            int down = r - q * Y::STEP;
            if (down >= 0 && down % Y::APART == 0 && down / Y::APART < Y::TAPS)
                out[q] = down ? R::join(out[q], line) : line;
        }
    }
}

// Q adaptive windows below each other, of at most MY x MX positions; `down` and `along` are where
// they lie.
template <class R, class T, int Q, int MY, int MX>
__device__ void parts_of(typename R::Type (&out)[Q], const T* from, const int2* down, int2 along,
                         int rows, int top, int row, int apart) {
    int at[MX];
#pragma unroll
    for (int k = 0; k < MX; ++k) at[k] = min(along.x + k, along.y - 1) * apart;
#pragma unroll
    for (int q = 0; q < Q; ++q) {
        int2 span = down[min(q, rows - 1)];
        out[q] = R::none();
#pragma unroll
        for (int j = 0; j < MY; ++j) {
            const T* line = from + (min(span.x + j, span.y - 1) - top) * row;
#pragma unroll
            for (int k = 0; k < MX; ++k) {
                bool there = R::TWICE || (span.x + j < span.y && along.x + k < along.y);
                out[q] = there ? R::join(out[q], R::open(line[at[k]])) : out[q];
            }
        }
    }
}

template <class T>
struct MaxOf {
    using Type = T;
    static constexpr bool TWICE = true;  // a maximum may take an element twice
    static __device__ T none() { return to<T>(-INFINITY); }
    static __device__ T open(T v) { return v; }
    static __device__ T join(T a, T b) { return max_nan(a, b); }
};

// Within two units of the last place, by fewer instructions than a rounded quotient.
__device__ inline float quotient(float a, float b) { return __fdividef(a, b); }
__device__ inline double quotient(double a, double b) { return a / b; }

template <class T>
struct SumOf {
    using Type = typename Wider<T>::Type;
    static constexpr bool TWICE = false;
    static __device__ Type none() { return 0; }
    static __device__ Type open(T v) { return to<Type>(v); }
    static __device__ Type join(Type a, Type b) { return a + b; }
};

// LAST: columns are no neighbours, such as where channels are last in memory. MY, MX: the sizes of
// the largest adaptive window where a thread has several. Q is 1 where places of maxima are saved,
// and for larger adaptive windows.
template <class T, class Code, class Y, class X, int Q, bool WHOLE, bool LAST, class K, int MY = 0,
          int MX = 0>
__global__ void __launch_bounds__(256)
    max_staged(const T* __restrict__ x, T* __restrict__ y, Code* __restrict__ where,
               const PoolShape p, const K k) {
    take_turn();
    using H = typename CodeType<Code>::Type;
    __shared__ int2 down[Found<Y>::MOST], along[Found<X>::MOST];
    Part<T, Y, X, K> part(p, k);
    Found<Y> ys(down, part.row, part.rows, p.height, p.out_rows);
    Found<X> xs(along, 0, p.out_columns, p.width, p.out_columns);
    const T* from = part.load(x);
    int apart = LAST ? k.column : 1, next = p.out_columns * int(p.inner.size);
    long long base = part.result();
    part.template each<Q>([&](const Task& task) {
        const T* own = from + task.offset;
        if constexpr (!SAVED<Code> && (Y::FIXED || MY > 0)) {
            T out[Q];
            if constexpr (Y::FIXED)
                column_of<MaxOf<T>, T, Y, X, Q, WHOLE>(
                    out, own, task.row * Y::STEP - Y::BEFORE - part.top, part.high,
                    task.column * X::STEP - X::BEFORE, p.width, k.row, apart);
            else
                parts_of<MaxOf<T>, T, Q, MY, MX>(out, own, ys.table + task.row,
                                                 xs.table[task.column], task.rows, part.top, k.row,
                                                 apart);
#pragma unroll
            for (int q = 0; q < Q; ++q)
                if (q < task.rows) y[base + (task.at + q * next)] = out[q];
        } else {
            Most<T, H, 1> most;
            ys.each(task.row, p.height, p.out_rows, [&](int h, int ky) {
                xs.each(task.column, p.width, p.out_columns, [&](int w, int kx) {
                    most.take({own[(h - part.top) * k.row + w * apart]},
                              code_of<H, Y, X>(h, w, ky, kx, p.width));
                });
            });
            most.store_at(y, where, base + task.at);
        }
    });
}

template <class T, class Y, class X, int Q, bool WHOLE, bool LAST, class K, int MY = 0, int MX = 0>
__global__ void __launch_bounds__(256)
    mean_staged(const T* __restrict__ x, T* __restrict__ y, int divisor, int padding,
                const PoolShape p, const K k) {
    take_turn();
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
            column_of<R, T, Y, X, Q, WHOLE>(out, own, task.row * Y::STEP - Y::BEFORE - part.top,
                                            part.high, task.column * X::STEP - X::BEFORE, p.width,
                                            k.row, apart);
        } else if constexpr (MY > 0) {
            parts_of<R, T, Q, MY, MX>(out, own, ys.table + task.row, xs.table[task.column],
                                      task.rows, part.top, k.row, apart);
        } else {
            ys.each(task.row, p.height, p.out_rows, [&](int h, int) {
                xs.each(task.column, p.width, p.out_columns, [&](int w, int) {
                    out[0] += R::open(own[(h - part.top) * k.row + w * apart]);
                });
            });
        }
        int wide = divisor ? divisor : xs.count(task.column, p.width, p.out_columns, padding);
#pragma unroll
        for (int q = 0; q < Q; ++q) {
            if (q >= task.rows) continue;
            int high = divisor ? 1 : ys.count(task.row + q, p.height, p.out_rows, padding);
            y[base + (task.at + q * next)] = to<T>(quotient(out[q], C(wide * high)));
        }
    });
}
