// What the sanitizer finds between two GPUs: memory that NCCL or a peer copy still uses, and peer
// memory without order. Each mistake has a twin that is right. `peers NAME` makes one mistake,
// `peers` alone runs all twins.
#include "check.h"

#include <cstring>
#include <nccl.h>

#define NCCL(call) HOLDS((call) == ncclSuccess)
constexpr int N = 256;
constexpr size_t BYTES = N * sizeof(float);

__global__ void fill(float *x, float value) { x[threadIdx.x] = value; }
__global__ void twice(const float *x, float *y) { y[threadIdx.x] = 2 * x[threadIdx.x]; }

// Two GPUs, each with a communicator, two streams and two arrays.
static ncclComm_t comms[2];
struct Pair {
    cudaStream_t stream[2], second[2];
    float *x[2], *y[2];
    Pair() {
        for (int i = 0; i < 2; i++) {
            CALL(cudaSetDevice(i));
            CALL(cudaStreamCreateWithFlags(&stream[i], cudaStreamNonBlocking));
            CALL(cudaStreamCreateWithFlags(&second[i], cudaStreamNonBlocking));
            CALL(cudaMalloc(&x[i], BYTES));
            CALL(cudaMalloc(&y[i], BYTES));
            CALL(cudaMemset(x[i], 0, BYTES));
            CALL(cudaMemset(y[i], 0, BYTES));
            CALL(cudaDeviceSynchronize());
        }
        on(0);
    }
    void on(int device) { CALL(cudaSetDevice(device)); }
    // The second stream waits for the first.
    void order(cudaStream_t first, cudaStream_t next) {
        cudaEvent_t event;
        CALL(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
        CALL(cudaEventRecord(event, first));
        CALL(cudaStreamWaitEvent(next, event, 0));
        CALL(cudaEventDestroy(event));
    }
    // From x of the first GPU to y of the second.
    void message() {
        NCCL(ncclGroupStart());
        NCCL(ncclSend(x[0], N, ncclFloat, 1, comms[0], stream[0]));
        NCCL(ncclRecv(y[1], N, ncclFloat, 0, comms[1], stream[1]));
        NCCL(ncclGroupEnd());
    }
    void sum() {
        NCCL(ncclGroupStart());
        for (int i = 0; i < 2; i++)
            NCCL(ncclAllReduce(x[i], y[i], N, ncclFloat, ncclSum, comms[i], stream[i]));
        NCCL(ncclGroupEnd());
    }
    ~Pair() {
        for (int i = 0; i < 2; i++) {
            on(i);
            CALL(cudaDeviceSynchronize());
            CALL(cudaStreamDestroy(stream[i]));
            CALL(cudaStreamDestroy(second[i]));
        }
        for (int i = 0; i < 2; i++) {
            CALL(cudaFree(x[i]));
            CALL(cudaFree(y[i]));
        }
    }
};

void sent_and_written(bool right) {
    Pair p;
    p.message();
    if (right) p.order(p.stream[0], p.second[0]);
    fill<<<1, N, 0, p.second[0]>>>(p.x[0], 1);
}
void read_before_received(bool right) {
    Pair p;
    p.message();
    p.on(1);
    if (right) p.order(p.stream[1], p.second[1]);
    twice<<<1, N, 0, p.second[1]>>>(p.y[1], p.x[1]);
}
void read_after_the_send(bool right) {  // the end of a send does not say that it has arrived
    Pair p;
    p.message();
    if (right) p.order(p.stream[1], p.stream[0]);
    twice<<<1, N, 0, p.stream[0]>>>(p.y[1], p.y[0]);
}
void summed_and_filled(bool right) {
    Pair p;
    p.sum();
    if (right) p.order(p.stream[0], p.second[0]);
    CALL(cudaMemsetAsync(p.x[0], 0, BYTES, p.second[0]));
}
void peer_copy_and_kernel(bool right) {
    Pair p;
    CALL(cudaMemcpyPeerAsync(p.x[1], 1, p.x[0], 0, BYTES, p.stream[0]));
    p.on(1);
    if (right) p.order(p.stream[0], p.stream[1]);
    fill<<<1, N, 0, p.stream[1]>>>(p.x[0], 3);
}
void two_devices_write(bool right) {  // each in the default stream of its device
    Pair p;
    fill<<<1, N>>>(p.x[0], 1);
    if (right) CALL(cudaDeviceSynchronize());
    p.on(1);
    fill<<<1, N>>>(p.x[0], 2);
}
void waits_for_the_other_device(bool right) {
    Pair p;
    p.on(1);
    fill<<<1, N, 0, p.stream[1]>>>(p.x[1], 1);
    p.on(right ? 1 : 0);
    CALL(cudaDeviceSynchronize());
    p.on(0);
    twice<<<1, N, 0, p.stream[0]>>>(p.x[1], p.x[0]);
}
void host_reads_received(bool right) {
    Pair p;
    float *shared;
    CALL(cudaMallocManaged(&shared, BYTES));
    memset(shared, 0, BYTES);
    NCCL(ncclGroupStart());
    NCCL(ncclSend(p.x[0], N, ncclFloat, 1, comms[0], p.stream[0]));
    NCCL(ncclRecv(shared, N, ncclFloat, 0, comms[1], p.stream[1]));
    NCCL(ncclGroupEnd());
    if (right) CALL(cudaStreamSynchronize(p.stream[1]));
    HOLDS(shared[3] == 0);
    CALL(cudaStreamSynchronize(p.stream[1]));
    CALL(cudaFree(shared));
}
void freed_while_sent(bool right) {
    Pair p;
    float *extra;
    CALL(cudaMalloc(&extra, BYTES));
    NCCL(ncclGroupStart());
    NCCL(ncclSend(p.x[0], N, ncclFloat, 1, comms[0], p.stream[0]));
    NCCL(ncclRecv(extra, N, ncclFloat, 0, comms[1], p.stream[1]));
    NCCL(ncclGroupEnd());
    if (right) CALL(cudaStreamSynchronize(p.stream[1]));
    CALL(cudaFree(extra));
}
void without_peer_access(bool right) {
    Pair p;
    CALL(cudaDeviceDisablePeerAccess(1));
    if (right) CALL(cudaDeviceEnablePeerAccess(1, 0));
    twice<<<1, N, 0, p.stream[0]>>>(p.x[1], p.x[0]);
    if (!right) CALL(cudaDeviceEnablePeerAccess(1, 0));
}
void ordered_by_a_message(bool) {  // right: what a rank did before it sent is done on arrival
    Pair p;
    fill<<<1, N, 0, p.stream[0]>>>(p.y[0], 1);
    p.message();
    p.on(1);
    twice<<<1, N, 0, p.stream[1]>>>(p.y[0], p.x[1]);
}
void ordered_by_a_sum(bool) {  // right: each rank ends after both have begun
    Pair p;
    fill<<<1, N, 0, p.stream[0]>>>(p.x[0], 1);
    p.sum();
    p.on(1);
    fill<<<1, N, 0, p.stream[1]>>>(p.x[1], 1);
}
void copies_between_default_streams(bool) {  // right: a peer copy waits for both devices
    Pair p;
    p.on(1);
    fill<<<1, N>>>(p.x[1], 1);
    p.on(0);
    CALL(cudaMemcpyPeer(p.x[0], 0, p.x[1], 1, BYTES));
    p.on(1);
    fill<<<1, N>>>(p.x[1], 2);
}

struct Case {
    const char *name;
    void (*run)(bool right);
};
const Case cases[] = {
    {"sent_and_written", sent_and_written},
    {"read_before_received", read_before_received},
    {"read_after_the_send", read_after_the_send},
    {"summed_and_filled", summed_and_filled},
    {"peer_copy_and_kernel", peer_copy_and_kernel},
    {"two_devices_write", two_devices_write},
    {"waits_for_the_other_device", waits_for_the_other_device},
    {"host_reads_received", host_reads_received},
    {"freed_while_sent", freed_while_sent},
    {"without_peer_access", without_peer_access},
    {"ordered_by_a_message", ordered_by_a_message},
    {"ordered_by_a_sum", ordered_by_a_sum},
    {"copies_between_default_streams", copies_between_default_streams},
};

int main(int count, char **names) {
    NCCL(ncclCommInitAll(comms, 2, nullptr));
    for (int i = 0; i < 2; i++) {
        CALL(cudaSetDevice(i));
        CALL(cudaDeviceEnablePeerAccess(1 - i, 0));
    }
    for (auto &each : cases)
        for (int i = 1; i < count; i++)
            if (!strcmp(each.name, names[i])) each.run(false);
    if (count == 1)
        for (auto &each : cases) each.run(true);
    for (auto comm : comms) NCCL(ncclCommDestroy(comm));
}
