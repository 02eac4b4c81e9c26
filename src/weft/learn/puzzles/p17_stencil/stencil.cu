// Add each element and its two neighbours; outside of the array there are zeros.

__global__ void stencil(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    // begin
    if (i < n) {
        float left = i > 0 ? x[i - 1] : 0, right = i + 1 < n ? x[i + 1] : 0;
        y[i] = left + x[i] + right;
    }
    // end
}
