// A thread launches kernels without an end while another frees memory and waits: calls that wait
// are for the work that is there when they are made, and a launch waits where too many are pending.
#include <atomic>
#include <thread>

#include "check.h"

__global__ void count(unsigned long long *counter) { *counter += 1; }

int main() {
    unsigned long long *counter, seen = 0, launches = 0;
    std::atomic<bool> goes_on(true), begun(false);
    cudaStream_t stream;
    CALL(cudaMalloc(&counter, sizeof *counter));
    CALL(cudaMemset(counter, 0, sizeof *counter));
    CALL(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    std::thread producer([&] {
        while (goes_on) {
            count<<<1, 1, 0, stream>>>(counter);
            launches++;
            begun = true;
        }
    });
    while (!begun) std::this_thread::yield();
    for (int i = 0; i < 3; i++) {
        void *memory;
        CALL(cudaMalloc(&memory, 4));
        CALL(cudaFree(memory));
        CALL(cudaDeviceSynchronize());
    }
    goes_on = false;
    producer.join();
    CALL(cudaStreamSynchronize(stream));
    CALL(cudaMemcpy(&seen, counter, sizeof seen, cudaMemcpyDeviceToHost));
    HOLDS(seen == launches);
    printf("all launches ran\n");
}
