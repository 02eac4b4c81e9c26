// The driver API's graphs, captures and batches of copies: what cuda.core calls. The driver's and
// the runtime's handles are the same types, and structures that are cast have the same layout.
#include <algorithm>
#include <atomic>

#include "../driver_result.h"
#include "../standard.h"

using namespace weft;

#if CUDA_VERSION >= 13000

namespace {
cudaKernelNodeParams runtime_kernel(const CUDA_KERNEL_NODE_PARAMS &p) {
    cudaKernelNodeParams out = {};
    out.func = p.func ? reinterpret_cast<void *>(p.func) : reinterpret_cast<void *>(p.kern);
    out.gridDim = {p.gridDimX, p.gridDimY, p.gridDimZ};
    out.blockDim = {p.blockDimX, p.blockDimY, p.blockDimZ};
    out.sharedMemBytes = p.sharedMemBytes;
    out.kernelParams = p.kernelParams;
    out.extra = p.extra;
    return out;
}

// An object of the user that lives as long as a graph, or what was made of it, refers to it.
struct UserObject {
    void *pointer;
    CUhostFn destroy;
    std::atomic<int> references;
    void release(int count) {
        if ((references -= count) > 0) return;
        destroy(pointer);
        delete this;
    }
};
UserObject *object_of(CUuserObject object) { return reinterpret_cast<UserObject *>(object); }

std::mutex held_mutex;
std::map<const void *, std::vector<UserObject *>> held;  // by graphs and by executable graphs

void hold_as(const void *other, const void *graph) {
    std::lock_guard<std::mutex> guard(held_mutex);
    auto found = held.find(graph);
    if (found == held.end()) return;
    auto objects = found->second;
    for (auto *object : objects) object->references++;
    held[other].insert(held[other].end(), objects.begin(), objects.end());
}
void let_go(const void *graph) {
    std::vector<UserObject *> objects;
    {
        std::lock_guard<std::mutex> guard(held_mutex);
        auto found = held.find(graph);
        if (found == held.end()) return;
        objects.swap(found->second);
        held.erase(found);
    }
    for (auto *object : objects) object->release(1);
}
}  // namespace

// ---- capture ------------------------------------------------------------------------------------

API CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode) {
    return result(cudaStreamBeginCapture(stream, cudaStreamCaptureMode(mode)));
}
API CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode *after,
                                         const CUgraphEdgeData *, size_t count,
                                         CUstreamCaptureMode mode) {
    return result(cudaStreamBeginCaptureToGraph(stream, graph, after, nullptr, count,
                                                cudaStreamCaptureMode(mode)));
}
API CUresult cuStreamEndCapture(CUstream stream, CUgraph *out) {
    return result(cudaStreamEndCapture(stream, out));
}
API CUresult cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
                                    CUgraph *graph, const CUgraphNode **after,
                                    const CUgraphEdgeData **edges, size_t *count) {
    if (edges) *edges = nullptr;
    unsigned long long number = 0;
    auto error =
        cudaStreamGetCaptureInfo(stream, reinterpret_cast<cudaStreamCaptureStatus *>(status),
                                 &number, graph, after, nullptr, count);
    if (id) *id = number;
    return result(error);
}
API CUresult cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode *after,
                                               const CUgraphEdgeData *, size_t count,
                                               unsigned flags) {
    return result(cudaStreamUpdateCaptureDependencies(stream, after, nullptr, count, flags));
}

// ---- building -----------------------------------------------------------------------------------

