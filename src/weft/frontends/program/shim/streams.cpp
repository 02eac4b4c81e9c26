// Streams and events. Work is done in the background, each stream's in its order (`tasks.cpp`), or at
// once where launches block. Times are those of the simulation.
#include "watch.h"

#include <atomic>
#include <chrono>
#include <set>

#include "graphs/graphs.h"
#include "tasks.h"

namespace weft {

struct Stream {
    unsigned flags;
    int priority;
    std::shared_ptr<Capture> capture;
    QueuePtr queue;
    int device = current_device();
};
struct Event {
    std::shared_ptr<std::atomic<int64_t>> ns;  // when it was reached; null: not recorded
    bool timed = true;
    std::shared_ptr<Capture> capture;
    TaskPtr task;
};

static std::mutex streams_mutex;
static std::set<Stream *> streams;
static std::set<Event *> events;
static std::atomic<int> captures{0};  // most programs never begin one
static std::atomic<int64_t> preparing{0};
bool immediate = false;
static bool blocking = false;  // do launches and copies wait until they are done?

int64_t now_ns() {
    auto since = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(since).count() - preparing;
}

static bool is_default(cudaStream_t stream) {
    return uintptr_t(stream) <= uintptr_t(cudaStreamPerThread);
}

static Stream *known(cudaStream_t stream) {
    std::lock_guard<std::mutex> guard(streams_mutex);
    auto found = streams.find(reinterpret_cast<Stream *>(stream));
    return found == streams.end() ? nullptr : *found;
}

static Event *known(cudaEvent_t event) {
    std::lock_guard<std::mutex> guard(streams_mutex);
    auto found = events.find(reinterpret_cast<Event *>(event));
    return found == events.end() ? nullptr : *found;
}

static cudaError_t valid(cudaStream_t stream) {
    return is_default(stream) || known(stream) ? cudaSuccess : cudaErrorInvalidResourceHandle;
}

static std::shared_ptr<Capture> capture_of(cudaStream_t stream) {
    if (captures == 0 || is_default(stream)) return nullptr;
    auto *found = known(stream);
    return found ? found->capture : nullptr;
}

bool capturing(cudaStream_t stream) { return capture_of(stream) != nullptr; }

static QueuePtr queue_of(cudaStream_t stream) {
    static thread_local QueuePtr own;
    if (stream == cudaStreamPerThread) return own ? own : own = make_queue(true);
    return is_default(stream) ? default_queue() : known(stream)->queue;
}

cudaError_t submit(cudaStream_t stream, cudaGraphNodeType type, Work work, bool waits) {
    if (auto error = valid(stream)) return error;
    auto capture = capture_of(stream);
    if (capture) {
        capture->add(type, std::move(work));
        return cudaSuccess;
    }
    if (blocking) {
        auto error = watched(stream, std::move(work))();
        flush_prints();
        return error;
    }
    auto task = enqueue(queue_of(stream), std::move(work));
    if (!waits) return cudaSuccess;
    wait(task);
    return task->error ? task->error : broken();
}

cudaError_t may_wait(cudaStream_t stream) {
    if (auto error = valid(stream)) return error;
    return capturing(stream) ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
}

static cudaError_t create(cudaStream_t *out, unsigned flags, int priority) {
    WORKING;
    std::lock_guard<std::mutex> guard(streams_mutex);
    auto *stream = new Stream{flags, priority, nullptr, make_queue(!(flags & cudaStreamNonBlocking))};
    streams.insert(stream);
    *out = reinterpret_cast<cudaStream_t>(stream);
    tell(What::stream_created, uintptr_t(stream), flags);
    return cudaSuccess;
}

}  // namespace weft

using namespace weft;

API void weft_block() { blocking = true; }

// For libraries of another process: the failure of a kernel is the launch's own error, as with
// CUDA_LAUNCH_BLOCKING.
API void weft_embed() { blocking = immediate = true; }

// The time in which a kernel was made ready for its first launch is no time of the program's.
API void weft_prepared(int64_t ns) { preparing += ns; }

// ---- streams ------------------------------------------------------------------------------------

