// Products with a short K, of any dtype: memory is the limit, and most of it is C.
#include <weft/convert.cuh>
#include <weft/early_launch.cuh>
#include "problem.cuh"

// Each thread keeps WIDE columns of B in registers and goes down the ROWS rows of its tile; A
// passes through shared memory. The rows of a tile are stored one after the other, each by
// neighbours.
template <class T, int DEEP, int ROWS, int WIDE, bool TRANSPOSED, int ACTIVATION>
__global__ void __launch_bounds__(128)
    short_k(const T* A, const T* B, const T* bias, T* C, const Problem p) {
    take_turn();
    __shared__ __align__(16) float a[ROWS][DEEP];
    int r0 = blockIdx.x / p.tiles_n * ROWS, rows = min(ROWS, p.M - r0);
    int n = (blockIdx.x % p.tiles_n * 128 + threadIdx.x) * WIDE;
    long long batch = block_index_yz();
    if (batch >= p.batch) return;
    A += batch * p.batch_a + r0 * p.row_a, B += batch * p.batch_b,
        C += batch * p.batch_c + r0 * p.row_c + n;
    if (bias) bias += batch * p.batch_bias + r0 * p.row_bias + n * p.column_bias;
    for (int i = threadIdx.x; i < ROWS * DEEP; i += 128) {
        int m = i / DEEP, k = i % DEEP;
        a[m][k] = m < rows && k < p.K ? to<float>(A[m * p.row_a + k * p.column_a]) : 0;
    }
    float b[DEEP][WIDE];
#pragma unroll
    for (int k = 0; k < DEEP; ++k)
#pragma unroll
        for (int j = 0; j < WIDE; ++j)
            b[k][j] = k < p.K && n + j < p.N
                          ? to<float>(B[TRANSPOSED ? (n + j) * p.ldb + k : k * p.ldb + n + j])
                          : 0;
    __syncthreads();
    if (n >= p.N) return;
#pragma unroll 4
    for (int m = 0; m < rows; ++m) {
        float sum[WIDE] = {};
#pragma unroll
        for (int k = 0; k < DEEP; k += 4) {
            float4 v = *reinterpret_cast<const float4*>(&a[m][k]);
#pragma unroll
            for (int j = 0; j < WIDE; ++j)
                sum[j] += v.x * b[k][j], sum[j] += v.y * b[k + 1][j], sum[j] += v.z * b[k + 2][j],
                    sum[j] += v.w * b[k + 3][j];
        }
        Vector<T, WIDE> result;
#pragma unroll
        for (int j = 0; j < WIDE; ++j) {
            if (bias) sum[j] += to<float>(bias[m * p.row_bias + j * p.column_bias]);
            result[j] = to<T>(activated<ACTIVATION>(sum[j]));
        }
        store_whole(C + m * p.row_c, result);
    }
}
