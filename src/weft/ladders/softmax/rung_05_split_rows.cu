// rung:   05 split rows
// idea:   several blocks share a long row: each keeps its piece in registers, publishes maximum and
//         sum, and waits for the others, while its next piece is loaded into shared memory. Short
//         rows use blocks of a few warps, so that many are in flight at once
// expect: bytes read per result = 4
// scratch: slots:u64[rows*cdiv(n,4096)] readers:u32[rows]
// launch: whole<float, 32, 8><<<rows if (n <= 1024) * (n % 4 == 0) else 0, 32>>>
// launch: whole<float, 64, 8><<<rows if (n > 1024) * (n <= 2048) * (n % 4 == 0) else 0, 64>>>
// launch: whole<float, 128, 8><<<rows if (n > 2048) * (n <= 4096) * (n % 4 == 0) else 0, 128>>>
// launch: whole<float, 256, 8><<<rows if (n > 4096) * (n <= 8192) * (n % 4 == 0) else 0, 256>>>
// launch: whole<float, 512, 8><<<rows if (n > 8192) * (n <= 16384) * (n % 4 == 0) else 0, 512>>>
// launch: longer<<<min(rows * cdiv(n, 4096), 7 * sms) if (n > 16384) * (n % 4 == 0) else 0, 128, 16384>>>
// launch: ragged<float><<<rows if n % 4 > 0 else 0, 256>>>

#include "short.cuh"
#include "split.cuh"

__global__ void __launch_bounds__(128, 7) longer(const float* x, float* y, int rows, int n,
                                                 unsigned long long* slots,
        unsigned* readers) {
    softmax_split<float, 128, 8>(x, y, rows, n, slots, readers);
}
