// Graphs whose kernels decide what runs next, and graphs that change: clones, updates, new
// parameters, disabled nodes.
#include "check.h"

__global__ void add(int *x, int by) { *x += by; }
__global__ void decide(cudaGraphConditionalHandle handle, const int *x, int limit) {
    cudaGraphSetConditional(handle, *x < limit);
}
__global__ void choose(cudaGraphConditionalHandle handle, const int *x, int cases) {
    cudaGraphSetConditional(handle, *x % cases);
}

static int value_of(const int *x) {
    int value;
    CALL(cudaMemcpy(&value, x, sizeof value, cudaMemcpyDeviceToHost));
    return value;
}
static int run(cudaGraphExec_t graph, int *x, int start) {
    CALL(cudaMemcpy(x, &start, sizeof start, cudaMemcpyHostToDevice));
    CALL(cudaGraphLaunch(graph, nullptr));
    return value_of(x);
}
static cudaGraphNode_t add_kernel(cudaGraph_t graph, void *kernel, void **arguments,
                                  cudaGraphNode_t after = nullptr) {
    cudaKernelNodeParams p = {};
    p.func = kernel, p.gridDim = p.blockDim = 1, p.kernelParams = arguments;
    cudaGraphNode_t node;
    CALL(cudaGraphAddKernelNode(&node, graph, &after, after ? 1 : 0, &p));
    return node;
}
static cudaGraph_t *add_conditional(cudaGraph_t graph, cudaGraphConditionalHandle handle,
                                    cudaGraphConditionalNodeType type, unsigned bodies,
                                    cudaGraphNode_t after, cudaGraphNode_t *out = nullptr) {
    cudaGraphNodeParams p = {};
    p.type = cudaGraphNodeTypeConditional;
    p.conditional.handle = handle, p.conditional.type = type, p.conditional.size = bodies;
    cudaGraphNode_t node;
#if CUDART_VERSION >= 13000
    CALL(cudaGraphAddNode(&node, graph, &after, nullptr, after ? 1 : 0, &p));
#else
    CALL(cudaGraphAddNode(&node, graph, &after, after ? 1 : 0, &p));
#endif
    if (out) *out = node;
    return p.conditional.phGraph_out;
}

