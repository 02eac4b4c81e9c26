// Add 10 to each element: y[i] = x[i] + 10.

__global__ void map(const float* x, float* y) {
    int i = threadIdx.x;
    // begin
    y[i] = x[i] + 10;
    // end
}
