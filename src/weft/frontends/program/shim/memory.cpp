// Memory: what a program allocates, and what is known of a pointer.
#include "weft.h"

#include <atomic>
#include <set>

namespace weft {

constexpr size_t ALIGN = 512;  // as cudaMalloc aligns
constexpr size_t PATTERN_LIMIT = 64
                                 << 20;  // larger allocations are left alone: their pages cost time
constexpr int PATTERN = 0xcd;            // fresh device memory is not zero: make that visible

static std::mutex mutex;
static std::map<uintptr_t, Allocation> allocations;
static std::set<uintptr_t> freed;  // and not allocated again
static size_t used = 0;            // of the GPU's memory
static uint64_t made = 0;          // allocations until now
static std::atomic<uint64_t> generation{1};

static cudaError_t allocate(const char *call, void **out, size_t bytes, Kind kind,
                            unsigned flags = 0) {
    WORKING;
    if (!out) return failed(cudaErrorInvalidValue);
    *out = nullptr;
    if (bytes == 0) return cudaSuccess;
    std::lock_guard<std::mutex> guard(mutex);
    bool counts = kind != Kind::host;
    if (counts && bytes > size_t(model.memory) - used) return failed(cudaErrorMemoryAllocation);
    void *memory = aligned_alloc(ALIGN, (bytes + ALIGN - 1) / ALIGN * ALIGN);
    if (!memory) return failed(cudaErrorMemoryAllocation);
    if (bytes <= PATTERN_LIMIT) memset(memory, kind == Kind::device ? PATTERN : 0, bytes);
    allocations[uintptr_t(memory)] = {bytes, kind, true, flags, call, ++made};
    freed.erase(uintptr_t(memory));
    if (counts) used += bytes;
    generation++;
    *out = memory;
    return cudaSuccess;
}

static const char *not_freeable(uintptr_t address, bool host);

static cudaError_t release(const char *call, void *memory, bool host) {
    WORKING;
    if (!memory) return cudaSuccess;
    std::unique_lock<std::mutex> guard(mutex);
    if (const char *why = not_freeable(uintptr_t(memory), host)) {
        guard.unlock();
        say("%s: %p %s", call, memory, why);
        ops.misfreed(call, uintptr_t(memory), why);
        return failed(cudaErrorInvalidValue);
    }
    auto found = allocations.find(uintptr_t(memory));
    if (!host) used -= found->second.size;
    allocations.erase(found);
    freed.insert(uintptr_t(memory));
    generation++;
    free(memory);
    return cudaSuccess;
}

// Why memory cannot be freed as this kind, or null.
static const char *not_freeable(uintptr_t address, bool host) {
    auto after = allocations.upper_bound(address);
    if (after != allocations.begin()) {
        auto &[start, allocation] = *--after;
        bool inside = address < start + allocation.size;
        if (inside && start != address) return "points into an allocation, not to its start";
        if (inside && !allocation.owned) return "is memory of the host that was registered";
        if (inside && (allocation.kind == Kind::host) != host)
            return host ? "is memory of the device" : "is memory of cudaMallocHost";
        if (inside) return nullptr;
    }
    return freed.count(address) ? "was freed before" : "was never allocated by CUDA";
}

bool find(const void *address, uintptr_t *start, Allocation *out) {
    std::lock_guard<std::mutex> guard(mutex);
    auto after = allocations.upper_bound(uintptr_t(address));
    if (after == allocations.begin()) return false;
    auto &[base, allocation] = *--after;
    if (uintptr_t(address) >= base + allocation.size) return false;
    *start = base, *out = allocation;
    return true;
}

cudaError_t check_range(const char *call, const void *address, size_t bytes, bool on_device) {
    uintptr_t start;
    Allocation found;
    bool known = find(address, &start, &found);
    if (!known && on_device) {
        uint64_t room = 0;
        if (uint64_t base = ops.variable_at(address, &room)) {
            if (uintptr_t(address) - base + bytes <= room) return cudaSuccess;
        }
        say("%s: %p is not in device memory", call, address);
        return cudaErrorInvalidValue;
    }
    if (known && !on_device && found.kind == Kind::device) {
        say("%s: %p is device memory where host memory is meant: look at the order of the "
            "arguments and at the kind of "
            "copy",
            call, address);
        return cudaErrorInvalidValue;
    }
    if (known && uintptr_t(address) + bytes > start + found.size) {
        say("%s: %zu bytes at byte %zu of an allocation of %zu", call, bytes,
            size_t(uintptr_t(address) - start), found.size);
        return cudaErrorInvalidValue;
    }
    return address ? cudaSuccess : cudaErrorInvalidValue;
}

void release_all() {
    std::lock_guard<std::mutex> guard(mutex);
    for (auto entry = allocations.begin(); entry != allocations.end();) {
        if (entry->second.owned && entry->second.kind != Kind::host) {
            free(reinterpret_cast<void *>(entry->first));
            freed.insert(entry->first);
            entry = allocations.erase(entry);
        } else {
            ++entry;
        }
    }
    used = 0;
    generation++;
}

}  // namespace weft

