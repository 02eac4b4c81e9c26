// A whole program: three frames are copied to the GPU and settled there. Timeline shows that each
// copy waits for the kernel before it. With cudaMallocHost, cudaMemcpyAsync and a stream for each
// frame, copies and kernels overlap.
#include <cstdio>
#include <cstdlib>

__global__ void settle(const float* in, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float x = in[i];
    for (int k = 0; k < n; k++) x = x * 0.99f + 1;
    out[i] = x;
}

int main() {
    const int n = 1 << 14, frames = 3;
    float *host = (float*)calloc(n, sizeof(float)), *in[2], *out;
    cudaMalloc(&in[0], n * sizeof(float)), cudaMalloc(&in[1], n * sizeof(float));
    cudaMalloc(&out, n * sizeof(float));
    for (int frame = 0; frame < frames; frame++) {
        cudaMemcpy(in[frame % 2], host, n * sizeof(float), cudaMemcpyHostToDevice);
        settle<<<n / 256, 256>>>(in[frame % 2], out, 200);
    }
    cudaMemcpy(host, out, n * sizeof(float), cudaMemcpyDeviceToHost);
    printf("%g\n", host[1]);
}
