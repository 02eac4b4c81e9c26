// Streams and events. Work is done in the background, each stream's in its order (`tasks.cpp`), or
// at once where launches block. Times are those of the simulation.
#include "watch.h"

#include <time.h>

#include "streams.h"

namespace weft {

Mutex streams_mutex;
Table<Stream *> streams;
static Table<Event *> events;
std::atomic<int> recorders{0};
static std::atomic<int64_t> preparing{0};
bool immediate = false;
static bool blocking = false;  // do launches and copies wait until they are done?

int64_t now_ns() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * int64_t(1000000000) + now.tv_nsec - preparing;
}

bool is_default(cudaStream_t stream) {
    return uintptr_t(stream) <= uintptr_t(cudaStreamPerThread);
}

Stream *known(cudaStream_t stream) {
    Lock guard(streams_mutex);
    auto **found = streams.find(stream);
    return found ? *found : nullptr;
}

Event *known(cudaEvent_t event) {
    Lock guard(streams_mutex);
    auto **found = events.find(event);
    return found ? *found : nullptr;
}

cudaError_t valid(cudaStream_t stream) {
    return is_default(stream) || known(stream) ? cudaSuccess : cudaErrorInvalidResourceHandle;
}

RecorderPtr recorder_of(cudaStream_t stream) {
    if (recorders == 0 || is_default(stream)) return {};
    auto *found = known(stream);
    return found ? found->recorder : RecorderPtr();
}

bool capturing(cudaStream_t stream) { return bool(recorder_of(stream)); }

static QueuePtr queue_of(cudaStream_t stream) {
    static thread_local QueuePtr own[MOST_DEVICES];
    if (stream == cudaStreamPerThread) {
        auto &queue = own[current_device()];
        return queue ? queue : queue = make_queue(true);
    }
    return is_default(stream) ? default_queue() : known(stream)->queue;
}

cudaError_t submit(cudaStream_t stream, cudaGraphNodeType type, Work work, bool waits) {
    if (auto error = valid(stream)) return error;
    if (auto recorder = recorder_of(stream)) {
        recorder->add(type, std::move(work));
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

void join_default_streams(int device) {
    report(ProgramEvent::streams_joined, observed(nullptr), observed(nullptr, device));
    if (blocking || device == current_device()) return;
    auto here = default_queue(), there = default_queue(device);
    Work nothing = [] { return cudaSuccess; };
    auto both = enqueue(here, nothing, {enqueue(there, nothing)});
    enqueue(there, nothing, {both});
}

cudaError_t may_wait(cudaStream_t stream) {
    if (auto error = valid(stream)) return error;
    return capturing(stream) ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
}

static cudaError_t create(cudaStream_t *out, unsigned flags, int priority) {
    WORKING;
    Lock guard(streams_mutex);
    bool blocking = !(flags & cudaStreamNonBlocking);
    auto *stream = new Stream{flags, priority, nullptr, make_queue(blocking)};
    streams[stream] = stream;
    *out = reinterpret_cast<cudaStream_t>(stream);
    report(ProgramEvent::stream_created, uintptr_t(stream),
           flags | unsigned(stream->device) << DEVICE_SHIFT);
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
    return create(out, flags, larger(GREATEST_PRIORITY, smaller(LEAST_PRIORITY, priority)));
}
API cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
    if (least) *least = LEAST_PRIORITY;
    if (greatest) *greatest = GREATEST_PRIORITY;
    return cudaSuccess;
}
API cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    Lock guard(streams_mutex);
    auto *found = reinterpret_cast<Stream *>(stream);
    if (!streams.erase(found)) return failed(cudaErrorInvalidResourceHandle);
    report(ProgramEvent::stream_destroyed, uintptr_t(stream));
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
    report(ProgramEvent::host_waits_stream, observed(stream));
    return broken();
}
API cudaError_t cudaStreamQuery(cudaStream_t stream) {
    WORKING;
    if (auto error = may_wait(stream)) return failed(error);
    if (!is_idle(queue_of(stream))) return cudaErrorNotReady;
    // All work is complete: the same as having waited.
    report(ProgramEvent::host_waits_stream, observed(stream));
    return broken();
}
API cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *data) {
    WORKING;
    return failed(submit(stream, cudaGraphNodeTypeHost, [=] {
        report(ProgramEvent::host_function);
        function(data);
        return cudaSuccess;
    }));
}
API cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t function,
                                      void *data, unsigned) {
    WORKING;
    if (auto error = may_wait(stream)) return failed(error);
    return failed(submit(stream, cudaGraphNodeTypeHost, [=] {
        report(ProgramEvent::host_function);
        function(stream, cudaSuccess, data);
        return cudaSuccess;
    }));
}

