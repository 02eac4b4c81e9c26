// The 768 numbers of a block are loaded in their order, and exchanged in shared memory.
__global__ void lengths(const float* points, float* length, int n) {
    __shared__ float part[768];
    int t = threadIdx.x, first = 768 * blockIdx.x, i = blockIdx.x * 256 + t;
    for (int k = t; k < 768; k += 256)
        if (first + k < 3 * n) part[k] = points[first + k];
    __syncthreads();
    if (i >= n) return;
    float x = part[3 * t], y = part[3 * t + 1], z = part[3 * t + 2];
    length[i] = sqrtf(x * x + y * y + z * z);
}
