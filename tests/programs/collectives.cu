// NCCL between three GPUs: one host thread with groups, then one host thread for each rank.
#include "check.h"
#include <nccl.h>
#include <cuda_fp16.h>
#include <thread>
#include <vector>

#define NCCL(call) HOLDS((call) == ncclSuccess)
const int RANKS = 3, N = 4;

__global__ void fill(float *x, int n, float first) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) x[i] = first + i;
}
static void print(const char *name, float *const *x, int n) {
    printf("%s", name);
    for (int rank = 0; rank < RANKS; rank++) {
        std::vector<float> host(n);
        CALL(cudaMemcpy(host.data(), x[rank], n * sizeof(float), cudaMemcpyDeviceToHost));
        printf(" |");
        for (float each : host) printf(" %g", each);
    }
    printf("\n");
}

int main() {
    ncclComm_t comms[RANKS];
    cudaStream_t streams[RANKS];
    float *in[RANKS], *out[RANKS];
    NCCL(ncclCommInitAll(comms, RANKS, nullptr));
    for (int i = 0; i < RANKS; i++) {
        int rank, device;
        NCCL(ncclCommUserRank(comms[i], &rank));
        NCCL(ncclCommCuDevice(comms[i], &device));
        HOLDS(rank == i && device == i);
        CALL(cudaSetDevice(i));
        CALL(cudaStreamCreate(&streams[i]));
        CALL(cudaMalloc(&in[i], RANKS * N * sizeof(float)));
        CALL(cudaMalloc(&out[i], RANKS * N * sizeof(float)));
        CALL(cudaMemset(out[i], 0, RANKS * N * sizeof(float)));
        fill<<<1, 32, 0, streams[i]>>>(in[i], RANKS * N, 100 * i);
    }
    auto each = [&](auto call) {
        NCCL(ncclGroupStart());
        for (int i = 0; i < RANKS; i++) NCCL(call(i));
        NCCL(ncclGroupEnd());
        for (int i = 0; i < RANKS; i++) CALL(cudaStreamSynchronize(streams[i]));
    };
    each([&](int i) {
        return ncclAllReduce(in[i], out[i], N, ncclFloat, ncclSum, comms[i], streams[i]);
    });
    print("all-reduce", out, N);
    each([&](int i) {
        return ncclReduce(in[i], out[i], 2, ncclFloat, ncclAvg, 1, comms[i], streams[i]);
    });
    print("reduce", out, 2);
    each([&](int i) {
        return ncclBroadcast(in[i], out[i], 2, ncclFloat, 2, comms[i], streams[i]);
    });
    print("broadcast", out, 2);
    each([&](int i) { return ncclAllGather(in[i], out[i], 2, ncclFloat, comms[i], streams[i]); });
    print("all-gather", out, 2 * RANKS);
    each([&](int i) {
        return ncclReduceScatter(in[i], out[i], 2, ncclFloat, ncclMax, comms[i], streams[i]);
    });
    print("reduce-scatter", out, 2);
    each([&](int i) {  // a ring
        ncclResult_t sent = ncclSend(in[i], 2, ncclFloat, (i + 1) % RANKS, comms[i], streams[i]);
        ncclResult_t got =
            ncclRecv(out[i], 2, ncclFloat, (i + RANKS - 1) % RANKS, comms[i], streams[i]);
        return sent ? sent : got;
    });
    print("ring", out, 2);
    GIVES(cudaGetLastError(), cudaSuccess);
    HOLDS(ncclBroadcast(in[0], out[0], 2, ncclFloat, 7, comms[0], streams[0]) ==
          ncclInvalidArgument);
    for (auto comm : comms) NCCL(ncclCommDestroy(comm));

    ncclUniqueId id;
    NCCL(ncclGetUniqueId(&id));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < RANKS; rank++)
        threads.emplace_back([&, rank] {
            CALL(cudaSetDevice(rank));
            ncclComm_t comm;
            cudaStream_t stream;
            CALL(cudaStreamCreate(&stream));
            NCCL(ncclCommInitRank(&comm, RANKS, id, rank));
            for (int step = 0; step < 3; step++)
                NCCL(ncclAllReduce(in[rank], in[rank], N, ncclFloat, ncclSum, comm, stream));
            NCCL(ncclGroupStart());
            NCCL(ncclSend(in[rank], 1, ncclFloat, (rank + 1) % RANKS, comm, stream));
            NCCL(ncclRecv(out[rank], 1, ncclFloat, (rank + RANKS - 1) % RANKS, comm, stream));
            NCCL(ncclGroupEnd());
            CALL(cudaStreamSynchronize(stream));
            NCCL(ncclCommDestroy(comm));
        });
    for (auto &thread : threads) thread.join();
    print("threads", in, N);

    __half halves[2] = {__float2half(1.5f), __float2half(60000.f)}, *small;
    ncclComm_t alone;
    int first = 0;
    NCCL(ncclCommInitAll(&alone, 1, &first));
    CALL(cudaSetDevice(0));
    CALL(cudaMalloc(&small, sizeof halves));
    CALL(cudaMemcpy(small, halves, sizeof halves, cudaMemcpyHostToDevice));
    NCCL(ncclAllReduce(small, small, 2, ncclHalf, ncclSum, alone, streams[0]));
    CALL(cudaMemcpy(halves, small, sizeof halves, cudaMemcpyDeviceToHost));
    printf("half %g %g\n", __half2float(halves[0]), __half2float(halves[1]));
}
