// Transpose a matrix: y[c, r] = x[r, c].

__global__ void transpose(const float* x, float* y, int h, int w) {
    int c = threadIdx.x, r = threadIdx.y;
    // begin
    if (r < h && c < w) y[c * h + r] = x[r * w + c];
    // end
}
