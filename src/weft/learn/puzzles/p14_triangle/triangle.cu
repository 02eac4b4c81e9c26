// Keep the lower triangle of a square matrix, with the diagonal, and set the rest to 0.

__global__ void triangle(const float* x, float* y, int n) {
    int c = threadIdx.x, r = threadIdx.y;
    // begin
    if (r < n && c < n) y[r * n + c] = c <= r ? x[r * n + c] : 0;
    // end
}
