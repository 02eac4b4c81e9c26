// The register-blocked product: the 8 x 8 sums of a thread live across barriers in an array over
// threads and are held in registers between them.
extern "C" void sgemm_blocked(int gx, int gy, const float* __restrict__ A,
                              const float* __restrict__ B, float* __restrict__ C, int M, int N,
                              int K) {
    constexpr int BM = 128, BN = 128, BK = 8, TM = 8, TN = 8, THREADS = 256;
    static float sums[THREADS][TM][TN];
    for (int by = 0; by < gy; ++by)
        for (int bx = 0; bx < gx; ++bx) {
            float a[BM][BK], b[BK][BN];
            const float* from_a = A + by * BM * K;
            const float* from_b = B + bx * BN;
            float* to = C + by * BM * N + bx * BN;
            for (auto& thread : sums)
                for (auto& row : thread)
                    for (float& s : row) s = 0.0f;
            for (int k0 = 0; k0 < K; k0 += BK) {
                for (int r = 0; r < BM; ++r)
                    for (int k = 0; k < BK; ++k) a[r][k] = from_a[r * K + k0 + k];
                for (int k = 0; k < BK; ++k)
                    for (int c = 0; c < BN; ++c) b[k][c] = from_b[(k0 + k) * N + c];
                for (int t = 0; t < THREADS; ++t) {
                    const int tx = t % (BN / TN), ty = t / (BN / TN);
                    float sum[TM][TN];
                    for (int i = 0; i < TM; ++i)
                        for (int j = 0; j < TN; ++j) sum[i][j] = sums[t][i][j];
                    for (int k = 0; k < BK; ++k)
                        for (int i = 0; i < TM; ++i)
                            for (int j = 0; j < TN; ++j)
                                sum[i][j] += a[ty * TM + i][k] * b[k][tx * TN + j];
                    for (int i = 0; i < TM; ++i)
                        for (int j = 0; j < TN; ++j) sums[t][i][j] = sum[i][j];
                }
            }
            for (int t = 0; t < THREADS; ++t) {
                const int tx = t % (BN / TN), ty = t / (BN / TN);
                for (int i = 0; i < TM; ++i)
                    for (int j = 0; j < TN; ++j)
                        to[(ty * TM + i) * N + tx * TN + j] = sums[t][i][j];
            }
        }
}
