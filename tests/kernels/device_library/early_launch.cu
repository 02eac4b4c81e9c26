// Calls every function of weft/early_launch.cuh.
#include <weft/early_launch.cuh>

// y = 2 x + 1, by kernels that may start early.
__global__ void next(const float* x, float* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    weft::start_next_kernel();
    weft::wait_for_kernels();
    y[i] = 2 * x[i] + 1;
}

// y = x * x, by kernels that begin with their turn.
__global__ void square(const float* x, float* y) {
    weft::take_turn();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = x[i] * x[i];
}

// y = 3 x, by kernels that know their addresses before they wait.
__global__ void triple(const float* x, float* y) {
    weft::start_next_kernel();
    const float* from = x + blockIdx.x * blockDim.x + threadIdx.x;
    float* to = y + (from - x);
    weft::wait_for_kernels(from, to);
    *to = 3 * *from;
}
