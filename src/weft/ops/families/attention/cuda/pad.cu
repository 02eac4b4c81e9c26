// Copies rows of elements to rows that are whole, aligned vectors of 16 bytes, which end with
// zeros.
#include <weft/convert.cuh>

using namespace weft;

// Tensors [batch][heads][rows][depth], whose copies are contiguous but for the ends of their rows:
// padding.py declares `PaddedTensors`.
STRUCT_PADDEDTENSORS;

// Up to five tensors in one launch; V: elements of the vectors that can be read.
template <class T, int V>
__global__ void __launch_bounds__(256)
    pad(const T* a, T* to_a, const T* b, T* to_b, const T* c, T* to_c, const T* d, T* to_d,
        const T* e, T* to_e, const PaddedTensors all, int count) {
    constexpr int N = 16 / sizeof(T);
    int which = 0;
#pragma unroll
    for (int i = 1; i < 5; ++i) which += i < count && blockIdx.x >= all.of[i].block;
    const T* from = which == 0 ? a : which == 1 ? b : which == 2 ? c : which == 3 ? d : e;
    T* to = which == 0 ? to_a : which == 1 ? to_b : which == 2 ? to_c : which == 3 ? to_d : to_e;
    const Padded& x = all.of[which];
    unsigned n = (blockIdx.x - x.block) * 256 + threadIdx.x, across = (x.depth + N - 1) / N,
             row = n / across;
    if (n >= x.vectors) return;
    int column = n % across * N, head = row / x.rows;
    from += head / x.heads * x.strides[0] + head % x.heads * x.strides[1] +
            row % x.rows * x.strides[2] + column;
    Vector<T, N> made;
#pragma unroll
    for (int i = 0; i < N; i += V) {
        Vector<T, V> some = column + i < x.depth ? load<V>(from + i) : fill<V>(T(0.f));
#pragma unroll
        for (int j = 0; j < V; ++j) made[i + j] = some[j];
    }
    store(to + n * static_cast<long long>(N), made);
}
