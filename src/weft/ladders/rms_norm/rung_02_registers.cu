// rung:   02 registers
// idea:   64 threads hold a row of up to 4,096 sums in registers, in vectors of 16 bytes: every
//         tensor is read or written once. Longer and ragged rows are read as before
// precision: bf16
// expect: bytes read per result <= 7

#include "../../ops/families/norm/cuda/rows.cuh"

using T = __nv_bfloat16;

__global__ void __launch_bounds__(64)
    rms_norm(const T* x, const T* r, const T* w, T* y, T* s, int n) {
    size_t row = size_t(blockIdx.x) * n;
    Row<T, 8, false> whole{0, n};
    Vector<T, 8> held[8];
    float squares = 0;
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        int chunk = k * 64 + threadIdx.x;
        held[k] = sums(whole.get(x + row, chunk, 0), whole.get(r + row, chunk, 0));
        whole.put(s + row, chunk, held[k]);
        squares = squares_of(held[k], whole, chunk, 0, 0, squares);
    }
    float scale = rsqrtf(block_sum<64>(squares) / n + 1e-6f);
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        int chunk = k * 64 + threadIdx.x;
        whole.put(
            y + row, chunk,
            results(held[k], 0, 0, scale, weights<8, false>(w, chunk * 8, n, 1), Vector<T, 8>{}));
    }
}

__global__ void __launch_bounds__(256)
    others(const T* x, const T* r, const T* w, T* y, T* s, int n) {
    size_t row = size_t(blockIdx.x) * n;
    float squares = 0;
    for (int i = threadIdx.x; i < n; i += 256) {
        s[row + i] = to<T>(to<float>(x[row + i]) + to<float>(r[row + i]));
        squares += to<float>(s[row + i]) * to<float>(s[row + i]);
    }
    float scale = rsqrtf(block_sum<256>(squares) / n + 1e-6f);
    for (int i = threadIdx.x; i < n; i += 256)
        y[row + i] = to<T>(to<float>(s[row + i]) * scale * to<float>(w[i]));
}
