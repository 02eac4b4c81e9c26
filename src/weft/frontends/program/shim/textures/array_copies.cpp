// Copies to, from and between arrays.
#include "arrays.h"

using namespace weft;

namespace {
// True if a copy stays inside an array; `x` and `width` count bytes.
bool fits(const cudaArray *array, size_t x, size_t y, size_t z, const Size &size) {
    auto &level = array->level;
    return x <= level.pitch && size.width <= level.pitch - x && y <= size_t(level.height) &&
           size.height <= level.height - y && z <= size_t(level.depth) &&
           size.depth <= level.depth - z;
}

Box rows(const void *start, size_t pitch) {
    return {static_cast<char *>(const_cast<void *>(start)), pitch, 0};
}

cudaError_t outside(const char *call, const cudaArray *array, const Size &size) {
    auto &level = array->level;
    say("%s: %zu bytes x %zu x %zu do not fit the array of %zu bytes x %d x %d at this place", call,
        size.width, size.height, size.depth, level.pitch, level.height, level.depth);
    return failed(cudaErrorInvalidValue);
}

cudaError_t to_array(const char *call, cudaArray_t array, size_t x, size_t y, const void *from,
                     size_t pitch, const Size &size, cudaMemcpyKind kind, cudaStream_t stream,
                     bool waits) {
    if (!is_array(array)) return failed(cudaErrorInvalidResourceHandle);
    if (pitch < size.width) return failed(cudaErrorInvalidPitchValue);
    if (!fits(array, x, y, 0, size)) return outside(call, array, size);
    return copy_box(call, box_of(array, x, y, 0), rows(from, pitch), size, kind, stream, waits);
}
cudaError_t from_array(const char *call, void *to, size_t pitch, cudaArray_const_t array, size_t x,
                       size_t y, const Size &size, cudaMemcpyKind kind, cudaStream_t stream,
                       bool waits) {
    if (!is_array(array)) return failed(cudaErrorInvalidResourceHandle);
    if (pitch < size.width) return failed(cudaErrorInvalidPitchValue);
    if (!fits(array, x, y, 0, size)) return outside(call, array, size);
    return copy_box(call, rows(to, pitch), box_of(array, x, y, 0), size, kind, stream, waits);
}

// A run of texels that goes on in the next row, as whole rows and a rest.
template <class Rows>
cudaError_t in_rows(const cudaArray *array, size_t x, size_t y, size_t count, Rows copy) {
    if (!is_array(array)) return failed(cudaErrorInvalidResourceHandle);
    size_t row = array->level.pitch, done = 0;
    while (done < count) {
        size_t width = std::min(count - done, row - x);
        size_t height = x || width < row ? 1 : (count - done) / row;
        if (auto error = copy(done, x, y, Size{width, height, 1})) return error;
        done += width * height, y += height, x = 0;
    }
    return cudaSuccess;
}
}  // namespace

API cudaError_t cudaMemcpy2DToArray(cudaArray_t to, size_t x, size_t y, const void *from,
                                    size_t pitch, size_t width, size_t height,
                                    cudaMemcpyKind kind) {
    return to_array("cudaMemcpy2DToArray", to, x, y, from, pitch, {width, height, 1}, kind, nullptr,
                    true);
}
API cudaError_t cudaMemcpy2DToArrayAsync(cudaArray_t to, size_t x, size_t y, const void *from,
                                         size_t pitch, size_t width, size_t height,
                                         cudaMemcpyKind kind, cudaStream_t stream) {
    return to_array("cudaMemcpy2DToArrayAsync", to, x, y, from, pitch, {width, height, 1}, kind,
                    stream, false);
}
API cudaError_t cudaMemcpy2DFromArray(void *to, size_t pitch, cudaArray_const_t from, size_t x,
                                      size_t y, size_t width, size_t height, cudaMemcpyKind kind) {
    return from_array("cudaMemcpy2DFromArray", to, pitch, from, x, y, {width, height, 1}, kind,
                      nullptr, true);
}
API cudaError_t cudaMemcpy2DFromArrayAsync(void *to, size_t pitch, cudaArray_const_t from, size_t x,
                                           size_t y, size_t width, size_t height,
                                           cudaMemcpyKind kind, cudaStream_t stream) {
    return from_array("cudaMemcpy2DFromArrayAsync", to, pitch, from, x, y, {width, height, 1}, kind,
                      stream, false);
}
API cudaError_t cudaMemcpy2DArrayToArray(cudaArray_t to, size_t to_x, size_t to_y,
                                         cudaArray_const_t from, size_t from_x, size_t from_y,
                                         size_t width, size_t height, cudaMemcpyKind kind) {
    const char *call = "cudaMemcpy2DArrayToArray";
    Size size{width, height, 1};
    if (!is_array(to) || !is_array(from)) return failed(cudaErrorInvalidResourceHandle);
    if (!fits(to, to_x, to_y, 0, size)) return outside(call, to, size);
    if (!fits(from, from_x, from_y, 0, size)) return outside(call, from, size);
    return copy_box(call, box_of(to, to_x, to_y, 0), box_of(from, from_x, from_y, 0), size, kind,
                    nullptr, true);
}

