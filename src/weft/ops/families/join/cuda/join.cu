// Tensors one after the other: one launch for all of them.
#include <weft/convert.cuh>
#include <weft/problem.cuh>

using namespace weft;

// A tensor as rows of vectors; see kernels.py.
template <class I>
struct Part {
    I begin;          // the first block
    I count;          // vectors, of all rows
    I chunks;         // vectors of a row
    I magic, shift;   // for the quotient by `chunks`
    I x_row, x_step;  // elements from row to row and from vector to vector
    I y_row, y_step;
    I offset;         // elements of y before the part
    I width;          // elements of a vector
};

template <class I, int N>
struct Parts {
    Part<I> at[N];
};

// Copies U vectors of W elements per thread: all loads are in flight before the first store.
template <int W, int U, class T, class I>
__device__ void copy(const T* x, T* y, I first, const Part<I>& part) {
    Vector<T, W> ahead[U];
    I to[U];
    // A division by one has the magic number 0. A mask replaces a branch between the loads.
    I undivided = part.magic ? 0 : -1;
    auto fetch = [&](int u) {
        I i = first + u * 256;
        I row = quotient(i, part.magic, part.shift) + (i & undivided);
        I column = i - row * part.chunks;
        to[u] = row * part.y_row + column * part.y_step;
        ahead[u] = load<W>(x + row * part.x_row + column * part.x_step);
    };
    // Without conditions between them, the compiler issues the loads of a whole tile together.
    if (first + (U - 1) * 256 < part.count) {
#pragma unroll
        for (int u = 0; u < U; u++) fetch(u);
#pragma unroll
        for (int u = 0; u < U; u++) store(y + to[u], ahead[u]);
        return;
    }
#pragma unroll
    for (int u = 0; u < U; u++)
        if (first + u * 256 < part.count) fetch(u);
#pragma unroll
    for (int u = 0; u < U; u++)
        if (first + u * 256 < part.count) store(y + to[u], ahead[u]);
}

// Copies vectors of the part's width, which is W or narrower.
template <int W, int U, class T, class I>
__device__ void copy_by_width(const T* x, T* y, I first, const Part<I>& part) {
    if constexpr (W > 1) {
        if (part.width != W) {
            copy_by_width<W / 2, U>(x, y, first, part);
            return;
        }
    }
    copy<W, U>(x, y, first, part);
}

// A block copies 256 * U vectors of one tensor.
template <class T, class I, int V, int U, class... P>
__global__ void __launch_bounds__(256)
    join(T* y, const Parts<I, sizeof...(P)> parts, const P*... tensors) {
    // Each part is selected by a constant number: a variable one would make the compiler copy the
    // table from constant memory to local memory.
    const T* x = nullptr;
    Part<I> part;
    int number = 0;
    auto select = [&](const T* tensor) {
        if (number == 0 || I(blockIdx.x) >= parts.at[number].begin) {
            x = tensor;
            part = parts.at[number];
        }
        number++;
    };
    (select(tensors), ...);
    I first = (I(blockIdx.x) - part.begin) * (256 * U) + threadIdx.x;
    copy_by_width<V, U>(x, y + part.offset, first, part);
}
