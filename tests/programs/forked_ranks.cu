// Four ranks in two processes that fork from one which has no rank: each process has a thread for
// each of two GPUs, which works in the default stream of its GPU.
#include "check.h"

#include <nccl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#define NCCL(call) HOLDS((call) == ncclSuccess)

__global__ void fill(float *x, float value) { x[threadIdx.x] = value; }

static float sum_of_ranks(ncclUniqueId id, int rank, int device) {
    ncclComm_t comm;
    float *x, host[32];
    CALL(cudaSetDevice(device));
    NCCL(ncclCommInitRank(&comm, 4, id, rank));
    CALL(cudaMalloc(&x, sizeof host));
    fill<<<1, 32>>>(x, rank);
    NCCL(ncclAllReduce(x, x, 32, ncclFloat, ncclSum, comm, nullptr));
    CALL(cudaMemcpy(host, x, sizeof host, cudaMemcpyDeviceToHost));
    CALL(cudaFree(x));
    NCCL(ncclCommDestroy(comm));
    return host[31];
}

int main() {
    ncclUniqueId id;
    NCCL(ncclGetUniqueId(&id));
    for (int child = 0; child < 2; child++) {
        if (fork()) continue;
        float sums[2];
        auto run = [&](int device) { sums[device] = sum_of_ranks(id, 2 * child + device, device); };
        std::thread first(run, 0), second(run, 1);
        first.join(), second.join();
        printf("child %d: %g %g\n", child, sums[0], sums[1]);
        exit(0);
    }
    for (int i = 0; i < 2; i++) {
        int status;
        wait(&status);
        HOLDS(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    printf("parent: both\n");
}
