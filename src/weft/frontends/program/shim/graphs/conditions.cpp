// Conditional nodes of graphs: bodies that run if, while or in the case that a kernel has chosen.
#include <atomic>

#include "graphs.h"

namespace weft {

namespace {
struct Condition {
    std::atomic<unsigned> value{0};
    unsigned initial = 0;
    bool assigns = false;  // the initial value at each launch
};
std::mutex conditions_mutex;
std::map<unsigned long long, std::unique_ptr<Condition>> conditions;

Condition *known_condition(unsigned long long handle) {
    std::lock_guard<std::mutex> guard(conditions_mutex);
    auto found = conditions.find(handle);
    return found == conditions.end() ? nullptr : found->second.get();
}
}  // namespace

void assign_defaults(const std::vector<unsigned long long> &handles) {
    for (auto handle : handles)
        if (auto *found = known_condition(handle))
            if (found->assigns) found->value = found->initial;
}

#if CUDART_VERSION >= 12040
Work conditional_work(const Node &node) {
    std::vector<Work> bodies;
    for (auto *body : node.bodies) bodies.push_back(work_of(*body));
    auto *condition = known_condition(node.handle);
    if (node.condition == cudaGraphCondTypeWhile)
        return [condition, body = bodies[0]] {
            while (condition->value)
                if (auto error = body()) return error;
            return broken();
        };
    bool is_if = node.condition == cudaGraphCondTypeIf;
    return [condition, bodies, is_if]() -> cudaError_t {
        unsigned chosen = is_if ? !condition->value : condition->value.load();
        return chosen < bodies.size() ? bodies[chosen]() : cudaSuccess;
    };
}
#else
Work conditional_work(const Node &) {
    return [] { return cudaErrorNotSupported; };
}
#endif

}  // namespace weft

using namespace weft;

// A kernel has called cudaGraphSetConditional.
API void weft_set_conditional(uint64_t handle, unsigned value) {
    if (auto *found = known_condition(handle)) found->value = value;
}

#if CUDART_VERSION >= 12040
API cudaError_t cudaGraphConditionalHandleCreate(cudaGraphConditionalHandle *out, cudaGraph_t graph,
                                                 unsigned initial, unsigned flags) {
    auto *found = known_graph(graph);
    if (!found) return failed(cudaErrorInvalidValue);
    std::lock_guard<std::mutex> guard(conditions_mutex);
    auto made = std::make_unique<Condition>();
    made->value = made->initial = initial;
    made->assigns = flags & cudaGraphCondAssignDefault;
    *out = conditions.size() + 1;
    found->handles.push_back(*out);
    conditions[*out] = std::move(made);
    return cudaSuccess;
}

static cudaError_t add_conditional(cudaGraphNode_t *out, cudaGraph_t graph,
                                   const cudaGraphNode_t *after, size_t count,
                                   cudaConditionalNodeParams *p) {
    if (!known_condition(p->handle) || p->size < 1) return failed(cudaErrorInvalidValue);
    if (auto error = add_node(out, graph, after, count, cudaGraphNodeTypeConditional, {}))
        return error;
    auto *node = reinterpret_cast<Node *>(*out);
    node->handle = p->handle, node->condition = p->type;
    for (unsigned i = 0; i < p->size; i++)
        node->bodies.push_back(reinterpret_cast<Graph *>(publish(std::make_unique<Graph>())));
    // The array belongs to the node.
    p->phGraph_out = reinterpret_cast<cudaGraph_t *>(node->bodies.data());
    return cudaSuccess;
}

// A node of any type; the program's structure says which.
static cudaError_t add_any(cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *after,
                           size_t count, cudaGraphNodeParams *p) {
    switch (p->type) {
        case cudaGraphNodeTypeKernel: {
            cudaKernelNodeParams kernel = {};
            kernel.func = p->kernel.func, kernel.kernelParams = p->kernel.kernelParams;
            kernel.gridDim = p->kernel.gridDim, kernel.blockDim = p->kernel.blockDim;
            kernel.sharedMemBytes = p->kernel.sharedMemBytes;
            return cudaGraphAddKernelNode(out, graph, after, count, &kernel);
        }
        case cudaGraphNodeTypeMemcpy:
            return cudaGraphAddMemcpyNode(out, graph, after, count, &p->memcpy.copyParams);
        case cudaGraphNodeTypeMemset: {
            cudaMemsetParams fill = {};
            fill.dst = p->memset.dst, fill.pitch = p->memset.pitch, fill.value = p->memset.value;
            fill.elementSize = p->memset.elementSize;
            fill.width = p->memset.width, fill.height = p->memset.height;
            return cudaGraphAddMemsetNode(out, graph, after, count, &fill);
        }
        case cudaGraphNodeTypeHost: {
            cudaHostNodeParams host = {p->host.fn, p->host.userData};
            return cudaGraphAddHostNode(out, graph, after, count, &host);
        }
        case cudaGraphNodeTypeGraph:
            return cudaGraphAddChildGraphNode(out, graph, after, count, p->graph.graph);
        case cudaGraphNodeTypeEmpty:
            return cudaGraphAddEmptyNode(out, graph, after, count);
        case cudaGraphNodeTypeMemAlloc: {
            cudaMemAllocNodeParams memory = {};
            memory.bytesize = p->alloc.bytesize;
            auto error = cudaGraphAddMemAllocNode(out, graph, after, count, &memory);
            p->alloc.dptr = memory.dptr;
            return error;
        }
        case cudaGraphNodeTypeMemFree:
            return cudaGraphAddMemFreeNode(out, graph, after, count, p->free.dptr);
        case cudaGraphNodeTypeConditional:
            return add_conditional(out, graph, after, count, &p->conditional);
        default:
            say("cudaGraphAddNode: nodes of type %d are not simulated", int(p->type));
            return failed(cudaErrorNotSupported);
    }
}
#if CUDART_VERSION >= 13000
API cudaError_t cudaGraphAddNode(cudaGraphNode_t *out, cudaGraph_t graph,
                                 const cudaGraphNode_t *after, const cudaGraphEdgeData *,
                                 size_t count, cudaGraphNodeParams *p) {
    return add_any(out, graph, after, count, p);
}
#else
API cudaError_t cudaGraphAddNode(cudaGraphNode_t *out, cudaGraph_t graph,
                                 const cudaGraphNode_t *after, size_t count,
                                 cudaGraphNodeParams *p) {
    return add_any(out, graph, after, count, p);
}
#endif
#endif
