// Write the kernel: C = A B, of 64 x 64 results. One warpgroup of 128 threads multiplies by wgmma:
// for each 64 of K, one thread copies a box of A and a box of B to shared memory, both swizzled. A
// tile begins at a multiple of 1,024 bytes (slab_aligned) and has 8,192 bytes.
// map: a = A[64, 64] swizzle 128
// map: b = B[64, 64] swizzle 128
#include <weft/tma.cuh>
#include <weft/wgmma.cuh>

__global__ void __launch_bounds__(128)
    product(const __grid_constant__ weft::TensorMap a, const __grid_constant__ weft::TensorMap b,
            float* C, int k) {}