constexpr int LEAST_PRIORITY = 0, GREATEST_PRIORITY = -5;

API cudaError_t cudaStreamCreate(cudaStream_t *out) { return create(out, cudaStreamDefault, 0); }
API cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags) {
    return create(out, flags, 0);
}
API cudaError_t cudaStreamCreateWithPriority(cudaStream_t *out, unsigned flags, int priority) {
    return create(out, flags, std::max(GREATEST_PRIORITY, std::min(LEAST_PRIORITY, priority)));
}
API cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
    if (least) *least = LEAST_PRIORITY;
    if (greatest) *greatest = GREATEST_PRIORITY;
    return cudaSuccess;
}
API cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    std::lock_guard<std::mutex> guard(streams_mutex);
    auto *found = reinterpret_cast<Stream *>(stream);
    if (!streams.erase(found)) return failed(cudaErrorInvalidResourceHandle);
    tell(What::stream_destroyed, uintptr_t(stream));
    close(found->queue);
    delete found;
    return cudaSuccess;
}
API cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned *flags) {
    if (auto error = valid(stream)) return failed(error);
    auto *found = known(stream);
    *flags = found ? found->flags : cudaStreamDefault;
    return cudaSuccess;
}
API cudaError_t cudaStreamGetPriority(cudaStream_t stream, int *priority) {
    if (auto error = valid(stream)) return failed(error);
    auto *found = known(stream);
    *priority = found ? found->priority : LEAST_PRIORITY;
    return cudaSuccess;
}
// Attributes are hints for caches and scheduling, which are not simulated.
API cudaError_t cudaStreamSetAttribute(cudaStream_t stream, cudaStreamAttrID,
                                       const cudaStreamAttrValue *) {
    return failed(valid(stream));
}
API cudaError_t cudaStreamGetAttribute(cudaStream_t stream, cudaStreamAttrID,
                                       cudaStreamAttrValue *value) {
    memset(value, 0, sizeof *value);
    return failed(valid(stream));
}
API cudaError_t cudaStreamCopyAttributes(cudaStream_t, cudaStream_t from) {
    return failed(valid(from));
}
API cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long *id) {
    *id = uintptr_t(stream);
    return failed(valid(stream));
}
API cudaError_t cudaStreamGetDevice(cudaStream_t stream, int *device) {
    auto *found = known(stream);
    *device = found ? found->device : current_device();
    return failed(valid(stream));
}
API cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    WORKING;
    if (auto error = may_wait(stream)) return failed(error);
    if (is_default(stream) && stream != cudaStreamPerThread)
        wait_for_blocking();
    else
        wait(queue_of(stream));
    tell(What::host_waits_stream, uintptr_t(stream));
    return broken();
}
API cudaError_t cudaStreamQuery(cudaStream_t stream) {
    WORKING;
    if (auto error = may_wait(stream)) return failed(error);
    if (!is_idle(queue_of(stream))) return cudaErrorNotReady;
    tell(What::host_waits_stream, uintptr_t(stream));  // all is done: as good as having waited
    return broken();
}
API cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *data) {
    WORKING;
    return failed(submit(stream, cudaGraphNodeTypeHost, [=] {
        tell(What::host_function);
        function(data);
        return cudaSuccess;
    }));
}
API cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t function,
                                      void *data, unsigned) {
    WORKING;
    if (auto error = may_wait(stream)) return failed(error);
    return failed(submit(stream, cudaGraphNodeTypeHost, [=] {
        tell(What::host_function);
        function(stream, cudaSuccess, data);
        return cudaSuccess;
    }));
}

// ---- events -------------------------------------------------------------------------------------

API cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags) {
    WORKING;
    std::lock_guard<std::mutex> guard(streams_mutex);
    auto *event = new Event;
    event->timed = !(flags & cudaEventDisableTiming);
    events.insert(event);
    *out = reinterpret_cast<cudaEvent_t>(event);
    return cudaSuccess;
}
API cudaError_t cudaEventCreate(cudaEvent_t *out) {
    return cudaEventCreateWithFlags(out, cudaEventDefault);
}
API cudaError_t cudaEventDestroy(cudaEvent_t event) {
    std::lock_guard<std::mutex> guard(streams_mutex);
    auto *found = reinterpret_cast<Event *>(event);
    if (!events.erase(found)) return failed(cudaErrorInvalidResourceHandle);
    delete found;
    return cudaSuccess;
}
API cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    WORKING;
    auto *found = known(event);
    if (!found || valid(stream)) return failed(cudaErrorInvalidResourceHandle);
    if ((found->capture = capture_of(stream))) return cudaSuccess;
    auto ns = found->ns = std::make_shared<std::atomic<int64_t>>(0);
    tell(What::event_recorded, uintptr_t(event), uintptr_t(stream));
    if (blocking) {
        *ns = now_ns();
        return cudaSuccess;
    }
    found->task = enqueue(queue_of(stream), [ns] {
        *ns = now_ns();
        return cudaSuccess;
    });
    return cudaSuccess;
}
API cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned) {
    return cudaEventRecord(event, stream);
}
API cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    WORKING;
    auto *found = known(event);
    if (!found) return failed(cudaErrorInvalidResourceHandle);
    wait(TaskPtr(found->task));
    tell(What::host_waits_event, uintptr_t(event));
    return broken();
}
API cudaError_t cudaEventQuery(cudaEvent_t event) {
    WORKING;
    auto *found = known(event);
    if (!found) return failed(cudaErrorInvalidResourceHandle);
    if (!is_done(found->task)) return cudaErrorNotReady;
    tell(What::host_waits_event, uintptr_t(event));
    return broken();
}
API cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t begin, cudaEvent_t end) {
    WORKING;
    auto *from = known(begin), *to = known(end);
    if (!from || !to || !from->timed || !to->timed || !from->ns || !to->ns)
        return failed(cudaErrorInvalidResourceHandle);
    if (!is_done(from->task) || !is_done(to->task)) return failed(cudaErrorNotReady);
    static std::once_flag once;
    std::call_once(once,
                   [] { say("times between events are those of the simulation, not of a GPU"); });
    *ms = float(*to->ns - *from->ns) / 1e6f;
    return cudaSuccess;
}
API cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
    WORKING;
    auto *found = known(event);
    if (!found || valid(stream)) return failed(cudaErrorInvalidResourceHandle);
    auto *waits = known(stream);
    if (found->capture && found->capture->open && waits && !waits->capture) {  // joins the capture
        waits->capture = found->capture;
    }
    if (!capturing(stream)) tell(What::stream_waits, uintptr_t(stream), uintptr_t(event));
    if (!capturing(stream) && !is_done(found->task))
        enqueue(queue_of(stream), [] { return cudaSuccess; }, {found->task});
    return cudaSuccess;
}

// ---- capture ------------------------------------------------------------------------------------

static cudaError_t begin_capture(cudaStream_t stream, std::shared_ptr<Capture> capture) {
    auto *found = known(stream);
    if (!found)
        return failed(is_default(stream) ? cudaErrorStreamCaptureUnsupported
                                         : cudaErrorInvalidResourceHandle);
    if (found->capture) return failed(cudaErrorIllegalState);
    found->capture = std::move(capture);
    captures++;
    return cudaSuccess;
}
API cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
    WORKING;
    auto *graph = reinterpret_cast<Graph *>(publish(std::make_unique<Graph>()));
    return begin_capture(stream, std::make_shared<Capture>(stream, graph));
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
    return begin_capture(stream, std::make_shared<Capture>(
                                     stream, into, std::vector<Node *>(first, first + count)));
}
#endif
API cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *out) {
    WORKING;
    if (out) *out = nullptr;
    auto capture = capture_of(stream);
    if (!capture) return failed(cudaErrorIllegalState);
    if (capture->origin != stream) return failed(cudaErrorStreamCaptureUnmatched);
    std::lock_guard<std::mutex> guard(streams_mutex);
    for (auto *each : streams)
        if (each->capture == capture) each->capture = nullptr;
    capture->open = false;
    captures--;
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