API CUresult cuGraphCreate(CUgraph *out, unsigned flags) {
    return result(cudaGraphCreate(out, flags));
}
API CUresult cuGraphDestroy(CUgraph graph) {
    auto error = cudaGraphDestroy(graph);
    if (!error) let_go(graph);
    return result(error);
}
API CUresult cuGraphClone(CUgraph *out, CUgraph graph) {
    auto error = cudaGraphClone(out, graph);
    if (!error) hold_as(*out, graph);
    return result(error);
}
API CUresult cuGraphAddEmptyNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *after,
                                 size_t count) {
    return result(cudaGraphAddEmptyNode(out, graph, after, count));
}
API CUresult cuGraphAddKernelNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *after,
                                  size_t count, const CUDA_KERNEL_NODE_PARAMS *p) {
    auto kernel = runtime_kernel(*p);
    return result(cudaGraphAddKernelNode(out, graph, after, count, &kernel));
}
API CUresult cuGraphAddMemsetNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *after,
                                  size_t count, const CUDA_MEMSET_NODE_PARAMS *p, CUcontext) {
    return result(cudaGraphAddMemsetNode(out, graph, after, count,
                                         reinterpret_cast<const cudaMemsetParams *>(p)));
}
API CUresult cuGraphAddHostNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *after,
                                size_t count, const CUDA_HOST_NODE_PARAMS *p) {
    return result(cudaGraphAddHostNode(out, graph, after, count,
                                       reinterpret_cast<const cudaHostNodeParams *>(p)));
}
API CUresult cuGraphAddMemAllocNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *after,
                                    size_t count, CUDA_MEM_ALLOC_NODE_PARAMS *p) {
    cudaMemAllocNodeParams memory = {};
    memory.bytesize = p->bytesize;
    auto error = cudaGraphAddMemAllocNode(out, graph, after, count, &memory);
    p->dptr = reinterpret_cast<CUdeviceptr>(memory.dptr);
    return result(error);
}
API CUresult cuGraphAddMemFreeNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *after,
                                   size_t count, CUdeviceptr memory) {
    return result(cudaGraphAddMemFreeNode(out, graph, after, count, at_address(memory)));
}
API CUresult cuGraphAddChildGraphNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *after,
                                      size_t count, CUgraph child) {
    auto error = cudaGraphAddChildGraphNode(out, graph, after, count, child);
    if (!error) hold_as(graph, child);
    return result(error);
}
API CUresult cuGraphAddNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *after,
                            const CUgraphEdgeData *, size_t count, CUgraphNodeParams *p) {
    if (p->type == CU_GRAPH_NODE_TYPE_KERNEL && !p->kernel.func)
        p->kernel.func = reinterpret_cast<CUfunction>(p->kernel.kern);
    return result(cudaGraphAddNode(out, graph, after, nullptr, count,
                                   reinterpret_cast<cudaGraphNodeParams *>(p)));
}
API CUresult cuGraphConditionalHandleCreate(CUgraphConditionalHandle *out, CUgraph graph, CUcontext,
                                            unsigned first, unsigned flags) {
    cudaGraphConditionalHandle handle = 0;
    auto error = cudaGraphConditionalHandleCreate(&handle, graph, first, flags);
    *out = handle;
    return result(error);
}
API CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                    const CUgraphEdgeData *, size_t count) {
    return result(cudaGraphAddDependencies(graph, from, to, nullptr, count));
}
API CUresult cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode *from,
                                       const CUgraphNode *to, const CUgraphEdgeData *,
                                       size_t count) {
    return result(cudaGraphRemoveDependencies(graph, from, to, nullptr, count));
}
API CUresult cuGraphDestroyNode(CUgraphNode node) { return result(cudaGraphDestroyNode(node)); }

// ---- questions about a graph --------------------------------------------------------------------

API CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count) {
    return result(cudaGraphGetNodes(graph, nodes, count));
}
API CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode *nodes, size_t *count) {
    return result(cudaGraphGetRootNodes(graph, nodes, count));
}
API CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *,
                             size_t *count) {
    return result(cudaGraphGetEdges(graph, from, to, nullptr, count));
}
API CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *out, CUgraphEdgeData *,
                                        size_t *count) {
    return result(cudaGraphNodeGetDependencies(node, out, nullptr, count));
}
API CUresult cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode *out, CUgraphEdgeData *,
                                          size_t *count) {
    return result(cudaGraphNodeGetDependentNodes(node, out, nullptr, count));
}
API CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type) {
    return result(cudaGraphNodeGetType(node, reinterpret_cast<cudaGraphNodeType *>(type)));
}
API CUresult cuGraphNodeFindInClone(CUgraphNode *out, CUgraphNode original, CUgraph clone) {
    return result(cudaGraphNodeFindInClone(out, original, clone));
}
API CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph *out) {
    return result(cudaGraphChildGraphNodeGetGraph(node, out));
}

