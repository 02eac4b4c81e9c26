// Copies and fills: flat, pitched, in three dimensions, and to and from variables.
#include <fcntl.h>
#include <unistd.h>

#include "streams.h"
#include "watch.h"

using namespace weft;

namespace {
// The sides of each kind of copy that are the device's; cudaMemcpyDefault goes by the pointers.
struct Sides {
    bool to_device, from_device;
};
const Sides sides[] = {{false, false}, {true, false}, {false, true}, {true, true}};

// The host waits for the copy, or goes on before it is done where that is possible.
enum class Host { waits, goes_on };

size_t span(const Box &box, const Size &size) {
    return (size.depth - 1) * box.plane + (size.height - 1) * box.pitch + size.width;
}

bool on_device(const void *address) {
    uintptr_t start;
    Allocation found;
    uint64_t room;
    if (find(address, &start, &found)) return found.kind == Kind::device;
    return ops.variable_at(address, &room) != 0;
}

cudaError_t check(const char *call, const Box &to, const Box &from, const Size &size,
                  cudaMemcpyKind kind) {
    if (unsigned(kind) > cudaMemcpyDefault) return cudaErrorInvalidMemcpyDirection;
    Sides side =
        kind == cudaMemcpyDefault ? Sides{on_device(to.start), on_device(from.start)} : sides[kind];
    if (auto error = check_range(call, to.start, span(to, size), side.to_device)) return error;
    return check_range(call, from.start, span(from, size), side.from_device);
}

// Memory that the GPU cannot reach: a copy to it is done when the call returns.
bool is_pageable(const void *address) {
    uintptr_t start;
    Allocation found;
    uint64_t room;
    return !find(address, &start, &found) && !ops.variable_at(address, &room);
}

// Ends a call; the host has waited for the stream where CUDA says so.
cudaError_t done(cudaError_t error, cudaStream_t stream, bool waits) {
    if (waits && !error && !capturing(stream))
        report(ProgramEvent::host_waits_stream, observed(stream));
    return failed(error);
}

void move(const Box &to, const Box &from, const Size &size) {
    for (size_t z = 0; z < size.depth; z++)
        for (size_t y = 0; y < size.height; y++)
            memmove(to.start + z * to.plane + y * to.pitch,
                    from.start + z * from.plane + y * from.pitch, size.width);
}

// The device of an address, for memory of one; otherwise that of this thread.
int device_of(const void *address) {
    uintptr_t start;
    Allocation found;
    bool of_device = find(address, &start, &found) && found.kind == Kind::device;
    return of_device ? found.device : current_device();
}
// A call that waits is ordered with the default streams of all devices whose memory it touches.
void join_devices(const void *to, const void *from) {
    int first = device_of(to), second = device_of(from);
    if (first != current_device()) join_default_streams(first);
    if (second != current_device() && second != first) join_default_streams(second);
}

cudaError_t copy(const char *call, Box to, Box from, Size size, cudaMemcpyKind kind,
                 cudaStream_t stream, Host host) {
    WORKING;
    if (size.empty()) return cudaSuccess;
    if (size.height > 1 && (to.pitch < size.width || from.pitch < size.width))
        return failed(cudaErrorInvalidPitchValue);
    if (auto error = check(call, to, from, size, kind)) return failed(error);
    bool to_host = !on_device(to.start);
    bool waits = host == Host::waits ? to_host || !on_device(from.start) : is_pageable(to.start);
    if (host == Host::waits) join_devices(to.start, from.start);
    auto error = submit(stream, cudaGraphNodeTypeMemcpy, [=] {
        Copy copy{call, to, from, size, to_host};
        if (hooks) hooks->copied(&copy);
        move(to, from, size);
        return cudaSuccess;
    }, waits || is_pageable(from.start));  // the program may change what was not copied yet
    if (host == Host::waits) join_devices(to.start, from.start);
    return done(error, stream, waits);
}

// Whether memory is pages of cudaMalloc, which hold zeros until they are touched.
bool is_fresh(const char *address) {
    uintptr_t start;
    Allocation found;
    return find(address, &start, &found) && found.file < 0 && !strcmp(found.call, "cudaMalloc");
}

// Clears the pages that were touched. Programs that time kernels clear a buffer of the size of the
// L2 cache before each launch, and never read it.
void clear(char *start, size_t bytes) {
    constexpr size_t MANY = 512;
    static const size_t PAGE = sysconf(_SC_PAGESIZE);  // the map has a word for each of the host's
    static const int map = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    char *end = start + bytes, *page = start + (-uintptr_t(start) & (PAGE - 1));
    if (map < 0 || bytes < MANY * PAGE) page = end;
    memset(start, 0, page - start);
    uint64_t pages[MANY];  // the upper bits: present, swapped out
    while (size_t(end - page) >= PAGE) {
        size_t count = (end - page) / PAGE;
        count = count < MANY ? count : MANY;
        auto bytes_read = pread(map, pages, count * 8, uintptr_t(page) / PAGE * 8);
        bool is_read = bytes_read == ssize_t(count * 8);
        for (size_t i = 0; i < count; i++, page += PAGE)
            if (!is_read || pages[i] >> 62) memset(page, 0, PAGE);
    }
    memset(page, 0, end - page);
}

cudaError_t fill(const char *call, Box to, int value, Size size, cudaStream_t stream, Host host) {
    WORKING;
    if (size.empty()) return cudaSuccess;
    uintptr_t start;
    Allocation found;
    bool pinned = find(to.start, &start, &found) &&
                  found.kind == Kind::host;  // pinned memory may be filled, too
    if (auto error = check_range(call, to.start, span(to, size), !pinned)) return failed(error);
    bool waits = host == Host::waits && !on_device(to.start);
    auto error = submit(stream, cudaGraphNodeTypeMemset, [=] {
        Copy copy{call, to, {}, size, false};
        if (hooks) hooks->copied(&copy);
        if (!value && size.height == 1 && size.depth == 1 && is_fresh(to.start)) {
            clear(to.start, size.width);
            return cudaSuccess;
        }
        for (size_t z = 0; z < size.depth; z++)
            for (size_t y = 0; y < size.height; y++)
                memset(to.start + z * to.plane + y * to.pitch, value, size.width);
        return cudaSuccess;
    }, waits);
    return done(error, stream, waits);
}

Box flat(const void *start) { return {static_cast<char *>(const_cast<void *>(start)), 0, 0}; }
Box pitched(const void *start, size_t pitch) {
    return {static_cast<char *>(const_cast<void *>(start)), pitch, 0};
}
Box boxed(const cudaPitchedPtr &p, const cudaPos &at) {
    size_t plane = p.pitch * p.ysize;
    return {static_cast<char *>(p.ptr) + at.z * plane + at.y * p.pitch + at.x, p.pitch, plane};
}
Size line(size_t bytes) { return {bytes, 1, 1}; }
Size of(const cudaExtent &extent) { return {extent.width, extent.height, extent.depth}; }
}  // namespace

