// y = x / sqrt(1 + the sum of the squares of the row). One block of 128 threads for each row.
__global__ void normalise(const float* x, float* y, int n) {
    __shared__ float parts[4];
    x += blockIdx.x * n;
    y += blockIdx.x * n;
    float sum = 0;
    for (int i = threadIdx.x; i < n; i += 128) sum += x[i] * x[i];
    for (int k = 16; k > 0; k /= 2) sum += __shfl_xor_sync(0xffffffff, sum, k);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
    __syncthreads();
    float length = sqrtf(1 + parts[0] + parts[1] + parts[2] + parts[3]);
    for (int i = threadIdx.x; i < n; i += 128) y[i] = x[i] / length;
}
