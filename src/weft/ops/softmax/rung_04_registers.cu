// rung:   04 registers
// idea:   the row stays in the registers of its block: memory is read once and written once, 16 bytes
//         at a time; exponentials are computed once. Rows of up to 8,192 elements
// expect: bytes read per element = 4
// launch: softmax<<<rows if n <= 8192 else 0, 256>>>
// launch: longer<<<rows if n > 8192 else 0, 1024>>>

#include "row.cuh"

__global__ void __launch_bounds__(256) softmax(const float* x, float* y, int n) {
    softmax_row<float, 256, 8>(x, y, n, 1, nullptr, nullptr);
}

// Longer rows are read again and again; the next rung splits them.
__global__ void __launch_bounds__(1024) longer(const float* x, float* y, int n) {
    __shared__ float part[32];
    x += size_t(blockIdx.x) * n, y += size_t(blockIdx.x) * n;
    float most = __int_as_float(0xff800000), sum = 0;
    for (int i = threadIdx.x; i < n; i += 1024) most = larger(most, x[i]);
    most = across<1024>(most, part, __int_as_float(0xff800000), larger);
    for (int i = threadIdx.x; i < n; i += 1024) sum += __expf(x[i] - most);
    sum = across<1024>(sum, part, 0, [](float a, float b) { return a + b; });
    for (int i = threadIdx.x; i < n; i += 1024) y[i] = __expf(x[i] - most) / sum;
}
