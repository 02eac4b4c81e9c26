// Products with a few rows of A, of any dtype: memory is the limit, and each element of B is read
// once.
#include <weft/convert.cuh>
#include <weft/early_launch.cuh>
#include <weft/warp.cuh>
#include "problem.cuh"

// Stores a result with its bias and activation.
template <int ACTIVATION, class T>
__device__ void finish(T* C, const T* bias, const Problem& p, int m, int n, float value) {
    if (bias) value += to<float>(bias[m * p.row_bias + n * p.column_bias]);
    C[m * p.row_c + n * p.column_c] = to<T>(activated<ACTIVATION>(value));
}

// Loads elements of B, each of which is read once: A keeps its place in the L1 cache.
template <int WIDE, class T>
__device__ Vector<T, WIDE> load_of_b(const T* p) {
    if constexpr (WIDE * sizeof(T) >= 4) return load_once<WIDE>(p);
    else return load<WIDE>(p);
}

// A few rows of A times COLUMNS columns of a B whose K is contiguous (a linear layer's weight), for
// vectors of WIDE elements from k on, AHEAD of them that are STRIDE apart. All of B is on its way
// before the first product.
template <int AHEAD, int STRIDE, int WIDE, class T, int COLUMNS, int ROWS>
__device__ void add_products(float (&sum)[COLUMNS][ROWS], const T* A, const T* const (&B)[COLUMNS],
                             const Problem& p, int k) {
    Vector<T, WIDE> b[AHEAD][COLUMNS];
#pragma unroll
    for (int i = 0; i < AHEAD; ++i)
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c) b[i][c] = load_of_b<WIDE>(B[c] + k + i * STRIDE);
#pragma unroll
    for (int m = 0; m < ROWS; ++m) {
        if (m >= p.M) break;
#pragma unroll
        for (int i = 0; i < AHEAD; ++i) {
            Vector<T, WIDE> a = load<WIDE>(A + m * p.row_a + k + i * STRIDE);
#pragma unroll
            for (int c = 0; c < COLUMNS; ++c)
#pragma unroll
                for (int j = 0; j < WIDE; ++j) sum[c][m] += to<float>(a[j]) * to<float>(b[i][c][j]);
        }
    }
}

// The same for all vectors from k up to k1, and then AHEAD / 2, AHEAD / 4 ... of those that are
// left: few turns wait for loads.
template <int AHEAD, int STRIDE, int WIDE, class T, int COLUMNS, int ROWS>
__device__ void add_vectors(float (&sum)[COLUMNS][ROWS], const T* A, const T* const (&B)[COLUMNS],
                            const Problem& p, int& k, int k1) {
    for (; k + (AHEAD - 1) * STRIDE + WIDE <= k1; k += AHEAD * STRIDE)
        add_products<AHEAD, STRIDE, WIDE>(sum, A, B, p, k);
    if constexpr (AHEAD > 1) add_vectors<AHEAD / 2, STRIDE, WIDE>(sum, A, B, p, k, k1);
}

// SHARE warps compute the ROWS results of COLUMNS columns of C: more than one column, if reads of A
// would take longer than those of B. K may be cut into parts, which `add_parts` adds.
template <class T, int ROWS, int WIDE, int SHARE, int ACTIVATION>
__global__ void __launch_bounds__(256)
    dots(const T* A, const T* B, const T* bias, T* C, float* parts, const Problem p) {
    constexpr int COLUMNS = ROWS < 4 ? 1 : 2, TEAMS = 8 / SHARE, STRIDE = 32 * WIDE * SHARE;
    constexpr int AHEAD = 4 / COLUMNS;
    __shared__ float shares[SHARE > 1 ? 8 : 1][COLUMNS][ROWS];
    int lane = lane_index(), warp = warp_index(), split = blockIdx.x % p.splits;
    long long n = (blockIdx.x / p.splits * (long long)TEAMS + warp / SHARE) * COLUMNS;
    long long batch = block_index_yz();
    A += batch * p.batch_a, B += batch * p.batch_b, C += batch * p.batch_c;
    if (bias) bias += batch * p.batch_bias;
    bool inside = n < p.N && batch < p.batch;
    float sum[COLUMNS][ROWS] = {};
    const T* from[COLUMNS];
#pragma unroll
    for (int c = 0; c < COLUMNS; ++c) from[c] = B + min(n + c, p.N - 1ll) * p.ldb;
    int k0 = split * p.each, k1 = min(p.K, k0 + p.each);
    int k = k0 + (warp % SHARE * 32 + lane) * WIDE;
    wait_for_kernels(from[0] + k, A + k);
    start_next_kernel();
    if (inside) {
        add_vectors<AHEAD, STRIDE, WIDE>(sum, A, from, p, k, k1);
        if constexpr (WIDE > 1) {
            int tail = k0 + (k1 - k0) / WIDE * WIDE;  // elements that fill no vector, of one lane
            if ((tail - k) % STRIDE == 0)
#pragma unroll 1
                for (int j = tail; j < k1; ++j) add_products<1, STRIDE, 1>(sum, A, from, p, j);
        }
    }
#pragma unroll
    for (int c = 0; c < COLUMNS; ++c)
#pragma unroll
        for (int m = 0; m < ROWS; ++m) {
            if (m >= p.M) break;
            sum[c][m] = warp_sum(sum[c][m]);
            if (SHARE > 1 && lane == 0) shares[warp][c][m] = sum[c][m];
        }
    if constexpr (SHARE > 1) {
        __syncthreads();
        if (warp % SHARE) return;
    }
    // A lane for each result: they are stored at once.
#pragma unroll
    for (int c = 0; c < COLUMNS; ++c)
#pragma unroll
        for (int m = 0; m < ROWS; ++m) {
            if (m >= p.M || lane != c * ROWS + m || !inside || n + c >= p.N) continue;
            float value = sum[c][m];
            if constexpr (SHARE > 1)
#pragma unroll
                for (int i = 1; i < SHARE; ++i) value += shares[warp + i][c][m];
            if (p.splits == 1) finish<ACTIVATION>(C, bias, p, m, int(n) + c, value);
            else parts[((batch * p.splits + split) * p.M + m) * p.N + n + c] = value;
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
