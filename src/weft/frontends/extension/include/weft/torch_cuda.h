// The CUDA part of torch's C++ interface that extensions use, for one simulated GPU whose memory is
// the host's. torch's CPU build has no CUDA library, so this stands in for its headers.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>
#include <c10/util/Exception.h>
#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <optional>

#define C10_CUDA_API
#define C10_CUDA_CHECK(EXPR)                                                               \
    do {                                                                                   \
        const cudaError_t weft_error = EXPR;                                               \
        TORCH_CHECK(weft_error == cudaSuccess, "CUDA error: ", cudaGetErrorString(weft_error)); \
    } while (0)
#define C10_CUDA_CHECK_WARN(EXPR)                                                  \
    do {                                                                           \
        const cudaError_t weft_error = EXPR;                                       \
        if (weft_error != cudaSuccess)                                             \
            TORCH_WARN("CUDA warning: ", cudaGetErrorString(cudaGetLastError()));  \
    } while (0)
#define C10_CUDA_IGNORE_ERROR(EXPR) \
    do {                            \
        (void)(EXPR);               \
        (void)cudaGetLastError();   \
    } while (0)
#define C10_CUDA_CLEAR_ERROR() (void)cudaGetLastError()
#define C10_CUDA_ERROR_HANDLED(EXPR) EXPR
#define C10_CUDA_KERNEL_LAUNCH_CHECK() C10_CUDA_CHECK(cudaGetLastError())
#define AT_CUDA_CHECK(EXPR) C10_CUDA_CHECK(EXPR)
#define TORCH_CUDABLAS_CHECK(EXPR)                                                     \
    do {                                                                               \
        const cublasStatus_t weft_status = EXPR;                                       \
        TORCH_CHECK(weft_status == CUBLAS_STATUS_SUCCESS, "cuBLAS error ", int(weft_status)); \
    } while (0)

namespace c10 {
class CUDAError : public c10::Error {
    using Error::Error;
};

namespace cuda {

inline DeviceIndex device_count() noexcept { return 1; }
inline DeviceIndex device_count_ensure_non_zero() { return 1; }
inline DeviceIndex current_device() { return 0; }
inline void set_device(DeviceIndex) {}
inline void device_synchronize() { C10_CUDA_CHECK(cudaDeviceSynchronize()); }
inline int warp_size() { return 32; }

// A stream of the simulated GPU. For torch it is a stream of the CPU's.
class CUDAStream {
  public:
    enum Unchecked { UNCHECKED };
    CUDAStream(cudaStream_t stream = nullptr) : stream_(stream) {}
    explicit CUDAStream(Stream) {}
    explicit CUDAStream(Unchecked, Stream) {}
    operator cudaStream_t() const { return stream_; }
    operator Stream() const { return unwrap(); }
    bool operator==(const CUDAStream &other) const { return stream_ == other.stream_; }
    bool operator!=(const CUDAStream &other) const { return stream_ != other.stream_; }
    cudaStream_t stream() const { return stream_; }
    Stream unwrap() const { return Stream(Stream::DEFAULT, device()); }
    StreamId id() const { return reinterpret_cast<intptr_t>(stream_); }
    DeviceType device_type() const { return DeviceType::CPU; }
    DeviceIndex device_index() const { return 0; }
    Device device() const { return Device(DeviceType::CPU); }
    bool query() const { return cudaStreamQuery(stream_) == cudaSuccess; }
    void synchronize() const { C10_CUDA_CHECK(cudaStreamSynchronize(stream_)); }
    int priority() const { return 0; }
    bool is_capturing() const { return false; }

