// Halve each element, with blocks of 8 threads.

__global__ void blocks(const float* x, float* y, int n) {
    // begin
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] / 2;
    // end
}
