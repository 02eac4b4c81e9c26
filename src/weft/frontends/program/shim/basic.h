// Locks, reference counts and functions as values, for the core of the library. They are here
// because they compile in a twentieth of the time of <mutex>, <memory> and <functional>, and the
// core is compiled in the first run of the first program.
#pragma once

#include <pthread.h>

#include <atomic>
#include <utility>

namespace weft {

template <class T>
T larger(T a, T b) {
    return a < b ? b : a;
}
template <class T>
T smaller(T a, T b) {
    return b < a ? b : a;
}

class Mutex {
  public:
    void lock() { pthread_mutex_lock(&mutex); }
    void unlock() { pthread_mutex_unlock(&mutex); }

  private:
    friend class ConditionVariable;
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
};

// Holds a mutex as long as it lives, but for the time between `unlock` and `lock`.
class Lock {
  public:
    explicit Lock(Mutex &mutex) : mutex(mutex) { lock(); }
    ~Lock() {
        if (held) unlock();
    }
    Lock(const Lock &) = delete;
    void lock() { mutex.lock(), held = true; }
    void unlock() { mutex.unlock(), held = false; }

  private:
    friend class ConditionVariable;
    Mutex &mutex;
    bool held;
};

class ConditionVariable {
  public:
    template <class F>
    void wait(Lock &lock, const F &over) {
        while (!over()) pthread_cond_wait(&condition, &lock.mutex.mutex);
    }
    void notify_all() { pthread_cond_broadcast(&condition); }

  private:
    pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
};

// The object that several `Shared` pointers own.
struct Counted {
    virtual ~Counted() = default;
    std::atomic<int> owners{0};
};

template <class T>
class Shared {
  public:
    Shared(T *counted = nullptr) : counted(counted) {
        if (counted) counted->owners++;
    }
    Shared(const Shared &other) : Shared(other.counted) {}
    template <class U>
    Shared(const Shared<U> &other) : Shared(other.get()) {}
    Shared(Shared &&other) : counted(other.counted) { other.counted = nullptr; }
    ~Shared() {
        if (counted && --counted->owners == 0) delete counted;
    }
    Shared &operator=(Shared other) {
        std::swap(counted, other.counted);
        return *this;
    }
    T *get() const { return counted; }
    T *operator->() const { return counted; }
    T &operator*() const { return *counted; }
    explicit operator bool() const { return counted; }
    bool operator==(const Shared &other) const { return counted == other.counted; }
    bool operator!=(const Shared &other) const { return counted != other.counted; }

  private:
    T *counted;
};

template <class>
class Callable;

// A function as a value, or none; copies share what it has captured.
template <class R, class... A>
class Callable<R(A...)> {
  public:
    Callable() = default;
    template <class F>
    Callable(F function) : call(new Of<F>(std::move(function))) {}
    R operator()(A... arguments) const { return call->run(arguments...); }
    explicit operator bool() const { return bool(call); }

  private:
    struct Call : Counted {
        virtual R run(A... arguments) = 0;
    };
    template <class F>
    struct Of : Call {
        explicit Of(F function) : function(std::move(function)) {}
        R run(A... arguments) override { return function(arguments...); }
        F function;
    };
    Shared<Call> call;
};

}  // namespace weft
