// Streams and events, for what records them, graphs, and what shares them, processes.
#pragma once

#include "tasks.h"

namespace weft __attribute__((visibility("default"))) {

// The recording of a stream and of those that have joined it.
struct Recorder : Counted {
    virtual void add(cudaGraphNodeType type, Work work) = 0;
    bool open = true;
};
using RecorderPtr = Shared<Recorder>;

struct Moment : Counted {
    std::atomic<int64_t> ns{0};
};
// An event that several processes record and wait for. Records are numbered.
struct Interprocess : Counted {
    virtual uint32_t record() = 0;  // the number of a new record
    virtual void reach(uint32_t number) = 0;
    virtual uint32_t last() const = 0;
    virtual bool reached(uint32_t number) const = 0;
    virtual void wait(uint32_t number) = 0;
};
struct Event {
    Shared<Moment> reached;  // null: not recorded
    bool timed = true, interprocess = false;
    RecorderPtr recorder;
    TaskPtr task;
    Shared<Interprocess> between;  // null: of this process alone
};

struct Stream {
    unsigned flags;
    int priority;
    RecorderPtr recorder;
    QueuePtr queue;
    int device = current_device();
};

extern Mutex streams_mutex;
extern Table<Stream *> streams;  // by their handles
extern std::atomic<int> recorders;  // most programs never begin one

bool is_default(cudaStream_t stream);
// The default streams of this device and of another one wait for each other.
void join_default_streams(int device);
Stream *known(cudaStream_t stream);  // null for none, and for a default stream
cudaError_t valid(cudaStream_t stream);
RecorderPtr recorder_of(cudaStream_t stream);  // null for none
Event *known(cudaEvent_t event);                // null for none

}  // namespace weft
