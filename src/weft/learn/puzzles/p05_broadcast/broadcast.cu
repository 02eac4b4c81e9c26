// Add a column and a row: y[r, c] = a[r] + b[c].

__global__ void broadcast(const float* a, const float* b, float* y, int h, int w) {
    int c = threadIdx.x, r = threadIdx.y;
    // begin
    if (r < h && c < w) y[r * w + c] = a[r] + b[c];
    // end
}
