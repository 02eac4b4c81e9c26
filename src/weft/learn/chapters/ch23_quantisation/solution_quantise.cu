// Rows of floats to int8. The block finds the row's largest magnitude, then every thread rounds.
__device__ float largest_of_warp(float v) {
    for (int k = 16; k > 0; k /= 2) v = fmaxf(v, __shfl_xor_sync(0xffffffff, v, k));
    return v;
}

__global__ void quantise(const float* x, signed char* q, float* scale, int n) {
    __shared__ float parts[4];
    const float* row = x + blockIdx.x * n;
    float most = 0;
    for (int i = threadIdx.x; i < n; i += 128) most = fmaxf(most, fabsf(row[i]));
    most = largest_of_warp(most);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = most;
    __syncthreads();
    most = fmaxf(fmaxf(parts[0], parts[1]), fmaxf(parts[2], parts[3]));
    float step = most / 127;
    for (int i = threadIdx.x; i < n; i += 128)
        q[blockIdx.x * n + i] = step > 0 ? (signed char)rintf(row[i] / step) : 0;
    if (threadIdx.x == 0) scale[blockIdx.x] = step;
}
