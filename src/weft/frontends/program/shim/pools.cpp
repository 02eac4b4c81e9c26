// Memory in the order of a stream, of pools and of graphs. There is one kind of memory, so a pool
// counts what it has given out, and keeps what is asked about it.
#include "pools.h"
#include "watch.h"

namespace weft {
const char *const GRAPH_MEMORY = "memory of a graph";

static Mutex pools_mutex;
static Table<Pool *> pools;  // that are alive, by their handles

Pool *new_pool(const cudaMemPoolProps &about) {
    auto *pool = new Pool;
    pool->about = about;
    if (about.location.type == cudaMemLocationTypeDevice)
        pool->readable[about.location.id] = pool->writable[about.location.id] = true;
    Lock guard(pools_mutex);
    pools[pool] = pool;
    return pool;
}
Pool *known_pool(cudaMemPool_t pool) {
    Lock guard(pools_mutex);
    auto **found = pools.find(pool);
    return found ? *found : nullptr;
}
int pool_device(Pool *pool) {
    return pool->about.location.type == cudaMemLocationTypeDevice ? pool->about.location.id : 0;
}
void pool_allocated(Pool *pool, size_t bytes) {
    pool->used += bytes;
    pool->held = larger(pool->held, pool->used);
    pool->most_used = larger(pool->most_used, pool->used);
    pool->most_held = larger(pool->most_held, pool->held);
}
void pool_freed(Pool *pool, size_t bytes) {
    pool->used -= bytes;
    pool->trim(pool->threshold);
}
}  // namespace weft

using namespace weft;

static Pool *default_pools[MOST_DEVICES], *current_pools[MOST_DEVICES];

static bool is_device(int device) {
    int count = 0;
    cudaGetDeviceCount(&count);
    return device >= 0 && device < count;
}
static Pool *pool_of_device(int device) {
    static Mutex mutex;
    Lock guard(mutex);
    if (!default_pools[device]) {
        cudaMemPoolProps about{};
        about.allocType = cudaMemAllocationTypePinned;
        about.location = {cudaMemLocationTypeDevice, device};
        default_pools[device] = new_pool(about);
    }
    return default_pools[device];
}
API cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *out, int device) {
    if (!is_device(device)) return failed(cudaErrorInvalidDevice);
    *out = cudaMemPool_t(pool_of_device(device));
    return cudaSuccess;
}
API cudaError_t cudaDeviceGetMemPool(cudaMemPool_t *out, int device) {
    if (!is_device(device)) return failed(cudaErrorInvalidDevice);
    auto *chosen = current_pools[device];
    *out = cudaMemPool_t(chosen ? chosen : pool_of_device(device));
    return cudaSuccess;
}
API cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool) {
    auto *found = known_pool(pool);
    if (!is_device(device)) return failed(cudaErrorInvalidDevice);
    if (!found) return failed(cudaErrorInvalidValue);
    current_pools[device] = found;
    return cudaSuccess;
}
API cudaError_t cudaMemPoolCreate(cudaMemPool_t *out, const cudaMemPoolProps *about) {
    WORKING;
    if (!out || !about || about->allocType != cudaMemAllocationTypePinned)
        return failed(cudaErrorInvalidValue);
    if (about->location.type == cudaMemLocationTypeDevice && !is_device(about->location.id))
        return failed(cudaErrorInvalidDevice);
    if (about->handleTypes & ~cudaMemHandleTypePosixFileDescriptor)
        return failed(cudaErrorNotSupported);
    *out = cudaMemPool_t(new_pool(*about));
    return cudaSuccess;
}
API cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
    auto *found = known_pool(pool);
    for (auto *of_device : default_pools)
        if (!found || found == of_device) return failed(cudaErrorInvalidValue);
    for (auto *&chosen : current_pools)
        if (chosen == found) chosen = nullptr;
    Lock guard(pools_mutex);
    pools.erase(found);  // what it has given out still counts there
    return cudaSuccess;
}
API cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep) {
    auto *found = known_pool(pool);
    if (!found) return failed(cudaErrorInvalidValue);
    found->trim(keep);
    return cudaSuccess;
}

// ---- attributes and access ----------------------------------------------------------------------

