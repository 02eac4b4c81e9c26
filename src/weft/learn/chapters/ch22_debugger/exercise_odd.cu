// sums[b] is the sum of the 96 values of block b. It is wrong: find the value that is lost.
__global__ void sums_of(const float* x, float* sums) {
    __shared__ float part[96];
    int t = threadIdx.x;
    part[t] = x[blockIdx.x * 96 + t];
    __syncthreads();
    for (int s = 48; s > 0; s /= 2) {
        if (t < s) part[t] += part[t + s];
        __syncthreads();
    }
    if (t == 0) sums[blockIdx.x] = part[0];
}
