// Launches return before their kernels end: the host sets what a kernel waits for, kernels of two
// streams wait for each other, callbacks run in a stream's order, and errors come with the next wait.
#include <cuda_runtime.h>

#include <cstdio>
#include <thread>

#define OK(call)                                                                     \
    do {                                                                             \
        cudaError_t error = (call);                                                  \
        if (error) printf("%s: %s\n", #call, cudaGetErrorName(error)), exit(1);      \
    } while (0)

__global__ void wait_for(volatile int *flag, int value) { while (*flag != value) { } }
__global__ void meet(volatile int *flags, int own) {
    flags[own] = 1;
    while (flags[1 - own] == 0) { }
}
__global__ void set(int *x, int value) { *x = value; }
__global__ void say(int k) { printf("kernel %d\n", k); }
__global__ void beyond(int *x) { x[1 << 28] = 1; }

static int called = 0;
static void call(void *data) { called = *static_cast<int *>(data); }
static void call_back(cudaStream_t, cudaError_t, void *data) { *static_cast<int *>(data) += 5; }

int main() {
    volatile int *flag;
    int *flags, *device;
    OK(cudaHostAlloc((void **)&flag, 64, cudaHostAllocMapped));
    OK(cudaMallocManaged(&flags, 64));
    OK(cudaMalloc(&device, 64));

    // pinned memory, the default stream
    *flag = 0;
    wait_for<<<1, 32>>>(flag, 7);
    OK(cudaGetLastError());
    printf("launched: %d\n", cudaStreamQuery(0) == cudaErrorNotReady);
    *flag = 7;
    OK(cudaDeviceSynchronize());
    printf("done: %d\n", cudaStreamQuery(0) == cudaSuccess);

    // managed memory, set by another thread while this one waits
    flags[0] = 0;
    wait_for<<<1, 1>>>(flags, 3);
    std::thread other([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(700));
        *(volatile int *)flags = 3;
    });
    OK(cudaDeviceSynchronize());
    other.join();
    printf("another thread\n");

    // two streams
    cudaStream_t a, b;
    OK(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
    OK(cudaStreamCreate(&b));
    flags[0] = flags[1] = 0;
    meet<<<1, 1, 0, a>>>(flags, 0);
    meet<<<1, 1, 0, b>>>(flags, 1);
    OK(cudaStreamSynchronize(a));
    OK(cudaStreamSynchronize(b));
    printf("met: %d %d\n", flags[0], flags[1]);

    // a copy of another stream sets the flag
    *flag = 0;
    int *nine;
    OK(cudaMallocHost(&nine, 4));
    *nine = 9;
    OK(cudaMemset(device, 0, 4));
    OK(cudaDeviceSynchronize());
    wait_for<<<1, 1, 0, a>>>(device, 9);
    OK(cudaMemcpyAsync(device, nine, 4, cudaMemcpyHostToDevice, b));
    OK(cudaStreamSynchronize(a));
    printf("copied\n");

    // an event orders two streams; callbacks keep a stream's order
    cudaEvent_t event;
    OK(cudaEventCreate(&event));
    *flag = 0;
    wait_for<<<1, 1, 0, a>>>(flag, 1);
    set<<<1, 1, 0, a>>>(device, 41);
    OK(cudaEventRecord(event, a));
    OK(cudaStreamWaitEvent(b, event, 0));
    OK(cudaMemcpyAsync(flags, device, 4, cudaMemcpyDefault, b));
    int two = 2, sum = 0;
    OK(cudaLaunchHostFunc(b, call, &two));
    OK(cudaStreamAddCallback(b, call_back, &sum, 0));
    printf("before: %d %d %d\n", called, sum, cudaEventQuery(event) == cudaErrorNotReady);
    *flag = 1;
    OK(cudaEventSynchronize(event));
    OK(cudaStreamSynchronize(b));
    printf("after: %d %d %d\n", called, sum, flags[0]);

    // the legacy default stream waits for blocking streams, and they for it
    *flag = 0;
    wait_for<<<1, 1, 0, b>>>(flag, 1);
    set<<<1, 1, 0, b>>>(device, 10);
    set<<<1, 1>>>(device, 11);
    std::thread later([&] { *flag = 1; });
    int got = 0;
    OK(cudaMemcpy(&got, device, 4, cudaMemcpyDeviceToHost));
    later.join();
    printf("in order: %d\n", got);

    // what kernels print is shown when the host waits
    say<<<1, 1>>>(1);
    OK(cudaDeviceSynchronize());
    printf("host\n");
    say<<<1, 1>>>(2);
    OK(cudaStreamDestroy(a));
    OK(cudaStreamDestroy(b));
    OK(cudaDeviceSynchronize());

    // an error comes with the next wait
    beyond<<<1, 1>>>(device);
    printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
    return 0;
}