static uint64_t *counter_of(Pool *pool, cudaMemPoolAttr attribute) {
    switch (attribute) {
        case cudaMemPoolAttrReleaseThreshold: return &pool->threshold;
        case cudaMemPoolAttrReservedMemCurrent: return &pool->held;
        case cudaMemPoolAttrReservedMemHigh: return &pool->most_held;
        case cudaMemPoolAttrUsedMemCurrent: return &pool->used;
        case cudaMemPoolAttrUsedMemHigh: return &pool->most_used;
        default: return nullptr;
    }
}
static int *hint_of(Pool *pool, cudaMemPoolAttr attribute) {
    int i = attribute - cudaMemPoolReuseFollowEventDependencies;
    return i >= 0 && i < 3 ? &pool->reuse[i] : nullptr;
}
// A high-water mark can be reset, and nothing else.
API cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute,
                                        void *value) {
    auto *found = known_pool(pool);
    if (!found || !value) return failed(cudaErrorInvalidValue);
    if (auto *hint = hint_of(found, attribute)) {
        *hint = *static_cast<int *>(value);
        return cudaSuccess;
    }
    auto wanted = *static_cast<uint64_t *>(value);
    if (attribute == cudaMemPoolAttrReleaseThreshold)
        found->threshold = wanted;
    else if (attribute == cudaMemPoolAttrUsedMemHigh && !wanted)
        found->most_used = found->used;
    else if (attribute == cudaMemPoolAttrReservedMemHigh && !wanted)
        found->most_held = found->held;
    else
        return failed(cudaErrorInvalidValue);
    return cudaSuccess;
}
API cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute,
                                        void *value) {
    auto *found = known_pool(pool);
    if (!found || !value) return failed(cudaErrorInvalidValue);
    if (auto *hint = hint_of(found, attribute))
        *static_cast<int *>(value) = *hint;
    else if (auto *counter = counter_of(found, attribute))
        *static_cast<uint64_t *>(value) = *counter;
    else
        return failed(cudaErrorInvalidValue);
    return cudaSuccess;
}
// Sets the access of GPUs alone: the memory of a pool is on one, which always has access.
API cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const cudaMemAccessDesc *wanted,
                                     size_t count) {
    auto *found = known_pool(pool);
    if (!found || (count && !wanted)) return failed(cudaErrorInvalidValue);
    for (size_t i = 0; i < count; i++) {
        auto at = wanted[i].location;
        if (at.type != cudaMemLocationTypeDevice) return failed(cudaErrorInvalidValue);
        if (!is_device(at.id)) return failed(cudaErrorInvalidDevice);
        bool own = found->about.location.id == at.id;
        if (own && wanted[i].flags != cudaMemAccessFlagsProtReadWrite)
            return failed(cudaErrorInvalidValue);
        found->readable[at.id] = wanted[i].flags & cudaMemAccessFlagsProtRead;
        found->writable[at.id] = wanted[i].flags == cudaMemAccessFlagsProtReadWrite;
    }
    return cudaSuccess;
}
API cudaError_t cudaMemPoolGetAccess(cudaMemAccessFlags *out, cudaMemPool_t pool,
                                     cudaMemLocation *at) {
    auto *found = known_pool(pool);
    if (!found || !out || !at) return failed(cudaErrorInvalidValue);
    if (at->type != cudaMemLocationTypeDevice) return failed(cudaErrorInvalidValue);
    if (!is_device(at->id)) return failed(cudaErrorInvalidDevice);
    *out = found->writable[at->id]   ? cudaMemAccessFlagsProtReadWrite
           : found->readable[at->id] ? cudaMemAccessFlagsProtRead
                                     : cudaMemAccessFlagsProtNone;
    return cudaSuccess;
}

// ---- allocation in the order of a stream --------------------------------------------------------

static cudaError_t allocate_in(const char *call, void **out, size_t bytes, cudaMemPool_t pool,
                               cudaStream_t stream) {
    Running here(stream);
    auto *found = known_pool(pool);
    if (!found) return failed(cudaErrorInvalidValue);
#if CUDART_VERSION >= 12030
    auto most = found->about.maxSize;
    if (most && bytes > most - found->used) return failed(cudaErrorMemoryAllocation);
#endif
    if (!capturing(stream)) return allocate(call, out, bytes, Kind::device, 0, found);
    if (auto error = allocate(GRAPH_MEMORY, out, bytes, Kind::device)) return error;
    return submit(stream, cudaGraphNodeTypeMemAlloc, [] { return cudaSuccess; });
}
API cudaError_t cudaMallocAsync(void **out, size_t bytes, cudaStream_t stream) {
    cudaMemPool_t pool;
    cudaDeviceGetMemPool(&pool, current_device());
    return allocate_in("cudaMallocAsync", out, bytes, pool, stream);
}
API cudaError_t cudaMallocFromPoolAsync(void **out, size_t bytes, cudaMemPool_t pool,
                                        cudaStream_t stream) {
    return allocate_in("cudaMallocFromPoolAsync", out, bytes, pool, stream);
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
