// vecadd: one thread an element.
// The grid is rounded up to whole blocks, so the last threads have nothing to do: hence the `if`.
// grid: cdiv(n, 256)   block: 256

__global__ void vecadd(const float* a, const float* b, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
