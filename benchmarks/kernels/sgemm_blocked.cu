// C = A B, a block makes 128 x 128 elements and a thread 8 x 8 of them in registers.
// M, N multiples of 128, K of 8.
// block: 256
constexpr int BM = 128, BN = 128, BK = 8, TM = 8, TN = 8, THREADS = 256;

extern "C" __global__ void __launch_bounds__(THREADS)
sgemm_blocked(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
              int M, int N, int K) {
    __shared__ float a[BM][BK], b[BK][BN];
    int tx = threadIdx.x % (BN / TN), ty = threadIdx.x / (BN / TN);
    int a_row = threadIdx.x / BK, a_col = threadIdx.x % BK;
    int b_row = threadIdx.x / BN, b_col = threadIdx.x % BN;
    A += blockIdx.y * BM * K;
    B += blockIdx.x * BN;
    C += blockIdx.y * BM * N + blockIdx.x * BN;
    float sum[TM][TN] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        for (int r = a_row; r < BM; r += THREADS / BK) a[r][a_col] = A[r * K + k0 + a_col];
        for (int r = b_row; r < BK; r += THREADS / BN) b[r][b_col] = B[(k0 + r) * N + b_col];
        __syncthreads();
        for (int k = 0; k < BK; ++k) {
            float x[TM], y[TN];
            for (int i = 0; i < TM; ++i) x[i] = a[ty * TM + i][k];
            for (int j = 0; j < TN; ++j) y[j] = b[k][tx * TN + j];
            for (int i = 0; i < TM; ++i)
                for (int j = 0; j < TN; ++j) sum[i][j] += x[i] * y[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < TM; ++i)
        for (int j = 0; j < TN; ++j) C[(ty * TM + i) * N + tx * TN + j] = sum[i][j];
}
