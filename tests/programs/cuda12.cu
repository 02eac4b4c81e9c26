// A program for CUDA 12: functions whose parameters CUDA 13 has changed, and fields that it lacks.
#include <cuda.h>

#include <cstdio>

#include "check.h"

__global__ void twice(int *x) { x[threadIdx.x] *= 2; }

int main() {
    int *x, device = 0;
    CALL(cudaMallocManaged(&x, 4 * sizeof(int)));
    for (int i = 0; i < 4; i++) x[i] = i;
    CALL(cudaMemAdvise(x, 16, cudaMemAdviseSetPreferredLocation, device));
    CALL(cudaMemPrefetchAsync(x, 16, device));
    CALL(cudaMemPrefetchAsync(x, 16, cudaCpuDeviceId, 0));
    CALL(cudaThreadSynchronize());
    CALL(cudaDeviceSetSharedMemConfig(cudaSharedMemBankSizeFourByte));

    cudaDeviceProp properties;
    CALL(cudaGetDeviceProperties(&properties, device));

    cudaGraph_t graph;
    cudaGraphNode_t nodes[2], from, to;
    cudaGraphExec_t exec;
    void *arguments[] = {&x};
    cudaKernelNodeParams how{};
    how.func = (void *)twice;
    how.gridDim = dim3(1);
    how.blockDim = dim3(4);
    how.kernelParams = arguments;
    CALL(cudaGraphCreate(&graph, 0));
    for (auto &node : nodes) CALL(cudaGraphAddKernelNode(&node, graph, nullptr, 0, &how));
    CALL(cudaGraphAddDependencies(graph, &nodes[0], &nodes[1], 1));
    size_t edges = 1, parents = 0;
    CALL(cudaGraphGetEdges(graph, &from, &to, &edges));
    CALL(cudaGraphNodeGetDependencies(nodes[1], nullptr, &parents));
    CALL(cudaGraphInstantiate(&exec, graph));
    CALL(cudaGraphLaunch(exec, 0));
    CALL(cudaDeviceSynchronize());

    cudaExternalMemory_t memory;  // a stub, which is compiled without the declarations of CUDA 12
    GIVES(cudaImportExternalMemory(&memory, nullptr), cudaErrorNotSupported);

    CUcontext context;
    CUdevice first;
    cuInit(0);
    cuDeviceGet(&first, 0);
    if (cuCtxCreate(&context, 0, first) || cuMemPrefetchAsync((CUdeviceptr)x, 16, first, 0)) return 2;
    printf("%d, %zu edge, %zu parent, %d kHz, mode %d\n", x[3], edges, parents, properties.clockRate,
           properties.computeMode);
}
