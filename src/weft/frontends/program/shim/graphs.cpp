// Graphs: captured from streams or put together node by node; a launch does the work in order.
#include "graphs.h"

#include <set>

namespace weft {

struct Executable {
    std::vector<Work> work;
    std::vector<Node *> nodes;  // of the graph that it was made of
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

// The nodes in an order in which none comes before what it waits for; empty for a circle.
static std::vector<Node *> ordered_nodes(const Graph &graph) {
    std::vector<Node *> out;
    std::set<const Node *> done;
    while (done.size() < graph.nodes.size()) {
        size_t before = done.size();
        for (auto &node : graph.nodes) {
            bool ready = !done.count(node.get());
            for (auto *earlier : node->after) ready = ready && done.count(earlier);
            if (!ready) continue;
            done.insert(node.get());
            out.push_back(node.get());
        }
        if (done.size() == before) return {};
    }
    return out;
}

static std::vector<Work> ordered(const Graph &graph) {
    std::vector<Work> out;
    for (auto *node : ordered_nodes(graph)) out.push_back(node->work);
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
static cudaError_t work_of_call(Work *out, Call call) {
    cudaStream_t stream;
    cudaGraph_t captured;
    if (auto error = cudaStreamCreate(&stream)) return error;
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    cudaError_t error = call(stream);
    cudaStreamEndCapture(stream, &captured);
    cudaStreamDestroy(stream);
    std::vector<Work> work = ordered(*known(captured));
    cudaGraphDestroy(captured);
    *out = [work] {
        for (auto &each : work)
            if (auto error = each()) return error;
        return cudaSuccess;
    };
    return error;
}

template <class Call>
static cudaError_t add_call(cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *after,
                            size_t count, cudaGraphNodeType type, Call call) {
    Work work;
    if (auto error = work_of_call(&work, call)) return error;
    return add(out, graph, after, count, type, std::move(work));
}

static cudaError_t kernel_work(Work *out, const cudaKernelNodeParams *p) {
    return work_of_call(out, [=](cudaStream_t stream) {
        return cudaLaunchKernel(p->func, p->gridDim, p->blockDim, p->kernelParams,
                                p->sharedMemBytes, stream);
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
    Work work;
    if (auto error = kernel_work(&work, p)) return error;
    return add(out, graph, after, count, cudaGraphNodeTypeKernel, std::move(work));
}
API cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t node, const cudaKernelNodeParams *p) {
    return kernel_work(&reinterpret_cast<Node *>(node)->work, p);
}
// The memory of a graph is allocated once, when its node is added, and is there for every launch.
API cudaError_t cudaGraphAddMemAllocNode(cudaGraphNode_t *out, cudaGraph_t graph,
                                         const cudaGraphNode_t *after, size_t count,
                                         cudaMemAllocNodeParams *p) {
    if (auto error = cudaMalloc(&p->dptr, p->bytesize)) return error;
    return add(out, graph, after, count, cudaGraphNodeTypeMemAlloc, [] { return cudaSuccess; });
}
API cudaError_t cudaGraphAddMemFreeNode(cudaGraphNode_t *out, cudaGraph_t graph,
                                        const cudaGraphNode_t *after, size_t count, void *) {
    return add(out, graph, after, count, cudaGraphNodeTypeMemFree, [] { return cudaSuccess; });
}
API cudaError_t cudaGraphClone(cudaGraph_t *out, cudaGraph_t graph) {
    auto *found = known(graph);
    if (!found) return failed(cudaErrorInvalidValue);
    auto copy = std::make_unique<Graph>();
    std::map<Node *, Node *> copies;
    for (auto &node : found->nodes) copies[node.get()] = copy->add(node->type, node->work);
    for (auto &node : found->nodes)
        for (auto *earlier : node->after) copies[node.get()]->after.push_back(copies[earlier]);
    *out = publish(std::move(copy));
    return cudaSuccess;
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
    auto *made = new Executable{std::move(work), ordered_nodes(*found)};
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
API cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t executable, cudaGraphNode_t node,
                                                 const cudaKernelNodeParams *p) {
    Work work;
    if (auto error = kernel_work(&work, p)) return error;
    std::lock_guard<std::mutex> guard(graphs_mutex);
    auto *found = reinterpret_cast<Executable *>(executable);
    if (!executables.count(found)) return failed(cudaErrorInvalidValue);
    for (size_t i = 0; i < found->nodes.size(); i++)
        if (found->nodes[i] == reinterpret_cast<Node *>(node)) {
            found->work[i] = std::move(work);
            return cudaSuccess;
        }
    return failed(cudaErrorInvalidValue);
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
