// Processes that share memory and events: a program that starts itself again, and one that forks before
// its first call. Pools are passed as files, and an allocation of a pool by its handle.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

__global__ void add(int *x, int n, int value) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] += value;
}

constexpr int N = 1500;
struct Board {  // what both processes see
    cudaIpcMemHandle_t memory, small;
    cudaIpcEventHandle_t event, reply;
    cudaMemPoolPtrExportData pooled;
    int pool, board;
};

static int at(const int *memory, int i) {
    int value;
    CALL(cudaMemcpy(&value, memory + i, sizeof value, cudaMemcpyDeviceToHost));
    return value;
}

static void child(Board *board) {
    int *x, *small, *pooled;
    cudaEvent_t event, reply;
    CALL(cudaIpcOpenMemHandle((void **)&x, board->memory, cudaIpcMemLazyEnablePeerAccess));
    CALL(cudaIpcOpenMemHandle((void **)&small, board->small, cudaIpcMemLazyEnablePeerAccess));
    CALL(cudaIpcOpenEventHandle(&event, board->event));
    CALL(cudaIpcOpenEventHandle(&reply, board->reply));
    CALL(cudaStreamWaitEvent(0, event, 0));  // the parent's kernel is done
    add<<<3, 512>>>(x, N, 5);
    CALL(cudaEventRecord(reply, 0));
    CALL(cudaDeviceSynchronize());
    HOLDS(at(small, 0) == 42);
    GIVES(cudaFree(x), cudaErrorInvalidValue);  // another process allocated it
    CALL(cudaIpcCloseMemHandle(x));
    GIVES(cudaIpcCloseMemHandle(x), cudaErrorInvalidValue);
    cudaMemPool_t pool;
    CALL(cudaMemPoolImportFromShareableHandle(&pool, (void *)(long)board->pool,
                                              cudaMemHandleTypePosixFileDescriptor, 0));
    auto wrong = board->pooled;
    wrong.reserved[24]++;
    GIVES(cudaMemPoolImportPointer((void **)&pooled, pool, &wrong), cudaErrorInvalidValue);
    CALL(cudaMemPoolImportPointer((void **)&pooled, pool, &board->pooled));
    HOLDS(at(pooled, N - 1) == 0);
    add<<<3, 512>>>(pooled, N, 9);
    CALL(cudaFreeAsync(pooled, 0));
    CALL(cudaDeviceSynchronize());
    printf("child: shared\n");
}

static Board *mapped(int file) {
    auto *board = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    HOLDS(board != MAP_FAILED);
    return static_cast<Board *>(board);
}

// A process that has made no call of CUDA may fork.
static void forked() {
    int file = memfd_create("handle", 0), ready[2], go[2];
    HOLDS(!ftruncate(file, sizeof(Board)) && !pipe(ready) && !pipe(go));
    auto *board = mapped(file);
    char token = 0;
    if (fork() == 0) {
        int *x;
        HOLDS(read(ready[0], &token, 1) == 1);
        CALL(cudaIpcOpenMemHandle((void **)&x, board->memory, cudaIpcMemLazyEnablePeerAccess));
        add<<<1, 32>>>(x, 32, 3);
        CALL(cudaDeviceSynchronize());
        exit(0);
    }
    int *x, status;
    CALL(cudaMalloc(&x, 32 * sizeof(int)));
    CALL(cudaIpcGetMemHandle(&board->memory, x));
    HOLDS(write(ready[1], &token, 1) == 1);
    wait(&status);
    HOLDS(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    HOLDS(at(x, 31) == 3);
    printf("forked: %d\n", at(x, 0));
}

int main(int argc, char **argv) {
    if (argc == 2) {
        child(mapped(atoi(argv[1])));
        return 0;
    }
    forked();
    int *x, *small, *pooled, value = 42;
    int file = memfd_create("board", 0);  // the child inherits it
    HOLDS(!ftruncate(file, sizeof(Board)));
    auto *board = mapped(file);
    CALL(cudaMalloc(&x, N * sizeof(int)));
    add<<<3, 512>>>(x, N, 1);
    CALL(cudaMalloc(&small, sizeof(int)));
    CALL(cudaMemcpy(small, &value, sizeof value, cudaMemcpyHostToDevice));
    CALL(cudaIpcGetMemHandle(&board->memory, x + 7));  // the handle is that of the whole allocation
    CALL(cudaIpcGetMemHandle(&board->small, small));
    GIVES(cudaIpcOpenMemHandle((void **)&pooled, board->memory, cudaIpcMemLazyEnablePeerAccess),
          cudaErrorDeviceUninitialized);
    int *managed;
    CALL(cudaMallocManaged(&managed, 4));
    GIVES(cudaIpcGetMemHandle(&board->memory, managed), cudaErrorInvalidValue);

    cudaEvent_t event, reply, own;
    unsigned flags = cudaEventDisableTiming | cudaEventInterprocess;
    GIVES(cudaEventCreateWithFlags(&event, cudaEventInterprocess), cudaErrorInvalidValue);
    CALL(cudaEventCreateWithFlags(&event, flags));
    CALL(cudaEventCreateWithFlags(&reply, flags));
    CALL(cudaEventCreate(&own));
    GIVES(cudaIpcGetEventHandle(&board->event, own), cudaErrorInvalidValue);
    CALL(cudaIpcGetEventHandle(&board->event, event));
    CALL(cudaIpcGetEventHandle(&board->reply, reply));
    CALL(cudaEventQuery(reply));  // not recorded

    cudaMemPool_t pool;
    cudaMemPoolProps about = {};
    about.allocType = cudaMemAllocationTypePinned;
    about.handleTypes = cudaMemHandleTypePosixFileDescriptor;
    about.location.type = cudaMemLocationTypeDevice;
    CALL(cudaMemPoolCreate(&pool, &about));
    CALL(cudaMallocFromPoolAsync((void **)&pooled, N * sizeof(int), pool, 0));
    GIVES(cudaMemPoolExportPointer(&board->pooled, pooled), cudaErrorInvalidValue);
    int shareable;
    CALL(cudaMemPoolExportToShareableHandle(&shareable, pool,
                                            cudaMemHandleTypePosixFileDescriptor, 0));
    board->pool = dup(shareable);  // without the flag that closes it in the child
    CALL(cudaMemPoolExportPointer(&board->pooled, pooled));
    CALL(cudaMemsetAsync(pooled, 0, N * sizeof(int)));
    CALL(cudaEventRecord(event, 0));
    CALL(cudaDeviceSynchronize());

    fflush(stdout);
    pid_t process = fork();
    if (process == 0) {
        char number[12];
        snprintf(number, sizeof number, "%d", file);
        execlp(argv[0], argv[0], number, (char *)nullptr);
        exit(9);
    }
    int status;
    HOLDS(waitpid(process, &status, 0) == process && WIFEXITED(status));
    HOLDS(WEXITSTATUS(status) == 0);
    CALL(cudaEventSynchronize(reply));
    printf("parent: %d %d\n", at(x, N - 1), at(pooled, 0));
    CALL(cudaFree(x));
}
