// The driver API: memory, streams and events, each by the runtime's function.
#include "../driver_result.h"
#include "../standard.h"

using namespace weft;

namespace {
// Fills with elements of two or four bytes.
template <class T>
CUresult fill_with(CUdeviceptr to, T value, size_t count, CUstream stream) {
    if (auto error = check_range("cuMemset", at_address(to), count * sizeof(T), true))
        return result(error);
    return result(submit(stream, cudaGraphNodeTypeMemset, [=] {
        std::fill_n(static_cast<T *>(at_address(to)), count, value);
        return cudaSuccess;
    }, true));
}
}  // namespace

API CUresult cuMemAlloc(CUdeviceptr *out, size_t bytes) {
    if (!bytes) return CUDA_ERROR_INVALID_VALUE;
    return result(cudaMalloc(reinterpret_cast<void **>(out), bytes));
}
API CUresult cuMemAllocManaged(CUdeviceptr *out, size_t bytes, unsigned flags) {
    return result(cudaMallocManaged(reinterpret_cast<void **>(out), bytes, flags));
}
API CUresult cuMemAllocPitch(CUdeviceptr *out, size_t *pitch, size_t width, size_t height,
                             unsigned) {
    return result(cudaMallocPitch(reinterpret_cast<void **>(out), pitch, width, height));
}
API CUresult cuMemAllocAsync(CUdeviceptr *out, size_t bytes, CUstream stream) {
    return result(cudaMallocAsync(reinterpret_cast<void **>(out), bytes, stream));
}
API CUresult cuMemFreeAsync(CUdeviceptr memory, CUstream stream) {
    return result(cudaFreeAsync(at_address(memory), stream));
}
API CUresult cuMemFree(CUdeviceptr memory) { return result(cudaFree(at_address(memory))); }
API CUresult cuMemAllocHost(void **out, size_t bytes) { return result(cudaMallocHost(out, bytes)); }
API CUresult cuMemHostAlloc(void **out, size_t bytes, unsigned flags) {
    return result(cudaHostAlloc(out, bytes, flags));
}
API CUresult cuMemFreeHost(void *memory) { return result(cudaFreeHost(memory)); }
API CUresult cuMemHostGetDevicePointer(CUdeviceptr *out, void *memory, unsigned flags) {
    return result(cudaHostGetDevicePointer(reinterpret_cast<void **>(out), memory, flags));
}
API CUresult cuMemGetInfo(size_t *available, size_t *total) {
    return result(cudaMemGetInfo(available, total));
}
API CUresult cuMemGetAddressRange(CUdeviceptr *start, size_t *bytes, CUdeviceptr address) {
    uintptr_t base;
    Allocation found;
    if (!find(at_address(address), &base, &found)) return CUDA_ERROR_NOT_FOUND;
    if (start) *start = base;
    if (bytes) *bytes = found.size;
    return CUDA_SUCCESS;
}

API CUresult cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t bytes) {
    return result(cudaMemcpy(at_address(to), from, bytes, cudaMemcpyHostToDevice));
}
API CUresult cuMemcpyDtoH(void *to, CUdeviceptr from, size_t bytes) {
    return result(cudaMemcpy(to, at_address(from), bytes, cudaMemcpyDeviceToHost));
}
API CUresult cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
    return result(cudaMemcpy(at_address(to), at_address(from), bytes, cudaMemcpyDeviceToDevice));
}
API CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
    return result(cudaMemcpy(at_address(to), at_address(from), bytes, cudaMemcpyDefault));
}
API CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) {
    return result(cudaMemcpyAsync(at_address(to), from, bytes, cudaMemcpyHostToDevice, stream));
}
API CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
    return result(cudaMemcpyAsync(to, at_address(from), bytes, cudaMemcpyDeviceToHost, stream));
}
API CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    return result(cudaMemcpyAsync(at_address(to), at_address(from), bytes, cudaMemcpyDeviceToDevice,
                                  stream));
}
API CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    return result(cudaMemcpyAsync(at_address(to), at_address(from), bytes, cudaMemcpyDefault,
                                  stream));
}
API CUresult cuMemsetD8(CUdeviceptr to, unsigned char value, size_t count) {
    return result(cudaMemset(at_address(to), value, count));
}
API CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
    return result(cudaMemsetAsync(at_address(to), value, count, stream));
}
API CUresult cuMemsetD16(CUdeviceptr to, unsigned short value, size_t count) {
    return fill_with(to, value, count, nullptr);
}
API CUresult cuMemsetD32(CUdeviceptr to, unsigned value, size_t count) {
    return fill_with(to, value, count, nullptr);
}
API CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream) {
    return fill_with(to, value, count, stream);
}