using namespace weft;

// ---- for the simulator: the memory that a kernel may touch --------------------------------------

API uint64_t weft_generation() { return generation; }
API size_t weft_allocations(uint64_t *out, size_t room) {
    std::lock_guard<std::mutex> guard(mutex);
    size_t count = 0;
    for (auto &[start, allocation] : allocations) {
        if (count < room) {
            out[3 * count] = start;
            out[3 * count + 1] = allocation.size;
            out[3 * count + 2] = uint64_t(allocation.kind);
        }
        count++;
    }
    return count;
}

// Memory of the device that is still allocated: address, size, order, and what allocated it. After
// a kernel that died nothing can be freed, so then there is none.
API size_t weft_unfreed(uint64_t *out, const char **calls, size_t room) {
    if (dead()) return 0;
    std::lock_guard<std::mutex> guard(mutex);
    size_t count = 0;
    for (auto &[start, allocation] : allocations) {
        if (allocation.kind == Kind::host) continue;
        if (count < room) {
            out[3 * count] = start;
            out[3 * count + 1] = allocation.size;
            out[3 * count + 2] = allocation.order;
            calls[count] = allocation.call;
        }
        count++;
    }
    return count;
}

// ---- allocation ---------------------------------------------------------------------------------

API cudaError_t cudaMalloc(void **out, size_t bytes) {
    return allocate("cudaMalloc", out, bytes, Kind::device);
}
API cudaError_t cudaMallocManaged(void **out, size_t bytes, unsigned) {
    if (bytes == 0) return failed(cudaErrorInvalidValue);
    return allocate("cudaMallocManaged", out, bytes, Kind::managed);
}
API cudaError_t cudaMallocHost(void **out, size_t bytes) {
    return allocate("cudaMallocHost", out, bytes, Kind::host);
}
API cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned flags) {
    return allocate("cudaHostAlloc", out, bytes, Kind::host, flags);
}
API cudaError_t cudaMallocPitch(void **out, size_t *pitch, size_t width, size_t height) {
    *pitch = (width + ALIGN - 1) / ALIGN * ALIGN;
    return allocate("cudaMallocPitch", out, *pitch * height, Kind::device);
}
API cudaError_t cudaMalloc3D(cudaPitchedPtr *out, cudaExtent extent) {
    size_t pitch = (extent.width + ALIGN - 1) / ALIGN * ALIGN;
    void *memory;
    auto error =
        allocate("cudaMalloc3D", &memory, pitch * extent.height * extent.depth, Kind::device);
    *out = {memory, pitch, extent.width, extent.height};
    return error;
}
API cudaError_t cudaFree(void *memory) { return release("cudaFree", memory, false); }
API cudaError_t cudaFreeHost(void *memory) { return release("cudaFreeHost", memory, true); }

// ---- allocation in the order of a stream --------------------------------------------------------

