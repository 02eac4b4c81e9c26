// The interface between the parts of the runtime library: the simulator, errors, memory, streams.
//
// The library is compiled against the headers of the toolkit that compiles the program, so
// structures are laid out as the program expects them. Bookkeeping is done here; what needs the
// simulator goes through `Ops`, whose twin is `interface.py`.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "basic.h"
#include "containers.h"

#define API extern "C" __attribute__((visibility("default")))

namespace weft __attribute__((visibility("default"))) {

// ---- the simulator ------------------------------------------------------------------------------

struct FunctionFacts {
    int64_t static_shared, constant, local, most_threads, registers, ptx, binary,
        must_have_cluster, cluster[3];  // 0: as the launch says
};

// Takes a text of `Ops::load` or `Ops::link` for `to`.
enum class Sent { result, error, info };
using Receive = void (*)(void *to, Sent what, const char *text, uint64_t bytes);

struct Ops {
    void (*fat_binary)(uint64_t handle, const void *data, uint64_t size, int linked);
    // Loads and links device code that the program brings at run time; a CUresult.
    int (*load)(uint64_t handle, const void *data, uint64_t size, void *to, Receive receive);
    int (*link)(const void *const *images, const uint64_t *sizes, const char *const *names,
                int count, void *to, Receive receive);
    void (*function)(uint64_t handle, const void *host, const char *name);
    void (*variable)(uint64_t handle, const void *host, const char *name);
    // Offset and size of each parameter; their number, or -1 for no such kernel.
    int (*parameters)(const void *host, uint32_t *pairs, int room);
    // Makes a kernel ready for a launch; a cudaError_t of what a GPU would not take. `dims` are
    // those of the grid, of a block and of a cluster, which are 0 where the launch gives none.
    int (*prepare)(const void *host, const unsigned *dims, uint64_t shared, int cooperative);
    // A cudaError_t; plus DIED when the kernel began and failed.
    int (*launch)(const void *host, const unsigned *dims, const void *params, uint64_t bytes,
                  uint64_t shared, int cooperative);
    // Address and size of a variable: by what the program calls it, and by an address in it; 0 for
    // none.
    uint64_t (*symbol)(const void *host, uint64_t *size);
    uint64_t (*variable_at)(const void *address, uint64_t *size);
    // `assembled`: registers and local memory too, which the assembler must be asked for.
    int (*facts)(const void *host, FunctionFacts *facts, int assembled);
    int (*blocks_per_sm)(const void *host, int threads, uint64_t shared);
    // The clusters of so many blocks that the GPU holds at once; -1 for a size that it cannot run.
    int (*clusters)(const void *host, int threads, uint64_t shared, int size);
    // A call of a library, by name: addresses and sizes; the library's own status.
    int (*compute)(const char *name, const int64_t *numbers, int count);
    void (*heap)(uint64_t bytes);
    // A pointer that a call cannot take; `kind` is that of a finding, `why` says what it is.
    void (*misused)(const char *kind, const char *call, uint64_t address, const char *why);
};
constexpr int DIED = 1 << 16;

// The GPU that is simulated; sizes in bytes.
struct Model {
    char name[256];
    int64_t major, minor, sms, memory, bus_bits, l2, shared_per_block, shared_optin, shared_per_sm,
        reserved_shared, registers_per_sm, registers_per_block, max_threads_per_block,
        max_threads_per_sm, max_blocks_per_sm, max_block[3], max_grid[3], warp, constant, clock_khz,
        memory_khz, max_cluster;
};
constexpr unsigned PORTABLE_CLUSTER = 8;  // blocks that each GPU with clusters can run as one

extern Ops ops;
extern Model model;
int current_device();  // of this thread
constexpr int MOST_DEVICES = 64;

// ---- errors -------------------------------------------------------------------------------------

cudaError_t failed(cudaError_t error);  // remembers what a call returns
cudaError_t broken();                   // the error of a kernel that died earlier, or success
bool dead();                            // whether one died, without the program asking
void die(cudaError_t error);            // a kernel died: every later call fails
void revive();                          // cudaDeviceReset
extern bool immediate;                  // does a launch return the failure of its kernel?
void say(const char *form, ...) __attribute__((format(printf, 1, 2)));

// ---- memory -------------------------------------------------------------------------------------

struct Pool;
enum class Kind { device, host, managed, tensor };
struct Allocation {
    size_t size;
    Kind kind;
    bool owned;  // made here; registered host memory is the program's
    unsigned flags;
    const char *call;  // what made it, and its sequence number
    uint64_t order;
    int device;
    Pool *pool = nullptr;  // null: none, as of cudaMalloc
    int file = -1;         // the file that holds it, once other processes may map it
};
// The allocation that holds an address; its start in `start`.
bool find(const void *address, uintptr_t *start, Allocation *found);
// Checks that bytes may be copied from or to: inside one allocation, or the host's own.
cudaError_t check_range(const char *call, const void *address, size_t bytes, bool on_device);
// Allocate and free memory for a call; `waits` for work that may still use the memory.
cudaError_t allocate(const char *call, void **out, size_t bytes, Kind kind, unsigned flags = 0,
                     Pool *pool = nullptr);
// The GPU of a pool, and what it has given out.
int pool_device(Pool *pool);
void pool_allocated(Pool *pool, size_t bytes);
void pool_freed(Pool *pool, size_t bytes);
extern const char *const GRAPH_MEMORY;  // the `call` of memory that belongs to a graph
cudaError_t release(const char *call, void *memory, bool host, bool waits = true);
void release_all();
constexpr size_t TEXTURE_ALIGN = 512, TEXTURE_PITCH_ALIGN = 32;
void texture_limits(cudaDeviceProp *out);
// Arrays of textures, whose memory `release_all` has freed; set by what makes them.
extern void (*forget_arrays)();
size_t device_memory_used();
// The file that holds the allocation at an address, for other processes; -1 for memory that has
// none.
int shared_file(const void *address, uintptr_t *start, Allocation *out);
// Such a file of another process in memory of this one; null where it cannot be mapped.
void *open_file(const char *call, int file, size_t bytes, bool owned);
cudaError_t close_file(void *memory);
bool map_file(void *at, int file, size_t bytes, size_t offset = 0);
// Memory that a part maps itself: kernels and copies may access it until it leaves. What it takes
// of a GPU's memory is charged apart, since it may be mapped several times.
constexpr unsigned READ_ONLY = 1 << 16;  // a flag of such memory
void charge(int device, int64_t bytes);
void enter(uintptr_t start, Allocation allocation);
bool leave(const char *call, uintptr_t start, Allocation *gone);
// The reason why a reserved address cannot be accessed; set by the part that reserves.
extern const char *(*explain_reserved)(uintptr_t address);
size_t graph_memory_bytes();  // of all graphs
char *symbol_at(const void *symbol, size_t offset, size_t bytes, cudaError_t *error);

// ---- device code --------------------------------------------------------------------------------

// Loads PTX or a fat binary as a unit of this number; a CUresult. `to` gets what is wrong with it.
int load_device_code(const void *image, uint64_t *unit, void *to, Receive receive);

// ---- streams and graphs -------------------------------------------------------------------------

using Work = Callable<cudaError_t()>;
// Has the work done in the stream's order, or keeps it when the stream is being captured. What
// `waits` returns when it is done, with its error.
cudaError_t submit(cudaStream_t stream, cudaGraphNodeType type, Work work, bool waits = false);
void wait_for_all();   // the host waits for the work that all streams have now
void wait_for_device(int device);  // the same for the streams of a device
void wait_for_idle();  // the host waits until no stream has any
void when_idle(Callable<void()> act);  // as soon as no work is under way
void flush_prints();  // what kernels have printed until now
// Work that has to be waited for cannot be done while the stream is captured.
cudaError_t may_wait(cudaStream_t stream);
bool capturing(cudaStream_t stream);
int64_t now_ns();

}  // namespace weft

// The head of a call that a dead kernel makes fail.
#define WORKING \
    if (cudaError_t dead = weft::broken()) return dead
