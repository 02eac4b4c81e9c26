// Streams in the background. Each has a thread that does its work in order; a piece of work may
// also wait for pieces of other streams. The legacy default stream waits for all blocking streams,
// and they for it, as CUDA has it.
#include "tasks.h"

#include <condition_variable>
#include <deque>
#include <list>
#include <thread>
#include <unistd.h>

namespace weft {

struct Queue {
    bool blocking;
    std::deque<TaskPtr> tasks;  // the first one is under way, or waits
    TaskPtr last;
    bool begun = false, closed = false;
};

// Never destroyed: threads of streams outlive `main`.
static auto &lock = *new std::mutex;
static auto &moved = *new std::condition_variable;
static auto &queues = *new std::list<std::weak_ptr<Queue>>;
static auto &waiting = *new std::list<std::function<bool()>>;  // until when threads of the host wait
static auto &later = *new std::vector<std::function<void()>>;
static int64_t turns = 0;  // how often work has ended, or a thread of the host begun to wait
static auto &threads = *new std::vector<int64_t>;

static bool ready(const Task &task) {
    for (auto &each : task.after)
        if (!each->done) return false;
    return true;
}

static bool all_idle() {
    for (auto &each : queues)
        if (auto queue = each.lock(); queue && !queue->tasks.empty()) return false;
    return true;
}

static void serve(QueuePtr queue) {
    std::unique_lock<std::mutex> guard(lock);
    threads.push_back(gettid());
    while (true) {
        moved.wait(guard, [&] {
            return queue->tasks.empty() ? queue->closed : ready(*queue->tasks.front());
        });
        if (queue->tasks.empty()) break;
        auto task = queue->tasks.front();
        guard.unlock();
        auto error = dead() ? cudaSuccess : task->work();
        guard.lock();
        task->work = nullptr;
        task->after.clear();
        task->error = error;
        task->done = true;
        turns++;
        queue->tasks.pop_front();
        std::vector<std::function<void()>> acts;
        if (all_idle()) acts.swap(later);
        for (auto &act : acts) act();
        moved.notify_all();
    }
    threads.erase(std::find(threads.begin(), threads.end(), gettid()));
}

QueuePtr make_queue(bool blocking) {
    auto made = std::make_shared<Queue>();
    made->blocking = blocking;
    std::lock_guard<std::mutex> guard(lock);
    queues.remove_if([](auto &each) { return each.expired(); });
    queues.push_back(made);
    return made;
}

QueuePtr default_queue() {
    static auto &made = *new QueuePtr(make_queue(true));
    return made;
}

void close(const QueuePtr &queue) {
    std::lock_guard<std::mutex> guard(lock);
    queue->closed = true;
    moved.notify_all();
}

TaskPtr enqueue(const QueuePtr &queue, Work work, std::vector<TaskPtr> after) {
    auto task = std::make_shared<Task>();
    task->work = std::move(work);
    auto legacy = default_queue();
    std::lock_guard<std::mutex> guard(lock);
    for (auto &each : after)
        if (each && !each->done) task->after.push_back(each);
    for (auto &each : queues) {
        auto other = each.lock();
        bool ordered = other && other != queue && other->blocking && queue->blocking &&
                       (queue == legacy || other == legacy);
        if (ordered && other->last && !other->last->done) task->after.push_back(other->last);
    }
    queue->tasks.push_back(task);
    queue->last = task;
    if (!queue->begun) {
        queue->begun = true;
        std::thread(serve, queue).detach();
    }
    moved.notify_all();
    return task;
}

bool is_done(const TaskPtr &task) {
    std::lock_guard<std::mutex> guard(lock);
    return !task || task->done;
}

bool is_idle(const QueuePtr &queue) {
    std::lock_guard<std::mutex> guard(lock);
    return queue->tasks.empty();
}

static void wait_until(std::function<bool()> over) {
    std::unique_lock<std::mutex> guard(lock);
    auto entry = waiting.insert(waiting.end(), over);
    turns++;
    moved.wait(guard, over);
    waiting.erase(entry);
}

void wait(const TaskPtr &task) {
    if (task) wait_until([&] { return task->done; });
    flush_prints();
}

void wait(const QueuePtr &queue) {
    TaskPtr last;
    {
        std::lock_guard<std::mutex> guard(lock);
        last = queue->last;
    }
    wait(last);
}

static bool blocking_idle() {
    for (auto &each : queues)
        if (auto queue = each.lock(); queue && queue->blocking && !queue->tasks.empty()) return false;
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

void when_idle(std::function<void()> act) {
    std::lock_guard<std::mutex> guard(lock);
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
    std::lock_guard<std::mutex> guard(lock);
    *able = *waits = 0;
    *until = turns;
    for (auto &each : queues)
        if (auto queue = each.lock(); queue && !queue->tasks.empty())
            *able += ready(*queue->tasks.front());
    for (auto &over : waiting) *waits += !over();
    size_t count = std::min(*room, threads.size());
    std::copy_n(threads.begin(), count, own);
    *room = count;
}

// The program is about to end: what it has asked for is done first.
API void weft_drain() { wait_for_all(); }
