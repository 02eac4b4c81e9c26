// The driver API and nvrtc, in a file of C++: compiles a kernel at run time, loads it, launches it.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <nvrtc.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#define HOLDS(what)                                                        \
    if (!(what)) {                                                         \
        printf("line %d: %s does not hold\n", __LINE__, #what);            \
        exit(1);                                                           \
    }
#define CU(call) HOLDS((call) == CUDA_SUCCESS)

static const char *source = R"(
__constant__ float factor[2];
template <class T> __global__ void scale(T *x, int n) {
    extern __shared__ T tile[];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    tile[threadIdx.x] = i < n ? x[i] : T(0);
    __syncthreads();
    if (i < n) x[i] = tile[threadIdx.x] * T(factor[0]) + T(factor[1]);
})";

int main() {
    CU(cuInit(0));
    CUdevice device;
    CUcontext context;
    int major, minor, count;
    char name[100];
    CU(cuDeviceGetCount(&count));
    CU(cuDeviceGet(&device, 0));
    HOLDS(cuDeviceGet(&device, count) == CUDA_ERROR_INVALID_DEVICE);
    CU(cuDeviceGetName(name, sizeof name, device));
    CU(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device));
    CU(cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device));
    CU(cuDevicePrimaryCtxRetain(&context, device));
    CU(cuCtxSetCurrent(context));

    nvrtcProgram program;
    HOLDS(nvrtcCreateProgram(&program, source, "scale.cu", 0, nullptr, nullptr) == NVRTC_SUCCESS);
    HOLDS(nvrtcAddNameExpression(program, "scale<float>") == NVRTC_SUCCESS);
    std::string arch = "--gpu-architecture=sm_" + std::to_string(10 * major + minor);
    const char *options[] = {arch.c_str()};
    HOLDS(nvrtcCompileProgram(program, 1, options) == NVRTC_SUCCESS);
    const char *lowered;
    HOLDS(nvrtcGetLoweredName(program, "scale<float>", &lowered) == NVRTC_SUCCESS);
    size_t bytes;
    HOLDS(nvrtcGetCUBINSize(program, &bytes) == NVRTC_SUCCESS);
    std::vector<char> code(bytes);
    HOLDS(nvrtcGetCUBIN(program, code.data()) == NVRTC_SUCCESS);

    CUmodule module;
    CUfunction scale;
    CUdeviceptr factor, x;
    CU(cuModuleLoadData(&module, code.data()));
    CU(cuModuleGetFunction(&scale, module, lowered));
    HOLDS(cuModuleGetFunction(&scale, module, "missing") == CUDA_ERROR_NOT_FOUND);
    CU(cuModuleGetFunction(&scale, module, lowered));
    int blocks = 0, threads = 0;
    CU(cuOccupancyMaxPotentialBlockSize(&blocks, &threads, scale, nullptr, 0, 100));
    HOLDS(threads >= 32 && threads <= 100 && blocks > 0);
    CU(cuModuleGetGlobal(&factor, &bytes, module, "factor"));
    HOLDS(bytes == 8);
    float factors[] = {2, 0.5f};
    CU(cuMemcpyHtoD(factor, factors, sizeof factors));

    int n = 100;
    std::vector<float> host(n);
    for (int i = 0; i < n; i++) host[i] = i;
    CUstream stream;
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CU(cuMemAlloc(&x, n * sizeof(float)));
    CU(cuMemcpyHtoDAsync(x, host.data(), n * sizeof(float), stream));
    void *arguments[] = {&x, &n};
    CU(cuLaunchKernel(scale, 4, 1, 1, 32, 1, 1, 128, stream, arguments, nullptr));
    struct {
        CUdeviceptr x;
        int n;
    } packed = {x, n};
    size_t size = sizeof packed;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                     CU_LAUNCH_PARAM_END};
    CU(cuLaunchKernel(scale, 4, 1, 1, 32, 1, 1, 128, stream, nullptr, extra));
    CU(cuStreamSynchronize(stream));
    CU(cuMemcpyDtoH(host.data(), x, n * sizeof(float)));
    for (int i = 0; i < n; i++) HOLDS(host[i] == 2 * (2 * i + 0.5f) + 0.5f);
    CU(cuMemsetD32(x, 7, n));
    CU(cuMemcpyDtoH(host.data(), x, 4));
    HOLDS(*(int *)host.data() == 7);
    HOLDS(cuLaunchKernel(scale, 1, 1, 1, 2048, 1, 1, 0, stream, arguments, nullptr) ==
          CUDA_ERROR_INVALID_VALUE);
    const char *word;
    CU(cuGetErrorName(CUDA_ERROR_INVALID_VALUE, &word));
    CU(cuMemFree(x));
    int (*missing)(void *, void *) = nullptr;  // weft does not serve it
    HOLDS(cudaGetDriverEntryPointByVersion("cuMulticastCreate", (void **)&missing, CUDA_VERSION, 0,
                                           nullptr) == cudaSuccess);
    HOLDS(missing(nullptr, nullptr) == CUDA_ERROR_NOT_SUPPORTED);
    CU(cuGetProcAddress("cuInit", (void **)&missing, CUDA_VERSION, 0, nullptr));
    HOLDS((void *)missing == (void *)cuInit);
    // weft serves the first version of this one, and not cuCtxGetDevice_v2.
    CU(cuGetProcAddress("cuCtxGetDevice", (void **)&missing, CUDA_VERSION, 0, nullptr));
    HOLDS((void *)missing == (void *)cuCtxGetDevice);
    HOLDS(cuGetProcAddress("cuNothing", (void **)&missing, CUDA_VERSION, 0, nullptr) ==
          CUDA_ERROR_NOT_FOUND);
    printf("%s on sm_%d%d\n", word, major, minor);
}
