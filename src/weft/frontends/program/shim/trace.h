// Reports for a timeline: the program's calls, its NVTX ranges and the nodes of its graphs. Nothing
// is reported without an observer. The twin of `Trace` is `timeline/hooks.py`.
#pragma once

#include "weft.h"

namespace weft __attribute__((visibility("default"))) {

enum class RangeEvent : int { push, pop, start, end, mark };

struct Trace {
    void (*called)(const char *name, int enters);  // the program enters or leaves a function
    void (*range)(int what, uint64_t number, const char *text);
    // The next work is that of a node of a graph, which waits for nodes before it.
    void (*node)(uint64_t index, const uint64_t *after, uint64_t count);
};
extern const Trace *trace;  // null: no observer

// Called at the begin and the end of every function of a library that is compiled for tracing.
void function_enters(void *function);
void function_leaves(void *function);

}  // namespace weft
