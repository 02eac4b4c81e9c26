// Launches, and what can be asked about a kernel.
#include "weft.h"

using namespace weft;

namespace {
struct Parameters {
    Array<uint32_t> pairs;  // offset, size
    size_t bytes = 0;
    bool known = false;
};
struct Chosen {  // what cudaFuncSetAttribute has set
    int dynamic_shared = 0, carve_out = -1, large_clusters = 0;
};
constexpr dim3 NO_CLUSTER = {0, 0, 0};
struct Configuration {
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
};
Mutex launch_mutex;
Table<Parameters> layouts;
Table<Chosen> chosen;
thread_local Array<Configuration> configurations;
int idle_device = -1;  // its kernels return at once

const Parameters &parameters(const void *function) {
    Lock guard(launch_mutex);
    auto &found = layouts[function];
    if (!found.known) {
        Array<uint32_t> pairs(2 * 4096);
        int count = ops.parameters(function, pairs.data(), 4096);
        if (count < 0) return found;
        pairs.resize(2 * count);
        for (size_t i = 0; i < pairs.size(); i += 2)
            found.bytes = larger<size_t>(found.bytes, pairs[i] + pairs[i + 1]);
        found.pairs = std::move(pairs);
        found.known = true;
    }
    return found;
}

Chosen chosen_for(const void *function) {
    Lock guard(launch_mutex);
    auto *found = chosen.find(function);
    return found ? *found : Chosen();
}

// The limits of a launch, in the order in which a GPU's driver reports them.
cudaError_t check(const void *function, dim3 grid, dim3 block, size_t shared) {
    const int64_t grids[] = {grid.x, grid.y, grid.z}, blocks[] = {block.x, block.y, block.z};
    for (int i = 0; i < 3; i++)
        if (grids[i] < 1 || grids[i] > model.max_grid[i] || blocks[i] < 1 ||
            blocks[i] > model.max_block[i])
            return cudaErrorInvalidConfiguration;
    if (blocks[0] * blocks[1] * blocks[2] > model.max_threads_per_block)
        return cudaErrorInvalidConfiguration;
    if (shared > size_t(model.shared_per_block) &&
        shared > size_t(chosen_for(function).dynamic_shared)) {
        say("%zu bytes of dynamic shared memory: more than %lld need cudaFuncSetAttribute(kernel, "
            "cudaFuncAttributeMaxDynamicSharedMemorySize, bytes)",
            shared, (long long)model.shared_per_block);
        return cudaErrorInvalidValue;
    }
    return cudaSuccess;
}

// The attribute of a launch that gives its cluster, if it has one.
bool cluster_of(const cudaLaunchConfig_t *how, dim3 *out) {
    for (unsigned i = 0; i < how->numAttrs; i++)
        if (how->attrs[i].id == cudaLaunchAttributeClusterDimension) {
            auto &given = how->attrs[i].val.clusterDim;
            *out = dim3(given.x, given.y, given.z);
            return true;
        }
    return false;
}

cudaError_t outcome(int code) {
    if (code & DIED) {
        die(static_cast<cudaError_t>(code & ~DIED));
        // A GPU finds out later, too: the next call that waits returns the error.
        return immediate ? broken() : cudaSuccess;
    }
    return static_cast<cudaError_t>(code);
}

// More blocks than every GPU can run need the kernel's consent.
bool too_large(const void *function, dim3 cluster) {
    unsigned blocks = cluster.x * cluster.y * cluster.z;
    if (blocks <= PORTABLE_CLUSTER || chosen_for(function).large_clusters) return false;
    say("a cluster of %u blocks: more than %u need cudaFuncSetAttribute(kernel, "
        "cudaFuncAttributeNonPortableClusterSizeAllowed, 1)",
        blocks, PORTABLE_CLUSTER);
    return true;
}

cudaError_t launch(const void *function, dim3 grid, dim3 block, void **arguments, size_t shared,
                   cudaStream_t stream, int cooperative = 0, dim3 cluster = NO_CLUSTER) {
    WORKING;
    auto &layout = parameters(function);
    if (!layout.known) return failed(cudaErrorInvalidDeviceFunction);
    if (auto error = check(function, grid, block, shared)) return failed(error);
    if (too_large(function, cluster)) return failed(cudaErrorInvalidClusterSize);
    const unsigned shape[] = {grid.x,  grid.y,    grid.z,    block.x,  block.y,
                              block.z, cluster.x, cluster.y, cluster.z};
    if (int refused = ops.prepare(function, shape, shared, cooperative))
        return failed(static_cast<cudaError_t>(refused));
    Array<char> packed(larger<size_t>(layout.bytes, 1));
    for (size_t i = 0; i < layout.pairs.size(); i += 2)
        memcpy(packed.data() + layout.pairs[i], arguments[i / 2], layout.pairs[i + 1]);
    bool idle = current_device() == idle_device;
    return failed(submit(stream, cudaGraphNodeTypeKernel, [=, packed = std::move(packed)] {
        if (idle) return cudaSuccess;
        const unsigned dims[] = {grid.x,  grid.y,    grid.z,    block.x,  block.y,
                                 block.z, cluster.x, cluster.y, cluster.z};
        return outcome(
            ops.launch(function, dims, packed.data(), packed.size(), shared, cooperative));
    }));
}
}  // namespace

