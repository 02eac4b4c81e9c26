// Graphs: captured from streams or put together node by node; a launch does the work in order.
#include "graphs.h"

#include <set>

namespace weft {

struct Executable {
    std::vector<Work> work;
};

static std::mutex graphs_mutex;
static std::set<Graph *> graphs;
static std::set<Executable *> executables;

cudaGraph_t publish(std::unique_ptr<Graph> graph) {
    std::lock_guard<std::mutex> guard(graphs_mutex);
    graphs.insert(graph.get());
    return reinterpret_cast<cudaGraph_t>(graph.release());
}

static Graph *known(cudaGraph_t graph) {
    std::lock_guard<std::mutex> guard(graphs_mutex);
    auto found = graphs.find(reinterpret_cast<Graph *>(graph));
    return found == graphs.end() ? nullptr : *found;
}

// The work in an order in which nothing comes before what it waits for; empty for a circle.
static std::vector<Work> ordered(const Graph &graph) {
    std::vector<Work> out;
    std::set<const Node *> done;
    while (done.size() < graph.nodes.size()) {
        size_t before = done.size();
        for (auto &node : graph.nodes) {
            bool ready = !done.count(node.get());
            for (auto *earlier : node->after) ready = ready && done.count(earlier);
            if (!ready) continue;
            done.insert(node.get());
            out.push_back(node->work);
        }
        if (done.size() == before) return {};
    }
    return out;
}

static cudaError_t add(cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *after,
                       size_t count, cudaGraphNodeType type, Work work) {
    auto *found = known(graph);
    if (!found) return failed(cudaErrorInvalidValue);
    auto *node = found->add(type, std::move(work));
    for (size_t i = 0; i < count; i++) node->after.push_back(reinterpret_cast<Node *>(after[i]));
    *out = reinterpret_cast<cudaGraphNode_t>(node);
    return cudaSuccess;
}

// Work of a node is what the call for a stream does; it is caught on its way there.
template <class Call>
static cudaError_t add_call(cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *after,
                            size_t count, cudaGraphNodeType type, Call call) {
    cudaStream_t stream;
    cudaGraph_t captured;
    if (auto error = cudaStreamCreate(&stream)) return error;
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    cudaError_t error = call(stream);
    cudaStreamEndCapture(stream, &captured);
    cudaStreamDestroy(stream);
    std::vector<Work> work = ordered(*known(captured));
    cudaGraphDestroy(captured);
    if (error) return error;
    return add(out, graph, after, count, type, [work] {
        for (auto &each : work)
            if (auto error = each()) return error;
        return cudaSuccess;
    });
}

}  // namespace weft

using namespace weft;

// ---- building -----------------------------------------------------------------------------------