API cudaError_t cudaMallocAsync(void **out, size_t bytes, cudaStream_t) {
    return allocate("cudaMallocAsync", out, bytes, Kind::device);
}
API cudaError_t cudaMallocFromPoolAsync(void **out, size_t bytes, cudaMemPool_t, cudaStream_t) {
    return allocate("cudaMallocFromPoolAsync", out, bytes, Kind::device);
}
API cudaError_t cudaFreeAsync(void *memory, cudaStream_t stream) {
    return submit(stream, cudaGraphNodeTypeMemFree,
                  [=] { return release("cudaFreeAsync", memory, false); });
}

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
        *static_cast<uint64_t *>(value) = of_pool ? ((Pool *)pool)->threshold : used;
    return cudaSuccess;
}

// ---- memory of the host -------------------------------------------------------------------------

API cudaError_t cudaHostRegister(void *memory, size_t bytes, unsigned flags) {
    WORKING;
    std::lock_guard<std::mutex> guard(mutex);
    if (!memory || !bytes) return failed(cudaErrorInvalidValue);
    if (!allocations.insert({uintptr_t(memory), {bytes, Kind::host, false, flags, "cudaHostRegister", 0}}).second)
        return failed(cudaErrorHostMemoryAlreadyRegistered);
    generation++;
    return cudaSuccess;
}
API cudaError_t cudaHostUnregister(void *memory) {
    WORKING;
    std::lock_guard<std::mutex> guard(mutex);
    auto found = allocations.find(uintptr_t(memory));
    if (found == allocations.end() || found->second.owned)
        return failed(cudaErrorHostMemoryNotRegistered);
    allocations.erase(found);
    generation++;
    return cudaSuccess;
}
API cudaError_t cudaHostGetDevicePointer(void **out, void *memory, unsigned) {
    uintptr_t start;
    Allocation found;
    if (!find(memory, &start, &found) || found.kind != Kind::host)
        return failed(cudaErrorInvalidValue);
    *out = memory;
    return cudaSuccess;
}
API cudaError_t cudaHostGetFlags(unsigned *flags, void *memory) {
    uintptr_t start;
    Allocation found;
    if (!find(memory, &start, &found) || found.kind != Kind::host)
        return failed(cudaErrorInvalidValue);
    *flags = found.flags | cudaHostAllocMapped;
    return cudaSuccess;
}

// ---- what is known of memory --------------------------------------------------------------------

API cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total) {
    WORKING;
    std::lock_guard<std::mutex> guard(mutex);
    *total = size_t(model.memory);
    *free_bytes = *total - used;
    return cudaSuccess;
}
API cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *out, const void *address) {
    static const cudaMemoryType types[] = {cudaMemoryTypeDevice, cudaMemoryTypeHost,
                                           cudaMemoryTypeManaged};
    uintptr_t start;
    Allocation found;
    memset(out, 0, sizeof *out);
    if (!find(address, &start, &found)) {
        out->device = -2;
        return cudaSuccess;
    }
    out->type = types[int(found.kind)];
    out->devicePointer = const_cast<void *>(address);
    out->hostPointer = found.kind == Kind::device ? nullptr : const_cast<void *>(address);
    return cudaSuccess;
}

// Managed memory is in one place here: where it should be, and how it is used, changes nothing.
#if CUDART_VERSION >= 13000
API cudaError_t cudaMemPrefetchAsync(const void *, size_t, cudaMemLocation, unsigned,
                                     cudaStream_t) {
    WORKING;
    return cudaSuccess;
}
API cudaError_t cudaMemAdvise(const void *, size_t, cudaMemoryAdvise, cudaMemLocation) {
    WORKING;
    return cudaSuccess;
}
#else
API cudaError_t cudaMemPrefetchAsync(const void *, size_t, int, cudaStream_t) {
    WORKING;
    return cudaSuccess;
}
API cudaError_t cudaMemAdvise(const void *, size_t, cudaMemoryAdvise, int) {
    WORKING;
    return cudaSuccess;
}
#endif
API cudaError_t cudaStreamAttachMemAsync(cudaStream_t, void *, size_t, unsigned) {
    WORKING;
    return cudaSuccess;
}
