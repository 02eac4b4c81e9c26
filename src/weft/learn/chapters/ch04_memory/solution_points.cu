// The lengths of n points. The block loads its coordinates as 768 adjacent floats.
__global__ void lengths(const float* p, float* length, int n) {
    __shared__ float c[768];
    int first = blockIdx.x * 768;
    for (int k = threadIdx.x; k < 768; k += 256)
        if (first + k < 3 * n) c[k] = p[first + k];
    __syncthreads();
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= n) return;
    float x = c[3 * threadIdx.x], y = c[3 * threadIdx.x + 1], z = c[3 * threadIdx.x + 2];
    length[i] = sqrtf(x * x + y * y + z * z);
}