API void weft_idle(int device) { idle_device = device; }
API unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared,
                                         cudaStream_t stream) {
    configurations.push_back({grid, block, shared, stream});
    return 0;
}
API cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream) {
    if (configurations.empty()) return failed(cudaErrorMissingConfiguration);
    auto last = configurations.back();
    configurations.pop_back();
    *grid = last.grid, *block = last.block, *shared = last.shared;
    *static_cast<cudaStream_t *>(stream) = last.stream;
    return cudaSuccess;
}
API cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *function) {
    *kernel = (cudaKernel_t)function;
    return cudaSuccess;
}
API cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments,
                                   size_t shared, cudaStream_t stream) {
    return launch(kernel, grid, block, arguments, shared, stream);
}
API cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 grid, dim3 block,
                                        void **arguments, size_t shared, cudaStream_t stream) {
    return launch(kernel, grid, block, arguments, shared, stream);
}
API cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments,
                                 size_t shared, cudaStream_t stream) {
    return launch(function, grid, block, arguments, shared, stream);
}
API cudaError_t cudaLaunchCooperativeKernel(const void *function, dim3 grid, dim3 block,
                                            void **arguments, size_t shared, cudaStream_t stream) {
    return launch(function, grid, block, arguments, shared, stream, 1);
}
API cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *how, const void *function,
                                    void **arguments) {
    int cooperative = 0;
    for (unsigned i = 0; i < how->numAttrs; i++)
        if (how->attrs[i].id == cudaLaunchAttributeCooperative)
            cooperative = how->attrs[i].val.cooperative;
    dim3 cluster;
    bool given = cluster_of(how, &cluster);
    if (given && !(cluster.x * cluster.y * cluster.z)) return failed(cudaErrorInvalidClusterSize);
    return launch(function, how->gridDim, how->blockDim, arguments, how->dynamicSmemBytes,
                  how->stream, cooperative, given ? cluster : NO_CLUSTER);
}

// ---- kernels as values --------------------------------------------------------------------------

API cudaError_t cudaGetKernel(cudaKernel_t *kernel, const void *function) {
    return __cudaGetKernel(kernel, function);
}
API cudaError_t cudaGetFuncBySymbol(cudaFunction_t *out, const void *function) {
    *out = (cudaFunction_t)function;
    return cudaSuccess;
}

// ---- what is known of a kernel ------------------------------------------------------------------

API cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *out, const void *function) {
    FunctionFacts facts;
    if (ops.facts(function, &facts, 1)) return failed(cudaErrorInvalidDeviceFunction);
    auto set = chosen_for(function);
    memset(out, 0, sizeof *out);
    out->sharedSizeBytes = facts.static_shared;
    out->constSizeBytes = facts.constant;
    out->localSizeBytes = facts.local;
    out->maxThreadsPerBlock = int(facts.most_threads);
    out->numRegs = int(facts.registers);
    out->ptxVersion = int(facts.ptx);
    out->binaryVersion = int(facts.binary);
    out->maxDynamicSharedSizeBytes =
        set.dynamic_shared ? set.dynamic_shared : int(model.shared_per_block - facts.static_shared);
    out->preferredShmemCarveout = set.carve_out;
    out->clusterDimMustBeSet = int(facts.must_have_cluster);
    out->requiredClusterWidth = int(facts.cluster[0]);
    out->requiredClusterHeight = int(facts.cluster[1]);
    out->requiredClusterDepth = int(facts.cluster[2]);
    out->nonPortableClusterSizeAllowed = set.large_clusters;
    return cudaSuccess;
}