// ---- events -------------------------------------------------------------------------------------

API cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags) {
    WORKING;
    if ((flags & cudaEventInterprocess) && !(flags & cudaEventDisableTiming))
        return failed(cudaErrorInvalidValue);
    Lock guard(streams_mutex);
    auto *event = new Event;
    event->timed = !(flags & cudaEventDisableTiming);
    event->interprocess = flags & cudaEventInterprocess;
    events[event] = event;
    *out = reinterpret_cast<cudaEvent_t>(event);
    return cudaSuccess;
}
API cudaError_t cudaEventCreate(cudaEvent_t *out) {
    return cudaEventCreateWithFlags(out, cudaEventDefault);
}
API cudaError_t cudaEventDestroy(cudaEvent_t event) {
    Lock guard(streams_mutex);
    auto *found = reinterpret_cast<Event *>(event);
    if (!events.erase(found)) return failed(cudaErrorInvalidResourceHandle);
    delete found;
    return cudaSuccess;
}
API cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    WORKING;
    auto *found = known(event);
    if (!found || valid(stream)) return failed(cudaErrorInvalidResourceHandle);
    found->recorder = recorder_of(stream);
    if (found->recorder) return cudaSuccess;
    auto reached = found->reached = new Moment;
    report(ProgramEvent::event_recorded, uintptr_t(event), observed(stream));
    auto between = found->between;
    uint32_t number = between ? between->record() : 0;
    Work reach = [reached, between, number] {
        reached->ns = now_ns();
        if (between) between->reach(number);
        return cudaSuccess;
    };
    if (blocking) return reach();
    found->task = enqueue(queue_of(stream), reach);
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
    if (found->between) found->between->wait(found->between->last());
    report(ProgramEvent::host_waits_event, uintptr_t(event));
    return broken();
}
API cudaError_t cudaEventQuery(cudaEvent_t event) {
    WORKING;
    auto *found = known(event);
    if (!found) return failed(cudaErrorInvalidResourceHandle);
    if (!is_done(found->task)) return cudaErrorNotReady;
    auto between = found->between;
    if (between && !between->reached(between->last())) return cudaErrorNotReady;
    report(ProgramEvent::host_waits_event, uintptr_t(event));
    return broken();
}
API cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t begin, cudaEvent_t end) {
    WORKING;
    auto *from = known(begin), *to = known(end);
    if (!from || !to || !from->timed || !to->timed || !from->reached || !to->reached)
        return failed(cudaErrorInvalidResourceHandle);
    if (!is_done(from->task) || !is_done(to->task)) return failed(cudaErrorNotReady);
    static std::atomic<bool> said{false};
    if (!said.exchange(true)) say("times between events are those of the simulation, not of a GPU");
    *ms = float(to->reached->ns - from->reached->ns) / 1e6f;
    return cudaSuccess;
}
API cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
    WORKING;
    auto *found = known(event);
    if (!found || valid(stream)) return failed(cudaErrorInvalidResourceHandle);
    auto *waits = known(stream);
    if (found->recorder && found->recorder->open && waits && !waits->recorder)
        waits->recorder = found->recorder;  // joins the capture
    if (!capturing(stream)) report(ProgramEvent::stream_waits, observed(stream), uintptr_t(event));
    if (auto between = found->between; between && !capturing(stream)) {
        uint32_t number = between->last();
        return failed(submit(stream, cudaGraphNodeTypeWaitEvent, [between, number] {
            between->wait(number);
            return cudaSuccess;
        }));
    }
    if (!capturing(stream) && !is_done(found->task))
        enqueue(queue_of(stream), [] { return cudaSuccess; }, {found->task});
    return cudaSuccess;
}
