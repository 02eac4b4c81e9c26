// Memory and events that processes share. The memory is a file of the process that allocated it,
// and others open the file by its process and its descriptor: a handle is these two and a size. It
// is valid as long as its process and the memory live.
#include "../weft.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <new>

#include "../pools.h"
#include "../streams.h"

using namespace weft;

namespace {
constexpr uint64_t MEMORY = 0x776566744d656d31, EVENT = 0x7765667445766e31,
                   POOL = 0x77656674506f6f31;

// The contents of a handle; the rest of its bytes are zero.
struct Handle {
    uint64_t kind = 0;
    int process = 0, file = -1;
    uint64_t bytes = 0, pool = 0;
};
template <class H>
void write(H *to, Handle handle) {
    static_assert(sizeof *to >= sizeof handle, "a handle has room for it");
    memset(to, 0, sizeof *to);
    memcpy(to, &handle, sizeof handle);
}
template <class H>
Handle read(const H &from) {
    Handle out;
    memcpy(&out, &from, sizeof out);
    return out;
}
// The file of a handle, opened by this process; -1 when it or its process is gone.
int opened(const Handle &handle) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", handle.process, handle.file);
    return open(path, O_RDWR | O_CLOEXEC);
}

// A page that processes map: how often the event was recorded, and the last record that was
// reached.
struct Page {
    std::atomic<uint32_t> recorded, done;
};
class SharedPage : public Interprocess {
  public:
    SharedPage(int file, Page *page) : file(file), page(page) {}
    ~SharedPage() override {
        munmap(page, sizeof *page);
        close(file);
    }
    uint32_t record() override { return ++page->recorded; }
    uint32_t last() const override { return page->recorded; }
    bool reached(uint32_t number) const override { return int32_t(page->done - number) >= 0; }
    void reach(uint32_t number) override {
        for (uint32_t done = page->done; int32_t(number - done) > 0;)
            if (page->done.compare_exchange_weak(done, number)) break;
        futex(FUTEX_WAKE, INT32_MAX);
    }
    void wait(uint32_t number) override {
        for (uint32_t done; int32_t((done = page->done) - number) < 0;) futex(FUTEX_WAIT, done);
    }
    const int file;

  private:
    void futex(int operation, uint32_t value) {
        syscall(SYS_futex, &page->done, operation, value, nullptr, nullptr, 0);
    }
    Page *page;
};
SharedPage *mapped_page(int file) {
    void *page = mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    return page == MAP_FAILED ? nullptr : new SharedPage(file, static_cast<Page *>(page));
}

int small_file(const char *name, size_t bytes) {
    int file = memfd_create(name, MFD_CLOEXEC);
    return file >= 0 && !ftruncate(file, bytes) ? file : -1;
}
}  // namespace

// ---- memory -------------------------------------------------------------------------------------

API cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *out, void *memory) {
    WORKING;
    uintptr_t start;
    Allocation found;
    int file = out ? shared_file(memory, &start, &found) : -1;
    if (file < 0) return failed(cudaErrorInvalidValue);
    write(out, {MEMORY, getpid(), file, found.size});
    return cudaSuccess;
}
// A process cannot open its own memory, as on a GPU.
API cudaError_t cudaIpcOpenMemHandle(void **out, cudaIpcMemHandle_t given, unsigned flags) {
    WORKING;
    auto handle = read(given);
    if (!out || handle.kind != MEMORY || flags != cudaIpcMemLazyEnablePeerAccess)
        return failed(cudaErrorInvalidValue);
    if (handle.process == getpid()) return failed(cudaErrorDeviceUninitialized);
    int file = opened(handle);
    if (file < 0) return failed(cudaErrorInvalidResourceHandle);
    *out = open_file("cudaIpcOpenMemHandle", file, handle.bytes, false);
    close(file);
    return *out ? cudaSuccess : failed(cudaErrorMapBufferObjectFailed);
}
API cudaError_t cudaIpcCloseMemHandle(void *memory) {
    WORKING;
    return close_file(memory);
}

// ---- events -------------------------------------------------------------------------------------

API cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t *out, cudaEvent_t event) {
    WORKING;
    auto *found = known(event);
    if (!found || !out) return failed(cudaErrorInvalidResourceHandle);
    if (!found->interprocess) return failed(cudaErrorInvalidValue);
    if (!found->between) {
        int file = small_file("weft event", sizeof(Page));
        auto *page = file < 0 ? nullptr : mapped_page(file);
        if (!page) return failed(cudaErrorMemoryAllocation);
        found->between = page;
    }
    write(out, {EVENT, getpid(), static_cast<SharedPage *>(found->between.get())->file});
    return cudaSuccess;
}
API cudaError_t cudaIpcOpenEventHandle(cudaEvent_t *out, cudaIpcEventHandle_t given) {
    WORKING;
    auto handle = read(given);
    if (!out || handle.kind != EVENT) return failed(cudaErrorInvalidValue);
    int file = opened(handle);
    auto *page = file < 0 ? nullptr : mapped_page(file);
    if (!page) return failed(cudaErrorInvalidResourceHandle);
    auto error = cudaEventCreateWithFlags(out, cudaEventDisableTiming | cudaEventInterprocess);
    if (error) return error;
    known(*out)->between = page;
    return cudaSuccess;
}

// ---- pools: a file that names the pool, and a handle for each allocation ------------------------

API cudaError_t cudaMemPoolExportToShareableHandle(void *out, cudaMemPool_t pool,
                                                   cudaMemAllocationHandleType type, unsigned) {
    WORKING;
    auto *found = known_pool(pool);
    bool exportable = found && !found->imported && (found->about.handleTypes & type);
    if (!out || type != cudaMemHandleTypePosixFileDescriptor || !exportable)
        return failed(cudaErrorInvalidValue);
    static std::atomic<uint64_t> exported{0};
    if (!found->exported) found->exported = uint64_t(getpid()) << 32 | ++exported;
    Handle handle{POOL, getpid(), -1, 0, found->exported};
    int file = small_file("weft pool", sizeof handle);
    if (file < 0 || pwrite(file, &handle, sizeof handle, 0) != sizeof handle)
        return failed(cudaErrorMemoryAllocation);
    *static_cast<int *>(out) = file;
    return cudaSuccess;
}
API cudaError_t cudaMemPoolImportFromShareableHandle(cudaMemPool_t *out, void *file,
                                                     cudaMemAllocationHandleType type, unsigned) {
    WORKING;
    Handle handle;
    if (!out || type != cudaMemHandleTypePosixFileDescriptor ||
        pread(int(uintptr_t(file)), &handle, sizeof handle, 0) != sizeof handle ||
        handle.kind != POOL)
        return failed(cudaErrorInvalidValue);
    cudaMemPoolProps about{};
    about.allocType = cudaMemAllocationTypePinned;
    about.handleTypes = type;
    about.location = {cudaMemLocationTypeDevice, current_device()};
    auto *pool = new_pool(about);
    pool->exported = handle.pool, pool->imported = true;
    *out = cudaMemPool_t(pool);
    return cudaSuccess;
}
API cudaError_t cudaMemPoolExportPointer(cudaMemPoolPtrExportData *out, void *memory) {
    WORKING;
    uintptr_t start;
    Allocation found;
    int file = out ? shared_file(memory, &start, &found) : -1;
    if (file < 0 || !found.pool || !found.pool->exported) return failed(cudaErrorInvalidValue);
    write(out, {MEMORY, getpid(), file, found.size, found.pool->exported});
    return cudaSuccess;
}
API cudaError_t cudaMemPoolImportPointer(void **out, cudaMemPool_t pool,
                                         cudaMemPoolPtrExportData *given) {
    WORKING;
    auto *found = known_pool(pool);
    auto handle = given ? read(*given) : Handle();
    if (!out || !found || !found->imported || handle.kind != MEMORY ||
        handle.pool != found->exported)
        return failed(cudaErrorInvalidValue);
    int file = opened(handle);
    if (file < 0) return failed(cudaErrorInvalidResourceHandle);
    *out = open_file("cudaMemPoolImportPointer", file, handle.bytes, true);
    close(file);
    return *out ? cudaSuccess : failed(cudaErrorMapBufferObjectFailed);
}
