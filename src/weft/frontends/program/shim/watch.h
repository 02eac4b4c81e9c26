// Reports for the sanitizer: the calls of the program, in order. Nothing is reported without an
// observer. The twin of `Hooks` is `hooks.py`.
#pragma once

#include "weft.h"

namespace weft __attribute__((visibility("default"))) {

// A box of bytes in memory whose rows and planes are apart.
struct Box {
    char *start;
    size_t pitch, plane;
};
struct Size {
    size_t width, height, depth;
    bool empty() const { return !width || !height || !depth; }
};
// Copies a box in a stream's order; `waits` for a call that is not asynchronous.
cudaError_t copy_box(const char *call, Box to, Box from, Size size, cudaMemcpyKind kind,
                     cudaStream_t stream, bool waits);
struct Copy {
    const char *call;
    Box to, from;  // from nowhere: a fill
    Size size;
    uint64_t to_host;
};

enum class ProgramEvent : int {
    stream_created,       // stream, flags
    stream_destroyed,     // stream
    event_recorded,       // event, stream
    stream_waits,         // stream, event
    host_waits_stream,    // stream
    host_waits_event,     // event
    host_waits_device,    // device
    host_function,        // called by the work that runs
    work_waits,           // event, by the work that runs
    streams_joined,       // stream, stream: what follows in either waits for both
};

struct Hooks {
    void (*happened)(int what, uint64_t a, uint64_t b);
    uint64_t (*submitted)(uint64_t stream);  // the number of a piece of work
    void (*begins)(uint64_t work);
    void (*ends)(uint64_t work);
    void (*copied)(const Copy *copy);
    void (*allocated)(const char *call, uint64_t address, uint64_t bytes, int kind, int device);
    void (*freed)(const char *call, uint64_t address, uint64_t bytes);
    void (*host_touched)(uint64_t address, int writes, uint64_t instruction);
    // The work that runs reads and writes memory for a call, whose stack is given.
    void (*accessed)(const char *call, uint64_t from, uint64_t bytes_from, uint64_t to,
                     uint64_t bytes_to, void *const *frames, int count);
};
extern const Hooks *hooks;  // null: no observer

template <class A = int, class B = int>
void report(ProgramEvent what, A a = 0, B b = 0) {
    if (hooks) hooks->happened(int(what), uint64_t(a), uint64_t(b));
}

// A stream in reports. Each device has default streams of its own.
constexpr int DEVICE_SHIFT = 8;
inline uint64_t observed(cudaStream_t stream, int device = current_device()) {
    bool own = uintptr_t(stream) <= uintptr_t(cudaStreamPerThread);
    return uint64_t(stream) | uint64_t(own ? device : 0) << DEVICE_SHIFT;
}

// The work of a stream, with reports when it begins and ends.
Work watched(cudaStream_t stream, Work work);

// Work runs on this thread as long as it lives.
class Running {
  public:
    explicit Running(cudaStream_t stream);
    explicit Running(uint64_t number);
    ~Running();

  private:
    uint64_t number;
};

}  // namespace weft
