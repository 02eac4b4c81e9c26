// Graphs: captured from streams that fork and join, and put together node by node.
#include "check.h"

__global__ void add(int *x, int n, int by) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] += by;
}
__global__ void multiply(int *x, int n, int by) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= by;
}
static void CUDART_CB count(void *counter) { ++*static_cast<int *>(counter); }

int main() {
    const int n = 1000;
    int *x, *y, host[n], counter = 0;
    CALL(cudaMalloc(&x, n * sizeof(int)));
    CALL(cudaMalloc(&y, n * sizeof(int)));
    CALL(cudaMemset(x, 0, n * sizeof(int)));
    cudaStream_t stream, side;
    CALL(cudaStreamCreate(&stream));
    CALL(cudaStreamCreate(&side));
    cudaEvent_t fork, join;
    CALL(cudaEventCreate(&fork));
    CALL(cudaEventCreate(&join));

    CALL(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    add<<<4, 256, 0, stream>>>(x, n, 3);
    CALL(cudaEventRecord(fork, stream));
    CALL(cudaStreamWaitEvent(side, fork));
    CALL(cudaMemsetAsync(y, 0, n * sizeof(int), side));
    add<<<4, 256, 0, side>>>(y, n, 1);
    CALL(cudaEventRecord(join, side));
    multiply<<<4, 256, 0, stream>>>(x, n, 2);
    CALL(cudaStreamWaitEvent(stream, join));
    CALL(cudaLaunchHostFunc(stream, count, &counter));
    CALL(cudaMemcpyAsync(host, x, sizeof host, cudaMemcpyDeviceToHost, stream));
    GIVES(cudaStreamSynchronize(stream), cudaErrorStreamCaptureUnsupported);
    cudaStreamCaptureStatus status;
    CALL(cudaStreamIsCapturing(side, &status));
    HOLDS(status == cudaStreamCaptureStatusActive);
    cudaGraph_t graph;
    CALL(cudaStreamEndCapture(stream, &graph));
    HOLDS(counter == 0);  // nothing has run yet
    size_t nodes;
    CALL(cudaGraphGetNodes(graph, nullptr, &nodes));
    cudaGraphExec_t run;
    CALL(cudaGraphInstantiate(&run, graph, 0));
    for (int i = 0; i < 3; i++) CALL(cudaGraphLaunch(run, stream));
    CALL(cudaStreamSynchronize(stream));
    HOLDS(host[0] == ((3 * 2 + 3) * 2 + 3) * 2 && host[n - 1] == host[0]);
    CALL(cudaMemcpy(host, y, sizeof host, cudaMemcpyDeviceToHost));
    HOLDS(host[5] == 1);
    printf("captured: %zu nodes, %d runs\n", nodes, counter);

    cudaGraph_t built;
    CALL(cudaGraphCreate(&built, 0));
    int size = n, five = 5, two = 2;
    void *first[] = {&x, &size, &five}, *second[] = {&x, &size, &two};
    cudaKernelNodeParams kernel = {};
    kernel.gridDim = 4, kernel.blockDim = 256;
    cudaMemsetParams zero = {};
    zero.dst = x, zero.elementSize = 4, zero.width = n, zero.height = 1;
    cudaGraphNode_t cleared, added, multiplied, copied;
    CALL(cudaGraphAddMemsetNode(&cleared, built, nullptr, 0, &zero));
    kernel.func = (void *)multiply, kernel.kernelParams = second;
    CALL(cudaGraphAddKernelNode(&multiplied, built, nullptr, 0, &kernel));
    kernel.func = (void *)add, kernel.kernelParams = first;
    CALL(cudaGraphAddKernelNode(&added, built, &cleared, 1, &kernel));
#if CUDART_VERSION >= 13000
    CALL(cudaGraphAddDependencies(built, &added, &multiplied, nullptr, 1));
#else
    CALL(cudaGraphAddDependencies(built, &added, &multiplied, 1));
#endif
    CALL(cudaGraphAddMemcpyNode1D(&copied, built, &multiplied, 1, host, x, sizeof host,
                                  cudaMemcpyDeviceToHost));
    five = 1000;  // arguments were copied when the node was made
    cudaGraphExec_t again;
    CALL(cudaGraphInstantiate(&again, built, 0));
    CALL(cudaGraphLaunch(again, nullptr));
    CALL(cudaDeviceSynchronize());
    printf("built: %d\n", host[7]);
    CALL(cudaGraphExecDestroy(run));
    CALL(cudaGraphExecDestroy(again));
    CALL(cudaGraphDestroy(graph));
    CALL(cudaGraphDestroy(built));
}
