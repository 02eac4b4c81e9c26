// Virtual memory management: ranges of addresses, physical memory, and mappings between them.
// Physical memory is a file, so that it can be mapped several times, and by other processes. Only
// what cuMemSetAccess has opened can be accessed.
#include "../standard.h"
#include "../weft.h"

#include <cuda.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace weft;

namespace {
constexpr size_t GRANULARITY = 2 << 20;

struct Physical {
    int file;
    size_t bytes;
    CUmemAllocationProp about;
    Physical(int file, size_t bytes, const CUmemAllocationProp &about)
        : file(file), bytes(bytes), about(about) {
        charge(about.location.id, int64_t(bytes));
    }
    ~Physical() {
        charge(about.location.id, -int64_t(bytes));
        close(file);
    }
};
using PhysicalPtr = std::shared_ptr<Physical>;
struct Mapping {
    size_t bytes;
    PhysicalPtr memory;
    int access;  // CUmemAccess_flags of the device
};
struct Range {
    size_t bytes;
    std::map<uintptr_t, Mapping> mappings;
    std::vector<uintptr_t> entered;  // runs of mappings that can be accessed
};
std::recursive_mutex virtual_mutex;
std::map<uintptr_t, Range> ranges;
std::map<CUmemGenericAllocationHandle, PhysicalPtr> physical;

bool aligned(size_t number) { return number % GRANULARITY == 0; }

// The reserved range that holds these bytes; null for none.
Range *range_of(uintptr_t start, size_t bytes) {
    auto next = ranges.upper_bound(start);
    if (next == ranges.begin()) return nullptr;
    auto &[first, range] = *std::prev(next);
    return start + bytes <= first + range.bytes ? &range : nullptr;
}

// The mappings that make up a span without a gap; none when they do not.
std::vector<std::map<uintptr_t, Mapping>::iterator> within(Range &range, uintptr_t start,
                                                           size_t bytes) {
    std::vector<std::map<uintptr_t, Mapping>::iterator> out;
    auto end = start + bytes;
    for (auto at = range.mappings.find(start); start < end; at++) {
        if (at == range.mappings.end() || at->first != start) return {};
        start += at->second.bytes;
        out.push_back(at);
    }
    return start == end ? out : decltype(out)();
}

const char *reserved_reason(uintptr_t address) {
    std::lock_guard guard(virtual_mutex);
    auto *range = range_of(address, 1);
    if (!range) return nullptr;
    for (auto &[start, mapping] : range->mappings)
        if (address >= start && address < start + mapping.bytes)
            return mapping.access
                       ? "may only be read: cuMemSetAccess gives access to write too"
                       : "is mapped, but may not be accessed: cuMemSetAccess gives access";
    return "is reserved, but no memory is mapped there: cuMemMap maps some";
}

// Tells the rest of the library what can be accessed: runs of mappings, so that a copy may cover
// several.
void enter_runs(Range &range) {
    Allocation gone;
    for (auto start : range.entered) leave("cuMemUnmap", start, &gone);
    range.entered.clear();
    for (auto at = range.mappings.begin(); at != range.mappings.end();) {
        auto start = at->first, end = start;
        auto &first = at->second;
        for (; at != range.mappings.end() && at->first == end && at->second.access == first.access;
             at++)
            end += at->second.bytes;
        if (!first.access) continue;
        unsigned flags = first.access == CU_MEM_ACCESS_FLAGS_PROT_READ ? READ_ONLY : 0;
        int device = first.memory->about.location.id;
        enter(start, {end - start, Kind::device, false, flags, "cuMemMap", 0, device});
        range.entered.push_back(start);
    }
}

CUresult made_physical(CUmemGenericAllocationHandle *out, int file, size_t bytes,
                       const CUmemAllocationProp &about) {
    std::lock_guard guard(virtual_mutex);
    auto memory = std::make_shared<Physical>(file, bytes, about);
    *out = reinterpret_cast<CUmemGenericAllocationHandle>(memory.get());
    physical[*out] = memory;
    return CUDA_SUCCESS;
}
}  // namespace

