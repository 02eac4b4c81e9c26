// Pools of managed memory and of the host's, and the default pools of places.
#include <cstdint>

#include "check.h"

__global__ void add(int *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] += 3;
}

static cudaMemoryType type_of(void *memory) {
    cudaPointerAttributes about;
    CALL(cudaPointerGetAttributes(&about, memory));
    return about.type;
}

// The host and a kernel use the memory of a pool by the same address.
static void use(cudaMemPool_t pool, cudaMemoryType expected) {
    cudaStream_t stream;
    int *x, *copy;
    CALL(cudaStreamCreate(&stream));
    CALL(cudaMallocFromPoolAsync((void **)&x, 100 * sizeof *x, pool, stream));
    CALL(cudaMallocFromPoolAsync((void **)&copy, 100 * sizeof *x, pool, stream));
    CALL(cudaStreamSynchronize(stream));
    HOLDS(type_of(x) == expected);
    for (int i = 0; i < 100; i++) x[i] = i;
    add<<<1, 128, 0, stream>>>(x, 100);
    void *to[] = {copy, copy + 50};
    const void *from[] = {x + 50, x};
    size_t bytes[] = {200, 200}, first = 0;
    cudaMemcpyAttributes how = {};
    how.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    CALL(cudaMemcpyBatchAsync(to, from, bytes, 2, &how, &first, 1, stream));
    CALL(cudaStreamSynchronize(stream));
    HOLDS(copy[0] == 53 && copy[49] == 102 && copy[50] == 3 && copy[99] == 52);
    uint64_t used = 0;
    CALL(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
    HOLDS(used == 800);
    CALL(cudaFreeAsync(x, stream));
    CALL(cudaFreeAsync(copy, stream));
    CALL(cudaStreamSynchronize(stream));
    CALL(cudaStreamDestroy(stream));
    CALL(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
    HOLDS(used == 0);
}

int main() {
    cudaMemLocation none = {cudaMemLocationTypeNone, 5}, host = {cudaMemLocationTypeHost, 0};
    cudaMemLocation device = {cudaMemLocationTypeDevice, 0}, absent = {cudaMemLocationTypeDevice, 9};
    auto managed = cudaMemAllocationTypeManaged, pinned = cudaMemAllocationTypePinned;
    size_t before, after, total;
    CALL(cudaMemGetInfo(&before, &total));

    cudaMemPool_t pool, usual, of_host, of_device, now;
    cudaMemPoolProps about = {};
    about.allocType = managed;
    CALL(cudaMemPoolCreate(&pool, &about));
    use(pool, cudaMemoryTypeManaged);
    cudaMemAccessFlags flags;
    CALL(cudaMemPoolGetAccess(&flags, pool, &device));
    HOLDS(flags == cudaMemAccessFlagsProtReadWrite);

    CALL(cudaMemGetDefaultMemPool(&usual, &none, managed));
    CALL(cudaMemGetDefaultMemPool(&of_host, &host, pinned));
    CALL(cudaMemGetDefaultMemPool(&of_device, &device, pinned));
    CALL(cudaDeviceGetDefaultMemPool(&now, 0));
    HOLDS(now == of_device && usual != of_host && usual != of_device && usual != pool);
    use(usual, cudaMemoryTypeManaged);
    use(of_host, cudaMemoryTypeHost);
    CALL(cudaMemPoolGetAccess(&flags, of_host, &host));
    HOLDS(flags == cudaMemAccessFlagsProtReadWrite);

    CALL(cudaMemSetMemPool(&none, managed, pool));
    CALL(cudaMemGetMemPool(&now, &none, managed));
    HOLDS(now == pool);
    GIVES(cudaMemSetMemPool(&host, managed, pool), cudaErrorInvalidValue);
    GIVES(cudaMemSetMemPool(&host, pinned, pool), cudaErrorInvalidValue);
    GIVES(cudaMemGetMemPool(&now, &none, pinned), cudaErrorInvalidValue);
    GIVES(cudaMemGetMemPool(&now, &absent, managed), cudaErrorInvalidDevice);
    GIVES(cudaMemPoolDestroy(usual), cudaErrorInvalidValue);
    CALL(cudaMemPoolDestroy(pool));
    CALL(cudaMemGetMemPool(&now, &none, managed));
    HOLDS(now == usual);

    CALL(cudaMemGetInfo(&after, &total));
    HOLDS(after == before);
    printf("pools of all kinds\n");
}
