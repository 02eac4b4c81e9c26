// Square each element, with 8 threads in all, however long the array is.

__global__ void stride(const float* x, float* y, int n) {
    // begin
    for (int i = blockIdx.x * 4 + threadIdx.x; i < n; i += 8) y[i] = x[i] * x[i];
    // end
}
