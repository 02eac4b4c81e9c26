// The sanitizer's view of the host: memory that both sides use is guarded while work that touches
// it is under way, so that a host access stops in a signal handler and is told.
#include "watch.h"

#include <signal.h>
#include <execinfo.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

namespace weft {

const Hooks *hooks = nullptr;

namespace {
struct Guard {
    uint64_t start, end, readable;
};
Mutex watch_mutex;
Array<Guard> guards;
int running = 0;  // pieces of work: they use the same addresses as the host, unguarded

void protect(bool on) {
    for (auto &guard : guards)
        mprotect(reinterpret_cast<void *>(guard.start), guard.end - guard.start,
                 !on              ? PROT_READ | PROT_WRITE
                 : guard.readable ? PROT_READ
                                  : PROT_NONE);
}

bool is_write(const ucontext_t *context) {
#if defined(__x86_64__)
    return context->uc_mcontext.gregs[REG_ERR] & 2;
#elif defined(__aarch64__)
    constexpr uint32_t ESR = 0x45535201;  // a record of the context: why the instruction failed
    auto *at = reinterpret_cast<const char *>(context->uc_mcontext.__reserved);
    for (uint32_t head[2]; memcpy(head, at, sizeof head), head[0]; at += head[1]) {
        uint64_t syndrome;
        memcpy(&syndrome, at + sizeof head, sizeof syndrome);
        if (head[0] == ESR) return syndrome >> 6 & 1;
    }
    return false;
#else
#error "which register says whether an access was a write?"
#endif
}

uint64_t instruction(const ucontext_t *context) {
#if defined(__x86_64__)
    return context->uc_mcontext.gregs[REG_RIP];
#else
    return context->uc_mcontext.pc;
#endif
}

// The host touches guarded memory: it is told, and the page is free until more work has run.
void touched(int signal, siginfo_t *info, void *context) {
    auto address = uint64_t(info->si_addr);
    bool known = false;
    {
        Lock guard(watch_mutex);
        for (auto &each : guards) known |= each.start <= address && address < each.end;
        uint64_t page = sysconf(_SC_PAGESIZE);
        if (known)
            mprotect(reinterpret_cast<void *>(address / page * page), page, PROT_READ | PROT_WRITE);
    }
    if (!known) {  // a mistake of the program's own: it ends as it would without weft
        ::signal(signal, SIG_DFL);
        return;
    }
    auto *where = static_cast<const ucontext_t *>(context);
    hooks->host_touched(address, is_write(where), instruction(where));
}
}  // namespace

Work watched(cudaStream_t stream, Work work) {
    if (!hooks) return work;
    return [number = hooks->submitted(observed(stream)), work = std::move(work)] {
        Running here(number);
        return work();
    };
}

Running::Running(cudaStream_t stream)
    : Running(hooks ? hooks->submitted(observed(stream)) : uint64_t(0)) {}
Running::Running(uint64_t number) : number(number) {
    if (!hooks) return;
    {
        Lock guard(watch_mutex);
        if (running++ == 0) protect(false);
    }
    hooks->begins(number);
}
Running::~Running() {
    if (!hooks) return;
    hooks->ends(number);
    Lock guard(watch_mutex);
    if (--running == 0) protect(true);
}

}  // namespace weft

using namespace weft;

API void weft_watch(const Hooks *given) {
    hooks = given;
    struct sigaction action = {};
    action.sa_sigaction = touched;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigaction(SIGSEGV, &action, nullptr);
    sigaction(SIGBUS, &action, nullptr);
}

// The calls that this thread is in, the innermost first.
API int weft_frames(void **out, int room) { return backtrace(out, room); }

// The memory that the host must not touch now: start, end, and whether it may be read.
API void weft_guard(const Guard *rows, size_t count) {
    Lock guard(watch_mutex);
    if (running == 0) protect(false);
    guards.clear();
    for (size_t i = 0; i < count; i++) guards.push_back(rows[i]);
    if (running == 0) protect(true);
}
