// Add the elements of each row, one block of 32 threads for each row of up to 32 elements.

__global__ void axis_sum(const float* x, float* y, int w) {
    int r = blockIdx.x, c = threadIdx.x;
    // begin
    float v = c < w ? x[r * w + c] : 0;
    for (int step = 16; step > 0; step /= 2) v += __shfl_xor_sync(~0u, v, step);
    if (c == 0) y[r] = v;
    // end
}
