// The device: its properties and attributes, limits, peers; the profiler's switches.
#include "watch.h"

using namespace weft;

namespace {
constexpr int64_t PERSISTING = 5;  // eighths of the L2 cache that data may be kept in
constexpr int64_t POLICY_WINDOW = 128 << 20;
// Attributes that only the driver's header names: cuMemMap, and its memory as a file.
constexpr auto VIRTUAL_MEMORY = cudaDeviceAttr(102), MEMORY_IN_FILES = cudaDeviceAttr(103);
int device_count = 1;
thread_local int chosen_device = 0;
Mutex peers_mutex;
bool peers[MOST_DEVICES][MOST_DEVICES];  // whether a device may access the memory of a peer

cudaError_t valid_device(int device) {
    return failed(device >= 0 && device < device_count ? cudaSuccess : cudaErrorInvalidDevice);
}
void write_bus(char *text, int length, int device) {
    snprintf(text, size_t(length), "0000:%02x:00.0", device + 1);
}

struct Attribute {
    cudaDeviceAttr attribute;
    int64_t value;
};
Array<Attribute> attributes() {
    auto &m = model;
    return {
        {cudaDevAttrMaxThreadsPerBlock, m.max_threads_per_block},
        {cudaDevAttrMaxBlockDimX, m.max_block[0]},
        {cudaDevAttrMaxBlockDimY, m.max_block[1]},
        {cudaDevAttrMaxBlockDimZ, m.max_block[2]},
        {cudaDevAttrMaxGridDimX, m.max_grid[0]},
        {cudaDevAttrMaxGridDimY, m.max_grid[1]},
        {cudaDevAttrMaxGridDimZ, m.max_grid[2]},
        {cudaDevAttrMaxSharedMemoryPerBlock, m.shared_per_block},
        {cudaDevAttrMaxSharedMemoryPerBlockOptin, m.shared_optin},
        {cudaDevAttrMaxSharedMemoryPerMultiprocessor, m.shared_per_sm},
        {cudaDevAttrReservedSharedMemoryPerBlock, m.reserved_shared},
        {cudaDevAttrTotalConstantMemory, m.constant},
        {cudaDevAttrWarpSize, m.warp},
        {cudaDevAttrMaxPitch, INT32_MAX},
        {cudaDevAttrMaxRegistersPerBlock, m.registers_per_block},
        {cudaDevAttrMaxRegistersPerMultiprocessor, m.registers_per_sm},
        {cudaDevAttrClockRate, m.clock_khz},
        {cudaDevAttrMemoryClockRate, m.memory_khz},
        {cudaDevAttrGlobalMemoryBusWidth, m.bus_bits},
        {cudaDevAttrTextureAlignment, TEXTURE_ALIGN},
        {cudaDevAttrTexturePitchAlignment, TEXTURE_PITCH_ALIGN},
        {cudaDevAttrMultiProcessorCount, m.sms},
        {cudaDevAttrL2CacheSize, m.l2},
        {cudaDevAttrMaxThreadsPerMultiProcessor, m.max_threads_per_sm},
        {cudaDevAttrMaxBlocksPerMultiprocessor, m.max_blocks_per_sm},
        {cudaDevAttrComputeCapabilityMajor, m.major},
        {cudaDevAttrComputeCapabilityMinor, m.minor},
        {cudaDevAttrPciBusId, 1},
        {cudaDevAttrAsyncEngineCount, 3},
        {cudaDevAttrGpuOverlap, 1},
        {cudaDevAttrCanMapHostMemory, 1},
        {cudaDevAttrConcurrentKernels, 1},
        {cudaDevAttrUnifiedAddressing, 1},
        {cudaDevAttrManagedMemory, 1},
        {cudaDevAttrConcurrentManagedAccess, 1},
        {cudaDevAttrPageableMemoryAccess, 0},
        {cudaDevAttrStreamPrioritiesSupported, 1},
        {cudaDevAttrGlobalL1CacheSupported, 1},
        {cudaDevAttrLocalL1CacheSupported, 1},
        {cudaDevAttrHostNativeAtomicSupported, 1},
        {cudaDevAttrComputePreemptionSupported, 1},
        {cudaDevAttrCanUseHostPointerForRegisteredMem, 1},
        {cudaDevAttrCooperativeLaunch, 1},
        {cudaDevAttrClusterLaunch, m.max_cluster > 0},
        {cudaDevAttrHostRegisterSupported, 1},
        {cudaDevAttrMemoryPoolsSupported, 1},
        {cudaDevAttrMemoryPoolSupportedHandleTypes, cudaMemHandleTypePosixFileDescriptor},
#if CUDART_VERSION >= 13000
        {cudaDevAttrHostMemoryPoolsSupported, 1},
        {cudaDevAttrHostNumaMemoryPoolsSupported, 1},
#endif
        {cudaDevAttrIpcEventSupport, 1},
        {VIRTUAL_MEMORY, 1},
        {MEMORY_IN_FILES, 1},
        {cudaDevAttrEccEnabled, 1},
        {cudaDevAttrMaxPersistingL2CacheSize, m.l2 * PERSISTING / 8},
        {cudaDevAttrMaxAccessPolicyWindowSize, POLICY_WINDOW},
    };
}

// As the runtime's own defaults; what a program sets is kept, and only the heap has an effect.
struct Limit {
    cudaLimit limit;
    size_t value;
} limits[] = {
    {cudaLimitStackSize, 1024},
    {cudaLimitPrintfFifoSize, 8 << 20},
    {cudaLimitMallocHeapSize, 8 << 20},
    {cudaLimitDevRuntimeSyncDepth, 2},
    {cudaLimitDevRuntimePendingLaunchCount, 2048},
    {cudaLimitMaxL2FetchGranularity, 64},
    {cudaLimitPersistingL2CacheSize, 0},
};
size_t *find_limit(cudaLimit limit) {
    for (auto &row : limits)
        if (row.limit == limit) return &row.value;
    return nullptr;
}
unsigned device_flags = cudaDeviceScheduleAuto;
}  // namespace

