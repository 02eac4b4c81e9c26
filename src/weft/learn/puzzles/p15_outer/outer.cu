// Compute the outer product y[r, c] = a[r] b[c], one block for each row.

__global__ void outer(const float* a, const float* b, float* y, int w) {
    int r = blockIdx.x, c = threadIdx.x;
    // begin
    if (c < w) y[r * w + c] = a[r] * b[c];
    // end
}
