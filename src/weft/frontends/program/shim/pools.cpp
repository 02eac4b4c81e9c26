// Memory pools: there is one kind of memory, so a pool only keeps what is asked about it.
#include "weft.h"

using namespace weft;

namespace {
struct Pool {
    uint64_t threshold = 0;
} default_pool;
}  // namespace

API cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *out, int) {
    *out = (cudaMemPool_t)&default_pool;
    return cudaSuccess;
}
API cudaError_t cudaDeviceGetMemPool(cudaMemPool_t *out, int device) {
    return cudaDeviceGetDefaultMemPool(out, device);
}
API cudaError_t cudaDeviceSetMemPool(int, cudaMemPool_t) { return cudaSuccess; }
API cudaError_t cudaMemPoolCreate(cudaMemPool_t *out, const cudaMemPoolProps *) {
    *out = (cudaMemPool_t) new Pool;
    return cudaSuccess;
}
API cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
    delete (Pool *)pool;
    return cudaSuccess;
}
API cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, size_t) { return cudaSuccess; }
API cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute,
                                        void *value) {
    if (attribute == cudaMemPoolAttrReleaseThreshold)
        ((Pool *)pool)->threshold = *static_cast<uint64_t *>(value);
    return cudaSuccess;
}
API cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute,
                                        void *value) {
    bool of_pool = attribute == cudaMemPoolAttrReleaseThreshold;
    bool small = attribute <= cudaMemPoolReuseAllowInternalDependencies;
    if (small)
        *static_cast<int *>(value) = 1;
    else
        *static_cast<uint64_t *>(value) = of_pool ? ((Pool *)pool)->threshold : device_memory_used();
    return cudaSuccess;
}
