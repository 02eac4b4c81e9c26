// What CUDA 12 has and CUDA 13 has not: older parameters of functions, and fields of device
// properties. `--cuda 12` includes this file before a source. Only C++ can have both at once.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#if defined(__cplusplus) && CUDART_VERSION >= 13000

// ---- memory: a device is a number, the host is cudaCpuDeviceId -----------------------------------

static inline cudaMemLocation weft_cuda12_location(int device) {
    cudaMemLocation location{};
    location.type = device == cudaCpuDeviceId ? cudaMemLocationTypeHost : cudaMemLocationTypeDevice;
    location.id = device == cudaCpuDeviceId ? 0 : device;
    return location;
}
static inline cudaError_t cudaMemPrefetchAsync(const void *memory, size_t bytes, int device,
                                               cudaStream_t stream = 0) {
    return cudaMemPrefetchAsync(memory, bytes, weft_cuda12_location(device), 0, stream);
}
static inline cudaError_t cudaMemAdvise(const void *memory, size_t bytes, cudaMemoryAdvise advice,
                                        int device) {
    return cudaMemAdvise(memory, bytes, advice, weft_cuda12_location(device));
}
static inline CUmemLocation weft_cuda12_driver_location(CUdevice device) {
    CUmemLocation location{};
    location.type = device == CU_DEVICE_CPU ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE;
    location.id = device == CU_DEVICE_CPU ? 0 : device;
    return location;
}
static inline CUresult cuMemPrefetchAsync(CUdeviceptr memory, size_t bytes, CUdevice device,
                                          CUstream stream) {
    return cuMemPrefetchAsync(memory, bytes, weft_cuda12_driver_location(device), 0, stream);
}
static inline CUresult cuMemAdvise(CUdeviceptr memory, size_t bytes, CUmem_advise advice,
                                   CUdevice device) {
    return cuMemAdvise(memory, bytes, advice, weft_cuda12_driver_location(device));
}
static inline CUresult cuCtxCreate(CUcontext *context, unsigned flags, CUdevice device) {
    return cuCtxCreate(context, static_cast<CUctxCreateParams *>(nullptr), flags, device);
}

// ---- graphs: edges without data ------------------------------------------------------------------

static inline cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t *from,
                                            cudaGraphNode_t *to, size_t *count) {
    return cudaGraphGetEdges(graph, from, to, nullptr, count);
}
static inline cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t *nodes,
                                                       size_t *count) {
    return cudaGraphNodeGetDependencies(node, nodes, nullptr, count);
}
static inline cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node,
                                                         cudaGraphNode_t *nodes, size_t *count) {
    return cudaGraphNodeGetDependentNodes(node, nodes, nullptr, count);
}
static inline cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t *from,
                                                   const cudaGraphNode_t *to, size_t count) {
    return cudaGraphAddDependencies(graph, from, to, nullptr, count);
}
static inline cudaError_t cudaGraphRemoveDependencies(cudaGraph_t graph,
                                                      const cudaGraphNode_t *from,
                                                      const cudaGraphNode_t *to, size_t count) {
    return cudaGraphRemoveDependencies(graph, from, to, nullptr, count);
}
static inline cudaError_t cudaGraphAddNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                           const cudaGraphNode_t *dependencies, size_t count,
                                           cudaGraphNodeParams *parameters) {
    return cudaGraphAddNode(node, graph, dependencies, nullptr, count, parameters);
}
static inline cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream,
                                                              cudaGraphNode_t *dependencies,
                                                              size_t count, unsigned flags = 0) {
    return cudaStreamUpdateCaptureDependencies(stream, dependencies, nullptr, count, flags);
}
static inline cudaError_t cudaStreamGetCaptureInfo_v2(
    cudaStream_t stream, cudaStreamCaptureStatus *status, unsigned long long *id = nullptr,
    cudaGraph_t *graph = nullptr, const cudaGraphNode_t **dependencies = nullptr,
    size_t *count = nullptr) {
    return cudaStreamGetCaptureInfo(stream, status, id, graph, dependencies, nullptr, count);
}

// CUDA 13 has the second versions under the plain names.
#define cudaMemPrefetchAsync_v2 cudaMemPrefetchAsync
#define cudaMemAdvise_v2 cudaMemAdvise
#define cudaEventElapsedTime_v2 cudaEventElapsedTime
#define cudaGetDeviceProperties_v2 cudaGetDeviceProperties
#define cudaGraphAddNode_v2 cudaGraphAddNode
#define cudaGraphGetEdges_v2 cudaGraphGetEdges
#define cudaGraphAddDependencies_v2 cudaGraphAddDependencies
#define cudaGraphRemoveDependencies_v2 cudaGraphRemoveDependencies
#define cudaGraphNodeGetDependencies_v2 cudaGraphNodeGetDependencies
#define cudaGraphNodeGetDependentNodes_v2 cudaGraphNodeGetDependentNodes
#define cudaStreamGetCaptureInfo_v3 cudaStreamGetCaptureInfo
#define cudaStreamUpdateCaptureDependencies_v2 cudaStreamUpdateCaptureDependencies

// ---- old names -----------------------------------------------------------------------------------

static inline cudaError_t cudaThreadSynchronize() { return cudaDeviceSynchronize(); }
static inline cudaError_t cudaThreadExit() { return cudaDeviceReset(); }
static inline cudaError_t cudaThreadSetLimit(cudaLimit limit, size_t value) {
    return cudaDeviceSetLimit(limit, value);
}
static inline cudaError_t cudaThreadGetLimit(size_t *value, cudaLimit limit) {
    return cudaDeviceGetLimit(value, limit);
}
static inline cudaError_t cudaThreadSetCacheConfig(cudaFuncCache config) {
    return cudaDeviceSetCacheConfig(config);
}
static inline cudaError_t cudaThreadGetCacheConfig(cudaFuncCache *config) {
    return cudaDeviceGetCacheConfig(config);
}

// ---- device properties that are attributes in CUDA 13 --------------------------------------------

struct weft_cuda12_properties : cudaDeviceProp {
    int clockRate, memoryClockRate, computeMode, deviceOverlap, kernelExecTimeoutEnabled,
        maxTexture1DLinear, singleToDoublePrecisionPerfRatio, cooperativeMultiDeviceLaunch;
};
static inline cudaError_t cudaGetDeviceProperties(weft_cuda12_properties *out, int device) {
    cudaError_t error = cudaGetDeviceProperties(static_cast<cudaDeviceProp *>(out), device);
    if (error) return error;
    const struct {
        int *value;
        cudaDeviceAttr attribute;
    } rows[] = {
        {&out->clockRate, cudaDevAttrClockRate},
        {&out->memoryClockRate, cudaDevAttrMemoryClockRate},
        {&out->computeMode, cudaDevAttrComputeMode},
        {&out->deviceOverlap, cudaDevAttrGpuOverlap},
        {&out->kernelExecTimeoutEnabled, cudaDevAttrKernelExecTimeout},
        {&out->maxTexture1DLinear, cudaDevAttrMaxTexture1DLinearWidth},
        {&out->singleToDoublePrecisionPerfRatio, cudaDevAttrSingleToDoublePrecisionPerfRatio},
    };
    out->cooperativeMultiDeviceLaunch = 0;  // CUDA 13 has removed these launches
    for (auto &row : rows) {
        *row.value = 0;
        if ((error = cudaDeviceGetAttribute(row.value, row.attribute, device))) return error;
    }
    return cudaSuccess;
}
#define cudaDeviceProp weft_cuda12_properties

#endif