// ---- executable graphs --------------------------------------------------------------------------

API CUresult cuGraphInstantiateWithParams(CUgraphExec *out, CUgraph graph,
                                          CUDA_GRAPH_INSTANTIATE_PARAMS *p) {
    auto error = cudaGraphInstantiateWithParams(out, graph,
                                                reinterpret_cast<cudaGraphInstantiateParams *>(p));
    if (!error) hold_as(*out, graph);
    return result(error);
}
API CUresult cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph graph,
                                         unsigned long long flags) {
    auto error = cudaGraphInstantiate(out, graph, flags);
    if (!error) hold_as(*out, graph);
    return result(error);
}
API CUresult cuGraphExecUpdate(CUgraphExec executable, CUgraph graph,
                               CUgraphExecUpdateResultInfo *info) {
    auto error = cudaGraphExecUpdate(executable, graph,
                                     reinterpret_cast<cudaGraphExecUpdateResultInfo *>(info));
    if (!error) hold_as(executable, graph);
    return result(error);
}
API CUresult cuGraphUpload(CUgraphExec executable, CUstream stream) {
    return result(cudaGraphUpload(executable, stream));
}
API CUresult cuGraphLaunch(CUgraphExec executable, CUstream stream) {
    return result(cudaGraphLaunch(executable, stream));
}
API CUresult cuGraphExecDestroy(CUgraphExec executable) {
    auto error = cudaGraphExecDestroy(executable);
    if (!error) let_go(executable);
    return result(error);
}
API CUresult cuGraphNodeSetEnabled(CUgraphExec executable, CUgraphNode node, unsigned enabled) {
    return result(cudaGraphNodeSetEnabled(executable, node, enabled));
}
API CUresult cuGraphNodeGetEnabled(CUgraphExec executable, CUgraphNode node, unsigned *enabled) {
    return result(cudaGraphNodeGetEnabled(executable, node, enabled));
}

// ---- objects of the user ------------------------------------------------------------------------

API CUresult cuUserObjectCreate(CUuserObject *out, void *pointer, CUhostFn destroy, unsigned count,
                                unsigned) {
    *out = reinterpret_cast<CUuserObject>(new UserObject{pointer, destroy, {int(count)}});
    return CUDA_SUCCESS;
}
API CUresult cuUserObjectRetain(CUuserObject object, unsigned count) {
    object_of(object)->references += int(count);
    return CUDA_SUCCESS;
}
API CUresult cuUserObjectRelease(CUuserObject object, unsigned count) {
    object_of(object)->release(int(count));
    return CUDA_SUCCESS;
}
API CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned count,
                                     unsigned flags) {
    auto *found = object_of(object);
    if (flags != CU_GRAPH_USER_OBJECT_MOVE) found->references += int(count);
    std::lock_guard<std::mutex> guard(held_mutex);
    held[graph].insert(held[graph].end(), count, found);
    return CUDA_SUCCESS;
}
API CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned count) {
    auto *found = object_of(object);
    {
        std::lock_guard<std::mutex> guard(held_mutex);
        auto &objects = held[graph];
        for (unsigned i = 0; i < count; i++) {
            auto at = std::find(objects.begin(), objects.end(), found);
            if (at == objects.end()) return CUDA_ERROR_INVALID_VALUE;
            objects.erase(at);
        }
    }
    found->release(int(count));
    return CUDA_SUCCESS;
}

// ---- copies with attributes, which are hints ----------------------------------------------------

API CUresult cuMemcpyWithAttributesAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                                         CUmemcpyAttributes *, CUstream stream) {
    return result(cudaMemcpyAsync(at_address(to), at_address(from), bytes, cudaMemcpyDefault,
                                  stream));
}
API CUresult cuMemcpyBatchAsync(CUdeviceptr *to, CUdeviceptr *from, size_t *bytes, size_t count,
                                CUmemcpyAttributes *, size_t *, size_t, CUstream stream) {
    for (size_t i = 0; i < count; i++)
        if (auto error = cuMemcpyWithAttributesAsync(to[i], from[i], bytes[i], nullptr, stream))
            return error;
    return CUDA_SUCCESS;
}

#endif