API cudaError_t cudaFuncSetAttribute(const void *function, cudaFuncAttribute attribute, int value) {
    FunctionFacts facts;
    if (ops.facts(function, &facts, 0)) return failed(cudaErrorInvalidDeviceFunction);
    Lock guard(launch_mutex);
    if (attribute == cudaFuncAttributeMaxDynamicSharedMemorySize) {
        if (value < 0 || value + facts.static_shared > model.shared_optin)
            return failed(cudaErrorInvalidValue);
        chosen[function].dynamic_shared = value;
    } else if (attribute == cudaFuncAttributePreferredSharedMemoryCarveout) {
        if (value < -1 || value > 100) return failed(cudaErrorInvalidValue);
        chosen[function].carve_out = value;
    } else if (attribute == cudaFuncAttributeNonPortableClusterSizeAllowed) {
        if (value < 0 || value > 1) return failed(cudaErrorInvalidValue);
        chosen[function].large_clusters = value;
    }
    return cudaSuccess;
}
API cudaError_t cudaFuncSetCacheConfig(const void *, cudaFuncCache) { return cudaSuccess; }

API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks,
                                                                       const void *function,
                                                                       int threads, size_t shared,
                                                                       unsigned) {
    if (threads < 1) return failed(cudaErrorInvalidValue);
    int found = ops.blocks_per_sm(function, threads, shared);
    if (found < 0) return failed(cudaErrorInvalidDeviceFunction);
    *blocks = found;
    return cudaSuccess;
}
API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *function,
                                                              int threads, size_t shared) {
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, shared,
                                                                  0);
}
API cudaError_t cudaOccupancyMaxActiveClusters(int *clusters, const void *function,
                                               const cudaLaunchConfig_t *how) {
    FunctionFacts facts;
    if (ops.facts(function, &facts, 0)) return failed(cudaErrorInvalidDeviceFunction);
    dim3 cluster(larger<int64_t>(facts.cluster[0], 1), larger<int64_t>(facts.cluster[1], 1),
                 larger<int64_t>(facts.cluster[2], 1));
    cluster_of(how, &cluster);
    if (too_large(function, cluster)) return failed(cudaErrorInvalidClusterSize);
    auto &block = how->blockDim;
    int found = ops.clusters(function, block.x * block.y * block.z, how->dynamicSmemBytes,
                             cluster.x * cluster.y * cluster.z);
    if (found < 0) return failed(cudaErrorInvalidClusterSize);
    *clusters = found;
    return cudaSuccess;
}
API cudaError_t cudaOccupancyMaxPotentialClusterSize(int *size, const void *function,
                                                     const cudaLaunchConfig_t *how) {
    auto &block = how->blockDim;
    int most = int(chosen_for(function).large_clusters ? model.max_cluster : PORTABLE_CLUSTER);
    for (*size = smaller(most, int(model.max_cluster)); *size > 1; *size /= 2)
        if (ops.clusters(function, block.x * block.y * block.z, how->dynamicSmemBytes, *size) > 0)
            break;
    return model.max_cluster ? cudaSuccess : failed(cudaErrorNotSupported);
}
API cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, const void *function,
                                                          int blocks, int threads) {
    FunctionFacts facts;
    if (ops.facts(function, &facts, 0)) return failed(cudaErrorInvalidDeviceFunction);
    if (blocks < 1 || ops.blocks_per_sm(function, threads, 0) < blocks)
        return failed(cudaErrorInvalidValue);
    int64_t each =
        model.shared_per_sm / blocks / 128 * 128 - model.reserved_shared - facts.static_shared;
    *bytes = size_t(larger<int64_t>(0, smaller(each, model.shared_optin - facts.static_shared)));
    return cudaSuccess;
}
