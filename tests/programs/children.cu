// Kernels that launch kernels: recursion, streams of the device, tail launches, memory and errors.
#include "check.h"

__device__ int calls;

__global__ void fill(int *x, int count, int value) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) x[i] = value;
}
// Adds the numbers of a range by halving it; the children of a block run after it.
__global__ void halve(const int *x, int first, int last, int *sum) {
    atomicAdd(&calls, 1);
    if (last - first <= 4) {
        for (int i = first; i < last; i++) atomicAdd(sum, x[i]);
        return;
    }
    int middle = (first + last) / 2;
    halve<<<1, 1>>>(x, first, middle, sum);
    halve<<<1, 1, 0, cudaStreamFireAndForget>>>(x, middle, last, sum);
}
__global__ void finish(const int *sum, int *out) { *out = 2 * *sum; }
__global__ void begin(int *x, int count, int *sum, int *out) {
    finish<<<1, 1, 0, cudaStreamTailLaunch>>>(sum, out);  // after all of what follows
    fill<<<dim3((count + 31) / 32), dim3(32)>>>(x, count, 3);
    halve<<<1, 1>>>(x, 0, count, sum);
}
// Launches itself until the countdown ends: longer than children may be deep.
__global__ void countdown(int *left) {
    if (--*left > 0) countdown<<<1, 1, 0, cudaStreamTailLaunch>>>(left);
}
__global__ void services(int *out, char *copy, const char *text) {
    cudaStream_t stream;
    cudaEvent_t event;
    out[0] = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    out[1] = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    fill<<<1, 32, 0, stream>>>(out + 8, 2, 7);
    cudaEventRecord(event, stream);
    cudaStreamWaitEvent(stream, event, 0);
    out[2] = cudaMemcpyAsync(copy, text, 4, cudaMemcpyDeviceToDevice, stream);
    out[3] = cudaMemsetAsync(copy + 4, 'z', 3, stream);
    fill<<<1, 2000>>>(out, 0, 0);  // too many threads
    out[4] = cudaPeekAtLastError();
    out[5] = cudaGetLastError();
    out[6] = cudaGetLastError();
    int *memory = nullptr, device = -1;
    out[7] = cudaMalloc(&memory, 64);
    memory[15] = 5;
    cudaGetDevice(&device);
    out[10] = memory[15] + device;
    cudaFree(memory);
    cudaEventDestroy(event);
    cudaStreamDestroy(stream);
}

int main() {
    const int n = 100;
    int *x, *sum, *out, host[11], zero = 0, deep = 40;
    char *copy, *text, letters[8] = {};
    CALL(cudaMalloc(&x, n * sizeof(int)));
    CALL(cudaMalloc(&sum, sizeof(int)));
    CALL(cudaMalloc(&out, sizeof host));
    CALL(cudaMalloc(&copy, 8));
    CALL(cudaMalloc(&text, 4));
    CALL(cudaMemset(sum, 0, sizeof(int)));
    CALL(cudaMemset(copy, 0, 8));
    CALL(cudaMemcpyToSymbol(calls, &zero, sizeof zero));
    begin<<<1, 1>>>(x, n, sum, out);
    CALL(cudaMemcpy(host, out, sizeof(int), cudaMemcpyDeviceToHost));
    CALL(cudaMemcpyFromSymbol(&zero, calls, sizeof zero));
    printf("%d in %d calls\n", host[0], zero);
    CALL(cudaMemcpy(sum, &deep, sizeof deep, cudaMemcpyHostToDevice));
    countdown<<<1, 1>>>(sum);
    CALL(cudaMemcpy(&deep, sum, sizeof deep, cudaMemcpyDeviceToHost));
    CALL(cudaMemcpy(text, "abcd", 4, cudaMemcpyHostToDevice));
    services<<<1, 1>>>(out, copy, text);
    CALL(cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost));
    CALL(cudaMemcpy(letters, copy, 7, cudaMemcpyDeviceToHost));
    printf("%d left, %s:", deep, letters);
    for (int i = 0; i < 11; i++) printf(" %d", host[i]);
    printf("\n");
    CALL(cudaFree(x));
    CALL(cudaFree(sum));
    CALL(cudaFree(out));
    CALL(cudaFree(copy));
    CALL(cudaFree(text));
}
