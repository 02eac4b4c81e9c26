// Virtual memory management: one range of addresses over several pieces of memory, one piece at two
// addresses, a piece that passes through a file; and what cannot be accessed.
#include <cuda.h>

#include <cstring>

#include "check.h"

#define CU(call) HOLDS((call) == CUDA_SUCCESS)
#define REFUSED(call) HOLDS((call) == CUDA_ERROR_INVALID_VALUE)

__global__ void add(int *x, size_t n, int value) {
    size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
    if (i < n) x[i * 1024] += value;
}

int main(int argc, char **argv) {
    const char *wrong = argc > 1 ? argv[1] : "";
    CU(cuInit(0));
    // Each GPU has its own context, and what is current chooses the GPU.
    CUcontext context, peer;
    CUdevice current;
    int can = 0;
    CU(cuDevicePrimaryCtxRetain(&context, 0));
    CU(cuDevicePrimaryCtxRetain(&peer, 1));
    CU(cuCtxSetCurrent(peer));
    CU(cuCtxGetDevice(&current));
    HOLDS(current == 1 && context != peer);
    CU(cuCtxSetCurrent(context));
    CU(cuDeviceCanAccessPeer(&can, 0, 1));
    CU(cuCtxEnablePeerAccess(peer, 0));
    HOLDS(can && cuCtxEnablePeerAccess(peer, 0) == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);

    size_t granularity, free_before, free_after, total;
    CUmemAllocationProp about = {};
    about.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    about.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    about.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    CU(cuMemGetAllocationGranularity(&granularity, &about, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    CU(cuMemGetInfo(&free_before, &total));

    size_t bytes = 3 * granularity, n = 2 * granularity / sizeof(int);
    CUdeviceptr range, other;
    CUmemGenericAllocationHandle first, second, imported;
    REFUSED(cuMemAddressReserve(&range, granularity + 1, 0, 0, 0));
    CU(cuMemAddressReserve(&range, bytes, 4 * granularity, 0, 0));
    HOLDS(range % (4 * granularity) == 0);
    REFUSED(cuMemCreate(&first, granularity / 2, &about, 0));
    CU(cuMemCreate(&first, granularity, &about, 0));
    CU(cuMemCreate(&second, granularity, &about, 0));
    CU(cuMemGetInfo(&free_after, &total));
    HOLDS(free_before - free_after == 2 * granularity);
    CU(cuMemMap(range, granularity, 0, first, 0));
    CU(cuMemMap(range + granularity, granularity, 0, second, 0));
    REFUSED(cuMemMap(range, granularity, 0, second, 0));  // taken
    CUmemAccessDesc access = {about.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    REFUSED(cuMemSetAccess(range, bytes, &access, 1));  // the last third is not mapped
    if (!strcmp(wrong, "read")) access.flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
    if (strcmp(wrong, "none")) CU(cuMemSetAccess(range, 2 * granularity, &access, 1));

    auto *x = reinterpret_cast<int *>(range);
    add<<<(n / 1024 + 127) / 128, 128>>>(x, n / 1024, 2);
    if (*wrong) {
        printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
        return 0;
    }
    int *host = new int[n];
    CU(cuMemcpyDtoH(host, range, n * sizeof(int)));  // over both pieces
    HOLDS(host[0] == 2 && host[1] == 0 && host[n - 1024] == 2);

    // The second piece again, at another address, through a file as another process would have it.
    int file;
    CU(cuMemExportToShareableHandle(&file, second, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    CU(cuMemImportFromShareableHandle(&imported, reinterpret_cast<void *>(size_t(file)),
                                      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    CU(cuMemAddressReserve(&other, granularity, 0, 0, 0));
    CU(cuMemMap(other, granularity, 0, imported, 0));
    CU(cuMemSetAccess(other, granularity, &access, 1));
    add<<<1, 32>>>(reinterpret_cast<int *>(other), 1, 5);
    CALL(cudaDeviceSynchronize());
    CU(cuMemcpyDtoH(host, range + granularity, sizeof(int)));
    HOLDS(host[0] == 7);
    unsigned long long flags;
    CU(cuMemGetAccess(&flags, &about.location, other));
    HOLDS(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);

    // Memory lives until its handle and its mappings are gone.
    CU(cuMemRelease(first));
    CU(cuMemRelease(second));
    CU(cuMemRelease(imported));
    REFUSED(cuMemRelease(first));
    CU(cuMemcpyDtoH(host, range, sizeof(int)));
    HOLDS(host[0] == 2);
    REFUSED(cuMemAddressFree(range, bytes));  // mapped
    CU(cuMemUnmap(range, 2 * granularity));
    CU(cuMemUnmap(other, granularity));
    HOLDS(cuMemcpyDtoH(host, range, sizeof(int)) == CUDA_ERROR_INVALID_VALUE);
    CU(cuMemAddressFree(range, bytes));
    CU(cuMemAddressFree(other, granularity));
    CU(cuMemGetInfo(&free_after, &total));
    HOLDS(free_before == free_after);
    printf("mapped\n");
}
