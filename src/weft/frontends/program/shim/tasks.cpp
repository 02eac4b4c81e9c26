// Streams in the background. Each has a thread that does its work in order; a piece of work may
// also wait for pieces of other streams. The legacy default stream waits for all blocking streams,
// and they for it, as CUDA has it.
#include "tasks.h"

#include <unistd.h>

namespace weft {

struct Queue : Counted {
    ~Queue() override;
    bool blocking;
    TaskPtr first;  // under way, or waits; each task has the next one
    TaskPtr last;   // may be done
    bool begun = false, closed = false;
};

// Never destroyed: threads of streams outlive `main`.
static auto &lock = *new Mutex;
static auto &moved = *new ConditionVariable;
static auto &queues = *new Table<Queue *>;
static auto &waiting = *new Table<const Callable<bool()> *>;  // until when threads of the host wait
static auto &later = *new Array<Callable<void()>>;
static int64_t turns = 0;  // how often work has ended, or a thread of the host begun to wait
static auto &threads = *new Table<int64_t>;

static bool ready(const Task &task) {
    for (auto &each : task.after)
        if (!each->done) return false;
    return true;
}

static bool all_idle() {
    for (auto &row : queues)
        if (row.value->first) return false;
    return true;
}

Queue::~Queue() {
    Lock guard(lock);
    queues.erase(this);
}

static void serve(const QueuePtr &queue) {
    Lock guard(lock);
    threads[gettid()] = gettid();
    while (true) {
        moved.wait(guard, [&] {
            return queue->first ? ready(*queue->first) : queue->closed;
        });
        if (!queue->first) break;
        auto task = queue->first;
        guard.unlock();
        auto error = dead() ? cudaSuccess : task->work();
        guard.lock();
        task->work = {};
        task->after.clear();
        task->error = error;
        task->done = true;
        turns++;
        queue->first = std::move(task->next);
        Array<Callable<void()>> acts;
        if (all_idle()) acts.swap(later);
        for (auto &act : acts) act();
        moved.notify_all();
    }
    threads.erase(gettid());
}

static void *begin(void *queue) {
    serve(*static_cast<QueuePtr *>(queue));
    delete static_cast<QueuePtr *>(queue);
    return nullptr;
}

QueuePtr make_queue(bool blocking) {
    QueuePtr made(new Queue);
    made->blocking = blocking;
    Lock guard(lock);
    queues[made.get()] = made.get();
    return made;
}

QueuePtr default_queue() {
    static auto &made = *new QueuePtr(make_queue(true));
    return made;
}

void close(const QueuePtr &queue) {
    Lock guard(lock);
    queue->closed = true;
    moved.notify_all();
}

TaskPtr enqueue(const QueuePtr &queue, Work work, Array<TaskPtr> after) {
    TaskPtr task(new Task);
    task->work = std::move(work);
    auto legacy = default_queue();
    Lock guard(lock);
    for (auto &each : after)
        if (each && !each->done) task->after.push_back(each);
    for (auto &row : queues) {
        auto *other = row.value;
        bool ordered = other != queue.get() && other->blocking && queue->blocking &&
                       (queue == legacy || other == legacy.get());
        if (ordered && other->last && !other->last->done) task->after.push_back(other->last);
    }
    (queue->first ? queue->last->next : queue->first) = task;
    queue->last = task;
    if (!queue->begun) {
        queue->begun = true;
        pthread_t thread;
        pthread_create(&thread, nullptr, begin, new QueuePtr(queue));
        pthread_detach(thread);
    }
    moved.notify_all();
    return task;
}

bool is_done(const TaskPtr &task) {
    Lock guard(lock);
    return !task || task->done;
}

bool is_idle(const QueuePtr &queue) {
    Lock guard(lock);
    return !queue->first;
}

static void wait_until(const Callable<bool()> &over) {
    Lock guard(lock);
    waiting[&over] = &over;
    turns++;
    moved.wait(guard, over);
    waiting.erase(&over);
}

void wait(const TaskPtr &task) {
    if (task) wait_until([&] { return task->done; });
    flush_prints();
}

void wait(const QueuePtr &queue) {
    TaskPtr last;
    {
        Lock guard(lock);
        last = queue->last;
    }
    wait(last);
}

static bool blocking_idle() {
    for (auto &row : queues)
        if (row.value->blocking && row.value->first) return false;
    return true;
}

void wait_for_blocking() {
    wait_until(blocking_idle);
    flush_prints();
}

void wait_for_all() {
    wait_until(all_idle);
    flush_prints();
}

void when_idle(Callable<void()> act) {
    Lock guard(lock);
    if (all_idle())
        act();
    else
        later.push_back(std::move(act));
}

}  // namespace weft

using namespace weft;

// For the simulator, which wants to know whether a kernel that waits is waited for: how many pieces
// of work could run now, how many threads of the host wait for them, a number that changes when one
// of these does anything, and the threads of streams.
API void weft_activity(int64_t *able, int64_t *waits, int64_t *until, int64_t *own, size_t *room) {
    Lock guard(lock);
    *able = *waits = 0;
    *until = turns;
    for (auto &row : queues)
        if (row.value->first) *able += ready(*row.value->first);
    for (auto &row : waiting) *waits += !(*row.value)();
    size_t count = 0;
    for (auto &row : threads)
        if (count < *room) own[count++] = row.value;
    *room = count;
}

// The program is about to end: what it has asked for is done first.
API void weft_drain() { wait_for_all(); }
