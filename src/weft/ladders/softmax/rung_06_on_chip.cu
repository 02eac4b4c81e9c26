// rung:   06 on chip
// idea:   one SM has 256 KiB of registers and 227 KiB of shared memory: half of each holds rows of
//         up to 65,536 elements, and no block waits for another. Several blocks share longer rows
// expect: bytes read per result = 4
// scratch: slots:u64[rows*cdiv(n,8192)] readers:u32[rows]

#include "chip.cuh"
#include "short.cuh"

__global__ void __launch_bounds__(1024)
    of_65536(const float* x, float* y, int n, unsigned long long* slots, unsigned* readers) {
    softmax_chip<float, 1024, 8, 8>(x, y, n, slots, readers);
}
__global__ void __launch_bounds__(128, 7)
    longer(const float* x, float* y, int n, unsigned long long* slots, unsigned* readers) {
    softmax_chip<float, 128, 8, 8>(x, y, n, slots, readers);
}
