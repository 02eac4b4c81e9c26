// rung:   04 on chip
// idea:   the kernel of weft.ops. Half of an SM's registers and shared memory hold rows of up to
//         131,072 elements, packed as bf16: the logits are read once. A row has as many warps as it
//         needs
// expect: bytes read per result <= 3

#include "../../ops/families/loss/cuda/cross_entropy_rows.cuh"

using T = __nv_bfloat16;

template <bool EVEN, int G, int HELD, int SHARED>
__device__ void on_chip(const T* x, const long long* t, T* d, T* loss, int rows, int n) {
    Classes c{};
    c.count = rows, c.inner = 1, c.stride = n, c.ignore = -100, c.n = n, c.reduction = NONE;
    const T* none = nullptr;
    hold_rows<T, long long, 8, EVEN, G, HELD, SHARED, true, true, false>(
        x, t, none, none, nullptr, loss, nullptr, d, nullptr, c);
}

__global__ void __launch_bounds__(128, 8)
    of_1024(const T* x, const long long* t, T* d, T* loss, int rows, int n) {
    on_chip<true, 32, 4, 0>(x, t, d, loss, rows, n);
}
__global__ void __launch_bounds__(128, 8)
    of_8192(const T* x, const long long* t, T* d, T* loss, int rows, int n) {
    on_chip<true, 128, 8, 0>(x, t, d, loss, rows, n);
}
__global__ void __launch_bounds__(512, 2)
    of_32768(const T* x, const long long* t, T* d, T* loss, int rows, int n) {
    on_chip<true, 512, 8, 0>(x, t, d, loss, rows, n);
}
__global__ void __launch_bounds__(1024)
    of_131072(const T* x, const long long* t, T* d, T* loss, int rows, int n) {
    on_chip<true, 1024, 8, 8>(x, t, d, loss, rows, n);
}
__global__ void __launch_bounds__(1024)
    ragged(const T* x, const long long* t, T* d, T* loss, int rows, int n) {
    on_chip<false, 1024, 8, 8>(x, t, d, loss, rows, n);
}
