// Pools of memory, for what passes them to other processes.
#pragma once

#include "weft.h"

namespace weft __attribute__((visibility("default"))) {

// A pool would hold on to freed memory until the next synchronisation; here it gives back at once
// what is above the threshold.
struct Pool {
    cudaMemPoolProps about{};
    uint64_t threshold = 0;
    uint64_t held = 0, most_held = 0, used = 0, most_used = 0;
    int reuse[3] = {1, 1, 1};  // what may be used again: hints
    bool readable[MOST_DEVICES] = {}, writable[MOST_DEVICES] = {};
    uint64_t exported = 0;  // the number under which processes know it; 0: they do not
    bool imported = false;
    bool of_place = false;  // the default pool of a place, which cannot be destroyed
    void trim(uint64_t keep) { held = larger(used, smaller(held, keep)); }
};
Pool *new_pool(const cudaMemPoolProps &about);
Pool *known_pool(cudaMemPool_t pool);  // null for none

}  // namespace weft
