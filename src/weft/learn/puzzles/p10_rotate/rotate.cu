// Move each element three places to the right; the last three come to the front.

__global__ void rotate(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    // begin
    if (i < n) y[(i + 3) % n] = x[i];
    // end
}
