// Memory in the order of a stream, of pools and of graphs. All memory is the host's, so a pool
// counts what it has given out, and keeps what is asked about it.
#include "pools.h"
#include "watch.h"

namespace weft {
const char *const GRAPH_MEMORY = "memory of a graph";

static Mutex pools_mutex;
static Table<Pool *> pools;  // that are alive, by their handles

static bool is_on(const Pool *pool, int device) {
    return pool->about.location.type == cudaMemLocationTypeDevice &&
           pool->about.location.id == device;
}
static Kind kind_of(const Pool *pool) {
#if CUDART_VERSION >= 13000
    if (pool->about.allocType == cudaMemAllocationTypeManaged) return Kind::managed;
#endif
    return pool->about.location.type == cudaMemLocationTypeDevice ? Kind::device : Kind::host;
}
Pool *new_pool(const cudaMemPoolProps &about) {
    auto *pool = new Pool;
    pool->about = about;
    for (int device = 0; device < MOST_DEVICES; device++) {
        bool own = is_on(pool, device) || kind_of(pool) == Kind::managed;
        pool->readable[device] = pool->writable[device] = own;
    }
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
        default_pools[device]->of_place = true;
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
// The error for a place that has no memory of this type.
static cudaError_t check_place(const cudaMemLocation &at, cudaMemAllocationType type) {
    bool anywhere = false;
#if CUDART_VERSION >= 13000
    anywhere = type == cudaMemAllocationTypeManaged;
#endif
    if (type != cudaMemAllocationTypePinned && !anywhere) return cudaErrorInvalidValue;
    if (at.type == cudaMemLocationTypeDevice)
        return is_device(at.id) ? cudaSuccess : cudaErrorInvalidDevice;
    bool host = at.type == cudaMemLocationTypeHost || at.type == cudaMemLocationTypeHostNuma;
    bool none = anywhere && at.type == cudaMemLocationTypeInvalid;  // no preferred location
    return host || none ? cudaSuccess : cudaErrorInvalidValue;
}
API cudaError_t cudaMemPoolCreate(cudaMemPool_t *out, const cudaMemPoolProps *about) {
    WORKING;
    if (!out || !about) return failed(cudaErrorInvalidValue);
    if (auto error = check_place(about->location, about->allocType)) return failed(error);
    if (about->handleTypes & ~cudaMemHandleTypePosixFileDescriptor)
        return failed(cudaErrorNotSupported);
    *out = cudaMemPool_t(new_pool(*about));
    return cudaSuccess;
}
static void leave_places(const Pool *pool);
API cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
    auto *found = known_pool(pool);
    if (!found || found->of_place) return failed(cudaErrorInvalidValue);
    for (auto *&chosen : current_pools)
        if (chosen == found) chosen = nullptr;
    leave_places(found);
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

// ---- pools of a place and a type of memory ------------------------------------------------------

struct Place {
    cudaMemLocation at;
    cudaMemAllocationType type;
    Pool *usual, *chosen;
};
static Mutex places_mutex;
static Array<Place> places;  // but those of the memory of a GPU

static void leave_places(const Pool *pool) {
    Lock guard(places_mutex);
    for (auto &place : places)
        if (place.chosen == pool) place.chosen = nullptr;
}
#if CUDART_VERSION >= 13000
// The place of this type and location, under `places_mutex`; it is made with its default pool.
static Place &place_of(const cudaMemLocation &at, cudaMemAllocationType type) {
    for (auto &place : places)
        if (place.type == type && place.at.type == at.type && place.at.id == at.id) return place;
    cudaMemPoolProps about{};
    about.allocType = type;
    about.location = at;
    auto *usual = new_pool(about);
    usual->of_place = true;
    places.push_back({at, type, usual, nullptr});
    return places.back();
}
static bool is_of_device(const cudaMemLocation &at, cudaMemAllocationType type) {
    return at.type == cudaMemLocationTypeDevice && type == cudaMemAllocationTypePinned;
}
static cudaMemLocation normal(cudaMemLocation at) {
    bool numbered = at.type == cudaMemLocationTypeDevice || at.type == cudaMemLocationTypeHostNuma;
    return {at.type, numbered ? at.id : 0};
}
API cudaError_t cudaMemGetDefaultMemPool(cudaMemPool_t *out, cudaMemLocation *at,
                                         cudaMemAllocationType type) {
    if (!out || !at) return failed(cudaErrorInvalidValue);
    if (auto error = check_place(*at, type)) return failed(error);
    if (is_of_device(*at, type)) return cudaDeviceGetDefaultMemPool(out, at->id);
    Lock guard(places_mutex);
    *out = cudaMemPool_t(place_of(normal(*at), type).usual);
    return cudaSuccess;
}
API cudaError_t cudaMemGetMemPool(cudaMemPool_t *out, cudaMemLocation *at,
                                  cudaMemAllocationType type) {
    if (!out || !at) return failed(cudaErrorInvalidValue);
    if (auto error = check_place(*at, type)) return failed(error);
    if (is_of_device(*at, type)) return cudaDeviceGetMemPool(out, at->id);
    Lock guard(places_mutex);
    auto &place = place_of(normal(*at), type);
    *out = cudaMemPool_t(place.chosen ? place.chosen : place.usual);
    return cudaSuccess;
}
API cudaError_t cudaMemSetMemPool(cudaMemLocation *at, cudaMemAllocationType type,
                                  cudaMemPool_t pool) {
    auto *found = known_pool(pool);
    if (!found || !at) return failed(cudaErrorInvalidValue);
    if (auto error = check_place(*at, type)) return failed(error);
    auto wanted = normal(*at), own = normal(found->about.location);
    if (wanted.type != own.type || wanted.id != own.id || found->about.allocType != type)
        return failed(cudaErrorInvalidValue);
    if (is_of_device(*at, type)) return cudaDeviceSetMemPool(at->id, pool);
    Lock guard(places_mutex);
    place_of(wanted, type).chosen = found;
    return cudaSuccess;
}
#endif

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
// Sets the access of GPUs alone. The one that has the memory always has access.
API cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const cudaMemAccessDesc *wanted,
                                     size_t count) {
    auto *found = known_pool(pool);
    if (!found || (count && !wanted)) return failed(cudaErrorInvalidValue);
    for (size_t i = 0; i < count; i++) {
        auto at = wanted[i].location;
        if (at.type != cudaMemLocationTypeDevice) return failed(cudaErrorInvalidValue);
        if (!is_device(at.id)) return failed(cudaErrorInvalidDevice);
        if (is_on(found, at.id) && wanted[i].flags != cudaMemAccessFlagsProtReadWrite)
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
    if (at->type == cudaMemLocationTypeHost) {
        bool mapped = kind_of(found) != Kind::device;
        *out = mapped ? cudaMemAccessFlagsProtReadWrite : cudaMemAccessFlagsProtNone;
        return cudaSuccess;
    }
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
    if (!capturing(stream)) return allocate(call, out, bytes, kind_of(found), 0, found);
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
