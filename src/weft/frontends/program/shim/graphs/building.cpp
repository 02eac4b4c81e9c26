// Graphs: captured from streams or put together node by node; a launch does the work in order.
#include "graphs.h"

#include <algorithm>
#include <set>

namespace weft {

static std::mutex graphs_mutex;
static std::set<Graph *> graphs;
static std::set<Executable *> executables;

cudaGraph_t publish(std::unique_ptr<Graph> graph) {
    std::lock_guard<std::mutex> guard(graphs_mutex);
    graphs.insert(graph.get());
    return reinterpret_cast<cudaGraph_t>(graph.release());
}

Graph *known_graph(cudaGraph_t graph) {
    std::lock_guard<std::mutex> guard(graphs_mutex);
    auto found = graphs.find(reinterpret_cast<Graph *>(graph));
    return found == graphs.end() ? nullptr : *found;
}

std::vector<Node *> ordered_nodes(const Graph &graph) {
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

static Work in_order(std::vector<Work> work) {
    return [work = std::move(work)] {
        for (auto &each : work)
            if (auto error = each()) return error;
        return cudaSuccess;
    };
}

Work work_of(const Node &node) {
    if (node.type == cudaGraphNodeTypeConditional) return conditional_work(node);
    return node.bodies.empty() ? node.work : work_of(*node.bodies[0]);
}

Work work_of(const Graph &graph) {
    std::vector<Work> work;
    for (auto *node : ordered_nodes(graph)) work.push_back(work_of(*node));
    return in_order(std::move(work));
}

void collect_handles(const Graph &graph, std::vector<unsigned long long> *out) {
    out->insert(out->end(), graph.handles.begin(), graph.handles.end());
    for (auto &node : graph.nodes)
        for (auto *body : node->bodies) collect_handles(*body, out);
}

std::unique_ptr<Graph> cloned(const Graph &graph) {
    auto copy = std::make_unique<Graph>();
    copy->handles = graph.handles;
    std::map<const Node *, Node *> copies;
    for (auto &node : graph.nodes) {
        auto *made = copies[node.get()] = copy->add(node->type, node->work);
        made->original = node.get();
        made->handle = node->handle, made->condition = node->condition;
        for (auto *body : node->bodies)
            made->bodies.push_back(reinterpret_cast<Graph *>(publish(cloned(*body))));
        if (node->kernel.func) keep_kernel(made, &node->kernel);
    }
    for (auto &node : graph.nodes)
        for (auto *earlier : node->after) copies[node.get()]->after.push_back(copies[earlier]);
    return copy;
}

cudaError_t add_node(cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *after,
                     size_t count, cudaGraphNodeType type, Work work) {
    auto *found = known_graph(graph);
    if (!found) return failed(cudaErrorInvalidValue);
    auto *node = found->add(type, std::move(work));
    for (size_t i = 0; i < count; i++) node->after.push_back(reinterpret_cast<Node *>(after[i]));
    *out = reinterpret_cast<cudaGraphNode_t>(node);
    return cudaSuccess;
}

cudaError_t change_node(cudaGraphExec_t executable, cudaGraphNode_t node,
                        const std::function<void(Executable &, size_t)> &change) {
    std::lock_guard<std::mutex> guard(graphs_mutex);
    auto *found = reinterpret_cast<Executable *>(executable);
    if (!executables.count(found)) return failed(cudaErrorInvalidValue);
    for (size_t i = 0; i < found->nodes.size(); i++)
        if (found->nodes[i] == reinterpret_cast<Node *>(node)) {
            change(*found, i);
            return cudaSuccess;
        }
    return failed(cudaErrorInvalidValue);
}

cudaError_t caught(Work *out, const std::function<cudaError_t(cudaStream_t)> &call) {
    cudaStream_t stream;
    cudaGraph_t captured;
    if (auto error = cudaStreamCreate(&stream)) return error;
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    cudaError_t error = call(stream);
    cudaStreamEndCapture(stream, &captured);
    cudaStreamDestroy(stream);
    *out = work_of(*known_graph(captured));
    cudaGraphDestroy(captured);
    return error;
}

static cudaError_t add_call(cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *after,
                            size_t count, cudaGraphNodeType type,
                            const std::function<cudaError_t(cudaStream_t)> &call) {
    Work work;
    if (auto error = caught(&work, call)) return error;
    return add_node(out, graph, after, count, type, std::move(work));
}

cudaError_t kernel_work(Work *out, const cudaKernelNodeParams *p) {
    return caught(out, [=](cudaStream_t stream) {
        return cudaLaunchKernel(p->func, p->gridDim, p->blockDim, p->kernelParams,
                                p->sharedMemBytes, stream);
    });
}

void keep_kernel(Node *node, const cudaKernelNodeParams *p) {
    std::vector<uint32_t> pairs(2 * 4096);
    int count = ops.parameters(p->func, pairs.data(), 4096);
    std::vector<std::vector<char>> arguments;  // may be the node's own, so they are copied first
    for (int i = 0; i < count; i++) {
        auto *from = static_cast<const char *>(p->kernelParams[i]);
        arguments.emplace_back(from, from + pairs[2 * i + 1]);
    }
    node->kernel = *p;
    node->arguments = std::move(arguments);
    node->pointers.clear();
    for (auto &each : node->arguments) node->pointers.push_back(each.data());
    node->kernel.kernelParams = node->pointers.data();
}

cudaError_t memset_work(Work *out, const cudaMemsetParams *p) {
    auto to = *p;
    uintptr_t start;
    Allocation found;
    if (!find(to.dst, &start, &found)) return failed(cudaErrorInvalidValue);
    *out = [to] {
        for (size_t y = 0; y < to.height; y++)
            for (size_t x = 0; x < to.width; x++)
                memcpy(static_cast<char *>(to.dst) + y * to.pitch + x * to.elementSize, &to.value,
                       to.elementSize);
        return cudaSuccess;
    };
    return cudaSuccess;
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
    return add_node(out, graph, after, count, cudaGraphNodeTypeEmpty, [] { return cudaSuccess; });
}
API cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t *out, cudaGraph_t graph,
                                       const cudaGraphNode_t *after, size_t count,
                                       const cudaKernelNodeParams *p) {
    Work work;
    if (auto error = kernel_work(&work, p)) return error;
    auto error = add_node(out, graph, after, count, cudaGraphNodeTypeKernel, std::move(work));
    if (!error) keep_kernel(reinterpret_cast<Node *>(*out), p);
    return error;
}
// The memory of a graph is allocated once, when its node is added, and has its address in every
// launch; freeing it has no effect.
API cudaError_t cudaGraphAddMemAllocNode(cudaGraphNode_t *out, cudaGraph_t graph,
                                         const cudaGraphNode_t *after, size_t count,
                                         cudaMemAllocNodeParams *p) {
    if (auto error = allocate(GRAPH_MEMORY, &p->dptr, p->bytesize, Kind::device)) return error;
    return add_node(out, graph, after, count, cudaGraphNodeTypeMemAlloc,
                    [] { return cudaSuccess; });
}
API cudaError_t cudaGraphAddMemFreeNode(cudaGraphNode_t *out, cudaGraph_t graph,
                                        const cudaGraphNode_t *after, size_t count, void *) {
    return add_node(out, graph, after, count, cudaGraphNodeTypeMemFree, [] { return cudaSuccess; });
}
API cudaError_t cudaGraphClone(cudaGraph_t *out, cudaGraph_t graph) {
    auto *found = known_graph(graph);
    if (!found) return failed(cudaErrorInvalidValue);
    *out = publish(cloned(*found));
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
    Work work;
    if (auto error = memset_work(&work, p)) return error;
    return add_node(out, graph, after, count, cudaGraphNodeTypeMemset, std::move(work));
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
    auto *found = known_graph(child);
    if (!found) return failed(cudaErrorInvalidValue);
    auto error = add_node(out, graph, after, count, cudaGraphNodeTypeGraph, {});
    if (!error)
        reinterpret_cast<Node *>(*out)->bodies = {
            reinterpret_cast<Graph *>(publish(cloned(*found)))};
    return error;
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
// ---- running ------------------------------------------------------------------------------------

static std::vector<uint64_t> places(const std::vector<Node *> &all,
                                    const std::vector<Node *> &some) {
    std::vector<uint64_t> out;
    for (auto *node : some) out.push_back(std::find(all.begin(), all.end(), node) - all.begin());
    return out;
}

// The work of a node, which a timeline is told of before it begins.
static Work traced(uint64_t place, const std::vector<uint64_t> &after, Work work) {
    return [=] {
        trace->node(place, after.data(), after.size());
        return work();
    };
}

static cudaError_t instantiate(cudaGraphExec_t *out, cudaGraph_t graph) {
    auto *found = known_graph(graph);
    if (!found) return failed(cudaErrorInvalidValue);
    auto made = std::make_unique<Executable>();
    made->nodes = ordered_nodes(*found);
    if (made->nodes.size() < found->nodes.size()) return failed(cudaErrorInvalidValue);
    for (auto *node : made->nodes) {
        made->work.push_back(work_of(*node));
        made->types.push_back(node->type);
        made->enabled.push_back(true);
        made->after.push_back(places(made->nodes, node->after));
    }
    collect_handles(*found, &made->handles);
    std::lock_guard<std::mutex> guard(graphs_mutex);
    executables.insert(made.get());
    *out = reinterpret_cast<cudaGraphExec_t>(made.release());
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
    std::vector<Work> work;
    for (size_t i = 0; i < found->work.size(); i++)
        if (found->enabled[i])
            work.push_back(trace ? traced(i, found->after[i], found->work[i]) : found->work[i]);
    auto all = in_order(std::move(work));
    return failed(submit(stream, cudaGraphNodeTypeGraph, [all, handles = found->handles] {
        assign_defaults(handles);
        return all();
    }));
}
API cudaError_t cudaGraphExecUpdate(cudaGraphExec_t executable, cudaGraph_t graph,
                                    cudaGraphExecUpdateResultInfo *info) {
    auto *source = known_graph(graph);
    if (!source) return failed(cudaErrorInvalidValue);
    auto nodes = ordered_nodes(*source);
    std::lock_guard<std::mutex> guard(graphs_mutex);
    auto *found = reinterpret_cast<Executable *>(executable);
    if (!executables.count(found)) return failed(cudaErrorInvalidValue);
    auto result = cudaGraphExecUpdateSuccess;
    if (nodes.size() != found->nodes.size()) result = cudaGraphExecUpdateErrorTopologyChanged;
    for (size_t i = 0; i < nodes.size() && !result; i++)
        if (nodes[i]->type != found->types[i]) result = cudaGraphExecUpdateErrorNodeTypeChanged;
    if (info) info->result = result, info->errorNode = info->errorFromNode = nullptr;
    if (result) return failed(cudaErrorGraphExecUpdateFailure);
    for (size_t i = 0; i < nodes.size(); i++) found->work[i] = work_of(*nodes[i]);
    return cudaSuccess;
}
#if CUDART_VERSION >= 12000
API cudaError_t cudaGraphInstantiateWithParams(cudaGraphExec_t *out, cudaGraph_t graph,
                                               cudaGraphInstantiateParams *p) {
    auto error = instantiate(out, graph);
    p->errNode_out = nullptr;
    p->result_out = error ? cudaGraphInstantiateError : cudaGraphInstantiateSuccess;
    return error;
}
#endif
