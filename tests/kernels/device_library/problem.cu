// Calls every function of weft/problem.cuh.
#include <weft/problem.cuh>

using namespace weft;

static_assert(ceil_div(0, 4) == 0 && ceil_div(9, 4) == 3 && ceil_div(8ll, 4ll) == 2, "rounded up");

template <class T>
__global__ void quotients(const T* x, T* y, T magic, T shift, int n) {
    if (int(threadIdx.x) < n) y[threadIdx.x] = quotient(x[threadIdx.x], magic, shift);
}

__global__ void tiles(int2* y, int rows, int columns) {
    for (int i = threadIdx.x; i < rows * columns; i += blockDim.x)
        y[i] = tile_in_bands(i, rows, columns);
}

// Each block writes where it is.
__global__ void blocks(long long* y) {
    int3 at = reread_block_index();
    long long index = block_index_yz();
    y[index * gridDim.x + at.x] = at.x + 10 * at.y + 100 * at.z + 1000 * index;
}

template __global__ void quotients<int>(const int*, int*, int, int, int);
template __global__ void quotients<long long>(const long long*, long long*, long long, long long,
                                              int);
