// Tensors one after the other: one launch for all of them.
#include "../../../core/cuda/quotient.cuh"
#include "../../../core/cuda/vector.cuh"

// N tensors as rows of vectors, or of single elements where `whole` is 0; see kernels.py.
template <class I, int N>
struct Parts {
    I begin[N];                // the first block
    I count[N];                // vectors, of all rows
    I chunks[N];               // vectors of a row
    I magic[N], shift[N];      // for the quotient by `chunks`
    I pitch[N], offset[N];     // elements: from row to row, and before the part in a row of y
    I whole[N];
};

template <int N>
struct Width {
    static constexpr int value = N;
};

// A block copies 256 * U vectors of one tensor. Rows of y are `pitch` elements apart.
template <class T, class I, int V, int U, class... P>
__global__ void __launch_bounds__(256)
    join(T* y, I pitch, const Parts<I, sizeof...(P)> parts, const P*... tensors) {
    constexpr int N = sizeof...(P);
    int part = 0;
#pragma unroll
    for (int k = 1; k < N; k++)
        if (I(blockIdx.x) >= parts.begin[k]) part = k;
    const T* x = nullptr;
    int number = 0;
    ((x = number++ == part ? tensors : x), ...);
    I first = (I(blockIdx.x) - parts.begin[part]) * (256 * U) + threadIdx.x;
    I count = parts.count[part], chunks = parts.chunks[part];
    auto copy = [&](auto width) {
        constexpr int W = decltype(width)::value;
        Vector<T, W> ahead[U];
        T* to[U];
#pragma unroll
        for (int u = 0; u < U; u++) {
            I i = first + u * 256;
            if (i >= count) break;
            I row = chunks > 1 ? quotient(i, parts.magic[part], parts.shift[part]) : i;
            I column = (i - row * chunks) * W;
            ahead[u] = load<W>(x + row * parts.pitch[part] + column);
            to[u] = y + row * pitch + parts.offset[part] + column;
        }
#pragma unroll
        for (int u = 0; u < U; u++)
            if (first + u * 256 < count) store(to[u], ahead[u]);
    };
    if (parts.whole[part]) copy(Width<V>{});
    else copy(Width<1>{});
}