// ---- memory and events of other processes -------------------------------------------------------

namespace {
// Handles of the driver and of the runtime are the same bytes.
template <class To, class From>
To same_bytes(const From &from) {
    static_assert(sizeof(To) == sizeof(From), "handles of one size");
    To out;
    memcpy(&out, &from, sizeof out);
    return out;
}
}  // namespace

API CUresult cuIpcGetMemHandle(CUipcMemHandle *out, CUdeviceptr memory) {
    return result(cudaIpcGetMemHandle(reinterpret_cast<cudaIpcMemHandle_t *>(out),
                                      at_address(memory)));
}
API CUresult cuIpcOpenMemHandle(CUdeviceptr *out, CUipcMemHandle handle, unsigned flags) {
    return result(cudaIpcOpenMemHandle(reinterpret_cast<void **>(out),
                                       same_bytes<cudaIpcMemHandle_t>(handle), flags));
}
API CUresult cuIpcCloseMemHandle(CUdeviceptr memory) {
    return result(cudaIpcCloseMemHandle(at_address(memory)));
}
API CUresult cuIpcGetEventHandle(CUipcEventHandle *out, CUevent event) {
    return result(cudaIpcGetEventHandle(reinterpret_cast<cudaIpcEventHandle_t *>(out), event));
}
API CUresult cuIpcOpenEventHandle(CUevent *out, CUipcEventHandle handle) {
    return result(cudaIpcOpenEventHandle(out, same_bytes<cudaIpcEventHandle_t>(handle)));
}

// ---- streams and events -------------------------------------------------------------------------

API CUresult cuStreamCreate(CUstream *out, unsigned flags) {
    return result(cudaStreamCreateWithFlags(out, flags));
}
API CUresult cuStreamCreateWithPriority(CUstream *out, unsigned flags, int priority) {
    return result(cudaStreamCreateWithPriority(out, flags, priority));
}
API CUresult cuStreamDestroy(CUstream stream) { return result(cudaStreamDestroy(stream)); }
API CUresult cuStreamSynchronize(CUstream stream) { return result(cudaStreamSynchronize(stream)); }
API CUresult cuStreamQuery(CUstream stream) { return result(cudaStreamQuery(stream)); }
API CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
    return result(cudaStreamWaitEvent(stream, event, flags));
}
API CUresult cuStreamGetFlags(CUstream stream, unsigned *flags) {
    return result(cudaStreamGetFlags(stream, flags));
}
API CUresult cuStreamGetPriority(CUstream stream, int *priority) {
    return result(cudaStreamGetPriority(stream, priority));
}
API CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *data) {
    return result(cudaLaunchHostFunc(stream, function, data));
}
API CUresult cuEventCreate(CUevent *out, unsigned flags) {
    return result(cudaEventCreateWithFlags(out, flags));
}
API CUresult cuEventDestroy(CUevent event) { return result(cudaEventDestroy(event)); }
API CUresult cuEventRecord(CUevent event, CUstream stream) {
    return result(cudaEventRecord(event, stream));
}
API CUresult cuEventSynchronize(CUevent event) { return result(cudaEventSynchronize(event)); }
API CUresult cuEventQuery(CUevent event) { return result(cudaEventQuery(event)); }
API CUresult cuEventElapsedTime(float *ms, CUevent begin, CUevent end) {
    return result(cudaEventElapsedTime(ms, begin, end));
}
