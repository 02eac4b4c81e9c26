// The driver API, on top of the runtime's functions: contexts, modules of PTX, memory, launches.
#include <dlfcn.h>

#include "../driver_result.h"
#include "../standard.h"
#include "link.h"

using namespace weft;

namespace {
struct DriverModule {
    uint64_t handle;
    std::map<std::string, std::unique_ptr<char>> names;  // keys of its kernels and variables
    const void *key(const char *name) {
        auto &found = names[name];
        if (!found) found.reset(new char);
        return found.get();
    }
};
template <class H>
DriverModule *module_of(H module) {
    return reinterpret_cast<DriverModule *>(module);
}

char device_contexts[MOST_DEVICES];  // there is one for each GPU, and its address is its handle
thread_local std::vector<CUcontext> driver_contexts;
CUcontext context_of(int device) { return reinterpret_cast<CUcontext>(&device_contexts[device]); }
int device_of(CUcontext context) {
    return int(reinterpret_cast<char *>(context) - device_contexts);
}
// The GPU of the context that is current now.
void choose_device() {
    if (!driver_contexts.empty()) cudaSetDevice(device_of(driver_contexts.back()));
}

CUresult load_module(DriverModule **out, const void *image, JitLogs logs = {}) {
    uint64_t handle;
    int error = load_device_code(image, &handle, &logs, JitLogs::receive);
    logs.write();
    if (!error) *out = new DriverModule{handle, {}};
    return static_cast<CUresult>(error);
}
CUresult find_function(const void **out, DriverModule *module, const char *name) {
    auto *key = module->key(name);
    ops.function(module->handle, key, name);
    uint32_t pairs[2 * 4096];
    if (ops.parameters(key, pairs, 4096) < 0) return CUDA_ERROR_NOT_FOUND;
    *out = key;
    return CUDA_SUCCESS;
}
CUresult find_variable(CUdeviceptr *out, size_t *bytes, DriverModule *module, const char *name) {
    auto *key = module->key(name);
    ops.variable(module->handle, key, name);
    uint64_t size = 0, address = ops.symbol(key, &size);
    if (!address) return CUDA_ERROR_NOT_FOUND;
    if (out) *out = address;
    if (bytes) *bytes = size;
    return CUDA_SUCCESS;
}
// Arguments that are packed in one buffer, as an array of pointers.
std::vector<void *> unpacked(const void *function, void **extra) {
    char *buffer = nullptr;
    for (; extra && *extra != CU_LAUNCH_PARAM_END; extra += 2)
        if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER) buffer = static_cast<char *>(extra[1]);
    std::vector<uint32_t> pairs(2 * 4096);
    int count = ops.parameters(function, pairs.data(), 4096);
    std::vector<void *> out;
    for (int i = 0; i < count; i++) out.push_back(buffer + pairs[2 * i]);
    return out;
}
}  // namespace

// ---- devices and contexts -----------------------------------------------------------------------