  private:
    cudaStream_t stream_ = nullptr;
};

namespace weft {
inline CUDAStream &current() {
    static thread_local CUDAStream stream;
    return stream;
}
}  // namespace weft

inline CUDAStream getCurrentCUDAStream(DeviceIndex = -1) { return weft::current(); }
inline CUDAStream getDefaultCUDAStream(DeviceIndex = -1) { return {}; }
inline CUDAStream getStreamFromExternal(cudaStream_t stream, DeviceIndex) { return stream; }
inline CUDAStream getStreamFromPool(int, DeviceIndex = -1) {
    cudaStream_t stream;
    C10_CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
}
inline CUDAStream getStreamFromPool(bool = false, DeviceIndex device = -1) {
    return getStreamFromPool(0, device);
}
inline void setCurrentCUDAStream(CUDAStream stream) { weft::current() = stream; }

// There is one device, so guards of the device only remember that.
class CUDAGuard {
  public:
    explicit CUDAGuard(DeviceIndex) {}
    explicit CUDAGuard(Device) {}
    void set_device(Device) {}
    void reset_device(Device) {}
    void set_index(DeviceIndex) {}
    Device original_device() const { return Device(DeviceType::CPU); }
    Device current_device() const { return Device(DeviceType::CPU); }
};
class OptionalCUDAGuard {
  public:
    OptionalCUDAGuard() = default;
    explicit OptionalCUDAGuard(std::optional<Device>) {}
    explicit OptionalCUDAGuard(std::optional<DeviceIndex>) {}
    void set_device(Device) {}
    void reset_device(Device) {}
    void set_index(DeviceIndex) {}
    void reset() {}
};
class CUDAStreamGuard {
  public:
    explicit CUDAStreamGuard(CUDAStream stream) : before_(weft::current()) {
        weft::current() = stream;
    }
    explicit CUDAStreamGuard(Stream) : CUDAStreamGuard(CUDAStream()) {}
    CUDAStreamGuard(const CUDAStreamGuard &) = delete;
    ~CUDAStreamGuard() { weft::current() = before_; }
    CUDAStream original_stream() const { return before_; }
    CUDAStream current_stream() const { return weft::current(); }

  private:
    CUDAStream before_;
};

namespace CUDACachingAllocator {
inline void *raw_alloc(size_t bytes) {
    void *memory = nullptr;
    C10_CUDA_CHECK(cudaMalloc(&memory, bytes));
    return memory;
}
inline void *raw_alloc_with_stream(size_t bytes, cudaStream_t) { return raw_alloc(bytes); }
inline void raw_delete(void *memory) { C10_CUDA_CHECK(cudaFree(memory)); }
inline void emptyCache() {}
template <class P>
inline void recordStream(const P &, CUDAStream) {}
}  // namespace CUDACachingAllocator

}  // namespace cuda
}  // namespace c10

namespace at::cuda {
using namespace c10::cuda;

inline int64_t getNumGPUs() { return 1; }
inline bool is_available() { return true; }
inline cudaDeviceProp *getDeviceProperties(c10::DeviceIndex) {
    static cudaDeviceProp properties = [] {
        cudaDeviceProp found;
        C10_CUDA_CHECK(cudaGetDeviceProperties(&found, 0));
        return found;
    }();
    return &properties;
}
inline cudaDeviceProp *getCurrentDeviceProperties() { return getDeviceProperties(0); }
inline bool canDeviceAccessPeer(c10::DeviceIndex, c10::DeviceIndex) { return false; }
inline cublasHandle_t getCurrentCUDABlasHandle(bool = true) {
    static thread_local cublasHandle_t handle = [] {
        cublasHandle_t made;
        TORCH_CUDABLAS_CHECK(cublasCreate(&made));
        return made;
    }();
    TORCH_CUDABLAS_CHECK(cublasSetStream(handle, getCurrentCUDAStream()));
    return handle;
}
template <class T, class U>
constexpr auto ATenCeilDiv(T a, U b) {
    return (a + b - 1) / b;
}

// An event of the simulated GPU.
class CUDAEvent {
  public:
    explicit CUDAEvent(unsigned flags = cudaEventDisableTiming) {
        C10_CUDA_CHECK(cudaEventCreateWithFlags(&event_, flags));
    }
    CUDAEvent(const CUDAEvent &) = delete;
    ~CUDAEvent() { cudaEventDestroy(event_); }
    operator cudaEvent_t() const { return event_; }
    cudaEvent_t event() const { return event_; }
    bool isCreated() const { return true; }
    bool query() const { return cudaEventQuery(event_) == cudaSuccess; }
    void record() { record(getCurrentCUDAStream()); }
    void record(CUDAStream stream) { C10_CUDA_CHECK(cudaEventRecord(event_, stream)); }
    void recordOnce(CUDAStream stream) { record(stream); }
    void block(CUDAStream stream) { C10_CUDA_CHECK(cudaStreamWaitEvent(stream, event_, 0)); }
    void synchronize() const { C10_CUDA_CHECK(cudaEventSynchronize(event_)); }
    float elapsed_time(const CUDAEvent &later) const {
        float ms;
        C10_CUDA_CHECK(cudaEventElapsedTime(&ms, event_, later.event_));
        return ms;
    }

  private:
    cudaEvent_t event_;
};
}  // namespace at::cuda

