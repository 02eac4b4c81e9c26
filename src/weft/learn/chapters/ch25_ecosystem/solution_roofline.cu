// The least time of each piece of work on each GPU: the larger of two limits.
__global__ void roofline(const float* peak, const float* bandwidth, const float* work,
                         const float* moved, float* corner, float* seconds, int g, int n) {
    int gpu = blockIdx.y, k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k == 0) corner[gpu] = peak[gpu] / bandwidth[gpu];
    if (k < n) seconds[gpu * n + k] = fmaxf(work[k] / peak[gpu], moved[k] / bandwidth[gpu]);
}
