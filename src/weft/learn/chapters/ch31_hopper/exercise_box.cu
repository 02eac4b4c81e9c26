// Write the kernel: y is x transposed. Each block copies a tile of 16 x 16 elements of x to shared
// memory: one thread starts the copy (load_box), and an mbarrier counts its bytes. `tile` is the
// tensor map that the next line asks for. Sizes need not be multiples of 16.
// map: tile = x[16, 16]
#include <weft/tma.cuh>

__global__ void turn(const __grid_constant__ weft::TensorMap tile, float* y, int h, int w) {}
