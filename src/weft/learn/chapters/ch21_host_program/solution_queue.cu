// Copies, a kernel and a host function in one stream; the host waits once.
#include <cstdio>
#include <cstdlib>

struct Results {
    const float* x;
    int n;
    double sum;
};

__global__ void twice(float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= 2;
}

void add(void* data) {
    Results* results = static_cast<Results*>(data);
    for (int i = 0; i < results->n; i++) results->sum += results->x[i];
}

int main(int count, char** arguments) {
    int n = count > 1 ? atoi(arguments[1]) : 1000;
    size_t bytes = n * sizeof(float);
    float *h_x, *d_x;
    cudaMallocHost(&h_x, bytes);
    cudaMalloc(&d_x, bytes);
    for (int i = 0; i < n; i++) h_x[i] = i % 7;

    int least, greatest;
    cudaDeviceGetStreamPriorityRange(&least, &greatest);
    cudaStream_t stream;
    cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest);
    Results results{h_x, n, 0};
    cudaMemcpyAsync(d_x, h_x, bytes, cudaMemcpyHostToDevice, stream);
    twice<<<(n + 255) / 256, 256, 0, stream>>>(d_x, n);
    cudaMemcpyAsync(h_x, d_x, bytes, cudaMemcpyDeviceToHost, stream);
    cudaLaunchHostFunc(stream, add, &results);
    cudaStreamSynchronize(stream);
    printf("%g\n", results.sum);

    cudaStreamDestroy(stream);
    cudaFree(d_x);
    cudaFreeHost(h_x);
}
