// rung:   06 on chip
// idea:   one SM has 256 KiB of registers and 227 KiB of shared memory: half of each holds rows of
//         up to 65,536 elements, and no block waits for another. Several blocks share longer rows
// expect: bytes read per result = 4
// scratch: slots:u64[rows*cdiv(n,8192)] readers:u32[rows]
// launch: whole<float, 32, 8><<<rows if (n <= 1024) * (n % 4 == 0) else 0, 32>>>
// launch: whole<float, 64, 8><<<rows if (n > 1024) * (n <= 2048) * (n % 4 == 0) else 0, 64>>>
// launch: whole<float, 128, 8><<<rows if (n > 2048) * (n <= 4096) * (n % 4 == 0) else 0, 128>>>
// launch: whole<float, 256, 8><<<rows if (n > 4096) * (n <= 8192) * (n % 4 == 0) else 0, 256>>>
// launch: whole<float, 512, 8><<<rows if (n > 8192) * (n <= 16384) * (n % 4 == 0) else 0, 512>>>
// launch: whole<float, 1024, 8><<<rows if (n > 16384) * (n <= 32768) * (n % 4 == 0) else 0, 1024>>>
// launch: of_65536<<<rows if (n > 32768) * (n <= 65536) * (n % 4 == 0) else 0, 1024, 131072>>>
// launch: longer<<<rows * cdiv(n, 8192) if (n > 65536) * (n % 4 == 0) else 0, 128, 16384>>>
// launch: ragged<float><<<rows if n % 4 > 0 else 0, 256>>>

#include "chip.cuh"
#include "short.cuh"

__global__ void __launch_bounds__(1024) of_65536(const float* x, float* y, int n, unsigned long long* slots,
        unsigned* readers) {
    softmax_chip<float, 1024, 8, 8>(x, y, n, slots, readers);
}
__global__ void __launch_bounds__(128, 7) longer(const float* x, float* y, int n, unsigned long long* slots,
        unsigned* readers) {
    softmax_chip<float, 128, 8, 8>(x, y, n, slots, readers);
}
