// Calls of the program, for a timeline. The compiler adds `function_enters` and `function_leaves`
// to every function (library.py); of these, the outermost one that programs can call is reported.
#include "trace.h"

#include <dlfcn.h>

#define UNTRACED __attribute__((no_instrument_function))

namespace weft {

const Trace *trace = nullptr;

namespace {
struct Exported {
    void *function;
    const char *name;  // null: programs cannot call it
};
constexpr size_t ROOM = 8192;  // more than the functions of all parts together
Exported known_functions[ROOM];
Mutex known_mutex;
thread_local int depth = 0;     // exported functions that this thread is in
thread_local bool busy = false;  // while the observer runs

// The name of a function that programs call; weft's own and those of the compiler are none.
UNTRACED const char *exported(void *function) {
    Dl_info info;
    if (!dladdr(function, &info) || info.dli_saddr != function || !info.dli_sname) return nullptr;
    const char *name = info.dli_sname;
    if (!strncmp(name, "__cudaLaunchKernel", 18)) return "cudaLaunchKernel";
    bool internal = name[0] == '_' || !strncmp(name, "weft", 4);
    return internal ? nullptr : name;
}

// No container: their functions are compiled for tracing, too.
UNTRACED const char *name_of(void *function) {
    pthread_mutex_lock(reinterpret_cast<pthread_mutex_t *>(&known_mutex));
    size_t at = (uintptr_t(function) >> 4) % ROOM;
    while (known_functions[at].function && known_functions[at].function != function)
        at = (at + 1) % ROOM;
    auto &found = known_functions[at];
    if (!found.function) found = {function, exported(function)};
    const char *name = found.name;
    pthread_mutex_unlock(reinterpret_cast<pthread_mutex_t *>(&known_mutex));
    return name;
}
}  // namespace

UNTRACED void function_enters(void *function) {
    if (!trace || busy) return;
    const char *name = name_of(function);
    if (!name || depth++) return;
    busy = true;
    trace->called(name, 1);
    busy = false;
}

UNTRACED void function_leaves(void *function) {
    if (!trace || busy || !depth) return;
    const char *name = name_of(function);
    if (!name || --depth) return;
    busy = true;
    trace->called(name, 0);
    busy = false;
}

}  // namespace weft

using namespace weft;

API void weft_trace(const Trace *given) { trace = given; }
