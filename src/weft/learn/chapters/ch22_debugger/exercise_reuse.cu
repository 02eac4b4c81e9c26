// Reverses each group of 64 values; a block takes 4 groups. Some values belong to other groups.
__global__ void reverse(const float* x, float* y) {
    __shared__ float group[64];
    int t = threadIdx.x;
    for (int k = 0; k < 4; k++) {
        int first = (blockIdx.x * 4 + k) * 64;
        group[t] = x[first + t];
        __syncthreads();
        y[first + t] = group[63 - t];
    }
}
