// Nodes of graphs: what they are, what they wait for, and new parameters for them.
#include <algorithm>

#include "graphs.h"

using namespace weft;

namespace {
Node *node_of(cudaGraphNode_t node) { return reinterpret_cast<Node *>(node); }

// Fills an array of the program's, or says how many there are.
cudaError_t list(const std::vector<Node *> &from, cudaGraphNode_t *to, size_t *count) {
    if (to)
        for (size_t i = 0; i < std::min(*count, from.size()); i++)
            to[i] = reinterpret_cast<cudaGraphNode_t>(from[i]);
    *count = to ? std::min(*count, from.size()) : from.size();
    return cudaSuccess;
}

std::vector<Node *> dependents(const Node *node) {
    std::vector<Node *> out;
    for (auto &each : node->graph->nodes)
        if (std::count(each->after.begin(), each->after.end(), node)) out.push_back(each.get());
    return out;
}

cudaError_t edges(cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to, size_t *count) {
    auto *found = known_graph(graph);
    if (!found) return failed(cudaErrorInvalidValue);
    std::vector<Node *> begins, ends;
    for (auto &node : found->nodes)
        for (auto *earlier : node->after) begins.push_back(earlier), ends.push_back(node.get());
    size_t room = *count;
    list(begins, from, &room);
    return list(ends, to, count);
}

cudaError_t unlink(const cudaGraphNode_t *from, const cudaGraphNode_t *to, size_t count) {
    for (size_t i = 0; i < count; i++) {
        auto &after = node_of(to[i])->after;
        after.erase(std::remove(after.begin(), after.end(), node_of(from[i])), after.end());
    }
    return cudaSuccess;
}

// New work of a node in an executable graph, if it can be made.
cudaError_t replace(cudaGraphExec_t executable, cudaGraphNode_t node, cudaError_t error,
                    Work work) {
    if (error) return failed(error);
    return change_node(executable, node,
                       [&](Executable &found, size_t i) { found.work[i] = std::move(work); });
}

Work host_work(const cudaHostNodeParams *p) {
    return [fn = p->fn, data = p->userData] {
        fn(data);
        return cudaSuccess;
    };
}
cudaError_t copy_work(Work *out, const cudaMemcpy3DParms *p) {
    return caught(out, [=](cudaStream_t stream) { return cudaMemcpy3DAsync(p, stream); });
}
cudaError_t copy_work(Work *out, void *to, const void *from, size_t bytes, cudaMemcpyKind kind) {
    return caught(
        out, [=](cudaStream_t stream) { return cudaMemcpyAsync(to, from, bytes, kind, stream); });
}
}  // namespace

// ---- questions ----------------------------------------------------------------------------------

API cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count) {
    auto *found = known_graph(graph);
    if (!found) return failed(cudaErrorInvalidValue);
    std::vector<Node *> all;
    for (auto &node : found->nodes) all.push_back(node.get());
    return list(all, nodes, count);
}
API cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count) {
    auto *found = known_graph(graph);
    if (!found) return failed(cudaErrorInvalidValue);
    std::vector<Node *> roots;
    for (auto &node : found->nodes)
        if (node->after.empty()) roots.push_back(node.get());
    return list(roots, nodes, count);
}
#if CUDART_VERSION >= 13000
API cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to,
                                  cudaGraphEdgeData *, size_t *count) {
    return edges(graph, from, to, count);
}
API cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t *out,
                                             cudaGraphEdgeData *, size_t *count) {
    return list(node_of(node)->after, out, count);
}
API cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t *out,
                                               cudaGraphEdgeData *, size_t *count) {
    return list(dependents(node_of(node)), out, count);
}
API cudaError_t cudaGraphRemoveDependencies(cudaGraph_t, const cudaGraphNode_t *from,
                                            const cudaGraphNode_t *to, const cudaGraphEdgeData *,
                                            size_t count) {
    return unlink(from, to, count);
}
#else
API cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to,
                                  size_t *count) {
    return edges(graph, from, to, count);
}
API cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t *out,
                                             size_t *count) {
    return list(node_of(node)->after, out, count);
}
API cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t *out,
                                               size_t *count) {
    return list(dependents(node_of(node)), out, count);
}
API cudaError_t cudaGraphRemoveDependencies(cudaGraph_t, const cudaGraphNode_t *from,
                                            const cudaGraphNode_t *to, size_t count) {
    return unlink(from, to, count);
}
#endif
API cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType *type) {
    *type = node_of(node)->type;
    return cudaSuccess;
}
API cudaError_t cudaGraphNodeFindInClone(cudaGraphNode_t *out, cudaGraphNode_t original,
                                         cudaGraph_t clone) {
    auto *found = known_graph(clone);
    if (!found) return failed(cudaErrorInvalidValue);
    for (auto &node : found->nodes)
        if (node->original == node_of(original)) {
            *out = reinterpret_cast<cudaGraphNode_t>(node.get());
            return cudaSuccess;
        }
    return failed(cudaErrorInvalidValue);
}
API cudaError_t cudaGraphChildGraphNodeGetGraph(cudaGraphNode_t node, cudaGraph_t *out) {
    auto &bodies = node_of(node)->bodies;
    if (bodies.empty()) return failed(cudaErrorInvalidValue);
    *out = reinterpret_cast<cudaGraph_t>(bodies[0]);
    return cudaSuccess;
}
API cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t node, cudaKernelNodeParams *p) {
    if (!node_of(node)->kernel.func) return failed(cudaErrorInvalidValue);
    *p = node_of(node)->kernel;
    return cudaSuccess;
}

