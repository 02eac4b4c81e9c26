// The driver API's memory pools, pointers, and questions about streams and kernels: what cuda.core
// calls.
#include "../driver_result.h"
#include "../standard.h"

using namespace weft;

namespace {
template <class H>
cudaMemPool_t pool_of(H pool) {
    return reinterpret_cast<cudaMemPool_t>(pool);
}
// Offset and size of a kernel's parameter.
CUresult parameter_info(const void *function, size_t index, size_t *offset, size_t *size) {
    uint32_t pairs[2 * 4096];
    int count = ops.parameters(function, pairs, 4096);
    if (count < 0) return CUDA_ERROR_INVALID_HANDLE;
    if (index >= size_t(count)) return CUDA_ERROR_INVALID_VALUE;
    *offset = pairs[2 * index];
    if (size) *size = pairs[2 * index + 1];
    return CUDA_SUCCESS;
}
}  // namespace

// ---- pools --------------------------------------------------------------------------------------

API CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *out, CUdevice device) {
    return result(cudaDeviceGetDefaultMemPool(reinterpret_cast<cudaMemPool_t *>(out), device));
}
API CUresult cuDeviceGetMemPool(CUmemoryPool *out, CUdevice device) {
    return result(cudaDeviceGetMemPool(reinterpret_cast<cudaMemPool_t *>(out), device));
}
API CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool) {
    return result(cudaDeviceSetMemPool(device, pool_of(pool)));
}
#if CUDA_VERSION >= 13000
API CUresult cuMemGetDefaultMemPool(CUmemoryPool *out, CUmemLocation *at,
                                    CUmemAllocationType type) {
    return result(cudaMemGetDefaultMemPool(reinterpret_cast<cudaMemPool_t *>(out),
                                           reinterpret_cast<cudaMemLocation *>(at),
                                           cudaMemAllocationType(type)));
}
API CUresult cuMemGetMemPool(CUmemoryPool *out, CUmemLocation *at, CUmemAllocationType type) {
    return result(cudaMemGetMemPool(reinterpret_cast<cudaMemPool_t *>(out),
                                    reinterpret_cast<cudaMemLocation *>(at),
                                    cudaMemAllocationType(type)));
}
API CUresult cuMemSetMemPool(CUmemLocation *at, CUmemAllocationType type, CUmemoryPool pool) {
    return result(cudaMemSetMemPool(reinterpret_cast<cudaMemLocation *>(at),
                                    cudaMemAllocationType(type), pool_of(pool)));
}
#endif
// Structures of the driver have the runtime's layout.
API CUresult cuMemPoolCreate(CUmemoryPool *out, const CUmemPoolProps *about) {
    return result(cudaMemPoolCreate(reinterpret_cast<cudaMemPool_t *>(out),
                                    reinterpret_cast<const cudaMemPoolProps *>(about)));
}
API CUresult cuMemPoolDestroy(CUmemoryPool pool) {
    return result(cudaMemPoolDestroy(pool_of(pool)));
}
API CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep) {
    return result(cudaMemPoolTrimTo(pool_of(pool), keep));
}
API CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *wanted, size_t count) {
    return result(cudaMemPoolSetAccess(
        pool_of(pool), reinterpret_cast<const cudaMemAccessDesc *>(wanted), count));
}
API CUresult cuMemPoolGetAccess(CUmemAccess_flags *out, CUmemoryPool pool, CUmemLocation *at) {
    return result(cudaMemPoolGetAccess(reinterpret_cast<cudaMemAccessFlags *>(out), pool_of(pool),
                                       reinterpret_cast<cudaMemLocation *>(at)));
}
API CUresult cuMemPoolExportToShareableHandle(void *out, CUmemoryPool pool,
                                              CUmemAllocationHandleType type,
                                              unsigned long long flags) {
    return result(cudaMemPoolExportToShareableHandle(
        out, pool_of(pool), cudaMemAllocationHandleType(type), unsigned(flags)));
}
API CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *out, void *handle,
                                                CUmemAllocationHandleType type,
                                                unsigned long long flags) {
    return result(cudaMemPoolImportFromShareableHandle(
        reinterpret_cast<cudaMemPool_t *>(out), handle, cudaMemAllocationHandleType(type),
        unsigned(flags)));
}
API CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *out, CUdeviceptr memory) {
    return result(cudaMemPoolExportPointer(reinterpret_cast<cudaMemPoolPtrExportData *>(out),
                                           reinterpret_cast<void *>(memory)));
}
API CUresult cuMemPoolImportPointer(CUdeviceptr *out, CUmemoryPool pool,
                                    CUmemPoolPtrExportData *given) {
    return result(
        cudaMemPoolImportPointer(reinterpret_cast<void **>(out), pool_of(pool),
                                 reinterpret_cast<cudaMemPoolPtrExportData *>(given)));
}
API CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value) {
    return result(
        cudaMemPoolSetAttribute(pool_of(pool), static_cast<cudaMemPoolAttr>(attribute), value));
}
API CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value) {
    return result(
        cudaMemPoolGetAttribute(pool_of(pool), static_cast<cudaMemPoolAttr>(attribute), value));
}
API CUresult cuMemAllocFromPoolAsync(CUdeviceptr *out, size_t bytes, CUmemoryPool pool,
                                     CUstream stream) {
    return result(cudaMallocFromPoolAsync(reinterpret_cast<void **>(out), bytes, pool_of(pool),
                                          stream));
}

