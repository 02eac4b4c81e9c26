// Four parts in two streams, so that copies and kernels overlap.
#include <cstdio>
#include <cstdlib>

__global__ void square(float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= x[i];
}

int main(int count, char** arguments) {
    int n = 1024 * (count > 1 ? atoi(arguments[1]) : 4), part = n / 4;
    float *h_x, *d_x;
    cudaMallocHost(&h_x, n * sizeof(float));
    cudaMalloc(&d_x, n * sizeof(float));
    for (int i = 0; i < n; i++) h_x[i] = i % 5;
    cudaStream_t streams[2];
    for (cudaStream_t& stream : streams) cudaStreamCreate(&stream);
    for (int p = 0; p < 4; p++) {
        cudaStream_t stream = streams[p % 2];
        float *h_part = h_x + p * part, *d_part = d_x + p * part;
        size_t bytes = part * sizeof(float);
        cudaMemcpyAsync(d_part, h_part, bytes, cudaMemcpyHostToDevice, stream);
        square<<<(part + 255) / 256, 256, 0, stream>>>(d_part, part);
        cudaMemcpyAsync(h_part, d_part, bytes, cudaMemcpyDeviceToHost, stream);
    }
    for (cudaStream_t stream : streams) cudaStreamSynchronize(stream);
    double sum = 0;
    for (int i = 0; i < n; i++) sum += h_x[i];
    printf("%g\n", sum);
    for (cudaStream_t stream : streams) cudaStreamDestroy(stream);
    cudaFree(d_x);
    cudaFreeHost(h_x);
}
