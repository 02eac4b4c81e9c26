// Double each element of a matrix, with blocks of 4 x 4 threads.

__global__ void blocks_2d(const float* x, float* y, int h, int w) {
    // begin
    int c = blockIdx.x * 4 + threadIdx.x, r = blockIdx.y * 4 + threadIdx.y;
    if (r < h && c < w) y[r * w + c] = 2 * x[r * w + c];
    // end
}