// ---- memory of graphs ---------------------------------------------------------------------------

API CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute,
                                          void *value) {
    return result(cudaDeviceGetGraphMemAttribute(
        device, static_cast<cudaGraphMemAttributeType>(attribute), value));
}
API CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute,
                                          void *value) {
    return result(cudaDeviceSetGraphMemAttribute(
        device, static_cast<cudaGraphMemAttributeType>(attribute), value));
}
API CUresult cuDeviceGraphMemTrim(CUdevice device) {
    return result(cudaDeviceGraphMemTrim(device));
}

// ---- pointers -----------------------------------------------------------------------------------

API CUresult cuPointerGetAttribute(void *out, CUpointer_attribute attribute, CUdeviceptr address) {
    cudaPointerAttributes about;
    if (auto error = cudaPointerGetAttributes(&about, reinterpret_cast<void *>(address)))
        return result(error);
    bool managed = about.type == cudaMemoryTypeManaged;
    bool known = about.type != cudaMemoryTypeUnregistered;
    switch (attribute) {
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
            if (!known) return CUDA_ERROR_INVALID_VALUE;
            *static_cast<unsigned *>(out) = about.type == cudaMemoryTypeHost ? CU_MEMORYTYPE_HOST
                                                                             : CU_MEMORYTYPE_DEVICE;
            return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_IS_MANAGED:
            *static_cast<unsigned *>(out) = managed;
            return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
            *static_cast<int *>(out) = known ? about.device : -1;
            return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        case CU_POINTER_ATTRIBUTE_HOST_POINTER:
            *static_cast<CUdeviceptr *>(out) = address;
            return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
        default:
            return CUDA_ERROR_NOT_SUPPORTED;
    }
}
// Attributes that do not apply are zero.
API CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute *attributes, void **out,
                                    CUdeviceptr address) {
    for (unsigned i = 0; i < count; i++)
        if (cuPointerGetAttribute(out[i], attributes[i], address))
            *static_cast<unsigned *>(out[i]) = 0;
    return CUDA_SUCCESS;
}

// ---- streams and kernels ------------------------------------------------------------------------

API CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) {
    return result(cudaDeviceGetStreamPriorityRange(least, greatest));
}
API CUresult cuStreamGetCtx(CUstream, CUcontext *out) { return cuCtxGetCurrent(out); }
API CUresult cuStreamGetDevice(CUstream, CUdevice *out) { return cuCtxGetDevice(out); }
API CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status) {
    return result(
        cudaStreamIsCapturing(stream, reinterpret_cast<cudaStreamCaptureStatus *>(status)));
}
API CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t *offset, size_t *size) {
    return parameter_info(function, index, offset, size);
}
API CUresult cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t *offset, size_t *size) {
    return parameter_info(kernel, index, offset, size);
}
API CUresult cuKernelGetAttribute(int *out, CUfunction_attribute attribute, CUkernel kernel,
                                  CUdevice) {
    return cuFuncGetAttribute(out, attribute, reinterpret_cast<CUfunction>(kernel));
}
API CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel,
                                  CUdevice) {
    return cuFuncSetAttribute(reinterpret_cast<CUfunction>(kernel), attribute, value);
}
