// rung:   02 vectors
// idea:   the kernels of weft.ops.max_pool2d: a thread has two windows of a row. What they cover is
//         one vector of 16 bytes in each of two rows, read and written whole. Odd rows take one
//         window per thread
// expect: load sectors per request >= 8
// scratch: where:u8[planes*rows*columns]

#include "../../ops/families/pool/cuda/disjoint.cuh"

template <int V>
__device__ void pooled(const float* x, float* y, unsigned char* where, int planes, int rows,
                       int columns) {
    int e = blockIdx.x * 256 + threadIdx.x, across = columns / V;
    if (e < planes * rows * across)
        max_of_row<2, 2, V>(x, y, where, e / across * 2ll, e / across % rows * 2, e % across, e,
                            2 * columns);
}

template <int V>
__device__ void spread(const float* dy, float* dx, const unsigned char* where, int planes, int rows,
                       int columns) {
    int e = blockIdx.x * 256 + threadIdx.x, across = columns / V;
    if (e >= planes * rows * across) return;
    PoolShape p = {};
    p.height = 2 * rows, p.width = 2 * columns, p.out_rows = rows, p.out_columns = columns;
    max_to_rows<2, 2, V>(dy, where, dx, e / across / rows, e / across % rows, e % across, p);
}

__global__ void __launch_bounds__(256)
    forward(const float* x, float* y, unsigned char* where, int planes, int rows, int columns) {
    pooled<2>(x, y, where, planes, rows, columns);
}
__global__ void __launch_bounds__(256)
    backward(const float* dy, float* dx, const unsigned char* where, int planes, int rows,
             int columns) {
    spread<2>(dy, dx, where, planes, rows, columns);
}
__global__ void __launch_bounds__(256)
    forward_odd(const float* x, float* y, unsigned char* where, int planes, int rows, int columns) {
    pooled<1>(x, y, where, planes, rows, columns);
}
__global__ void __launch_bounds__(256)
    backward_odd(const float* dy, float* dx, const unsigned char* where, int planes, int rows,
                 int columns) {
    spread<1>(dy, dx, where, planes, rows, columns);
}
