// A part of each library that weft builds. The library is loaded in a Python process, by ctypes or
// as an extension module. Before its own constructors register device code, this one has weft load
// the runtime library, which serves all such libraries of the process.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

// Filled in here: the functions of the library jump through these addresses (stubs.py).
extern "C" void *weft_targets[];
extern "C" const char *const weft_names[];
extern "C" const char weft_parts[];  // of the runtime library

template <class F>
static F *python(const char *name) {
    return reinterpret_cast<F *>(dlsym(RTLD_DEFAULT, name));
}

static void fail(const char *why) {
    fprintf(stderr, "weft: this library was built by weft, and its kernels are simulated: %s\n", why);
    exit(70);
}

// Constructors of user code have no priority and so run later.
__attribute__((constructor(101))) static void weft_start() {
    auto *initialized = python<int()>("Py_IsInitialized");
    auto *enter = python<int()>("PyGILState_Ensure");
    auto *leave = python<void(int)>("PyGILState_Release");
    auto *run = python<int(const char *, void *)>("PyRun_SimpleStringFlags");
    if (!initialized || !enter || !leave || !run || !initialized())
        fail("load it in Python; a program is built with its main, by weft nvcc without -shared");
    int state = enter();
    char code[512];
    snprintf(code, sizeof code,
             "from weft.frontends.embedded import start as _weft\n_weft('%s')\ndel _weft", weft_parts);
    int status = run(code, nullptr);
    leave(state);
    if (status) fail("the runtime library could not be loaded (see above)");
    for (int i = 0; weft_names[i]; i++)
        if (!(weft_targets[i] = dlsym(RTLD_DEFAULT, weft_names[i])))
            fail("it was built by another version of weft; build it again");
}
