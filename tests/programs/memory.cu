// Memory: what is known of pointers, what is refused, and what the host and the device share.
#include "check.h"
#include <sys/mman.h>
#include <sys/resource.h>
#include <vector>

__global__ void fill(int *x, int n, int value) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = value;
}

int main() {
    const int n = 256;
    const size_t bytes = n * sizeof(int);
    size_t before, after, total;
    CALL(cudaMemGetInfo(&before, &total));
    int *device, *mapped, *view, *gone;
    CALL(cudaMalloc(&device, bytes));
    CALL(cudaMemGetInfo(&after, &total));
    HOLDS(before - after == bytes && total > before - 1);
    std::vector<int> host(n, 3), registered(n, 0);

    GIVES(cudaMemcpy(host.data(), device, bytes, cudaMemcpyHostToDevice),
          cudaErrorInvalidValue);  // wrong way round
    GIVES(cudaMemcpy(device, host.data(), bytes + 4, cudaMemcpyHostToDevice),
          cudaErrorInvalidValue);  // too long
    GIVES(cudaMemcpy(device, host.data(), bytes, (cudaMemcpyKind)7),
          cudaErrorInvalidMemcpyDirection);
    GIVES(cudaMemset(device + 1, 0, bytes), cudaErrorInvalidValue);
    GIVES(cudaFree(device + 1), cudaErrorInvalidValue);
    GIVES(cudaMalloc(&gone, size_t(1) << 50), cudaErrorMemoryAllocation);
    HOLDS(gone == nullptr);

    rlimit own, less;  // the simulated GPU has what the process cannot get
    getrlimit(RLIMIT_AS, &own);
    less = {1 << 20, own.rlim_max};
    setrlimit(RLIMIT_AS, &less);
    GIVES(cudaMalloc(&gone, 1 << 30), cudaErrorMemoryAllocation);
    setrlimit(RLIMIT_AS, &own);
    CALL(cudaMalloc(&gone, 1 << 30));
    CALL(cudaFree(gone));
    CALL(cudaMemcpy(device, host.data(), bytes, cudaMemcpyDefault));
    CALL(cudaMemcpy(host.data(), device, bytes, cudaMemcpyDefault));

    CALL(cudaHostAlloc(&mapped, bytes,
                       cudaHostAllocMapped));  // the device writes to memory of the host
    CALL(cudaHostGetDevicePointer(&view, mapped, 0));
    fill<<<1, n>>>(view, n, 4);
    CALL(cudaDeviceSynchronize());
    HOLDS(mapped[n - 1] == 4);
    CALL(cudaHostRegister(registered.data(), bytes, cudaHostRegisterDefault));
    fill<<<1, n>>>(registered.data(), n, 5);
    CALL(cudaDeviceSynchronize());
    HOLDS(registered[0] == 5);
    CALL(cudaHostUnregister(registered.data()));

    cudaPointerAttributes about;
    CALL(cudaPointerGetAttributes(&about, device + 3));
    HOLDS(about.type == cudaMemoryTypeDevice && about.hostPointer == nullptr);
    CALL(cudaPointerGetAttributes(&about, mapped));
    HOLDS(about.type == cudaMemoryTypeHost);
    CALL(cudaPointerGetAttributes(&about, host.data()));
    HOLDS(about.type == cudaMemoryTypeUnregistered);

    const size_t large = 16 << 20, page = 4096;  // cleared before each launch to empty the L2 cache
    int *flushed, kept[3];
    std::vector<unsigned char> resident(large / page);
    CALL(cudaMalloc(&flushed, large));
    fill<<<1, n>>>(flushed + large / 8, n, 9);  // in the middle
    CALL(cudaMemset((char *)flushed + 4, 0, large - 8));
    CALL(cudaMemcpy(kept, flushed + large / 8, sizeof kept, cudaMemcpyDeviceToHost));
    HOLDS(!kept[0] && !kept[1] && !kept[2]);
    HOLDS(!mincore(flushed, large, resident.data()));
    size_t touched = 0;
    for (unsigned char each : resident) touched += each & 1;
    HOLDS(touched < large / page / 2);
    CALL(cudaFree(flushed));

    cudaStream_t stream;
    CALL(cudaStreamCreate(&stream));
    int *later;
    CALL(cudaMallocAsync(&later, bytes, stream));
    fill<<<1, n, 0, stream>>>(later, n, 6);
    CALL(cudaMemcpyAsync(host.data(), later, bytes, cudaMemcpyDeviceToHost, stream));
    CALL(cudaFreeAsync(later, stream));
    CALL(cudaStreamSynchronize(stream));
    HOLDS(host[9] == 6);
    CALL(cudaFree(device));
    GIVES(cudaFree(device), cudaErrorInvalidValue);
    CALL(cudaFreeHost(mapped));
    CALL(cudaFree(nullptr));
    fill<<<1, n>>>(device, n, 7);  // freed
    GIVES(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
    CALL(cudaDeviceReset());  // a fault stays until then
    printf("memory is checked\n");
}
