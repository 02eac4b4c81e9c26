// Two streams take turns: one copies while the other computes.
#include <cstdio>
#include <cstdlib>

const int PART = 8192;

__global__ void settle(float* x) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = x[i];
    for (int k = 0; k < 4000; k++) v = v / 2 + 1;
    x[i] = v;
}

int main(int count, char** arguments) {
    int parts = atoi(arguments[1]);
    size_t bytes = PART * sizeof(float);
    float *h_x, *d_x[2];
    cudaStream_t streams[2];
    cudaMallocHost(&h_x, parts * bytes);
    for (int i = 0; i < parts * PART; i++) h_x[i] = i % 7;
    for (int s = 0; s < 2; s++) {
        cudaStreamCreate(&streams[s]);
        cudaMalloc(&d_x[s], bytes);
    }
    for (int part = 0; part < parts; part++) {
        int s = part % 2;
        float* at = h_x + part * PART;
        cudaMemcpyAsync(d_x[s], at, bytes, cudaMemcpyHostToDevice, streams[s]);
        settle<<<PART / 256, 256, 0, streams[s]>>>(d_x[s]);
        cudaMemcpyAsync(at, d_x[s], bytes, cudaMemcpyDeviceToHost, streams[s]);
    }
    for (int s = 0; s < 2; s++) cudaStreamSynchronize(streams[s]);
    double sum = 0;
    for (int i = 0; i < parts * PART; i++) sum += h_x[i];
    printf("%.9g\n", sum);
    for (int s = 0; s < 2; s++) {
        cudaStreamDestroy(streams[s]);
        cudaFree(d_x[s]);
    }
    cudaFreeHost(h_x);
}
