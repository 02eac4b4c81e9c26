// c[128][8] = a[128][64 steps] b[8][64 steps]: one thread copies tiles by tensor maps, two warpgroups
// multiply them, and one thread stores the result by another map. `bug` is 0 for the right program.
#include <cuda_fp16.h>
#include <weft/wgmma.cuh>

using namespace weft;
typedef unsigned long long u64;
struct alignas(64) CUtensorMap { u64 opaque[16]; };

__device__ void init(u64* bar, int count) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(bar)), "r"(count)
                 : "memory");
}
__device__ void expect(u64* bar, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(shared_address(bar)),
                 "r"(bytes)
                 : "memory");
}
__device__ void arrive(u64* bar) {
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(shared_address(bar)) : "memory");
}
__device__ void wait(u64* bar, int parity) {
    asm volatile("{ .reg .pred p; AGAIN%=: mbarrier.try_wait.parity.shared.b64 p, [%0], %1;"
                 " @!p bra AGAIN%=; }" ::"r"(shared_address(bar)), "r"(parity)
                 : "memory");
}
#define LOAD(to, map, x, bar)                                                                      \
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "    \
                 "[%0], [%1, {%2, %3}], [%4];" ::"r"(shared_address(to)), "l"(map), "r"(x), "r"(0), \
                 "r"(shared_address(bar))                                                          \
                 : "memory")

extern "C" __global__ void __launch_bounds__(384)
    product(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
            const __grid_constant__ CUtensorMap c, int steps, int bug) {
    __shared__ alignas(1024) __half left[2][128 * 64], right[2][16 * 64];
    __shared__ alignas(1024) float result[128 * 8];
    __shared__ u64 full[2], empty[2];
    if (threadIdx.x == 0)
        for (int i = 0; i < 2; ++i) init(&full[i], 1), init(&empty[i], 2);
    __syncthreads();
    int group = threadIdx.x / 128 - 1;
    if (group < 0) {
        for (int step = 0; threadIdx.x == 0 && step < steps; ++step) {
            int stage = step & 1;
            wait(&empty[stage], (step >> 1 & 1) ^ 1);
            expect(&full[stage], 144 * 128);
            LOAD(left[stage], &a, step * 64, &full[stage]);  // refilled
            LOAD(right[stage], &b, step * 64, &full[stage]);
        }
        return;
    }
    float sums[2][4];
    for (int step = 0; step < steps; ++step) {
        int stage = step & 1;
        wait(&full[stage], step >> 1 & 1);
        unsigned rows = shared_address(left[stage]) + group * 64 * 128;
        wgmma_begin();
        for (int k = 0; k < 64; k += 16)
            wgmma<__half>(sums, wgmma_rows(rows + k * 2),
                          wgmma_rows(shared_address(right[stage]) + k * 2), step > 0 || k > 0);
        wgmma_commit();
        if (bug == 1 && threadIdx.x % 128 == 0) arrive(&empty[stage]);
        wgmma_wait<0>();
        if (bug != 1 && threadIdx.x % 128 == 0) arrive(&empty[stage]);
    }
    wgmma_results(sums);
    int first = group * 64 + threadIdx.x % 128 / 32 * 16;
    for (int i = 0; i < 4; ++i) result[(first + c_row(i)) * 8 + c_column(i)] = sums[0][i];
    if (bug != 2) publish_tiles();
    asm volatile("bar.sync 1, 256;" ::: "memory");
    if (threadIdx.x == 128) {
        asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %1}], [%2];"  // stored
                     ::"l"(&c), "r"(0), "r"(shared_address(result)) : "memory");
        asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory");
    }
}
