// Waits that end by chance under a schedule. Between them no thread changes anything for long.
#include <weft/barrier.cuh>

// Computes something from a number that the compiler does not know, and changes no memory.
__device__ unsigned computed(unsigned x, int steps) {
    for (int i = 0; i < steps; ++i) x = x * 1664525u + 1013904223u ^ x >> 7;
    return x;
}

extern "C" {
// Each block adds up `x` after blocks with lower numbers, in copies of 128 integers.
__global__ void chained(const int* x, int* sums, unsigned* turn, int copies, int steps) {
    __shared__ alignas(16) int s[128];
    __shared__ weft::Barrier full;
    int t = threadIdx.x, sum = 0;
    if (t == 0) full.init(1), weft::publish_barriers();
    __syncthreads();
    for (int n = 0; n < copies; ++n) {
        if (t == 0) {
            full.arrive_expecting(sizeof(s));
            asm volatile(
                "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                " [%0], [%1], %2, [%3];" ::"r"(weft::shared_address(s)),
                "l"(x + n * 128), "r"((int)sizeof(s)), "r"(weft::shared_address(&full))
                : "memory");
        }
        full.wait(n % 2);
        sum += s[t] + (computed(s[t], steps) == 1);
        __syncthreads();
    }
    unsigned now;
    do {
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(turn) : "memory");
    } while (__any_sync(~0u, now < blockIdx.x));
    sums[t] = sums[t] * 3 + sum;
    __syncthreads();
    if (t == 0) asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(turn) : "memory");
}
// Copies that nobody waits for are pending, and a flag is awaited that nobody sets.
__global__ void pending(const int* x, volatile int* flag) {
    __shared__ alignas(16) int s[128];
    __shared__ weft::Barrier full, other;
    int t = threadIdx.x;
    if (t == 0) full.init(1), other.init(2), weft::publish_barriers();
    __syncthreads();
    if (t == 0) {
        full.arrive_expecting(sizeof(s));
        other.arrive();
        asm volatile(
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
            " [%0], [%1], %2, [%3];" ::"r"(weft::shared_address(s)),
            "l"(x), "r"((int)sizeof(s)), "r"(weft::shared_address(&full))
            : "memory");
    }
    if (t < 64) other.wait(0);
    else
        while (*flag == 0) {}
}
}
