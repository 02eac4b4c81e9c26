// Doubles a vector in CUDA C++. The pane Languages has the same kernel in Triton and in Numba.

__global__ void twice(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
}