// ---- addresses ----------------------------------------------------------------------------------

API CUresult cuMemGetAllocationGranularity(size_t *out, const CUmemAllocationProp *about,
                                           CUmemAllocationGranularity_flags) {
    if (!out || !about) return CUDA_ERROR_INVALID_VALUE;
    *out = GRANULARITY;
    return CUDA_SUCCESS;
}
API CUresult cuMemAddressReserve(CUdeviceptr *out, size_t bytes, size_t alignment,
                                 CUdeviceptr wanted, unsigned long long) {
    bool power = (alignment & (alignment - 1)) == 0;
    if (!out || !bytes || !aligned(bytes) || !power) return CUDA_ERROR_INVALID_VALUE;
    alignment = std::max(alignment, GRANULARITY);
    auto *taken = static_cast<char *>(mmap(reinterpret_cast<void *>(wanted), bytes + alignment,
                                           PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                                           -1, 0));
    if (taken == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
    auto start = (uintptr_t(taken) + alignment - 1) / alignment * alignment;
    size_t before = start - uintptr_t(taken);
    if (before) munmap(taken, before);
    if (alignment - before) munmap(reinterpret_cast<char *>(start) + bytes, alignment - before);
    std::lock_guard guard(virtual_mutex);
    ranges[start].bytes = bytes;
    explain_reserved = reserved_reason;
    *out = start;
    return CUDA_SUCCESS;
}
API CUresult cuMemAddressFree(CUdeviceptr start, size_t bytes) {
    std::lock_guard guard(virtual_mutex);
    auto found = ranges.find(start);
    if (found == ranges.end() || found->second.bytes != bytes || !found->second.mappings.empty())
        return CUDA_ERROR_INVALID_VALUE;
    munmap(reinterpret_cast<void *>(start), bytes);
    ranges.erase(found);
    return CUDA_SUCCESS;
}

// ---- memory -------------------------------------------------------------------------------------

API CUresult cuMemCreate(CUmemGenericAllocationHandle *out, size_t bytes,
                         const CUmemAllocationProp *about, unsigned long long) {
    if (auto error = broken()) return static_cast<CUresult>(error);
    if (!out || !about || !bytes || !aligned(bytes) ||
        about->type != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    if (about->requestedHandleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_NOT_SUPPORTED;
    int count = 0;
    cudaGetDeviceCount(&count);
    if (about->location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
        (about->location.id < 0 || about->location.id >= count))
        return CUDA_ERROR_INVALID_DEVICE;
    if (bytes > size_t(model.memory) - device_memory_used()) return CUDA_ERROR_OUT_OF_MEMORY;
    int file = memfd_create("weft physical memory", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
    return made_physical(out, file, bytes, *about);
}
// Mappings keep the memory alive.
API CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
    std::lock_guard guard(virtual_mutex);
    return physical.erase(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
API CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *out, void *address) {
    std::lock_guard guard(virtual_mutex);
    auto *range = range_of(uintptr_t(address), 1);
    if (!range || !out) return CUDA_ERROR_INVALID_VALUE;
    for (auto &[start, mapping] : range->mappings)
        if (uintptr_t(address) >= start && uintptr_t(address) < start + mapping.bytes) {
            *out = reinterpret_cast<CUmemGenericAllocationHandle>(mapping.memory.get());
            physical[*out] = mapping.memory;
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_INVALID_VALUE;
}
API CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *out,
                                                    CUmemGenericAllocationHandle handle) {
    std::lock_guard guard(virtual_mutex);
    auto found = physical.find(handle);
    if (found == physical.end() || !out) return CUDA_ERROR_INVALID_VALUE;
    *out = found->second->about;
    return CUDA_SUCCESS;
}
API CUresult cuMemExportToShareableHandle(void *out, CUmemGenericAllocationHandle handle,
                                          CUmemAllocationHandleType type, unsigned long long) {
    std::lock_guard guard(virtual_mutex);
    auto found = physical.find(handle);
    if (!out || found == physical.end() || !(found->second->about.requestedHandleTypes & type))
        return CUDA_ERROR_INVALID_VALUE;
    *static_cast<int *>(out) = dup(found->second->file);
    return CUDA_SUCCESS;
}
API CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *out, void *given,
                                            CUmemAllocationHandleType type) {
    struct stat about;
    int file = int(uintptr_t(given));
    if (!out || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || fstat(file, &about) ||
        !about.st_size || !aligned(about.st_size))
        return CUDA_ERROR_INVALID_VALUE;
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.requestedHandleTypes = type;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, current_device()};
    return made_physical(out, dup(file), about.st_size, properties);
}

// ---- mappings -----------------------------------------------------------------------------------

API CUresult cuMemMap(CUdeviceptr start, size_t bytes, size_t offset,
                      CUmemGenericAllocationHandle handle, unsigned long long) {
    if (auto error = broken()) return static_cast<CUresult>(error);
    std::lock_guard guard(virtual_mutex);
    auto *range = range_of(start, bytes);
    auto found = physical.find(handle);
    if (!range || found == physical.end() || !bytes || !aligned(start) || !aligned(bytes) ||
        !aligned(offset) || offset + bytes > found->second->bytes)
        return CUDA_ERROR_INVALID_VALUE;
    auto next = range->mappings.lower_bound(start);
    bool taken = next != range->mappings.end() && next->first < start + bytes;
    if (next != range->mappings.begin()) {
        auto before = std::prev(next);
        taken |= before->first + before->second.bytes > start;
    }
    if (taken) return CUDA_ERROR_INVALID_VALUE;
    auto *at = reinterpret_cast<void *>(start);
    if (!map_file(at, found->second->file, bytes, offset)) return CUDA_ERROR_OUT_OF_MEMORY;
    mprotect(at, bytes, PROT_NONE);
    range->mappings[start] = {bytes, found->second, CU_MEM_ACCESS_FLAGS_PROT_NONE};
    return CUDA_SUCCESS;
}
API CUresult cuMemUnmap(CUdeviceptr start, size_t bytes) {
    wait_for_all();
    std::lock_guard guard(virtual_mutex);
    auto *range = range_of(start, bytes);
    auto mappings = range ? within(*range, start, bytes) : decltype(within(*range, 0, 0))();
    if (mappings.empty()) return CUDA_ERROR_INVALID_VALUE;
    for (auto &mapping : mappings) range->mappings.erase(mapping);
    enter_runs(*range);
    mmap(reinterpret_cast<void *>(start), bytes, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    return CUDA_SUCCESS;
}
// All GPUs share their memory: what one of them may access, all may.
API CUresult cuMemSetAccess(CUdeviceptr start, size_t bytes, const CUmemAccessDesc *wanted,
                            size_t count) {
    wait_for_all();
    std::lock_guard guard(virtual_mutex);
    auto *range = range_of(start, bytes);
    auto mappings = range ? within(*range, start, bytes) : decltype(within(*range, 0, 0))();
    if (mappings.empty() || !wanted || !count) return CUDA_ERROR_INVALID_VALUE;
    int access = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    for (size_t i = 0; i < count; i++) access = std::max(access, int(wanted[i].flags));
    for (auto &mapping : mappings) mapping->second.access = access;
    // The simulator refuses stores to what may only be read.
    mprotect(reinterpret_cast<void *>(start), bytes, access ? PROT_READ | PROT_WRITE : PROT_NONE);
    enter_runs(*range);
    return CUDA_SUCCESS;
}
API CUresult cuMemGetAccess(unsigned long long *out, const CUmemLocation *at, CUdeviceptr address) {
    std::lock_guard guard(virtual_mutex);
    auto *range = range_of(address, 1);
    if (!out || !at || !range) return CUDA_ERROR_INVALID_VALUE;
    for (auto &[start, mapping] : range->mappings)
        if (address >= start && address < start + mapping.bytes) {
            *out = mapping.access;
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_INVALID_VALUE;
}
