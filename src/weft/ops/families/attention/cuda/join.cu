// Adds up the sums of gradients that blocks have of parts of the queries, or of the keys.
#include <weft/convert.cuh>

using namespace weft;

// Results [batch][heads][rows][width] of sums [part][batch][heads][rows][depth], depth a multiple
// of 4: structs.py declares `Joined`.
STRUCT_JOINED;

template <class T>
__device__ void join_vector(const float* sums, T* to, const Joined& x, unsigned n) {
    Vector<float, 4> sum = load<4>(sums + n * 4ll);
#pragma unroll 4
    for (int part = 1; part < x.parts; ++part) {
        Vector<float, 4> more = load<4>(sums + (part * static_cast<long long>(x.vectors) + n) * 4);
#pragma unroll
        for (int i = 0; i < 4; ++i) sum[i] += more[i];
    }
    unsigned across = x.depth / 4, row = n / across, column = n % across * 4, head = row / x.rows;
    to += head / x.heads * x.strides[0] + head % x.heads * x.strides[1] +
          row % x.rows * x.strides[2] + column;
#pragma unroll
    for (int i = 0; i < 4; ++i)
        if (column + i < x.width) to[i] = ::to<T>(sum[i]);
}

// One result, or two whose sums follow one another.
template <class T>
__global__ void __launch_bounds__(256)
    join(const float* sums, T* a, T* b, const Joined of_a, const Joined of_b) {
    unsigned n = blockIdx.x * 256 + threadIdx.x;
    if (n < of_a.vectors) join_vector(sums, a, of_a, n);
    else if (n - of_a.vectors < of_b.vectors)
        join_vector(sums + of_a.parts * 4ll * of_a.vectors, b, of_b, n - of_a.vectors);
}
