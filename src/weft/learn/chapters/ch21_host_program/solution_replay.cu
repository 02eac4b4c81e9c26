// Two kernels, captured once and replayed for every step.
#include <cstdio>
#include <cstdlib>

const int N = 256;

__global__ void fill(float* x) { x[threadIdx.x] = threadIdx.x; }
__global__ void halve(float* x) { x[threadIdx.x] /= 2; }
__global__ void raise(float* x) { x[threadIdx.x] += 1; }

int main(int count, char** arguments) {
    int steps = count > 1 ? atoi(arguments[1]) : 3;
    float *d_x, h_x[N];
    cudaMalloc(&d_x, sizeof h_x);
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    fill<<<1, N, 0, stream>>>(d_x);

    cudaGraph_t graph;
    cudaGraphExec_t ready;
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    halve<<<1, N, 0, stream>>>(d_x);
    raise<<<1, N, 0, stream>>>(d_x);
    cudaStreamEndCapture(stream, &graph);
    cudaGraphInstantiate(&ready, graph, 0);

    cudaEvent_t before, after;
    cudaEventCreate(&before);
    cudaEventCreate(&after);
    cudaEventRecord(before, stream);
    for (int step = 0; step < steps; step++) cudaGraphLaunch(ready, stream);
    cudaEventRecord(after, stream);
    cudaMemcpyAsync(h_x, d_x, sizeof h_x, cudaMemcpyDeviceToHost, stream);
    cudaStreamSynchronize(stream);
    float milliseconds;
    cudaEventElapsedTime(&milliseconds, before, after);
    fprintf(stderr, "%g ms\n", milliseconds);

    double sum = 0;
    for (float v : h_x) sum += v;
    printf("%g\n", sum);
    cudaEventDestroy(before);
    cudaEventDestroy(after);
    cudaGraphExecDestroy(ready);
    cudaGraphDestroy(graph);
    cudaStreamDestroy(stream);
    cudaFree(d_x);
}
