// Adds two vectors in CUDA C++. The pane Languages has the same kernel in Triton and in Numba.

__global__ void add(const float* x, const float* y, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i] + y[i];
}
