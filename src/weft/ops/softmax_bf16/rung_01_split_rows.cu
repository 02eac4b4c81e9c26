// rung:   01 split rows
// idea:   the kernel of the float ladder with eight elements in 16 bytes: the row in registers, long
//         rows shared by several blocks
// precision: bf16
// scratch: slots:u64[rows*cdiv(n,8192)] arrived:u32[rows]
// clear:  arrived
// launch: of_1024<<<rows if (n <= 1024) * (n % 8 == 0) else 0, 32>>>
// launch: of_4096<<<rows if (n > 1024) * (n <= 4096) * (n % 8 == 0) else 0, 128>>>
// launch: of_8192<<<rows * cdiv(n, 8192) if (n > 4096) * (n % 8 == 0) else 0, 256>>>
// launch: ragged<<<rows if n % 8 > 0 else 0, 256>>>

#include "../softmax/row.cuh"

__global__ void __launch_bounds__(32) of_1024(const __nv_bfloat16* x, __nv_bfloat16* y, int n) {
    softmax_row<__nv_bfloat16, 32, 4>(x, y, n, 1, nullptr, nullptr);
}

__global__ void __launch_bounds__(128) of_4096(const __nv_bfloat16* x, __nv_bfloat16* y, int n) {
    softmax_row<__nv_bfloat16, 128, 4>(x, y, n, 1, nullptr, nullptr);
}

__global__ void __launch_bounds__(256) of_8192(const __nv_bfloat16* x, __nv_bfloat16* y, int n,
                                               unsigned long long* slots, unsigned* arrived) {
    softmax_row<__nv_bfloat16, 256, 4>(x, y, n, (n + 8191) / 8192, reinterpret_cast<float2*>(slots),
                                       arrived);
}

__global__ void __launch_bounds__(256) ragged(const __nv_bfloat16* x, __nv_bfloat16* y, int n) {
    softmax_any<__nv_bfloat16, 256>(x, y, n);
}
