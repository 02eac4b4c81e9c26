// Streams and events, for what records them: graphs.
#pragma once

#include "tasks.h"

namespace weft __attribute__((visibility("default"))) {

// What is being recorded from a stream and those that have joined it.
struct Recorder : Counted {
    virtual void add(cudaGraphNodeType type, Work work) = 0;
    bool open = true;
};
using RecorderPtr = Shared<Recorder>;

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
Stream *known(cudaStream_t stream);  // null for none, and for a default stream
cudaError_t valid(cudaStream_t stream);
RecorderPtr recorder_of(cudaStream_t stream);  // null for none

}  // namespace weft
