// Errors: the last one, those that stay, their names; what is said to the person at the keyboard.
#include "weft.h"

#include <unistd.h>

namespace weft {

Ops ops;
Model model;

static thread_local cudaError_t last = cudaSuccess;
static std::atomic<int> death{cudaSuccess};
static std::atomic<bool> seen{true};    // has a call returned the fault?
static std::atomic<bool> noticed{true};  // has the program asked for an error, or for its words?
static std::atomic<const char *> verdict{nullptr};  // why the run must not end with 0
constexpr int FAILED = 70;  // the exit code of a program that has not noticed

cudaError_t failed(cudaError_t error) {
    if (error != cudaSuccess) last = error;
    return error;
}

cudaError_t broken() {
    auto error = static_cast<cudaError_t>(death.load());
    if (error != cudaSuccess) seen = true;
    return failed(error);
}

bool dead() { return death != cudaSuccess; }

void die(cudaError_t error) {
    int none = cudaSuccess;
    if (death.compare_exchange_strong(none, error)) seen = noticed = false;
}

// A return value alone may have been thrown away; an error that is asked for or spelled out has
// not.
static cudaError_t notice(cudaError_t error) {
    if (error != cudaSuccess) noticed = true;
    return error;
}

void revive() {
    noticed = true;
    death = cudaSuccess;
    last = cudaSuccess;
}

static auto &printing = *new Mutex;
static auto &printed = *new Array<char>;  // by kernels, and not shown yet

void flush_prints() {
    Lock guard(printing);
    fwrite(printed.data(), 1, printed.size(), stdout);
    printed.clear();
}

void say(const char *form, ...) {
    va_list list;
    va_start(list, form);
    char text[1024];
    vsnprintf(text, sizeof text, form, list);
    va_end(list);
    flush_prints();
    fflush(stdout);  // so that the lines stand in their order on a terminal
    fprintf(stderr, "weft: %s\n", text);
}

// Runs after the program's own destructors, since it was registered before the program was loaded.
static void finish(int status, void *) {
    const char *why = verdict;
    if (!noticed && !why) why = "a kernel failed and the program never asked";
    if (status != 0 || !why) return;
    say("%s: exit code %d instead of 0", why, FAILED);
    fflush(nullptr);
    _exit(FAILED);
}

struct Text {
    cudaError_t error;
    const char *text;
};
static const Text texts[] = {
    {cudaSuccess, "no error"},
    {cudaErrorInvalidValue, "invalid argument"},
    {cudaErrorMemoryAllocation, "out of memory"},
    {cudaErrorInitializationError, "initialization error"},
    {cudaErrorInvalidConfiguration, "invalid configuration argument"},
    {cudaErrorInvalidPitchValue, "invalid pitch argument"},
    {cudaErrorInvalidSymbol, "invalid device symbol"},
    {cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"},
    {cudaErrorMissingConfiguration, "__global__ function call is not configured"},
    {cudaErrorInvalidDeviceFunction, "invalid device function"},
    {cudaErrorNoDevice, "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "invalid device ordinal"},
    {cudaErrorPeerAccessUnsupported, "peer access is not supported between these two devices"},
    {cudaErrorInvalidResourceHandle, "invalid resource handle"},
    {cudaErrorNotReady, "device not ready"},
    {cudaErrorIllegalAddress, "an illegal memory access was encountered"},
    {cudaErrorLaunchOutOfResources, "too many resources requested for launch"},
    {cudaErrorLaunchTimeout, "the launch timed out and was terminated"},
    {cudaErrorPeerAccessAlreadyEnabled, "peer access is already enabled"},
    {cudaErrorPeerAccessNotEnabled, "peer access has not been enabled"},
    {cudaErrorAssert, "device-side assert triggered"},
    {cudaErrorHostMemoryAlreadyRegistered,
     "part or all of the requested memory range is already mapped"},
    {cudaErrorHostMemoryNotRegistered, "pointer does not correspond to a registered memory region"},
    {cudaErrorIllegalInstruction, "an illegal instruction was encountered"},
    {cudaErrorMisalignedAddress, "misaligned address"},
    {cudaErrorLaunchFailure, "unspecified launch failure"},
    {cudaErrorCooperativeLaunchTooLarge, "too many blocks in cooperative launch"},
    {cudaErrorNotPermitted, "operation not permitted"},
    {cudaErrorNotSupported, "operation not supported"},
    {cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing"},
    {cudaErrorStreamCaptureInvalidated, "operation failed due to a previous error during capture"},
    {cudaErrorStreamCaptureUnmatched, "capture was not ended in the same stream as it began"},
    {cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work"},
    {cudaErrorStreamCaptureImplicit,
     "operation would make the legacy stream depend on a capturing blocking stream"},
    {cudaErrorIllegalState, "the operation cannot be performed in the present state"},
    {cudaErrorUnknown, "unknown error"},
};

struct Name {
    int error;
    const char *name;
};
static const Name names[] = {
#include "names.inc"  // one row for each error of this toolkit, made by build.py from its header
};

}  // namespace weft

using namespace weft;

API void weft_begin(const Ops *given, const Model *simulated) {
    ops = *given;
    model = *simulated;
    on_exit(finish, nullptr);
}

// Device printf goes through the program's own standard output when the host waits for the kernel,
// as on a GPU: lines of host and device keep their order.
API void weft_print(const char *text, size_t bytes) {
    Lock guard(printing);
    size_t before = printed.size();
    printed.resize(before + bytes);
    memcpy(printed.data() + before, text, bytes);
}

API void weft_say(const char *text) { say("%s", text); }

// The run must not end with 0; the text is the caller's to keep.
API void weft_condemn(const char *why) { verdict = why; }

// The stub of a function that weft does not serve calls this, and returns its library's "not
// supported".
API int weft_unserved(const char *name, int status) {
    static Mutex mutex;
    static Table<bool> told;  // a function always passes the same pointer
    Lock guard(mutex);
    if (!std::exchange(told[name], true))
        say("%s is not served by weft: it returns \"not supported\" (%d)", name, status);
    if (strncmp(name, "cuda", 4) == 0) failed(static_cast<cudaError_t>(status));
    return status;
}

API cudaError_t cudaGetLastError() {
    cudaError_t error = last;
    last = seen ? static_cast<cudaError_t>(death.load()) : cudaSuccess;
    return notice(error);
}

API cudaError_t cudaPeekAtLastError() { return notice(last); }

API const char *cudaGetErrorName(cudaError_t error) {
    notice(error);
    for (auto &row : names)
        if (row.error == error) return row.name;
    return "unrecognized error code";
}

API const char *cudaGetErrorString(cudaError_t error) {
    notice(error);
    for (auto &row : texts)
        if (row.error == error) return row.text;
    return cudaGetErrorName(error);
}