// ---- which device -------------------------------------------------------------------------------

API cudaError_t cudaGetDeviceCount(int *count) {
    *count = device_count;
    return cudaSuccess;
}
API cudaError_t cudaGetDevice(int *device) {
    *device = chosen_device;
    return cudaSuccess;
}
API cudaError_t cudaSetDevice(int device) {
    if (auto error = valid_device(device)) return error;
    chosen_device = device;
    return cudaSuccess;
}
API cudaError_t cudaInitDevice(int device, unsigned, unsigned) { return valid_device(device); }
API cudaError_t cudaSetValidDevices(int *, int) { return cudaSuccess; }
API cudaError_t cudaChooseDevice(int *device, const cudaDeviceProp *) {
    return cudaGetDevice(device);
}
API cudaError_t cudaDeviceGetPCIBusId(char *text, int length, int device) {
    write_bus(text, length, device);
    return valid_device(device);
}
API cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *text) {
    for (*device = 0; *device < device_count; ++*device) {
        char name[16];
        write_bus(name, sizeof name, *device);
        if (!strcmp(name, text)) return cudaSuccess;
    }
    return failed(cudaErrorInvalidDevice);
}
API cudaError_t cudaSetDeviceFlags(unsigned flags) {
    device_flags = flags;
    return cudaSuccess;
}
API cudaError_t cudaGetDeviceFlags(unsigned *flags) {
    *flags = device_flags;
    return cudaSuccess;
}
API cudaError_t cudaDriverGetVersion(int *version) {
    *version = CUDART_VERSION;
    return cudaSuccess;
}
API cudaError_t cudaRuntimeGetVersion(int *version) { return cudaDriverGetVersion(version); }

// ---- waiting and resetting ----------------------------------------------------------------------

API cudaError_t cudaDeviceSynchronize() {
    WORKING;
    wait_for_device(chosen_device);
    report(ProgramEvent::host_waits_device, chosen_device);
    return broken();
}
API cudaError_t cudaThreadSynchronize() { return cudaDeviceSynchronize(); }
API cudaError_t cudaDeviceReset() {
    wait_for_device(chosen_device);
    report(ProgramEvent::host_waits_device, chosen_device);
    revive();
    release_all();
    if (forget_arrays) forget_arrays();
    return cudaSuccess;
}

// ---- what it is ---------------------------------------------------------------------------------

API cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device) {
    if (auto error = valid_device(device)) return error;
    *value = 0;
    for (auto &row : attributes())
        if (row.attribute == attribute) *value = int(row.value);
    return cudaSuccess;
}
API cudaError_t cudaGetDeviceProperties(cudaDeviceProp *out, int device) {
    if (auto error = valid_device(device)) return error;
    auto &m = model;
    memset(out, 0, sizeof *out);
    memcpy(out->name, m.name, sizeof out->name);
    out->totalGlobalMem = size_t(m.memory);
    out->persistingL2CacheMaxSize = int(m.l2 * PERSISTING / 8);
    out->accessPolicyMaxWindowSize = int(POLICY_WINDOW);
    out->sharedMemPerBlock = size_t(m.shared_per_block);
    out->sharedMemPerBlockOptin = size_t(m.shared_optin);
    out->sharedMemPerMultiprocessor = size_t(m.shared_per_sm);
    out->reservedSharedMemPerBlock = size_t(m.reserved_shared);
    out->regsPerBlock = int(m.registers_per_block);
    out->regsPerMultiprocessor = int(m.registers_per_sm);
    out->warpSize = int(m.warp);
    out->memPitch = INT32_MAX;
    out->maxThreadsPerBlock = int(m.max_threads_per_block);
    for (int i = 0; i < 3; i++) {
        out->maxThreadsDim[i] = int(m.max_block[i]);
        out->maxGridSize[i] = int(m.max_grid[i]);
    }
    out->totalConstMem = size_t(m.constant);
    out->major = int(m.major);
    out->minor = int(m.minor);
    out->multiProcessorCount = int(m.sms);
    out->maxThreadsPerMultiProcessor = int(m.max_threads_per_sm);
    out->maxBlocksPerMultiProcessor = int(m.max_blocks_per_sm);
    out->memoryBusWidth = int(m.bus_bits);
    out->l2CacheSize = int(m.l2);
    texture_limits(out);
    out->asyncEngineCount = 3;
    out->pciBusID = device + 1;
    out->ECCEnabled = 1;
    out->unifiedAddressing = out->managedMemory = out->concurrentManagedAccess = 1;
    out->concurrentKernels = out->cooperativeLaunch = out->canMapHostMemory = 1;
    out->streamPrioritiesSupported = out->memoryPoolsSupported = out->hostRegisterSupported = 1;
    out->globalL1CacheSupported = out->localL1CacheSupported = out->computePreemptionSupported = 1;
    out->canUseHostPointerForRegisteredMem = out->hostNativeAtomicSupported = 1;
#if CUDART_VERSION < 13000
    out->clockRate = int(m.clock_khz);
    out->memoryClockRate = int(m.memory_khz);
    out->deviceOverlap = 1;
#endif
    return cudaSuccess;
}

// ---- limits and preferences ---------------------------------------------------------------------

API cudaError_t cudaDeviceSetLimit(cudaLimit limit, size_t value) {
    WORKING;
    auto *found = find_limit(limit);
    if (!found) return failed(cudaErrorUnsupportedLimit);
    *found = value;
    if (limit == cudaLimitMallocHeapSize) {
        wait_for_idle();
        ops.heap(value);
    }
    return cudaSuccess;
}
API cudaError_t cudaDeviceGetLimit(size_t *value, cudaLimit limit) {
    auto *found = find_limit(limit);
    if (!found) return failed(cudaErrorUnsupportedLimit);
    *value = *found;
    return cudaSuccess;
}
API cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache) { return cudaSuccess; }
API cudaError_t cudaDeviceGetCacheConfig(cudaFuncCache *config) {
    *config = cudaFuncCachePreferNone;
    return cudaSuccess;
}
#if CUDART_VERSION < 14000
// Banks of shared memory have four bytes on every GPU that is simulated.
API cudaError_t cudaDeviceSetSharedMemConfig(cudaSharedMemConfig) { return cudaSuccess; }
API cudaError_t cudaDeviceGetSharedMemConfig(cudaSharedMemConfig *config) {
    *config = cudaSharedMemBankSizeFourByte;
    return cudaSuccess;
}
API cudaError_t cudaFuncSetSharedMemConfig(const void *, cudaSharedMemConfig) {
    return cudaSuccess;
}
#endif
// Caches are not simulated: how they should be used changes nothing.
API cudaError_t cudaCtxResetPersistingL2Cache() { return cudaSuccess; }
API cudaError_t cudaProfilerStart() { return cudaSuccess; }
API cudaError_t cudaProfilerStop() { return cudaSuccess; }

// ---- peers: devices of the simulator share their memory -----------------------------------------

API cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer) {
    *can = device != peer;
    if (auto error = valid_device(device)) return error;
    return valid_device(peer);
}
API cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
    if (flags) return failed(cudaErrorInvalidValue);
    if (peer == chosen_device || valid_device(peer)) return failed(cudaErrorInvalidDevice);
    Lock guard(peers_mutex);
    bool before = std::exchange(peers[chosen_device][peer], true);
    return failed(before ? cudaErrorPeerAccessAlreadyEnabled : cudaSuccess);
}
API cudaError_t cudaDeviceDisablePeerAccess(int peer) {
    if (auto error = valid_device(peer)) return error;
    Lock guard(peers_mutex);
    bool before = std::exchange(peers[chosen_device][peer], false);
    return failed(before ? cudaSuccess : cudaErrorPeerAccessNotEnabled);
}
API cudaError_t cudaDeviceGetP2PAttribute(int *value, cudaDeviceP2PAttr attribute, int device,
                                          int peer) {
    *value = attribute == cudaDevP2PAttrAccessSupported ||
             attribute == cudaDevP2PAttrNativeAtomicSupported;
    if (device == peer || valid_device(device)) return failed(cudaErrorInvalidDevice);
    return valid_device(peer);
}

// For the sanitizer: may kernels of a device access the memory of another one?
API int weft_may_access(int device, int owner) {
    Lock guard(peers_mutex);
    return device == owner || peers[device][owner];
}
API void weft_gpus(int count) { device_count = count; }
int weft::current_device() { return chosen_device; }
void (*weft::forget_arrays)() = nullptr;
