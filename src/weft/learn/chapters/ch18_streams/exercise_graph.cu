// x = x / 2 + step, for step = 0, 1, 2, ...: captured once, replayed for every step.
#include <cstdio>
#include <cstdlib>

__global__ void move(float* x, int step) { *x = *x / 2 + step; }

int main(int count, char** arguments) {
    int steps = count > 1 ? atoi(arguments[1]) : 4;
    float *x, result;
    cudaMalloc(&x, sizeof(float));
    cudaMemset(x, 0, sizeof(float));
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    cudaDeviceSynchronize();

    cudaGraph_t graph;
    cudaGraphExec_t ready;
    int step = 0;
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    move<<<1, 1, 0, stream>>>(x, step);
    cudaStreamEndCapture(stream, &graph);
    cudaGraphInstantiate(&ready, graph, 0);
    for (step = 0; step < steps; step++) cudaGraphLaunch(ready, stream);
    cudaStreamSynchronize(stream);

    cudaMemcpy(&result, x, sizeof(float), cudaMemcpyDeviceToHost);
    printf("%g\n", result);

    cudaGraphExecDestroy(ready);
    cudaGraphDestroy(graph);
    cudaStreamDestroy(stream);
    cudaFree(x);
}
