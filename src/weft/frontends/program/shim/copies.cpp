// Copies and fills: flat, pitched, in three dimensions, and to and from variables.
#include "weft.h"

using namespace weft;

namespace {
// Which side of each kind of copy is the device's; cudaMemcpyDefault goes by the pointers.
struct Sides {
    bool to_device, from_device;
};
const Sides sides[] = {{false, false}, {true, false}, {false, true}, {true, true}};

// A box of bytes in memory whose rows and planes are apart.
struct Box {
    char *start;
    size_t pitch, plane;
};
struct Size {
    size_t width, height, depth;
    bool empty() const { return !width || !height || !depth; }
};

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

void move(const Box &to, const Box &from, const Size &size) {
    for (size_t z = 0; z < size.depth; z++)
        for (size_t y = 0; y < size.height; y++)
            memmove(to.start + z * to.plane + y * to.pitch,
                    from.start + z * from.plane + y * from.pitch, size.width);
}

cudaError_t copy(const char *call, Box to, Box from, Size size, cudaMemcpyKind kind,
                 cudaStream_t stream) {
    WORKING;
    if (size.empty()) return cudaSuccess;
    if (size.height > 1 && (to.pitch < size.width || from.pitch < size.width))
        return failed(cudaErrorInvalidPitchValue);
    if (auto error = check(call, to, from, size, kind)) return failed(error);
    return failed(submit(stream, cudaGraphNodeTypeMemcpy, [=] {
        move(to, from, size);
        return cudaSuccess;
    }));
}

cudaError_t fill(const char *call, Box to, int value, Size size, cudaStream_t stream) {
    WORKING;
    if (size.empty()) return cudaSuccess;
    uintptr_t start;
    Allocation found;
    bool host = find(to.start, &start, &found) &&
                found.kind == Kind::host;  // pinned memory may be filled, too
    if (auto error = check_range(call, to.start, span(to, size), !host)) return failed(error);
    return failed(submit(stream, cudaGraphNodeTypeMemset, [=] {
        for (size_t z = 0; z < size.depth; z++)
            for (size_t y = 0; y < size.height; y++)
                memset(to.start + z * to.plane + y * to.pitch, value, size.width);
        return cudaSuccess;
    }));
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
    return copy("cudaMemcpy", flat(to), flat(from), line(bytes), kind, nullptr);
}
API cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                                cudaStream_t stream) {
    return copy("cudaMemcpyAsync", flat(to), flat(from), line(bytes), kind, stream);
}
API cudaError_t cudaMemcpyPeer(void *to, int, const void *from, int, size_t bytes) {
    return copy("cudaMemcpyPeer", flat(to), flat(from), line(bytes), cudaMemcpyDeviceToDevice,
                nullptr);
}
API cudaError_t cudaMemcpyPeerAsync(void *to, int, const void *from, int, size_t bytes,
                                    cudaStream_t stream) {
    return copy("cudaMemcpyPeerAsync", flat(to), flat(from), line(bytes), cudaMemcpyDeviceToDevice,
                stream);
}
API cudaError_t cudaMemset(void *to, int value, size_t bytes) {
    return fill("cudaMemset", flat(to), value, line(bytes), nullptr);
}
API cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream) {
    return fill("cudaMemsetAsync", flat(to), value, line(bytes), stream);
}

// ---- in two and three dimensions ----------------------------------------------------------------

API cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                                  size_t width, size_t height, cudaMemcpyKind kind,
                                  cudaStream_t stream) {
    return copy("cudaMemcpy2D", pitched(to, to_pitch), pitched(from, from_pitch),
                {width, height, 1}, kind, stream);
}
API cudaError_t cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                             size_t width, size_t height, cudaMemcpyKind kind) {
    return cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, width, height, kind, nullptr);
}
API cudaError_t cudaMemset2DAsync(void *to, size_t pitch, int value, size_t width, size_t height,
                                  cudaStream_t stream) {
    return fill("cudaMemset2D", pitched(to, pitch), value, {width, height, 1}, stream);
}
API cudaError_t cudaMemset2D(void *to, size_t pitch, int value, size_t width, size_t height) {
    return cudaMemset2DAsync(to, pitch, value, width, height, nullptr);
}
API cudaError_t cudaMemset3DAsync(cudaPitchedPtr to, int value, cudaExtent extent,
                                  cudaStream_t stream) {
    return fill("cudaMemset3D", boxed(to, {0, 0, 0}), value, of(extent), stream);
}
API cudaError_t cudaMemset3D(cudaPitchedPtr to, int value, cudaExtent extent) {
    return cudaMemset3DAsync(to, value, extent, nullptr);
}
API cudaError_t cudaMemcpy3DAsync(const cudaMemcpy3DParms *p, cudaStream_t stream) {
    if (p->srcArray || p->dstArray) {
        say("cudaMemcpy3D: arrays of textures are not served");
        return failed(cudaErrorNotSupported);
    }
    return copy("cudaMemcpy3D", boxed(p->dstPtr, p->dstPos), boxed(p->srcPtr, p->srcPos),
                of(p->extent), p->kind, stream);
}
API cudaError_t cudaMemcpy3D(const cudaMemcpy3DParms *p) { return cudaMemcpy3DAsync(p, nullptr); }

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

API cudaError_t cudaMemcpyToSymbolAsync(const void *symbol, const void *from, size_t bytes,
                                        size_t offset, cudaMemcpyKind, cudaStream_t stream) {
    WORKING;
    cudaError_t error;
    char *to = symbol_at(symbol, offset, bytes, &error);
    if (error) return failed(error);
    return failed(submit(stream, cudaGraphNodeTypeMemcpy, [=] {
        memmove(to, from, bytes);
        return cudaSuccess;
    }));
}
API cudaError_t cudaMemcpyToSymbol(const void *symbol, const void *from, size_t bytes,
                                   size_t offset, cudaMemcpyKind kind) {
    return cudaMemcpyToSymbolAsync(symbol, from, bytes, offset, kind, nullptr);
}
API cudaError_t cudaMemcpyFromSymbolAsync(void *to, const void *symbol, size_t bytes, size_t offset,
                                          cudaMemcpyKind, cudaStream_t stream) {
    WORKING;
    cudaError_t error;
    char *from = symbol_at(symbol, offset, bytes, &error);
    if (error) return failed(error);
    return failed(submit(stream, cudaGraphNodeTypeMemcpy, [=] {
        memmove(to, from, bytes);
        return cudaSuccess;
    }));
}
API cudaError_t cudaMemcpyFromSymbol(void *to, const void *symbol, size_t bytes, size_t offset,
                                     cudaMemcpyKind kind) {
    return cudaMemcpyFromSymbolAsync(to, symbol, bytes, offset, kind, nullptr);
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
