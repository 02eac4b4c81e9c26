// rung:   01 on chip
// idea:   the kernels of the float ladder with eight elements in 16 bytes. Elements stay bf16 in
//         registers, which allows rows of twice the length; exponentials are computed again for the
//         result instead of being kept
// precision: bf16
// expect: bytes read per result = 2
// scratch: slots:u64[rows*cdiv(n,16384)] readers:u32[rows]

#include "../softmax/chip.cuh"
#include "../softmax/short.cuh"

using T = __nv_bfloat16;

__global__ void __launch_bounds__(512, 2)
    of_65536(const T* x, T* y, int n, unsigned long long* slots, unsigned* readers) {
    softmax_chip<T, 512, 8, 8>(x, y, n, slots, readers);
}
__global__ void __launch_bounds__(128, 7)
    longer(const T* x, T* y, int n, unsigned long long* slots, unsigned* readers) {
    softmax_chip<T, 128, 8, 8>(x, y, n, slots, readers);
}