int main() {
    int *x, limit = 100, seven = 7, cases = 4;
    CALL(cudaMalloc(&x, sizeof(int)));
    cudaStream_t stream;
    CALL(cudaStreamCreate(&stream));

    // While x < 100: add 7. The body is captured into the graph of the node.
    cudaGraph_t loop;
    cudaGraphConditionalHandle again, which;
    CALL(cudaGraphCreate(&loop, 0));
    CALL(cudaGraphConditionalHandleCreate(&again, loop, 1, cudaGraphCondAssignDefault));
    cudaGraph_t body = add_conditional(loop, again, cudaGraphCondTypeWhile, 1, nullptr)[0];
    CALL(cudaStreamBeginCaptureToGraph(stream, body, nullptr, nullptr, 0,
                                       cudaStreamCaptureModeRelaxed));
    add<<<1, 1, 0, stream>>>(x, 7);
    decide<<<1, 1, 0, stream>>>(again, x, limit);
    CALL(cudaStreamEndCapture(stream, nullptr));
    cudaGraphExec_t looped;
    CALL(cudaGraphInstantiate(&looped, loop, 0));
    int first = run(looped, x, 0), second = run(looped, x, 98), third = run(looped, x, 200);
    printf("while: %d %d %d\n", first, second, third);

    // If x < 100: add 1000, else add 7; then one of four cases.
    cudaGraph_t choice;
    CALL(cudaGraphCreate(&choice, 0));
    CALL(cudaGraphConditionalHandleCreate(&again, choice));
    CALL(cudaGraphConditionalHandleCreate(&which, choice));
    void *decides[] = {&again, &x, &limit}, *chooses[] = {&which, &x, &cases};
    cudaGraphNode_t decided = add_kernel(choice, (void *)decide, decides), branch;
    cudaGraph_t *arms = add_conditional(choice, again, cudaGraphCondTypeIf, 2, decided, &branch);
    int thousand = 1000, amounts[] = {1, 2, 3};
    void *adds[] = {&x, &thousand}, *others[] = {&x, &seven};
    add_kernel(arms[0], (void *)add, adds);
    add_kernel(arms[1], (void *)add, others);
    cudaGraphNode_t chosen = add_kernel(choice, (void *)choose, chooses, branch);
    cudaGraph_t *rows = add_conditional(choice, which, cudaGraphCondTypeSwitch, 3, chosen);
    for (int i = 0; i < 3; i++) {
        void *row[] = {&x, &amounts[i]};
        add_kernel(rows[i], (void *)add, row);
    }
    cudaGraphExec_t either;
    cudaGraph_t copy;
    CALL(cudaGraphClone(&copy, choice));
    CALL(cudaGraphInstantiate(&either, copy, 0));
    first = run(either, x, 0), second = run(either, x, 200), third = run(either, x, 100);
    printf("if, switch: %d %d %d\n", first, second, third);

    // A chain whose nodes change in the graph, in its clone and in what was made of it.
    cudaGraph_t chain, cloned;
    CALL(cudaGraphCreate(&chain, 0));
    cudaGraphNode_t one = add_kernel(chain, (void *)add, adds);
    cudaGraphNode_t two = add_kernel(chain, (void *)add, others, one), found;
    cudaGraphExec_t run_chain;
    CALL(cudaGraphInstantiate(&run_chain, chain, 0));
    CALL(cudaGraphClone(&cloned, chain));
    CALL(cudaGraphNodeFindInClone(&found, two, cloned));
    cudaKernelNodeParams p;
    CALL(cudaGraphKernelNodeGetParams(found, &p));
    HOLDS(*static_cast<int *>(p.kernelParams[1]) == 7);
    int fifty = 50;
    void *changed[] = {&x, &fifty};
    p.kernelParams = changed;
    CALL(cudaGraphKernelNodeSetParams(found, &p));
    first = run(run_chain, x, 0);
    cudaGraphExecUpdateResultInfo info;
    CALL(cudaGraphExecUpdate(run_chain, cloned, &info));
    second = run(run_chain, x, 0);
    CALL(cudaGraphExecKernelNodeSetParams(run_chain, one, &p));
    CALL(cudaGraphNodeSetEnabled(run_chain, two, 0));
    third = run(run_chain, x, 0);
    printf("changed: %d %d %d\n", first, second, third);
    GIVES(cudaGraphExecUpdate(run_chain, choice, &info), cudaErrorGraphExecUpdateFailure);
    size_t edges = 0, roots = 0;
#if CUDART_VERSION >= 13000
    CALL(cudaGraphGetEdges(chain, nullptr, nullptr, nullptr, &edges));
#else
    CALL(cudaGraphGetEdges(chain, nullptr, nullptr, &edges));
#endif
    CALL(cudaGraphGetRootNodes(chain, nullptr, &roots));
    CALL(cudaGraphDestroyNode(one));
    size_t nodes;
    CALL(cudaGraphGetNodes(chain, nullptr, &nodes));
    printf("%zu edge, %zu root, %zu node left\n", edges, roots, nodes);
    // Memory that a capture allocates has its address in every launch.
    cudaGraph_t captured;
    cudaGraphExec_t with_memory;
    int *memory, held[2];
    CALL(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    CALL(cudaMallocAsync(&memory, sizeof(int), stream));
    CALL(cudaMemsetAsync(memory, 0, sizeof(int), stream));
    add<<<1, 1, 0, stream>>>(memory, 3);
    CALL(cudaMemcpyAsync(x, memory, sizeof(int), cudaMemcpyDeviceToDevice, stream));
    CALL(cudaFreeAsync(memory, stream));
    CALL(cudaStreamEndCapture(stream, &captured));
    CALL(cudaGraphInstantiate(&with_memory, captured, 0));
    for (int &each : held) each = run(with_memory, x, 0);
    printf("memory: %d %d\n", held[0], held[1]);
    CALL(cudaFree(x));
}