// ---- runs of bytes, deprecated but in use -------------------------------------------------------

API cudaError_t cudaMemcpyToArray(cudaArray_t to, size_t x, size_t y, const void *from,
                                  size_t count, cudaMemcpyKind kind) {
    return in_rows(to, x, y, count, [=](size_t done, size_t at, size_t row, Size size) {
        return to_array("cudaMemcpyToArray", to, at, row, static_cast<const char *>(from) + done,
                        size.width, size, kind, nullptr, true);
    });
}
API cudaError_t cudaMemcpyFromArray(void *to, cudaArray_const_t from, size_t x, size_t y,
                                    size_t count, cudaMemcpyKind kind) {
    return in_rows(from, x, y, count, [=](size_t done, size_t at, size_t row, Size size) {
        return from_array("cudaMemcpyFromArray", static_cast<char *>(to) + done, size.width, from,
                          at, row, size, kind, nullptr, true);
    });
}

// ---- boxes --------------------------------------------------------------------------------------

namespace {
// One side of a 3-D copy: an array, whose positions count texels, or pitched memory.
cudaError_t side(const char *call, const cudaArray *array, const cudaPos &at,
                 const cudaPitchedPtr &memory, const Size &size, Box *out) {
    if (!array) {
        size_t plane = memory.pitch * memory.ysize;
        *out = {static_cast<char *>(memory.ptr) + at.z * plane + at.y * memory.pitch + at.x,
                memory.pitch, plane};
        return cudaSuccess;
    }
    if (!is_array(array)) return failed(cudaErrorInvalidResourceHandle);
    size_t x = at.x * array->format.bytes();
    if (!fits(array, x, at.y, at.z, size)) return outside(call, array, size);
    *out = box_of(array, x, at.y, at.z);
    return cudaSuccess;
}

cudaError_t copy_3d(const char *call, const cudaMemcpy3DParms *p, cudaStream_t stream, bool waits) {
    if (!p) return failed(cudaErrorInvalidValue);
    for (auto *array : {p->srcArray, p->dstArray})
        if (array && !is_array(array)) return failed(cudaErrorInvalidResourceHandle);
    // The extent counts texels as soon as an array takes part.
    auto *array = p->dstArray ? p->dstArray : p->srcArray;
    Size size{p->extent.width * (array ? array->format.bytes() : 1), p->extent.height,
              p->extent.depth};
    Box to, from;
    if (auto error = side(call, p->dstArray, p->dstPos, p->dstPtr, size, &to)) return error;
    if (auto error = side(call, p->srcArray, p->srcPos, p->srcPtr, size, &from)) return error;
    return copy_box(call, to, from, size, p->kind, stream, waits);
}
}  // namespace

API cudaError_t cudaMemcpy3DAsync(const cudaMemcpy3DParms *p, cudaStream_t stream) {
    return copy_3d("cudaMemcpy3DAsync", p, stream, false);
}
API cudaError_t cudaMemcpy3D(const cudaMemcpy3DParms *p) {
    return copy_3d("cudaMemcpy3D", p, nullptr, true);
}

// Between devices, which share an address space: only the numbers of the devices are checked.
static cudaError_t copy_peer(const char *call, const cudaMemcpy3DPeerParms *p, cudaStream_t stream,
                             bool waits) {
    if (!p) return failed(cudaErrorInvalidValue);
    int count = 0;
    cudaGetDeviceCount(&count);
    for (int device : {p->srcDevice, p->dstDevice})
        if (device < 0 || device >= count) return failed(cudaErrorInvalidDevice);
    cudaMemcpy3DParms same{p->srcArray, p->srcPos, p->srcPtr, p->dstArray, p->dstPos,
                           p->dstPtr,   p->extent, cudaMemcpyDeviceToDevice};
    return copy_3d(call, &same, stream, waits);
}
API cudaError_t cudaMemcpy3DPeer(const cudaMemcpy3DPeerParms *p) {
    return copy_peer("cudaMemcpy3DPeer", p, nullptr, true);
}
API cudaError_t cudaMemcpy3DPeerAsync(const cudaMemcpy3DPeerParms *p, cudaStream_t stream) {
    return copy_peer("cudaMemcpy3DPeerAsync", p, stream, false);
}
