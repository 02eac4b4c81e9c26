// Merge two arrays: y is a[0], b[0], a[1], b[1], and so on.

__global__ void interleave(const float* a, const float* b, float* y, int n) {
    int i = threadIdx.x;
    // begin
    if (i < n) {
        y[2 * i] = a[i];
        y[2 * i + 1] = b[i];
    }
    // end
}
