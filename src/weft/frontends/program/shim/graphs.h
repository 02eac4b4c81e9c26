// A graph: pieces of work and what each waits for.
#pragma once

#include "weft.h"

namespace weft {

struct Node {
    cudaGraphNodeType type;
    Work work;
    std::vector<Node *> after;
};

struct Graph {
    std::vector<std::unique_ptr<Node>> nodes;  // in the order in which they were added

    Node *add(cudaGraphNodeType type, Work work) {
        nodes.push_back(std::make_unique<Node>(Node{type, std::move(work), {}}));
        return nodes.back().get();
    }
};

// What is being recorded from a stream and those that have joined it.
struct Capture {
    explicit Capture(cudaStream_t stream) : origin(stream), graph(std::make_unique<Graph>()) {}
    cudaStream_t origin;
    std::unique_ptr<Graph> graph;
    bool open = true;
};

cudaGraph_t publish(std::unique_ptr<Graph> graph);

}  // namespace weft