API CUresult cuInit(unsigned) { return CUDA_SUCCESS; }
API CUresult cuDriverGetVersion(int *version) { return result(cudaDriverGetVersion(version)); }
API CUresult cuDeviceGetCount(int *count) { return result(cudaGetDeviceCount(count)); }
API CUresult cuDeviceGet(CUdevice *device, int number) {
    int count = 0;
    cudaGetDeviceCount(&count);
    if (number < 0 || number >= count) return CUDA_ERROR_INVALID_DEVICE;
    *device = number;
    return CUDA_SUCCESS;
}
API CUresult cuDeviceGetName(char *name, int bytes, CUdevice) {
    snprintf(name, bytes, "%s", model.name);
    return CUDA_SUCCESS;
}
API CUresult cuDeviceTotalMem(size_t *bytes, CUdevice) {
    *bytes = model.memory;
    return CUDA_SUCCESS;
}
API CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
    return result(cudaDeviceGetAttribute(value, static_cast<cudaDeviceAttr>(attribute), device));
}
API CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice) {
    *major = int(model.major), *minor = int(model.minor);
    return CUDA_SUCCESS;
}
API CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device) {
    memset(uuid, 0, sizeof *uuid);
    uuid->bytes[15] = char(device + 1);
    return CUDA_SUCCESS;
}
API CUresult cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice device) {
    *out = context_of(device);
    return CUDA_SUCCESS;
}
API CUresult cuDevicePrimaryCtxRelease(CUdevice) { return CUDA_SUCCESS; }
API CUresult cuDevicePrimaryCtxSetFlags(CUdevice, unsigned) { return CUDA_SUCCESS; }
API CUresult cuDevicePrimaryCtxGetState(CUdevice, unsigned *flags, int *active) {
    *flags = 0, *active = 1;
    return CUDA_SUCCESS;
}
API CUresult cuDevicePrimaryCtxReset(CUdevice) { return result(cudaDeviceReset()); }
API CUresult cuCtxPushCurrent(CUcontext given) {
    driver_contexts.push_back(given);
    choose_device();
    return CUDA_SUCCESS;
}
API CUresult cuCtxPopCurrent(CUcontext *out) {
    if (driver_contexts.empty()) return CUDA_ERROR_INVALID_CONTEXT;
    if (out) *out = driver_contexts.back();
    driver_contexts.pop_back();
    choose_device();
    return CUDA_SUCCESS;
}
#if CUDA_VERSION >= 13000
API CUresult cuCtxCreate(CUcontext *out, CUctxCreateParams *, unsigned, CUdevice device) {
#else
API CUresult cuCtxCreate(CUcontext *out, unsigned, CUdevice device) {
#endif
    *out = context_of(device);
    return cuCtxPushCurrent(*out);
}
API CUresult cuCtxDestroy(CUcontext) {
    if (!driver_contexts.empty()) driver_contexts.pop_back();
    choose_device();
    return CUDA_SUCCESS;
}
API CUresult cuCtxSetCurrent(CUcontext given) {
    driver_contexts.clear();
    return given ? cuCtxPushCurrent(given) : CUDA_SUCCESS;
}
API CUresult cuCtxGetCurrent(CUcontext *out) {
    *out = driver_contexts.empty() ? nullptr : driver_contexts.back();
    return CUDA_SUCCESS;
}
API CUresult cuDeviceCanAccessPeer(int *out, CUdevice device, CUdevice peer) {
    return result(cudaDeviceCanAccessPeer(out, device, peer));
}
API CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
    return result(cudaDeviceEnablePeerAccess(device_of(peer), flags));
}
API CUresult cuCtxDisablePeerAccess(CUcontext peer) {
    return result(cudaDeviceDisablePeerAccess(device_of(peer)));
}
API CUresult cuCtxGetDevice(CUdevice *device) { return result(cudaGetDevice(device)); }
API CUresult cuCtxSynchronize() { return result(cudaDeviceSynchronize()); }
API CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
    return result(cudaDeviceSetLimit(static_cast<cudaLimit>(limit), value));
}
API CUresult cuCtxGetLimit(size_t *value, CUlimit limit) {
    return result(cudaDeviceGetLimit(value, static_cast<cudaLimit>(limit)));
}
API CUresult cuGetErrorName(CUresult error, const char **out) {
    static std::map<int, std::string> names;
    // CUDA_ERROR_INVALID_VALUE of cudaErrorInvalidValue.
    auto &name = names[error];
    name = error ? "CUDA_ERROR_" : "CUDA_SUCCESS";
    const char *plain = cudaGetErrorName(static_cast<cudaError_t>(error));
    for (const char *c = plain + (strncmp(plain, "cudaError", 9) ? 0 : 9); error && *c; c++) {
        if (isupper(*c) && name.back() != '_') name += '_';
        name += char(toupper(*c));
    }
    *out = name.c_str();
    return CUDA_SUCCESS;
}
API CUresult cuGetErrorString(CUresult error, const char **out) {
    *out = cudaGetErrorString(static_cast<cudaError_t>(error));
    return CUDA_SUCCESS;
}

// ---- modules ------------------------------------------------------------------------------------

