// rung:   00 naive
// idea:   one thread per element of C, on the ordinary cores; neighbours read the same row of A
//         and neighbouring columns of B
// precision: bf16
// expect: bytes read per result >= 256
// bench:  M=2048, N=2048, K=2048
// launch: matmul<<<(cdiv(N, 32), cdiv(M, 8)), (32, 8)>>>

#include <cuda_bf16.h>

using T = __nv_bfloat16;

__global__ void matmul(const T* A, const T* B, T* C, int M, int N, int K) {
    int column = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 8 + threadIdx.y;
    if (row >= M || column >= N) return;
    float sum = 0;
    for (int k = 0; k < K; ++k)
        sum +=
            __bfloat162float(A[size_t(row) * K + k]) * __bfloat162float(B[size_t(k) * N + column]);
    C[size_t(row) * N + column] = __float2bfloat16(sum);
}