API cudaError_t cudaGraphCreate(cudaGraph_t *out, unsigned) {
    *out = publish(std::make_unique<Graph>());
    return cudaSuccess;
}
API cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    std::lock_guard<std::mutex> guard(graphs_mutex);
    auto *found = reinterpret_cast<Graph *>(graph);
    if (!graphs.erase(found)) return failed(cudaErrorInvalidValue);
    delete found;
    return cudaSuccess;
}
API cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t *out, cudaGraph_t graph,
                                      const cudaGraphNode_t *after, size_t count) {
    return add(out, graph, after, count, cudaGraphNodeTypeEmpty, [] { return cudaSuccess; });
}
API cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t *out, cudaGraph_t graph,
                                       const cudaGraphNode_t *after, size_t count,
                                       const cudaKernelNodeParams *p) {
    return add_call(out, graph, after, count, cudaGraphNodeTypeKernel, [=](cudaStream_t stream) {
        return cudaLaunchKernel(p->func, p->gridDim, p->blockDim, p->kernelParams,
                                p->sharedMemBytes, stream);
    });
}
API cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t *out, cudaGraph_t graph,
                                       const cudaGraphNode_t *after, size_t count,
                                       const cudaMemcpy3DParms *p) {
    return add_call(out, graph, after, count, cudaGraphNodeTypeMemcpy,
                    [=](cudaStream_t stream) { return cudaMemcpy3DAsync(p, stream); });
}
API cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t *out, cudaGraph_t graph,
                                         const cudaGraphNode_t *after, size_t count, void *to,
                                         const void *from, size_t bytes, cudaMemcpyKind kind) {
    return add_call(out, graph, after, count, cudaGraphNodeTypeMemcpy, [=](cudaStream_t stream) {
        return cudaMemcpyAsync(to, from, bytes, kind, stream);
    });
}
API cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t *out, cudaGraph_t graph,
                                       const cudaGraphNode_t *after, size_t count,
                                       const cudaMemsetParams *p) {
    auto to = *p;
    uintptr_t start;
    Allocation found;
    if (!find(to.dst, &start, &found)) return failed(cudaErrorInvalidValue);
    return add(out, graph, after, count, cudaGraphNodeTypeMemset, [to] {
        for (size_t y = 0; y < to.height; y++)
            for (size_t x = 0; x < to.width; x++)
                memcpy(static_cast<char *>(to.dst) + y * to.pitch + x * to.elementSize, &to.value,
                       to.elementSize);
        return cudaSuccess;
    });
}
API cudaError_t cudaGraphAddHostNode(cudaGraphNode_t *out, cudaGraph_t graph,
                                     const cudaGraphNode_t *after, size_t count,
                                     const cudaHostNodeParams *p) {
    return add_call(out, graph, after, count, cudaGraphNodeTypeHost, [=](cudaStream_t stream) {
        return cudaLaunchHostFunc(stream, p->fn, p->userData);
    });
}
API cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t *out, cudaGraph_t graph,
                                           const cudaGraphNode_t *after, size_t count,
                                           cudaGraph_t child) {
    auto *found = known(child);
    if (!found) return failed(cudaErrorInvalidValue);
    return add(out, graph, after, count, cudaGraphNodeTypeGraph, [work = ordered(*found)] {
        for (auto &each : work)
            if (auto error = each()) return error;
        return cudaSuccess;
    });
}
#if CUDART_VERSION >= 13000
API cudaError_t cudaGraphAddDependencies(cudaGraph_t, const cudaGraphNode_t *from,
                                         const cudaGraphNode_t *to, const cudaGraphEdgeData *,
                                         size_t count) {
#else
API cudaError_t cudaGraphAddDependencies(cudaGraph_t, const cudaGraphNode_t *from,
                                         const cudaGraphNode_t *to, size_t count) {
#endif
    for (size_t i = 0; i < count; i++)
        reinterpret_cast<Node *>(to[i])->after.push_back(reinterpret_cast<Node *>(from[i]));
    return cudaSuccess;
}
API cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count) {
    auto *found = known(graph);
    if (!found) return failed(cudaErrorInvalidValue);
    if (nodes)
        for (size_t i = 0; i < std::min(*count, found->nodes.size()); i++)
            nodes[i] = reinterpret_cast<cudaGraphNode_t>(found->nodes[i].get());
    *count = found->nodes.size();
    return cudaSuccess;
}
API cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType *type) {
    *type = reinterpret_cast<Node *>(node)->type;
    return cudaSuccess;
}

// ---- running ------------------------------------------------------------------------------------

static cudaError_t instantiate(cudaGraphExec_t *out, cudaGraph_t graph) {
    auto *found = known(graph);
    if (!found) return failed(cudaErrorInvalidValue);
    auto work = ordered(*found);
    if (work.size() < found->nodes.size()) return failed(cudaErrorInvalidValue);
    std::lock_guard<std::mutex> guard(graphs_mutex);
    auto *made = new Executable{std::move(work)};
    executables.insert(made);
    *out = reinterpret_cast<cudaGraphExec_t>(made);
    return cudaSuccess;
}
#if CUDART_VERSION >= 12000
API cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long) {
    return instantiate(out, graph);
}
#else
API cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph, cudaGraphNode_t *,
                                     char *, size_t) {
    return instantiate(out, graph);
}
#endif
API cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *out, cudaGraph_t graph,
                                              unsigned long long) {
    return instantiate(out, graph);
}
API cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
    std::lock_guard<std::mutex> guard(graphs_mutex);
    auto *found = reinterpret_cast<Executable *>(executable);
    if (!executables.erase(found)) return failed(cudaErrorInvalidValue);
    delete found;
    return cudaSuccess;
}
API cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) {
    WORKING;
    return cudaSuccess;
}
API cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
    WORKING;
    Executable *found = reinterpret_cast<Executable *>(executable);
    {
        std::lock_guard<std::mutex> guard(graphs_mutex);
        if (!executables.count(found)) return failed(cudaErrorInvalidValue);
    }
    return failed(submit(stream, cudaGraphNodeTypeGraph, [work = found->work] {
        for (auto &each : work)
            if (auto error = each()) return error;
        return cudaSuccess;
    }));
}
API cudaError_t cudaGraphExecUpdate(cudaGraphExec_t executable, cudaGraph_t graph,
                                    cudaGraphExecUpdateResultInfo *info) {
    auto *source = known(graph);
    if (!source) return failed(cudaErrorInvalidValue);
    auto work = ordered(*source);
    std::lock_guard<std::mutex> guard(graphs_mutex);
    auto *found = reinterpret_cast<Executable *>(executable);
    bool fits = executables.count(found) && work.size() == found->work.size();
    if (info)
        info->result = fits ? cudaGraphExecUpdateSuccess : cudaGraphExecUpdateErrorTopologyChanged;
    if (!fits) return failed(cudaErrorGraphExecUpdateFailure);
    found->work = std::move(work);
    return cudaSuccess;
}