API CUresult cuModuleLoadData(CUmodule *out, const void *image) {
    return load_module(reinterpret_cast<DriverModule **>(out), image);
}
API CUresult cuModuleLoadDataEx(CUmodule *out, const void *image, unsigned count,
                                CUjit_option *options, void **values) {
    JitLogs logs(count, options, values);
    return load_module(reinterpret_cast<DriverModule **>(out), image, logs);
}
API CUresult cuModuleLoadFatBinary(CUmodule *out, const void *image) {
    return cuModuleLoadData(out, image);
}
API CUresult cuModuleLoad(CUmodule *out, const char *path) {
    std::string text;
    if (!read_file(path, &text)) return CUDA_ERROR_FILE_NOT_FOUND;
    return cuModuleLoadData(out, text.c_str());
}
API CUresult cuModuleUnload(CUmodule) { return CUDA_SUCCESS; }  // streams may still use it
API CUresult cuModuleGetFunction(CUfunction *out, CUmodule module, const char *name) {
    return find_function((const void **)out, module_of(module), name);
}
API CUresult cuModuleGetGlobal(CUdeviceptr *out, size_t *bytes, CUmodule module, const char *name) {
    return find_variable(out, bytes, module_of(module), name);
}
API CUresult cuLibraryLoadData(CUlibrary *out, const void *image, CUjit_option *options,
                               void **values, unsigned count, CUlibraryOption *, void **,
                               unsigned) {
    JitLogs logs(count, options, values);
    return load_module(reinterpret_cast<DriverModule **>(out), image, logs);
}
API CUresult cuLibraryLoadFromFile(CUlibrary *out, const char *path, CUjit_option *options,
                                   void **values, unsigned count, CUlibraryOption *more,
                                   void **more_values, unsigned more_count) {
    std::string text;
    if (!read_file(path, &text)) return CUDA_ERROR_FILE_NOT_FOUND;
    return cuLibraryLoadData(out, text.c_str(), options, values, count, more, more_values,
                             more_count);
}
API CUresult cuLibraryUnload(CUlibrary) { return CUDA_SUCCESS; }
API CUresult cuLibraryGetModule(CUmodule *out, CUlibrary library) {
    *out = reinterpret_cast<CUmodule>(library);
    return CUDA_SUCCESS;
}
API CUresult cuLibraryGetKernel(CUkernel *out, CUlibrary library, const char *name) {
    return find_function((const void **)out, module_of(library), name);
}
API CUresult cuLibraryGetGlobal(CUdeviceptr *out, size_t *bytes, CUlibrary library,
                                const char *name) {
    return find_variable(out, bytes, module_of(library), name);
}
API CUresult cuKernelGetFunction(CUfunction *out, CUkernel kernel) {
    *out = reinterpret_cast<CUfunction>(kernel);
    return CUDA_SUCCESS;
}

// ---- kernels ------------------------------------------------------------------------------------

API CUresult cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                            unsigned by, unsigned bz, unsigned shared, CUstream stream,
                            void **arguments, void **extra) {
    auto packed = arguments ? std::vector<void *>() : unpacked(function, extra);
    return result(cudaLaunchKernel(function, {gx, gy, gz}, {bx, by, bz},
                                   arguments ? arguments : packed.data(), shared, stream));
}
API CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz,
                                       unsigned bx, unsigned by, unsigned bz, unsigned shared,
                                       CUstream stream, void **arguments) {
    return result(cudaLaunchCooperativeKernel(function, {gx, gy, gz}, {bx, by, bz}, arguments,
                                              shared, stream));
}
static cudaLaunchConfig_t config_of(const CUlaunchConfig *how) {
    cudaLaunchConfig_t config{};
    config.gridDim = {how->gridDimX, how->gridDimY, how->gridDimZ};
    config.blockDim = {how->blockDimX, how->blockDimY, how->blockDimZ};
    config.dynamicSmemBytes = how->sharedMemBytes;
    config.stream = how->hStream;
    // The runtime's attributes have the driver's layout.
    config.attrs = reinterpret_cast<cudaLaunchAttribute *>(how->attrs);
    config.numAttrs = how->numAttrs;
    return config;
}
API CUresult cuOccupancyMaxActiveClusters(int *clusters, CUfunction function,
                                          const CUlaunchConfig *how) {
    auto config = config_of(how);
    return result(cudaOccupancyMaxActiveClusters(clusters, function, &config));
}
API CUresult cuOccupancyMaxPotentialClusterSize(int *size, CUfunction function,
                                                const CUlaunchConfig *how) {
    auto config = config_of(how);
    return result(cudaOccupancyMaxPotentialClusterSize(size, function, &config));
}
API CUresult cuLaunchKernelEx(const CUlaunchConfig *how, CUfunction function, void **arguments,
                              void **extra) {
    auto packed = arguments ? std::vector<void *>() : unpacked(function, extra);
    auto config = config_of(how);
    return result(cudaLaunchKernelExC(&config, function, arguments ? arguments : packed.data()));
}
API CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function) {
    cudaFuncAttributes all;
    if (auto error = cudaFuncGetAttributes(&all, function)) return result(error);
    switch (attribute) {
        case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = all.maxThreadsPerBlock; break;
        case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: *value = int(all.sharedSizeBytes); break;
        case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES: *value = int(all.constSizeBytes); break;
        case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: *value = int(all.localSizeBytes); break;
        case CU_FUNC_ATTRIBUTE_NUM_REGS: *value = all.numRegs; break;
        case CU_FUNC_ATTRIBUTE_PTX_VERSION: *value = all.ptxVersion; break;
        case CU_FUNC_ATTRIBUTE_BINARY_VERSION: *value = all.binaryVersion; break;
        case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
            *value = all.maxDynamicSharedSizeBytes;
            break;
        default: *value = 0;
    }
    return CUDA_SUCCESS;
}
API CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
    if (attribute == CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED)
        return result(cudaFuncSetAttribute(
            function, cudaFuncAttributeNonPortableClusterSizeAllowed, value));
    if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) return CUDA_SUCCESS;
    return result(
        cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, value));
}
API CUresult cuFuncSetCacheConfig(CUfunction, CUfunc_cache) { return CUDA_SUCCESS; }
API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function,
                                                         int threads, size_t shared) {
    return result(cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, shared));
}
API CUresult cuOccupancyMaxPotentialBlockSize(int *blocks, int *threads, CUfunction function,
                                              CUoccupancyB2DSize shared_of, size_t shared,
                                              int limit) {
    cudaFuncAttributes all;
    cudaDeviceProp gpu;
    int device = 0;
    if (auto error = cudaGetDevice(&device)) return result(error);
    if (auto error = cudaGetDeviceProperties(&gpu, device)) return result(error);
    if (auto error = cudaFuncGetAttributes(&all, function)) return result(error);
    int most = std::min(all.maxThreadsPerBlock, gpu.maxThreadsPerBlock), resident = 0;
    if (limit > 0) most = std::min(most, limit);
    *blocks = *threads = 0;
    // Whole warps from the largest size down: the first of those that keep most threads resident.
    for (int size = (most + 31) / 32 * 32; size > 0; size -= 32) {
        const int each = std::min(size, most);
        int count = 0;
        if (auto error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(
                &count, function, each, shared_of ? shared_of(each) : shared))
            return result(error);
        if (count * each > resident) {
            resident = count * each;
            *threads = each;
            *blocks = count * gpu.multiProcessorCount;
        }
    }
    return CUDA_SUCCESS;
}

