// Products with a few rows of A, of any dtype: memory is the limit, and each element of B is read
// once.
#include <weft/convert.cuh>
#include <weft/warp.cuh>
#include "problem.cuh"

// Stores a result with its bias and activation.
template <int ACTIVATION, class T>
__device__ void finish(T* C, const T* bias, const Problem& p, int m, int n, float value) {
    if (bias) value += to<float>(bias[m * p.row_bias + n * p.column_bias]);
    C[m * p.row_c + n * p.column_c] = to<T>(activated<ACTIVATION>(value));
}

// A few rows of A times a B whose K is contiguous (a linear layer's weight): each warp computes
// ROWS results of one column of C. K may be cut into parts, which `add_parts` adds.
template <class T, int ROWS, int WIDE, int ACTIVATION>
__global__ void __launch_bounds__(256)
    dots(const T* A, const T* B, const T* bias, T* C, float* parts, const Problem p) {
    int lane = threadIdx.x % 32, split = blockIdx.x % p.splits;
    long long n = blockIdx.x / p.splits * 8ll + threadIdx.x / 32;
    long long batch = block_index_yz();
    if (n >= p.N || batch >= p.batch) return;
    A += batch * p.batch_a, B += batch * p.batch_b + n * p.ldb, C += batch * p.batch_c;
    if (bias) bias += batch * p.batch_bias;
    int k0 = split * p.each, k1 = min(p.K, k0 + p.each);
    float sum[ROWS] = {};
    int k = k0 + lane * WIDE;
#pragma unroll 4
    for (; k + WIDE <= k1; k += 32 * WIDE) {
        Vector<T, WIDE> b = load<WIDE>(B + k);
#pragma unroll
        for (int m = 0; m < ROWS; ++m) {
            if (m >= p.M) break;
            Vector<T, WIDE> a = load<WIDE>(A + m * p.row_a + k);
#pragma unroll
            for (int j = 0; j < WIDE; ++j) sum[m] += to<float>(a[j]) * to<float>(b[j]);
        }
    }
    for (int j = k; j < k1 && j < k + WIDE; ++j)
#pragma unroll
        for (int m = 0; m < ROWS; ++m)
            if (m < p.M) sum[m] += to<float>(A[m * p.row_a + j]) * to<float>(B[j]);
#pragma unroll
    for (int m = 0; m < ROWS; ++m) {
        if (m >= p.M) break;
        sum[m] = warp_sum(sum[m]);
        if (lane == 0) {
            if (p.splits == 1) finish<ACTIVATION>(C, bias, p, m, n, sum[m]);
            else parts[((batch * p.splits + split) * p.M + m) * p.N + n] = sum[m];
        }
    }
}

// A few rows of A times a B whose N is contiguous: each thread computes ROWS results of WIDE
// neighbouring columns. A passes through shared memory, so that no thread waits for it.
template <class T, int ROWS, int WIDE, int ACTIVATION>
__global__ void __launch_bounds__(128)
    columns(const T* A, const T* B, const T* bias, T* C, float* parts, const Problem p) {
    constexpr int DEEP = 64;
    __shared__ float a[DEEP][ROWS];
    long long n = (blockIdx.x / p.splits * 128ll + threadIdx.x) * WIDE;
    long long batch = block_index_yz();
    int split = blockIdx.x % p.splits;
    if (batch >= p.batch) return;
    A += batch * p.batch_a, B += batch * p.batch_b + n, C += batch * p.batch_c;
    if (bias) bias += batch * p.batch_bias;
    int k0 = split * p.each, k1 = min(p.K, k0 + p.each);
    float sum[ROWS][WIDE] = {};
    for (; k0 < k1; k0 += DEEP) {
        int deep = min(DEEP, k1 - k0);
        __syncthreads();
        for (int i = threadIdx.x; i < DEEP * ROWS; i += 128) {
            int m = i / DEEP, k = i % DEEP;
            a[k][m] = m < p.M && k < deep ? to<float>(A[m * p.row_a + (k0 + k) * p.column_a]) : 0;
        }
        __syncthreads();
        if (n >= p.N) continue;
        auto step = [&](int k) {
            Vector<T, WIDE> b = load<WIDE>(B + (k0 + k) * p.ldb);
#pragma unroll
            for (int m = 0; m < ROWS; ++m)
#pragma unroll
                for (int j = 0; j < WIDE; ++j) sum[m][j] += a[k][m] * to<float>(b[j]);
        };
        int k = 0;
        for (; k + 8 <= deep; k += 8)
#pragma unroll
            for (int u = 0; u < 8; ++u) step(k + u);
        for (; k < deep; ++k) step(k);
    }
    if (n >= p.N) return;
#pragma unroll
    for (int m = 0; m < ROWS; ++m) {
        if (m >= p.M) break;
#pragma unroll
        for (int j = 0; j < WIDE; ++j) {
            if (p.splits == 1) finish<ACTIVATION>(C, bias, p, m, n + j, sum[m][j]);
            else parts[((batch * p.splits + split) * p.M + m) * p.N + n + j] = sum[m][j];
        }
    }
}

// Adds the parts of K that `dots` and `columns` have stored, in order.
template <class T, int ACTIVATION>
__global__ void __launch_bounds__(256)
    add_parts(const T* bias, T* C, const float* parts, const Problem p) {
    long long i = blockIdx.x * 256ll + threadIdx.x, batch = block_index_yz(),
              size = (long long)p.M * p.N;
    if (i >= size || batch >= p.batch) return;
    float sum = 0;
    for (int s = 0; s < p.splits; ++s) sum += parts[(batch * p.splits + s) * size + i];
    C += batch * p.batch_c;
    if (bias) bias += batch * p.batch_bias;
    finish<ACTIVATION>(C, bias, p, i / p.N, i % p.N, sum);
}
