// sums[b] is the sum of the 96 values of block b.
__global__ void sums_of(const float* x, float* sums) {
    __shared__ float part[96];
    int t = threadIdx.x;
    part[t] = x[blockIdx.x * 96 + t];
    __syncthreads();
    // Steps are powers of two: half of an odd number of values would leave one out.
    for (int s = 64; s > 0; s /= 2) {
        if (t < s && t + s < 96) part[t] += part[t + s];
        __syncthreads();
    }
    if (t == 0) sums[blockIdx.x] = part[0];
}
