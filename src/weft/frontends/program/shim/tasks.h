// The work of streams in the background, in order, and the host that waits for it.
#pragma once

#include "weft.h"

namespace weft __attribute__((visibility("default"))) {

// A piece of work of a stream, or an event in it.
struct Task : Counted {
    Work work;
    Array<Shared<Task>> after;  // of other streams
    Shared<Task> next;                // of the same stream, while it waits there
    cudaError_t error = cudaSuccess;
    bool done = false;
};
using TaskPtr = Shared<Task>;

// The work of one stream: done by a thread of its own, which begins with the first piece.
struct Queue;
using QueuePtr = Shared<Queue>;
// A blocking queue waits for the legacy default stream of its device, which waits for it.
QueuePtr make_queue(bool blocking, int device = current_device());
QueuePtr default_queue(int device = current_device());
void close(const QueuePtr &queue);  // no more work will come

TaskPtr enqueue(const QueuePtr &queue, Work work, Array<TaskPtr> after = {});
bool is_done(const TaskPtr &task);       // true for none
void wait(const TaskPtr &task);          // the calling thread of the host waits
void wait(const QueuePtr &queue);        // for all that is in it now
// For all streams that the legacy default stream of the current device waits for.
void wait_for_blocking();
// The last work of a queue; null for none.
TaskPtr last_task(const QueuePtr &queue);
bool is_idle(const QueuePtr &queue);

}  // namespace weft
