// Reverse an array: y[0] is the last element of x.

__global__ void reverse(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    // begin
    if (i < n) y[i] = x[n - 1 - i];
    // end
}
