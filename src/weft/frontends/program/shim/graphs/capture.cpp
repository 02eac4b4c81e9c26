// Capture: the work of streams becomes a graph instead of being done.
#include "graphs.h"

using namespace weft;

using CapturePtr = Shared<Capture>;

static CapturePtr capture_of(cudaStream_t stream) {
    return static_cast<Capture *>(recorder_of(stream).get());  // the only kind of recorder
}

static cudaError_t begin_capture(cudaStream_t stream, CapturePtr capture) {
    auto *found = known(stream);
    if (!found)
        return failed(is_default(stream) ? cudaErrorStreamCaptureUnsupported
                                         : cudaErrorInvalidResourceHandle);
    if (found->recorder) return failed(cudaErrorIllegalState);
    found->recorder = capture;
    recorders++;
    return cudaSuccess;
}
API cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
    WORKING;
    auto *graph = reinterpret_cast<Graph *>(publish(std::make_unique<Graph>()));
    return begin_capture(stream, new Capture(stream, graph));
}
#if CUDART_VERSION >= 12030
API cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t graph,
                                              const cudaGraphNode_t *after,
                                              const cudaGraphEdgeData *, size_t count,
                                              cudaStreamCaptureMode) {
    WORKING;
    auto *into = known_graph(graph);
    if (!into) return failed(cudaErrorInvalidValue);
    auto *first = reinterpret_cast<Node *const *>(after);
    return begin_capture(stream, new Capture(stream, into, {first, first + count}));
}
#endif
API cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *out) {
    WORKING;
    if (out) *out = nullptr;
    auto capture = capture_of(stream);
    if (!capture) return failed(cudaErrorIllegalState);
    if (capture->origin != stream) return failed(cudaErrorStreamCaptureUnmatched);
    Lock guard(streams_mutex);
    for (auto &row : streams)
        if (row.value->recorder == RecorderPtr(capture)) row.value->recorder = {};
    capture->open = false;
    recorders--;
    if (out) *out = reinterpret_cast<cudaGraph_t>(capture->graph);
    return cudaSuccess;
}
// The graph of a capture and what the next node of it will wait for, as arrays of the capture's.
static cudaError_t capture_info(cudaStream_t stream, cudaStreamCaptureStatus *status,
                                unsigned long long *id, cudaGraph_t *graph,
                                const cudaGraphNode_t **after, size_t *count) {
    if (auto error = valid(stream)) return failed(error);
    auto capture = capture_of(stream);
    *status = capture ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    if (!capture) return cudaSuccess;
    if (id) *id = uintptr_t(capture.get());
    if (graph) *graph = reinterpret_cast<cudaGraph_t>(capture->graph);
    if (after) *after = reinterpret_cast<const cudaGraphNode_t *>(capture->last.data());
    if (count) *count = capture->last.size();
    return cudaSuccess;
}
static cudaError_t update_capture(cudaStream_t stream, const cudaGraphNode_t *after, size_t count,
                                  unsigned flags) {
    auto capture = capture_of(stream);
    if (!capture) return failed(cudaErrorIllegalState);
    if (flags == cudaStreamSetCaptureDependencies) capture->last.clear();
    for (size_t i = 0; i < count; i++)
        capture->last.push_back(reinterpret_cast<Node *>(after[i]));
    return cudaSuccess;
}
#if CUDART_VERSION >= 13000
API cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus *status,
                                         unsigned long long *id, cudaGraph_t *graph,
                                         const cudaGraphNode_t **after, const cudaGraphEdgeData **,
                                         size_t *count) {
    return capture_info(stream, status, id, graph, after, count);
}
API cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t *after,
                                                    const cudaGraphEdgeData *, size_t count,
                                                    unsigned flags) {
    return update_capture(stream, after, count, flags);
}
#else
API cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t stream, cudaStreamCaptureStatus *status,
                                            unsigned long long *id, cudaGraph_t *graph,
                                            const cudaGraphNode_t **after, size_t *count) {
    return capture_info(stream, status, id, graph, after, count);
}
API cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t *after,
                                                    size_t count, unsigned flags) {
    return update_capture(stream, after, count, flags);
}
#endif
API cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus *status) {
    if (auto error = valid(stream)) return failed(error);
    *status = capturing(stream) ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return cudaSuccess;
}
API cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode *) { return cudaSuccess; }
