// race: a bug on purpose, and the same kernel without it. A thread reads what another one writes.
// grid: 1   block: 256

__global__ void reversed_too_early(const float* x, float* y) {
    __shared__ float s[256];
    s[threadIdx.x] = x[threadIdx.x];
    y[threadIdx.x] = s[255 - threadIdx.x];
}

__global__ void reversed(const float* x, float* y) {
    __shared__ float s[256];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = s[255 - threadIdx.x];
}