// ---- flat ---------------------------------------------------------------------------------------

API cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind) {
    return copy("cudaMemcpy", flat(to), flat(from), line(bytes), kind, nullptr, Host::waits);
}
API cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                                cudaStream_t stream) {
    return copy("cudaMemcpyAsync", flat(to), flat(from), line(bytes), kind, stream, Host::goes_on);
}
#if CUDART_VERSION >= 13000
// The attributes are hints.
API cudaError_t cudaMemcpyBatchAsync(void *const *to, const void *const *from, const size_t *bytes,
                                     size_t count, cudaMemcpyAttributes *, size_t *, size_t,
                                     cudaStream_t stream) {
    for (size_t i = 0; i < count; i++)
        if (auto error = cudaMemcpyAsync(to[i], from[i], bytes[i], cudaMemcpyDefault, stream))
            return error;
    return cudaSuccess;
}
#endif
static cudaError_t valid_devices(int one, int two) {
    int count = 0;
    cudaGetDeviceCount(&count);
    bool valid = one >= 0 && one < count && two >= 0 && two < count;
    return valid ? cudaSuccess : cudaErrorInvalidDevice;
}
API cudaError_t cudaMemcpyPeer(void *to, int to_device, const void *from, int from_device,
                               size_t bytes) {
    if (auto error = valid_devices(to_device, from_device)) return failed(error);
    return copy("cudaMemcpyPeer", flat(to), flat(from), line(bytes), cudaMemcpyDeviceToDevice,
                nullptr, Host::waits);
}
API cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device,
                                    size_t bytes, cudaStream_t stream) {
    if (auto error = valid_devices(to_device, from_device)) return failed(error);
    return copy("cudaMemcpyPeerAsync", flat(to), flat(from), line(bytes), cudaMemcpyDeviceToDevice,
                stream, Host::goes_on);
}
API cudaError_t cudaMemset(void *to, int value, size_t bytes) {
    return fill("cudaMemset", flat(to), value, line(bytes), nullptr, Host::waits);
}
API cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream) {
    return fill("cudaMemsetAsync", flat(to), value, line(bytes), stream, Host::goes_on);
}

// ---- in two and three dimensions ----------------------------------------------------------------

