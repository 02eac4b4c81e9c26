// A graph: pieces of work and what each waits for.
#pragma once

#include "../standard.h"
#include "../streams.h"
#include "../trace.h"

namespace weft {

struct Graph;

struct Node {
    cudaGraphNodeType type;
    Work work;
    std::vector<Node *> after;
    Graph *graph = nullptr;         // that it is a node of
    const Node *original = nullptr;  // of which it is a clone
    // The graphs of a child graph's node or of a conditional node, with its handle and its type.
    std::vector<Graph *> bodies;
    unsigned long long handle = 0;
    int condition = -1;
    // The parameters of a kernel node, with copies of the arguments.
    cudaKernelNodeParams kernel = {};
    std::vector<std::vector<char>> arguments;
    std::vector<void *> pointers;
};

struct Graph {
    std::vector<std::unique_ptr<Node>> nodes;  // in the order in which they were added
    std::vector<unsigned long long> handles;   // of its conditions

    Node *add(cudaGraphNodeType type, Work work) {
        nodes.push_back(std::make_unique<Node>());
        auto *node = nodes.back().get();
        node->type = type, node->work = std::move(work), node->graph = this;
        return node;
    }
};

// A graph that can be launched: the work of its nodes in order.
struct Executable {
    std::vector<Work> work;
    std::vector<Node *> nodes;  // of the graph that it was made of; compared only
    std::vector<cudaGraphNodeType> types;
    std::vector<bool> enabled;
    std::vector<unsigned long long> handles;  // of all conditions in it
    std::vector<std::vector<uint64_t>> after;  // the places of the nodes that each waits for
};

struct Capture : Recorder {
    Capture(cudaStream_t stream, Graph *into, std::vector<Node *> after = {})
        : origin(stream), graph(into), last(std::move(after)) {}
    void add(cudaGraphNodeType type, Work work) override {
        auto *node = graph->add(type, std::move(work));
        node->after = last;
        last = {node};
    }
    cudaStream_t origin;
    Graph *graph;
    std::vector<Node *> last;  // what the next node waits for
};

cudaGraph_t publish(std::unique_ptr<Graph> graph);
Graph *known_graph(cudaGraph_t graph);  // null for none
std::unique_ptr<Graph> cloned(const Graph &graph);
// The nodes in an order in which none comes before what it waits for; empty for a circle.
std::vector<Node *> ordered_nodes(const Graph &graph);
Work work_of(const Graph &graph);
Work work_of(const Node &node);
// Handles of the conditions in a graph and in the graphs of its nodes.
void collect_handles(const Graph &graph, std::vector<unsigned long long> *out);
void assign_defaults(const std::vector<unsigned long long> &handles);
Work conditional_work(const Node &node);
cudaError_t add_node(cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *after,
                     size_t count, cudaGraphNodeType type, Work work);
// Calls `change` with an executable graph and the place of a node in it.
cudaError_t change_node(cudaGraphExec_t executable, cudaGraphNode_t node,
                        const std::function<void(Executable &, size_t)> &change);
// The work of a node: the call for a stream is caught on its way there.
cudaError_t caught(Work *out, const std::function<cudaError_t(cudaStream_t)> &call);
cudaError_t memset_work(Work *out, const cudaMemsetParams *p);
cudaError_t kernel_work(Work *out, const cudaKernelNodeParams *p);
void keep_kernel(Node *node, const cudaKernelNodeParams *p);

}  // namespace weft
