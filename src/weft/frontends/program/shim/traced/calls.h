// The functions that the compiler calls at the begin and the end of every function of a part that
// is compiled for tracing. Each part has its own, because the C library has functions of these
// names that do nothing.
#pragma once

#include "../trace.h"

extern "C" {
__attribute__((no_instrument_function)) void __cyg_profile_func_enter(void *function, void *) {
    weft::function_enters(function);
}
__attribute__((no_instrument_function)) void __cyg_profile_func_exit(void *function, void *) {
    weft::function_leaves(function);
}
}
