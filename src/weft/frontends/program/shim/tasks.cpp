// Streams in the background. Each has a thread that does its work in order; a piece of work may
// also wait for pieces of other streams. The legacy default stream waits for all blocking streams,
// and they for it, as CUDA has it.
#include "tasks.h"

#include <unistd.h>

namespace weft {

struct Queue : Counted {
    ~Queue() override;
    bool blocking, legacy = false;
    int device;
    TaskPtr first;  // under way, or waits; each task has the next one
    TaskPtr last;   // may be done
    size_t pending = 0;
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

constexpr size_t MOST_PENDING = 1024;  // then a launch waits, as on a GPU

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
        queue->pending--;
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

QueuePtr make_queue(bool blocking, int device) {
    QueuePtr made(new Queue);
    made->blocking = blocking, made->device = device;
    Lock guard(lock);
    queues[made.get()] = made.get();
    return made;
}

QueuePtr default_queue(int device) {
    static auto *made = new QueuePtr[MOST_DEVICES];
    static auto &mutex = *new Mutex;
    Lock guard(mutex);
    if (!made[device]) {
        made[device] = make_queue(true, device);
        made[device]->legacy = true;
    }
    return made[device];
}

TaskPtr last_task(const QueuePtr &queue) {
    Lock guard(lock);
    return queue->last;
}

void close(const QueuePtr &queue) {
    Lock guard(lock);
    queue->closed = true;
    moved.notify_all();
}

static void wait_until(const Callable<bool()> &over) {
    Lock guard(lock);
    waiting[&over] = &over;
    turns++;
    moved.wait(guard, over);
    waiting.erase(&over);
}

// Waits while too much work is pending; not in the thread of a stream, which would wait for itself.
static void wait_for_room(const QueuePtr &queue) {
    {
        Lock guard(lock);
        if (queue->pending < MOST_PENDING || threads.find(uint64_t(gettid()))) return;
    }
    wait_until([&] { return queue->pending < MOST_PENDING; });
}

TaskPtr enqueue(const QueuePtr &queue, Work work, Array<TaskPtr> after) {
    wait_for_room(queue);
    TaskPtr task(new Task);
    task->work = std::move(work);
    Lock guard(lock);
    for (auto &each : after)
        if (each && !each->done) task->after.push_back(each);
    for (auto &row : queues) {
        auto *other = row.value;
        bool ordered = other != queue.get() && other->blocking && queue->blocking &&
                       other->device == queue->device && (queue->legacy || other->legacy);
        if (ordered && other->last && !other->last->done) task->after.push_back(other->last);
    }
    (queue->first ? queue->last->next : queue->first) = task;
    queue->last = task;
    queue->pending++;
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

void wait(const TaskPtr &task) {
    if (task) wait_until([&] { return task->done; });
    flush_prints();
}

void wait(const QueuePtr &queue) {
    wait(last_task(queue));
}

// Waits for the work that streams have now: other threads of the host may submit more meanwhile.
static void wait_for_present(const Callable<bool(const Queue &)> &counts) {
    Array<TaskPtr> present;
    {
        Lock guard(lock);
        for (auto &row : queues)
            if (row.value->first && counts(*row.value)) present.push_back(row.value->last);
    }
    wait_until([&] {
        for (auto &task : present)
            if (!task->done) return false;
        return true;
    });
    flush_prints();
}

void wait_for_blocking() {
    wait_for_present([device = current_device()](const Queue &queue) {
        return queue.blocking && queue.device == device;
    });
}

void wait_for_device(int device) {
    wait_for_present([device](const Queue &queue) { return queue.device == device; });
}

void wait_for_all() {
    wait_for_present([](const Queue &) { return true; });
}

void wait_for_idle() {
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
