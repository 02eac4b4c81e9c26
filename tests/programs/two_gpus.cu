// Two GPUs: each computes its half, then one reads the other's memory; the rest of CUDA graphs.
#include "check.h"

__global__ void fill(int *x, int n, int first) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = first + i;
}
__global__ void add(int *x, const int *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] += y[i];
}

static void graphs() {
    const int n = 64;
    cudaGraph_t graph, copy;
    cudaGraphExec_t executable;
    cudaGraphNode_t allocation, node, release;
    CALL(cudaGraphCreate(&graph, 0));
    cudaMemAllocNodeParams memory = {};
    memory.bytesize = n * sizeof(int);
    CALL(cudaGraphAddMemAllocNode(&allocation, graph, nullptr, 0, &memory));
    int *x = static_cast<int *>(memory.dptr), count = n, first = 3, host[n];
    void *arguments[] = {&x, &count, &first};
    cudaKernelNodeParams kernel = {(void *)fill, {2}, {32}, 0, arguments, nullptr};
    CALL(cudaGraphAddKernelNode(&node, graph, &allocation, 1, &kernel));
    CALL(cudaGraphAddMemFreeNode(&release, graph, &node, 1, x));
    CALL(cudaGraphClone(&copy, graph));
    CALL(cudaGraphInstantiate(&executable, graph, 0));
    first = 10;
    CALL(cudaGraphExecKernelNodeSetParams(executable, node, &kernel));
    CALL(cudaGraphLaunch(executable, 0));
    CALL(cudaMemcpy(host, x, sizeof host, cudaMemcpyDeviceToHost));
    HOLDS(host[0] == 10 && host[n - 1] == n + 9);
    CALL(cudaGraphInstantiate(&executable, copy, 0));  // has the first parameters
    CALL(cudaGraphLaunch(executable, 0));
    CALL(cudaMemcpy(host, x, sizeof host, cudaMemcpyDeviceToHost));
    HOLDS(host[0] == 3);
}

int main() {
    const int n = 1000;
    int count, *x[2], can, host[n];
    cudaStream_t streams[2];
    CALL(cudaGetDeviceCount(&count));
    HOLDS(count == 2);
    GIVES(cudaSetDevice(2), cudaErrorInvalidDevice);
    cudaGetLastError();
    size_t before, after, total;
    for (int i = 0; i < 2; i++) {
        CALL(cudaSetDevice(i));
        CALL(cudaMemGetInfo(&before, &total));
        HOLDS(before == total);  // the other's memory does not count
        CALL(cudaStreamCreate(&streams[i]));
        CALL(cudaMalloc(&x[i], n * sizeof(int)));
        CALL(cudaMemGetInfo(&after, &total));
        HOLDS(after < total);
        fill<<<8, 128, 0, streams[i]>>>(x[i], n, 1000 * i);
    }
    cudaPointerAttributes attributes;
    CALL(cudaPointerGetAttributes(&attributes, x[1]));
    HOLDS(attributes.device == 1 && attributes.type == cudaMemoryTypeDevice);
    int device;
    CALL(cudaStreamGetDevice(streams[0], &device));
    HOLDS(device == 0);
    CALL(cudaDeviceSynchronize());
    CALL(cudaDeviceCanAccessPeer(&can, 1, 0));
    HOLDS(can);
    CALL(cudaDeviceEnablePeerAccess(0, 0));
    GIVES(cudaDeviceEnablePeerAccess(0, 0), cudaErrorPeerAccessAlreadyEnabled);
    cudaGetLastError();
    add<<<8, 128, 0, streams[1]>>>(x[1], x[0], n);
    CALL(cudaStreamSynchronize(streams[1]));
    CALL(cudaMemcpyPeer(x[0], 0, x[1], 1, n * sizeof(int)));
    CALL(cudaMemcpy(host, x[0], sizeof host, cudaMemcpyDeviceToHost));
    for (int i = 0; i < n; i++) HOLDS(host[i] == 1000 + 2 * i);
    GIVES(cudaMemcpyPeer(x[0], 0, x[1], 2, sizeof host), cudaErrorInvalidDevice);
    GIVES(cudaMemcpyPeerAsync(x[0], -1, x[1], 1, sizeof host, streams[0]), cudaErrorInvalidDevice);
    CALL(cudaMemset(x[0], 0, n * sizeof(int)));
    CALL(cudaMemcpyPeerAsync(x[0] + 10, 0, x[1], 1, 10 * sizeof(int), streams[1]));
    CALL(cudaStreamSynchronize(streams[1]));
    cudaMemcpy3DPeerParms box = {};
    box.srcPtr = {x[1], 100 * sizeof(int), 100, 10};
    box.dstPtr = {x[0] + 20, 10 * sizeof(int), 10, 10};
    box.srcDevice = 1;
    box.extent = {5 * sizeof(int), 2, 1};
    CALL(cudaMemcpy3DPeer(&box));
    box.srcDevice = 2;
    GIVES(cudaMemcpy3DPeerAsync(&box, streams[0]), cudaErrorInvalidDevice);
    CALL(cudaMemcpy(host, x[0], sizeof host, cudaMemcpyDeviceToHost));
    HOLDS(host[9] == 0 && host[10] == 1000 && host[19] == 1018 && host[20] == 1000);
    HOLDS(host[24] == 1008 && host[25] == 0 && host[30] == 1200 && host[35] == 0);
    CALL(cudaDeviceDisablePeerAccess(0));
    GIVES(cudaDeviceDisablePeerAccess(0), cudaErrorPeerAccessNotEnabled);
    GIVES(cudaDeviceEnablePeerAccess(0, 1), cudaErrorInvalidValue);
    GIVES(cudaDeviceEnablePeerAccess(1, 0), cudaErrorInvalidDevice);  // itself
    GIVES(cudaDeviceEnablePeerAccess(2, 0), cudaErrorInvalidDevice);
    CALL(cudaDeviceCanAccessPeer(&can, 1, 1));
    HOLDS(!can);
    GIVES(cudaDeviceCanAccessPeer(&can, 0, 2), cudaErrorInvalidDevice);
    cudaGetLastError();
    cudaStreamAttrValue value = {};
    value.accessPolicyWindow.base_ptr = x[1];
    CALL(cudaStreamSetAttribute(streams[1], cudaStreamAttributeAccessPolicyWindow, &value));
    cudaDeviceProp properties;
    CALL(cudaGetDeviceProperties(&properties, 1));
    HOLDS(properties.persistingL2CacheMaxSize > 0 && properties.pciBusID == 2);
    CALL(cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, properties.persistingL2CacheMaxSize));
    graphs();
    printf("two GPUs\n");
}
