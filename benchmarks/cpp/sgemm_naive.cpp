// The naive product: blocks, then rows of threads; a row of 32 threads keeps its sums in an array.
extern "C" void sgemm_naive(int gx, int gy, const float* __restrict__ A,
                            const float* __restrict__ B, float* __restrict__ C, int M, int N,
                            int K) {
    constexpr int BX = 32, BY = 8;
    for (int by = 0; by < gy; ++by)
        for (int bx = 0; bx < gx; ++bx)
            for (int ty = 0; ty < BY; ++ty) {
                const int row = by * BY + ty, col = bx * BX;
                if (row >= M || col >= N) continue;
                const int width = N - col < BX ? N - col : BX;
                float sum[BX] = {};
                if (width == BX) {
                    for (int k = 0; k < K; ++k)
#pragma GCC unroll 32  // keeps the sums in registers
                        for (int tx = 0; tx < BX; ++tx)
                            sum[tx] += A[row * K + k] * B[k * N + col + tx];
                } else {
                    for (int k = 0; k < K; ++k)
                        for (int tx = 0; tx < width; ++tx)
                            sum[tx] += A[row * K + k] * B[k * N + col + tx];
                }
                for (int tx = 0; tx < width; ++tx) C[row * N + col + tx] = sum[tx];
            }
}
