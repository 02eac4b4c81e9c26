// One launch packs all tensors of a pass for tensor cores: see pack.cuh.
#include <weft/early_launch.cuh>
#include "pack.cuh"

// The blocks of the first images, then those of the second, then those of the weights.
template <class T, bool BACK>
__global__ void __launch_bounds__(256)
    pack(const T* a, T* a_packed, const T* b, T* b_packed, const T* w, T* w_packed,
         const Images first, const Images second, const Weights weights) {
    __shared__ Vector<T, 16 / sizeof(T)> memory[512];
    int block = blockIdx.x;
    start_next_kernel();
    wait_for_kernels();
    if (block < first.blocks) pack_images(a, a_packed, first, block, memory);
    else if (block < first.blocks + second.blocks)
        pack_images(b, b_packed, second, block - first.blocks, memory);
    else
        pack_weights<T, BACK>(w, w_packed, weights,
                              (block - first.blocks - second.blocks) * 256 + threadIdx.x);
}
