__global__ void scale(float *x, float factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= factor;
}

extern "C" int scale_all(float *host, float factor, int n) {
    float *x;
    cudaMalloc(&x, n * sizeof *x);
    cudaMemcpy(x, host, n * sizeof *x, cudaMemcpyHostToDevice);
    scale<<<(n + 255) / 256, 256>>>(x, factor, n);
    cudaMemcpy(host, x, n * sizeof *x, cudaMemcpyDeviceToHost);
    return cudaFree(x);
}
