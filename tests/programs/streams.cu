// Work in chunks over several streams, with pinned memory, events between streams, and host
// functions.
#include "check.h"
#include <vector>

__global__ void scale(float *x, int n, float by) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= by;
}

static int calls = 0;
static void CUDART_CB count(void *by) { calls += *static_cast<int *>(by); }
static void CUDART_CB called(cudaStream_t, cudaError_t status, void *) {
    calls += status == cudaSuccess ? 100 : 0;
}

int main() {
    const int chunks = 4, chunk = 5000, n = chunks * chunk;
    float *host, *device;
    CALL(cudaMallocHost(&host, n * sizeof(float)));
    CALL(cudaMalloc(&device, n * sizeof(float)));
    for (int i = 0; i < n; i++) host[i] = float(i);
    int least, greatest;
    CALL(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    HOLDS(least == 0 && greatest < 0);
    std::vector<cudaStream_t> streams(chunks);
    for (auto &stream : streams)
        CALL(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest));
    int priority;
    CALL(cudaStreamGetPriority(streams[0], &priority));
    HOLDS(priority == greatest);
    cudaEvent_t done;
    CALL(cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
    int one = 1;
    for (int c = 0; c < chunks; c++) {
        float *to = device + c * chunk, *from = host + c * chunk;
        CALL(cudaMemcpyAsync(to, from, chunk * sizeof(float), cudaMemcpyHostToDevice, streams[c]));
        scale<<<(chunk + 255) / 256, 256, 0, streams[c]>>>(to, chunk, 2.0f);
        CALL(cudaGetLastError());
        CALL(cudaLaunchHostFunc(streams[c], count, &one));
        CALL(cudaEventRecord(done, streams[c]));
        CALL(cudaStreamWaitEvent(streams[(c + 1) % chunks], done, 0));
        CALL(cudaMemcpyAsync(from, to, chunk * sizeof(float), cudaMemcpyDeviceToHost, streams[c]));
    }
    CALL(cudaStreamAddCallback(streams[0], called, nullptr, 0));
    for (auto &stream : streams) {
        CALL(cudaStreamSynchronize(stream));
        CALL(cudaStreamQuery(stream));
        CALL(cudaStreamDestroy(stream));
    }
    for (int i = 0; i < n; i++) HOLDS(host[i] == 2.0f * i);
    GIVES(cudaStreamSynchronize(streams[0]), cudaErrorInvalidResourceHandle);
    GIVES(cudaGetLastError(), cudaErrorInvalidResourceHandle);
    GIVES(cudaGetLastError(), cudaSuccess);
    printf("%d elements, %d calls\n", n, calls);
    CALL(cudaEventDestroy(done));
    CALL(cudaFreeHost(host));
    CALL(cudaFree(device));
}
