// Memory in the order of a stream, of pools and of graphs. There is one kind of memory, so a pool
// only keeps what is asked about it.
#include "watch.h"
#include "weft.h"

namespace weft {
const char *const GRAPH_MEMORY = "memory of a graph";
}  // namespace weft

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

// ---- allocation in the order of a stream --------------------------------------------------------

static cudaError_t allocate_in(const char *call, void **out, size_t bytes, cudaStream_t stream) {
    Running here(stream);
    if (!capturing(stream)) return allocate(call, out, bytes, Kind::device);
    if (auto error = allocate(GRAPH_MEMORY, out, bytes, Kind::device)) return error;
    return submit(stream, cudaGraphNodeTypeMemAlloc, [] { return cudaSuccess; });
}
API cudaError_t cudaMallocAsync(void **out, size_t bytes, cudaStream_t stream) {
    return allocate_in("cudaMallocAsync", out, bytes, stream);
}
API cudaError_t cudaMallocFromPoolAsync(void **out, size_t bytes, cudaMemPool_t,
                                        cudaStream_t stream) {
    return allocate_in("cudaMallocFromPoolAsync", out, bytes, stream);
}
API cudaError_t cudaFreeAsync(void *memory, cudaStream_t stream) {
    return submit(stream, cudaGraphNodeTypeMemFree,
                  [=] { return release("cudaFreeAsync", memory, false, false); });
}

// ---- memory of graphs ---------------------------------------------------------------------------

API cudaError_t cudaDeviceGraphMemTrim(int) { return cudaSuccess; }
API cudaError_t cudaDeviceSetGraphMemAttribute(int, cudaGraphMemAttributeType, void *) {
    return cudaSuccess;
}
API cudaError_t cudaDeviceGetGraphMemAttribute(int, cudaGraphMemAttributeType, void *value) {
    *static_cast<uint64_t *>(value) = graph_memory_bytes();
    return cudaSuccess;
}
