// out_of_bounds: a bug on purpose. The last thread reads one element past the end of x.
// grid: cdiv(n, 256)   block: 256

__global__ void difference(const float* x, float* d, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) d[i] = x[i + 1] - x[i];
}