// ---- changes ------------------------------------------------------------------------------------

API cudaError_t cudaGraphDestroyNode(cudaGraphNode_t node) {
    auto *gone = node_of(node);
    for (auto *each : dependents(gone))
        each->after.erase(std::remove(each->after.begin(), each->after.end(), gone),
                          each->after.end());
    auto &nodes = gone->graph->nodes;
    nodes.erase(std::find_if(nodes.begin(), nodes.end(),
                             [=](const std::unique_ptr<Node> &n) { return n.get() == gone; }));
    return cudaSuccess;
}
API cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t node, const cudaKernelNodeParams *p) {
    if (auto error = kernel_work(&node_of(node)->work, p)) return error;
    keep_kernel(node_of(node), p);
    return cudaSuccess;
}
API cudaError_t cudaGraphMemcpyNodeSetParams(cudaGraphNode_t node, const cudaMemcpy3DParms *p) {
    return copy_work(&node_of(node)->work, p);
}
API cudaError_t cudaGraphMemcpyNodeSetParams1D(cudaGraphNode_t node, void *to, const void *from,
                                               size_t bytes, cudaMemcpyKind kind) {
    return copy_work(&node_of(node)->work, to, from, bytes, kind);
}
API cudaError_t cudaGraphMemsetNodeSetParams(cudaGraphNode_t node, const cudaMemsetParams *p) {
    return memset_work(&node_of(node)->work, p);
}
API cudaError_t cudaGraphHostNodeSetParams(cudaGraphNode_t node, const cudaHostNodeParams *p) {
    node_of(node)->work = host_work(p);
    return cudaSuccess;
}
API cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t executable, cudaGraphNode_t node,
                                                 const cudaKernelNodeParams *p) {
    Work work;
    auto error = kernel_work(&work, p);
    return replace(executable, node, error, std::move(work));
}
API cudaError_t cudaGraphExecMemcpyNodeSetParams(cudaGraphExec_t executable, cudaGraphNode_t node,
                                                 const cudaMemcpy3DParms *p) {
    Work work;
    auto error = copy_work(&work, p);
    return replace(executable, node, error, std::move(work));
}
API cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t executable, cudaGraphNode_t node,
                                                   void *to, const void *from, size_t bytes,
                                                   cudaMemcpyKind kind) {
    Work work;
    auto error = copy_work(&work, to, from, bytes, kind);
    return replace(executable, node, error, std::move(work));
}
API cudaError_t cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t executable, cudaGraphNode_t node,
                                                 const cudaMemsetParams *p) {
    Work work;
    auto error = memset_work(&work, p);
    return replace(executable, node, error, std::move(work));
}
API cudaError_t cudaGraphExecHostNodeSetParams(cudaGraphExec_t executable, cudaGraphNode_t node,
                                               const cudaHostNodeParams *p) {
    return replace(executable, node, cudaSuccess, host_work(p));
}
API cudaError_t cudaGraphExecChildGraphNodeSetParams(cudaGraphExec_t executable,
                                                     cudaGraphNode_t node, cudaGraph_t child) {
    auto *found = known_graph(child);
    if (!found) return failed(cudaErrorInvalidValue);
    return replace(executable, node, cudaSuccess, work_of(*found));
}
API cudaError_t cudaGraphNodeSetEnabled(cudaGraphExec_t executable, cudaGraphNode_t node,
                                        unsigned enabled) {
    return change_node(executable, node,
                       [=](Executable &found, size_t i) { found.enabled[i] = enabled; });
}
API cudaError_t cudaGraphNodeGetEnabled(cudaGraphExec_t executable, cudaGraphNode_t node,
                                        unsigned *enabled) {
    return change_node(executable, node,
                       [=](Executable &found, size_t i) { *enabled = found.enabled[i]; });
}