static cudaError_t copy_2d(const char *call, void *to, size_t to_pitch, const void *from,
                           size_t from_pitch, size_t width, size_t height, cudaMemcpyKind kind,
                           cudaStream_t stream, Host host) {
    return copy(call, pitched(to, to_pitch), pitched(from, from_pitch), {width, height, 1}, kind,
                stream, host);
}
API cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                                  size_t width, size_t height, cudaMemcpyKind kind,
                                  cudaStream_t stream) {
    return copy_2d("cudaMemcpy2DAsync", to, to_pitch, from, from_pitch, width, height, kind, stream,
                   Host::goes_on);
}
API cudaError_t cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                             size_t width, size_t height, cudaMemcpyKind kind) {
    return copy_2d("cudaMemcpy2D", to, to_pitch, from, from_pitch, width, height, kind, nullptr,
                   Host::waits);
}
API cudaError_t cudaMemset2DAsync(void *to, size_t pitch, int value, size_t width, size_t height,
                                  cudaStream_t stream) {
    return fill("cudaMemset2DAsync", pitched(to, pitch), value, {width, height, 1}, stream,
                Host::goes_on);
}
API cudaError_t cudaMemset2D(void *to, size_t pitch, int value, size_t width, size_t height) {
    return fill("cudaMemset2D", pitched(to, pitch), value, {width, height, 1}, nullptr,
                Host::waits);
}
API cudaError_t cudaMemset3DAsync(cudaPitchedPtr to, int value, cudaExtent extent,
                                  cudaStream_t stream) {
    return fill("cudaMemset3DAsync", boxed(to, {0, 0, 0}), value, of(extent), stream,
                Host::goes_on);
}
API cudaError_t cudaMemset3D(cudaPitchedPtr to, int value, cudaExtent extent) {
    return fill("cudaMemset3D", boxed(to, {0, 0, 0}), value, of(extent), nullptr, Host::waits);
}
cudaError_t weft::copy_box(const char *call, Box to, Box from, Size size, cudaMemcpyKind kind,
                           cudaStream_t stream, bool waits) {
    return copy(call, to, from, size, kind, stream, waits ? Host::waits : Host::goes_on);
}

// ---- variables ----------------------------------------------------------------------------------

namespace weft {
char *symbol_at(const void *symbol, size_t offset, size_t bytes, cudaError_t *error) {
    uint64_t size = 0;
    uint64_t start = ops.symbol(symbol, &size);
    *error = !start                  ? cudaErrorInvalidSymbol
             : offset + bytes > size ? cudaErrorInvalidValue
                                     : cudaSuccess;
    if (*error == cudaErrorInvalidValue)
        say("a copy of %zu bytes at byte %zu of a variable of %llu", bytes, offset,
            (unsigned long long)size);
    return reinterpret_cast<char *>(start) + offset;
}
}  // namespace weft

// Copies between a variable and other memory, whose kind is that of its pointer.
static cudaError_t copy_symbol(const char *call, const void *symbol, size_t offset,
                               const void *memory, size_t bytes, bool to_symbol,
                               cudaStream_t stream, Host host) {
    WORKING;
    cudaError_t error;
    char *variable = symbol_at(symbol, offset, bytes, &error);
    if (error) return failed(error);
    Copy copy{call, flat(variable), flat(memory), line(bytes), 0};
    bool from_device = on_device(memory);
    bool waits = host == Host::waits && !from_device;
    if (!to_symbol) {
        std::swap(copy.to, copy.from);
        copy.to_host = !from_device;
        waits |= is_pageable(memory);
    }
    error = submit(stream, cudaGraphNodeTypeMemcpy, [=] {
        if (hooks) hooks->copied(&copy);
        move(copy.to, copy.from, copy.size);
        return cudaSuccess;
    }, waits || is_pageable(memory));
    return done(error, stream, waits);
}
API cudaError_t cudaMemcpyToSymbolAsync(const void *symbol, const void *from, size_t bytes,
                                        size_t offset, cudaMemcpyKind, cudaStream_t stream) {
    return copy_symbol("cudaMemcpyToSymbolAsync", symbol, offset, from, bytes, true, stream,
                       Host::goes_on);
}
API cudaError_t cudaMemcpyToSymbol(const void *symbol, const void *from, size_t bytes,
                                   size_t offset, cudaMemcpyKind) {
    return copy_symbol("cudaMemcpyToSymbol", symbol, offset, from, bytes, true, nullptr,
                       Host::waits);
}
API cudaError_t cudaMemcpyFromSymbolAsync(void *to, const void *symbol, size_t bytes, size_t offset,
                                          cudaMemcpyKind, cudaStream_t stream) {
    return copy_symbol("cudaMemcpyFromSymbolAsync", symbol, offset, to, bytes, false, stream,
                       Host::goes_on);
}
API cudaError_t cudaMemcpyFromSymbol(void *to, const void *symbol, size_t bytes, size_t offset,
                                     cudaMemcpyKind) {
    return copy_symbol("cudaMemcpyFromSymbol", symbol, offset, to, bytes, false, nullptr,
                       Host::waits);
}
API cudaError_t cudaGetSymbolAddress(void **out, const void *symbol) {
    WORKING;
    cudaError_t error;
    *out = symbol_at(symbol, 0, 0, &error);
    return failed(error);
}
API cudaError_t cudaGetSymbolSize(size_t *size, const void *symbol) {
    WORKING;
    uint64_t found = 0;
    if (!ops.symbol(symbol, &found)) return failed(cudaErrorInvalidSymbol);
    *size = found;
    return cudaSuccess;
}
