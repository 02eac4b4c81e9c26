// Memory: what a program allocates, and what is known of a pointer.
#include "watch.h"

#include <sys/mman.h>
#include <unistd.h>

API uint64_t weft_freed(uint64_t address);

namespace weft {

constexpr size_t ALIGN = 512;  // as cudaMalloc aligns
constexpr size_t PATTERN_LIMIT = 64
                                 << 20;  // larger allocations are left alone: their pages cost time
constexpr int PATTERN = 0xcd;            // of --poison, and what the sanitizer looks for
static bool poison = false;
const char *(*explain_reserved)(uintptr_t address) = nullptr;

static Mutex memory_mutex;
static Table<Allocation> allocations;
static Table<size_t> freed;  // and not allocated again: start and size
static size_t used[MOST_DEVICES];   // of each GPU's memory
static uint64_t made = 0;          // allocations until now
static std::atomic<uint64_t> generation{1};

// ---- memory of the process ----------------------------------------------------------------------

// Memory of the device has pages of its own, which can become a file that other processes map.
// Under the sanitizer, what both sides use has them too, which can be guarded, and what is freed is
// not given out again at once, so that a use of it is noticed.
constexpr size_t PAGE = 4096;
constexpr size_t QUARANTINE = 256 << 20;
struct Quarantined {
    void *memory;
    size_t bytes;
};
static Table<Quarantined> quarantine;  // in the order of their frees
static uint64_t frees = 0;
static size_t quarantined = 0;
static std::atomic<bool> shares{false};

static size_t rounded(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

// With a gap to the next, so that an access past the end is in no allocation.
static size_t in_pages(size_t bytes) { return rounded(bytes + ALIGN, PAGE); }

static bool has_pages(Kind kind) { return hooks || kind == Kind::device; }

static void *take(size_t bytes, Kind kind) {
    if (!has_pages(kind)) return aligned_alloc(ALIGN, rounded(bytes, ALIGN));
    void *memory = mmap(nullptr, in_pages(bytes), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? nullptr : memory;
}

static void give_back(void *memory, size_t bytes, Kind kind) {
    if (!has_pages(kind)) return free(memory);
    if (!hooks || kind != Kind::device) {
        munmap(memory, in_pages(bytes));
        return;
    }
    quarantine[frees++] = {memory, bytes};
    quarantined += bytes;
    while (quarantined > QUARANTINE) {
        auto &oldest = *quarantine.begin();
        munmap(oldest.value.memory, in_pages(oldest.value.bytes));
        quarantined -= oldest.value.bytes;
        quarantine.erase(oldest.key);
    }
}

// ---- memory that processes share ----------------------------------------------------------------

// Moves the pages of an allocation to a file, at the same address.
static int moved_to_file(uintptr_t start, size_t bytes) {
    int file = memfd_create("weft memory", MFD_CLOEXEC);
    bool written = file >= 0 && !ftruncate(file, rounded(bytes, PAGE));
    for (size_t done = 0; written && done < bytes;) {
        auto count = pwrite(file, reinterpret_cast<char *>(start) + done, bytes - done, done);
        written = count > 0, done += written ? count : 0;
    }
    if (written && map_file(reinterpret_cast<void *>(start), file, bytes)) return file;
    if (file >= 0) ::close(file);
    return -1;
}

bool map_file(void *at, int file, size_t bytes, size_t offset) {
    shares = true;
    return mmap(at, rounded(bytes, PAGE), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file,
                offset) != MAP_FAILED;
}

int shared_file(const void *address, uintptr_t *start, Allocation *out) {
    wait_for_idle();  // nothing may write to the pages while they move
    Lock guard(memory_mutex);
    auto *row = allocations.at_or_before(uintptr_t(address));
    if (!row || uintptr_t(address) >= row->key + row->value.size) return -1;
    auto &allocation = row->value;
    if (allocation.kind != Kind::device || !allocation.owned) return -1;
    if (allocation.file < 0) allocation.file = moved_to_file(row->key, allocation.size);
    *start = row->key, *out = allocation;
    return allocation.file;
}

void *open_file(const char *call, int file, size_t bytes, bool owned) {
    void *memory = take(bytes, Kind::device);
    if (!memory || !map_file(memory, file, bytes, 0)) return nullptr;
    enter(uintptr_t(memory), {bytes, Kind::device, owned, 0, call, 0, current_device()});
    charge(current_device(), int64_t(bytes));
    return memory;
}

cudaError_t close_file(void *memory) {
    wait_for_idle();
    Allocation gone;
    if (!leave("cudaIpcCloseMemHandle", uintptr_t(memory), &gone))
        return failed(cudaErrorInvalidValue);
    charge(gone.device, -int64_t(gone.size));
    give_back(memory, gone.size, gone.kind);
    return cudaSuccess;
}

void charge(int device, int64_t bytes) {
    Lock guard(memory_mutex);
    used[device] += bytes;
}

void enter(uintptr_t start, Allocation allocation) {
    Lock guard(memory_mutex);
    allocation.order = ++made;
    allocations[start] = allocation;
    freed.erase(start);
    generation++;
    guard.unlock();
    if (hooks)
        hooks->allocated(allocation.call, start, allocation.size, int(allocation.kind),
                         allocation.device);
}

bool leave(const char *call, uintptr_t start, Allocation *gone) {
    Lock guard(memory_mutex);
    auto *found = allocations.find(start);
    if (!found || found->owned || found->kind != Kind::device) return false;
    *gone = *found;
    allocations.erase(start);
    freed[start] = gone->size;
    generation++;
    guard.unlock();
    if (hooks) hooks->freed(call, start, gone->size);
    return true;
}

cudaError_t allocate(const char *call, void **out, size_t bytes, Kind kind, unsigned flags,
                     Pool *pool) {
    WORKING;
    if (!out) return failed(cudaErrorInvalidValue);
    *out = nullptr;
    if (bytes == 0) return cudaSuccess;
    Lock guard(memory_mutex);
    bool counts = kind != Kind::host;
    int device = pool ? pool_device(pool) : current_device();
    size_t &taken = used[device];
    if (counts && bytes > size_t(model.memory) - taken) return failed(cudaErrorMemoryAllocation);
    void *memory = take(bytes, kind);
    if (!memory) {
        if (counts)
            say("%s: %zu bytes, which the simulated GPU has and this machine has not: a smaller size, "
                "or --device sim:MODEL of a GPU with less memory",
                call, bytes);
        return failed(cudaErrorMemoryAllocation);
    }
    // Fresh memory of a GPU holds zeros in practice, and so do fresh pages of the host.
    bool filled = kind == Kind::device && (poison || hooks);
    if (bytes <= PATTERN_LIMIT && (filled || !has_pages(kind)))
        memset(memory, filled ? PATTERN : 0, bytes);
    allocations[uintptr_t(memory)] = {bytes, kind, true, flags, call, ++made, device, pool};
    if (pool) pool_allocated(pool, bytes);
    freed.erase(uintptr_t(memory));
    if (counts) taken += bytes;
    generation++;
    *out = memory;
    guard.unlock();
    if (hooks) hooks->allocated(call, uintptr_t(memory), bytes, int(kind), device);
    return cudaSuccess;
}

static const char *not_freeable(uintptr_t address, bool host);

// Says what is wrong with a pointer; it is a finding of this kind for the sanitizer.
static void refuse(const char *kind, const char *call, const void *address, const char *why) {
    say("%s: %p %s", call, address, why);
    ops.misused(kind, call, uintptr_t(address), why);
}

// Kernels may still use it; those of other devices do so only until its pages are given back.
static void wait_for_users(const void *memory) {
    uintptr_t start;
    Allocation found;
    if (find(memory, &start, &found) && found.kind == Kind::device)
        wait_for_device(found.device);
    else
        wait_for_all();
}

cudaError_t release(const char *call, void *memory, bool host, bool waits) {
    WORKING;
    if (!memory) return cudaSuccess;
    if (waits) wait_for_users(memory);
    WORKING;
    Lock guard(memory_mutex);
    if (const char *why = not_freeable(uintptr_t(memory), host)) {
        guard.unlock();
        bool twice = strstr(why, "freed before");
        refuse(twice ? "double free" : "invalid free", call, memory, why);
        return failed(cudaErrorInvalidValue);
    }
    auto allocation = *allocations.find(memory);
    // It keeps its address, and is there again in the next launch of its graph.
    if (allocation.call == GRAPH_MEMORY) return cudaSuccess;
    if (allocation.kind != Kind::host) used[allocation.device] -= allocation.size;
    allocations.erase(memory);
    freed[uintptr_t(memory)] = allocation.size;
    generation++;
    if (allocation.pool) pool_freed(allocation.pool, allocation.size);
    guard.unlock();
    if (hooks) hooks->freed(call, uintptr_t(memory), allocation.size);
    if (allocation.file >= 0) ::close(allocation.file);
    when_idle([memory, allocation] {
        Lock guard(memory_mutex);
        give_back(memory, allocation.size, allocation.kind);
    });
    return cudaSuccess;
}

// The reason why memory cannot be freed as this kind, or null.
static const char *not_freeable(uintptr_t address, bool host) {
    if (auto *row = allocations.at_or_before(address)) {
        auto &allocation = row->value;
        bool inside = address < row->key + allocation.size;
        if (inside && row->key != address) return "points into an allocation, not to its start";
        if (inside && !allocation.owned && allocation.kind == Kind::device)
            return "is memory that another call opened or mapped, and that its counterpart closes";
        if (inside && !allocation.owned) return "is memory of the host that was registered";
        bool of_host = allocation.kind == Kind::host && !allocation.pool;
        if (inside && of_host != host)
            return host ? "is memory of the device" : "is memory of cudaMallocHost";
        if (inside) return nullptr;
    }
    return freed.find(address) ? "was freed before" : "was never allocated by CUDA";
}

bool find(const void *address, uintptr_t *start, Allocation *out) {
    Lock guard(memory_mutex);
    auto *row = allocations.at_or_before(uintptr_t(address));
    if (!row || uintptr_t(address) >= row->key + row->value.size) return false;
    *start = row->key, *out = row->value;
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
        bool gone = weft_freed(uintptr_t(address));
        const char *unmapped = explain_reserved ? explain_reserved(uintptr_t(address)) : nullptr;
        refuse(gone ? "use after free" : "invalid copy", call, address,
               unmapped ? unmapped : gone ? "was freed before" : "is not in device memory");
        return cudaErrorInvalidValue;
    }
    if (known && !on_device && found.kind == Kind::device) {
        refuse("invalid copy", call, address,
               "is device memory where host memory is meant: look at the order of the arguments "
               "and at the kind of copy");
        return cudaErrorInvalidValue;
    }
    if (known && uintptr_t(address) + bytes > start + found.size) {
        char why[128];
        snprintf(why, sizeof why, "is too short: %zu bytes at byte %zu of an allocation of %zu",
                 bytes, size_t(uintptr_t(address) - start), found.size);
        refuse("out of bounds", call, address, why);
        return cudaErrorInvalidValue;
    }
    return address ? cudaSuccess : cudaErrorInvalidValue;
}

size_t graph_memory_bytes() {
    Lock guard(memory_mutex);
    size_t out = 0;
    for (auto &row : allocations)
        if (row.value.call == GRAPH_MEMORY) out += row.value.size;
    return out;
}

void release_all() {
    Lock guard(memory_mutex);
    for (auto *row = allocations.after(0); row;) {
        uintptr_t start = row->key;
        auto allocation = row->value;
        if (allocation.device == current_device() && allocation.owned &&
            allocation.kind != Kind::host) {
            if (hooks) hooks->freed("cudaDeviceReset", start, allocation.size);
            give_back(reinterpret_cast<void *>(start), allocation.size, allocation.kind);
            if (allocation.pool) pool_freed(allocation.pool, allocation.size);
            freed[start] = allocation.size;
            allocations.erase(start);
        }
        row = allocations.after(start);
    }
    used[current_device()] = 0;
    generation++;
}

}  // namespace weft

using namespace weft;

// The start of memory that was freed and not given out again; 0 when the address is in none.
API uint64_t weft_freed(uint64_t address) {
    Lock guard(memory_mutex);
    auto *row = freed.at_or_before(address);
    return row && address < row->key + row->value ? row->key : 0;
}

size_t weft::device_memory_used() {
    Lock guard(memory_mutex);
    return used[current_device()];
}

API void weft_poison() { poison = true; }

// ---- memory that others allocate for kernels: tensors -------------------------------------------

API void weft_adopt(void *memory, size_t bytes) {
    if (!memory || !bytes) return;
    Lock guard(memory_mutex);
    allocations[uintptr_t(memory)] = {bytes, Kind::tensor, false, 0, "a tensor", 0, 0};
    freed.erase(uintptr_t(memory));
    generation++;
}
API void weft_disown(void *memory) {
    Lock guard(memory_mutex);
    if (allocations.erase(uintptr_t(memory))) generation++;
}

API int weft_holds(uint64_t address) {
    uintptr_t start;
    Allocation found;
    return find(reinterpret_cast<void *>(address), &start, &found);
}

// ---- for the simulator: the memory that a kernel may touch --------------------------------------

// True if another process, or another address, may have the same memory: a copy of this process
// does not have a copy of it.
API int weft_shares() { return shares; }
// The reason why a kernel may not access an address that was reserved; null for another address.
API const char *weft_explain(uint64_t address) {
    return explain_reserved ? explain_reserved(address) : nullptr;
}

API uint64_t weft_generation() { return generation; }
API size_t weft_allocations(uint64_t *out, size_t room) {
    Lock guard(memory_mutex);
    size_t count = 0;
    for (auto &row : allocations) {
        if (count < room) {
            out[3 * count] = row.key;
            out[3 * count + 1] = row.value.size;
            out[3 * count + 2] = uint64_t(row.value.kind) | row.value.flags & READ_ONLY;
        }
        count++;
    }
    return count;
}

// Memory of the device that is still allocated: address, size, order, and what allocated it. After
// a kernel that died nothing can be freed, so then there is none.
API size_t weft_unfreed(uint64_t *out, const char **calls, size_t room) {
    if (dead()) return 0;
    Lock guard(memory_mutex);
    size_t count = 0;
    for (auto &row : allocations) {
        auto &allocation = row.value;
        if (!allocation.owned || allocation.kind == Kind::host) continue;
        if (allocation.call == GRAPH_MEMORY) continue;
        if (count < room) {
            out[3 * count] = row.key;
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
    *pitch = rounded(width, ALIGN);
    return allocate("cudaMallocPitch", out, *pitch * height, Kind::device);
}
API cudaError_t cudaMalloc3D(cudaPitchedPtr *out, cudaExtent extent) {
    size_t pitch = rounded(extent.width, ALIGN);
    void *memory;
    auto error =
        allocate("cudaMalloc3D", &memory, pitch * extent.height * extent.depth, Kind::device);
    *out = {memory, pitch, extent.width, extent.height};
    return error;
}
API cudaError_t cudaFree(void *memory) { return release("cudaFree", memory, false); }
API cudaError_t cudaFreeHost(void *memory) { return release("cudaFreeHost", memory, true); }

// ---- memory of the host -------------------------------------------------------------------------

API cudaError_t cudaHostRegister(void *memory, size_t bytes, unsigned flags) {
    WORKING;
    Lock guard(memory_mutex);
    if (!memory || !bytes) return failed(cudaErrorInvalidValue);
    if (allocations.find(memory)) return failed(cudaErrorHostMemoryAlreadyRegistered);
    int device = current_device();
    allocations[memory] = {bytes, Kind::host, false, flags, "cudaHostRegister", 0, device};
    generation++;
    return cudaSuccess;
}
API cudaError_t cudaHostUnregister(void *memory) {
    WORKING;
    Lock guard(memory_mutex);
    auto *found = allocations.find(memory);
    if (!found || found->owned) return failed(cudaErrorHostMemoryNotRegistered);
    allocations.erase(memory);
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
    Lock guard(memory_mutex);
    *total = size_t(model.memory);
    *free_bytes = *total - used[current_device()];
    return cudaSuccess;
}
API cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *out, const void *address) {
    static const cudaMemoryType types[] = {cudaMemoryTypeDevice, cudaMemoryTypeHost,
                                           cudaMemoryTypeManaged, cudaMemoryTypeDevice};
    uintptr_t start;
    Allocation found;
    memset(out, 0, sizeof *out);
    if (!find(address, &start, &found)) {
        out->device = -2;
        return cudaSuccess;
    }
    out->type = types[int(found.kind)];
    out->device = found.device;
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
