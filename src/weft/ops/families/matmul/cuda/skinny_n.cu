// Products with a short K and few columns of B, of any dtype: memory is the limit. Each thread
// computes one row of C.
#include <weft/convert.cuh>
#include <weft/early_launch.cuh>
#include "problem.cuh"

// A, and C where its rows are packed, pass through shared memory, so that lanes access neighbours.
// VECTOR: the elements of A that a thread reads at a time, more than 1 if its rows are packed.
// DOWN: neighbours of A are in a column. The problem's lda and ldb are the strides of B along N and
// K.
template <class T, int K, int N, int VECTOR, bool DOWN, bool PACKED, int ACTIVATION>
__global__ void __launch_bounds__(256)
    skinny_n(const T* A, const T* B, const T* bias, T* C, const Problem p) {
    take_turn();
    constexpr int ROWS = 256, DEEP = (K + 3) / 4 * 4, APITCH = K | 1,
                  CPITCH = N | 1;  // odd: rows are in different banks
    __shared__ float a[ROWS * (APITCH > CPITCH || !PACKED ? APITCH : CPITCH)];
    __shared__ __align__(16) float b[N * DEEP];
    long long batch = block_index_yz(), r0 = blockIdx.x * (long long)ROWS;
    if (batch >= p.batch) return;
    int rows = min((long long)ROWS, p.M - r0), r = threadIdx.x;
    A += batch * p.batch_a + r0 * p.row_a, B += batch * p.batch_b,
        C += batch * p.batch_c + r0 * p.row_c;
    if (bias) bias += batch * p.batch_bias + (r0 + r) * p.row_bias;
    for (int i = r; i < N * DEEP; i += ROWS) {
        int n = i / DEEP, k = i % DEEP;
        b[i] = k < K ? to<float>(B[n * p.lda + k * p.ldb]) : 0;
    }
    auto place = [](int i) { return i / K * APITCH + i % K; };
#pragma unroll
    for (int i = r * VECTOR; i < ROWS * K; i += ROWS * VECTOR) {
        if constexpr (DOWN) {
            if (i % ROWS < rows)
                a[i % ROWS * APITCH + i / ROWS] =
                    to<float>(A[i % ROWS * p.row_a + i / ROWS * p.column_a]);
        } else if (VECTOR == 1) {
            if (i < rows * K) a[place(i)] = to<float>(A[i / K * p.row_a + i % K * p.column_a]);
        } else if (i + VECTOR <= rows * K) {
            Vector<T, VECTOR> v = load<VECTOR>(A + i);
#pragma unroll
            for (int j = 0; j < VECTOR; ++j) a[place(i + j)] = to<float>(v[j]);
        } else {
            for (int j = i; j < rows * K; ++j) a[place(j)] = to<float>(A[j]);
        }
    }
    __syncthreads();
    float row[DEEP] = {};
    if (r < rows)
#pragma unroll
        for (int k = 0; k < K; ++k) row[k] = a[r * APITCH + k];
    if (PACKED) __syncthreads();  // all have read A: C takes its place
#pragma unroll
    for (int n = 0; n < N; ++n) {
        float sum = 0;
#pragma unroll
        for (int k = 0; k < DEEP; k += 4) {
            float4 v = *reinterpret_cast<const float4*>(b + n * DEEP + k);
            sum += row[k] * v.x, sum += row[k + 1] * v.y, sum += row[k + 2] * v.z,
                sum += row[k + 3] * v.w;
        }
        if (bias && r < rows) sum += to<float>(bias[n * p.column_bias]);
        sum = activated<ACTIVATION>(sum);
        if constexpr (PACKED) a[r * CPITCH + n] = sum;
        else if (r < rows) C[r * p.row_c + n * p.column_c] = to<T>(sum);
    }
    if constexpr (PACKED) {
        __syncthreads();
        constexpr int WIDE = 16 / sizeof(T);
        bool whole = reinterpret_cast<size_t>(C) % 16 == 0;
#pragma unroll
        for (int i = r * WIDE; i < ROWS * N; i += ROWS * WIDE) {
            Vector<T, WIDE> v;
#pragma unroll
            for (int j = 0; j < WIDE; ++j) v[j] = to<T>(a[(i + j) / N * CPITCH + (i + j) % N]);
            if (whole && i + WIDE <= rows * N) store_whole(C + i, v);
            else
                for (int j = 0; j < WIDE; ++j)
                    if (i + j < rows * N) C[i + j] = v[j];
        }
    }
}
