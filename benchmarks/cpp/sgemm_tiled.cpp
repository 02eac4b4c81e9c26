// The tiled product: one loop over the block's threads between two barriers. The sums live across
// barriers, so they are an array over threads.
extern "C" void sgemm_tiled(int gx, int gy, const float* __restrict__ A,
                            const float* __restrict__ B, float* __restrict__ C, int M, int N,
                            int K) {
    constexpr int T = 16;
    for (int by = 0; by < gy; ++by)
        for (int bx = 0; bx < gx; ++bx) {
            float a[T][T], b[T][T], sum[T][T] = {};
            const int row = by * T, col = bx * T;
            for (int k0 = 0; k0 < K; k0 += T) {
                for (int ty = 0; ty < T; ++ty)
                    for (int tx = 0; tx < T; ++tx) {
                        a[ty][tx] =
                            row + ty < M && k0 + tx < K ? A[(row + ty) * K + k0 + tx] : 0.0f;
                        b[ty][tx] =
                            k0 + ty < K && col + tx < N ? B[(k0 + ty) * N + col + tx] : 0.0f;
                    }
                for (int ty = 0; ty < T; ++ty) {
                    float row_sum[T];
                    for (int tx = 0; tx < T; ++tx) row_sum[tx] = sum[ty][tx];
                    for (int k = 0; k < T; ++k)
                        for (int tx = 0; tx < T; ++tx) row_sum[tx] += a[ty][k] * b[k][tx];
                    for (int tx = 0; tx < T; ++tx) sum[ty][tx] = row_sum[tx];
                }
            }
            for (int ty = 0; ty < T; ++ty)
                for (int tx = 0; tx < T; ++tx)
                    if (row + ty < M && col + tx < N) C[(row + ty) * N + col + tx] = sum[ty][tx];
        }
}