// ---- entry points by name -----------------------------------------------------------------------

// The linker's names of the section that has the stubs of functions that weft does not serve.
extern "C" __attribute__((visibility("hidden"))) char __start_weft_stubs[], __stop_weft_stubs[];

static bool is_stub(const void *address) {
    return address >= __start_weft_stubs && address < __stop_weft_stubs;
}

// The newest version that is served, else the newest stub: a later version of a function has more
// parameters at its end, which the earlier one does not read.
API CUresult cuGetProcAddress(const char *name, void **out, int, cuuint64_t,
                              CUdriverProcAddressQueryResult *status) {
    *out = nullptr;
    for (const char *version : {"_v4", "_v3", "_v2", ""}) {
        void *found = dlsym(RTLD_DEFAULT, (std::string(name) + version).c_str());
        if (found && (!*out || !is_stub(found))) *out = found;
        if (found && !is_stub(found)) break;
    }
    if (status)
        *status = *out ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return *out ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

API cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **out, unsigned version,
                                                 unsigned long long flags,
                                                 cudaDriverEntryPointQueryResult *status) {
    CUdriverProcAddressQueryResult found;
    cuGetProcAddress(name, out, int(version), flags, &found);
    if (status) *status = static_cast<cudaDriverEntryPointQueryResult>(found);
    return *out || status ? cudaSuccess : failed(cudaErrorSymbolNotFound);
}
API cudaError_t cudaGetDriverEntryPoint(const char *name, void **out, unsigned long long flags,
                                        cudaDriverEntryPointQueryResult *status) {
    return cudaGetDriverEntryPointByVersion(name, out, CUDA_VERSION, flags, status);
}

// NVRTC asks for tables of the driver's internals, and does without them.
API CUresult cuGetExportTable(const void **table, const CUuuid *) {
    *table = nullptr;
    return CUDA_ERROR_NOT_FOUND;
}

// ---- nvrtc: its machine code is for a GPU; modules are loaded from PTX --------------------------

namespace {
int ptx_of(const char *name, void *program, void *out) {
    auto *get = reinterpret_cast<int (*)(void *, void *)>(dlsym(RTLD_DEFAULT, name));
    return get ? get(program, out) : 11;  // NVRTC_ERROR_INTERNAL_ERROR
}
}  // namespace

API int nvrtcGetCUBINSize(void *program, size_t *bytes) {
    return ptx_of("nvrtcGetPTXSize", program, bytes);
}
API int nvrtcGetCUBIN(void *program, char *out) { return ptx_of("nvrtcGetPTX", program, out); }
