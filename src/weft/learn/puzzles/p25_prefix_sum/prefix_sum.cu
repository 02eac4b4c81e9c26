// Compute the running sums of up to 16 elements: y[i] = x[0] + … + x[i].

__global__ void prefix_sum(const float* x, float* y, int n) {
    __shared__ float values[16];
    int i = threadIdx.x;
    // begin
    values[i] = i < n ? x[i] : 0;
    __syncthreads();
    for (int step = 1; step < 16; step *= 2) {
        float left = i >= step ? values[i - step] : 0;
        __syncthreads();
        values[i] += left;
        __syncthreads();
    }
    if (i < n) y[i] = values[i];
    // end
}
