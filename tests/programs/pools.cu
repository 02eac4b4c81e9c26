// Pools of memory: what they count and hold, who may access them, and what they refuse.
#include <cstdint>

#include "check.h"

static uint64_t ask(cudaMemPool_t pool, cudaMemPoolAttr attribute) {
    uint64_t value = ~0ull;
    CALL(cudaMemPoolGetAttribute(pool, attribute, &value));
    return value;
}

int main() {
    cudaMemPool_t pool, usual, now;
    cudaMemPoolProps about = {};
    about.allocType = cudaMemAllocationTypePinned;
    about.location = {cudaMemLocationTypeDevice, 7};
    GIVES(cudaMemPoolCreate(&pool, &about), cudaErrorInvalidDevice);
    about.location.id = 1;
    about.maxSize = 8 << 20;
    CALL(cudaMemPoolCreate(&pool, &about));

    // Access: of its own GPU, until another is given some.
    cudaMemAccessFlags flags;
    cudaMemLocation other = {cudaMemLocationTypeDevice, 0}, own = {cudaMemLocationTypeDevice, 1};
    CALL(cudaMemPoolGetAccess(&flags, pool, &own));
    HOLDS(flags == cudaMemAccessFlagsProtReadWrite);
    CALL(cudaMemPoolGetAccess(&flags, pool, &other));
    HOLDS(flags == cudaMemAccessFlagsProtNone);
    cudaMemAccessDesc wanted = {other, cudaMemAccessFlagsProtReadWrite};
    CALL(cudaMemPoolSetAccess(pool, &wanted, 1));
    CALL(cudaMemPoolGetAccess(&flags, pool, &other));
    HOLDS(flags == cudaMemAccessFlagsProtReadWrite);
    wanted = {own, cudaMemAccessFlagsProtNone};
    GIVES(cudaMemPoolSetAccess(pool, &wanted, 1), cudaErrorInvalidValue);

    // What it holds: freed memory up to the threshold, until it is trimmed.
    void *a, *b, *c;
    uint64_t threshold = 3 << 20, zero = 0;
    CALL(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
    CALL(cudaMallocFromPoolAsync(&a, 4 << 20, pool, 0));
    CALL(cudaMallocFromPoolAsync(&b, 2 << 20, pool, 0));
    GIVES(cudaMallocFromPoolAsync(&c, 3 << 20, pool, 0), cudaErrorMemoryAllocation);
    HOLDS(ask(pool, cudaMemPoolAttrUsedMemCurrent) == 6 << 20);
    CALL(cudaFreeAsync(a, 0));
    CALL(cudaDeviceSynchronize());
    HOLDS(ask(pool, cudaMemPoolAttrUsedMemCurrent) == 2 << 20);
    HOLDS(ask(pool, cudaMemPoolAttrReservedMemCurrent) == 3 << 20);
    HOLDS(ask(pool, cudaMemPoolAttrUsedMemHigh) == 6 << 20);
    CALL(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &zero));
    HOLDS(ask(pool, cudaMemPoolAttrUsedMemHigh) == 2 << 20);
    GIVES(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &zero), cudaErrorInvalidValue);
    CALL(cudaMemPoolTrimTo(pool, 0));
    HOLDS(ask(pool, cudaMemPoolAttrReservedMemCurrent) == 2 << 20);
    int reuse = 0;
    CALL(cudaMemPoolSetAttribute(pool, cudaMemPoolReuseAllowOpportunistic, &reuse));
    reuse = 5;
    CALL(cudaMemPoolGetAttribute(pool, cudaMemPoolReuseAllowOpportunistic, &reuse));
    HOLDS(reuse == 0);

    // A GPU's own pool is another, unless it is told to use this one.
    CALL(cudaSetDevice(1));
    CALL(cudaDeviceGetDefaultMemPool(&usual, 1));
    CALL(cudaMallocAsync(&c, 1 << 20, 0));
    HOLDS(ask(usual, cudaMemPoolAttrUsedMemCurrent) == 1 << 20);
    CALL(cudaDeviceSetMemPool(1, pool));
    CALL(cudaDeviceGetMemPool(&now, 1));
    HOLDS(now == pool && usual != pool);
    CALL(cudaFreeAsync(c, 0));
    CALL(cudaMallocAsync(&c, 1 << 20, 0));
    HOLDS(ask(pool, cudaMemPoolAttrUsedMemCurrent) == 3 << 20);
    CALL(cudaFreeAsync(b, 0));
    CALL(cudaFreeAsync(c, 0));
    CALL(cudaDeviceSynchronize());
    HOLDS(ask(usual, cudaMemPoolAttrUsedMemCurrent) == 0);
    GIVES(cudaMemPoolDestroy(usual), cudaErrorInvalidValue);
    CALL(cudaMemPoolDestroy(pool));
    GIVES(cudaMemPoolTrimTo(pool, 0), cudaErrorInvalidValue);
    CALL(cudaDeviceGetMemPool(&now, 1));
    HOLDS(now == usual);
    printf("pools count\n");
}
