// rung:   02 ldmatrix
// idea:   tiles of 128 x 128 in shared memory are read by eight warps: 1/128 of the bytes.
//         ldmatrix loads a fragment in one instruction, in the order that mma.sync wants
// precision: bf16
// expect: bytes read per result <= 3
// launch: matmul<<<(cdiv(N, 128), cdiv(M, 128)), 256>>>

#include "fragments.cuh"

__global__ void __launch_bounds__(256) matmul(const T* A, const T* B, T* C, int M, int N, int K) {
    __shared__ __align__(16) T as[128 * 32], bs[32 * 128];
    int row = blockIdx.y * 128, column = blockIdx.x * 128;
    Warp<32, 128> warp;
    for (int k0 = 0; k0 < K; k0 += 32) {
        for (int c = threadIdx.x; c < 512; c += 256) {
            int m = c / 4, k = c % 4 * 8, kb = c / 16, n = c % 16 * 8;
            uint4 zero = {};
            bool in_a = row + m < M && k0 + k < K, in_b = k0 + kb < K && column + n < N;
            *reinterpret_cast<uint4*>(as + m * 32 + k) =
                in_a ? *reinterpret_cast<const uint4*>(A + size_t(row + m) * K + k0 + k) : zero;
            *reinterpret_cast<uint4*>(bs + kb * 128 + n) =
                in_b ? *reinterpret_cast<const uint4*>(B + size_t(k0 + kb) * N + column + n) : zero;
        }
        __syncthreads();
        warp.add(as, bs);
        __syncthreads();
    }
    warp.write(C, row, column, M, N);
}
