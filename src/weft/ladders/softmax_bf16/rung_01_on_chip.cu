// rung:   01 on chip
// idea:   the kernels of the float ladder with eight elements in 16 bytes. Elements stay bf16 in
//         registers, which allows rows of twice the length; exponentials are computed again for the
//         result instead of being kept
// precision: bf16
// expect: bytes read per result = 2
// scratch: slots:u64[rows*cdiv(n,16384)] readers:u32[rows]
// launch: whole<__nv_bfloat16, 32, 4><<<rows if (n <= 1024) * (n % 8 == 0) else 0, 32>>>
// launch: whole<__nv_bfloat16, 32, 8><<<rows if (n > 1024) * (n <= 2048) * (n % 8 == 0) else 0, 32>>>
// launch: whole<__nv_bfloat16, 64, 8><<<rows if (n > 2048) * (n <= 4096) * (n % 8 == 0) else 0, 64>>>
// launch: whole<__nv_bfloat16, 128, 8><<<rows if (n > 4096) * (n <= 8192) * (n % 8 == 0) else 0, 128>>>
// launch: whole<__nv_bfloat16, 256, 8><<<rows if (n > 8192) * (n <= 16384) * (n % 8 == 0) else 0, 256>>>
// launch: whole<__nv_bfloat16, 512, 8><<<rows if (n > 16384) * (n <= 32768) * (n % 8 == 0) else 0, 512>>>
// launch: of_65536<<<rows if (n > 32768) * (n <= 65536) * (n % 8 == 0) else 0, 512, 65536>>>
// launch: longer<<<rows * cdiv(n, 16384) if (n > 65536) * (n % 8 == 0) else 0, 128, 16384>>>
// launch: ragged<__nv_bfloat16><<<rows if n % 8 > 0 else 0, 256>>>

#include "../softmax/chip.cuh"
#include "../softmax/short.cuh"

using T = __nv_bfloat16;

__global__ void __launch_bounds__(512, 2) of_65536(const T* x, T* y, int n, unsigned long long* slots,
        unsigned* readers) {
    softmax_chip<T, 512, 8, 8>(x, y, n, slots, readers);
}
__global__ void __launch_bounds__(128, 7) longer(const T* x, T* y, int n, unsigned long long* slots,
        unsigned* readers) {
    softmax_chip<T, 128, 8, 8>(x, y, n, slots, readers);
}
