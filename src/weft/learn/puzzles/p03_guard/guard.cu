// Multiply each element by 3, with more threads than elements.

__global__ void guard(const float* x, float* y, int n) {
    int i = threadIdx.x;
    // begin
    if (i < n) y[i] = 3 * x[i];
    // end
}
