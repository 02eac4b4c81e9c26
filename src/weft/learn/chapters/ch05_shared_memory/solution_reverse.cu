// Reverses every group of 256 elements.
__global__ void reverse(const float* x, float* y) {
    __shared__ float group[256];
    int i = blockIdx.x * 256 + threadIdx.x;
    group[threadIdx.x] = x[i];
    __syncthreads();
    y[i] = group[255 - threadIdx.x];
}
