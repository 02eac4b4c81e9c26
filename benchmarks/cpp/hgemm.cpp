// The f16 product by plain arithmetic: a tile is widened to float as it is staged, the sums are
// floats and every product is a fused multiply-add. What a tensor core computes only roughly.
#include "half.h"

extern "C" void hgemm(int gx, int gy, const half* __restrict__ A, const half* __restrict__ Bt,
                      float* __restrict__ C, int M, int N, int K) {
    constexpr int BM = 64, BN = 64, BK = 32, WIDE = 16;
    for (int by = 0; by < gy; ++by)
        for (int bx = 0; bx < gx; ++bx) {
            float a[BM][BK], b[BK][BN], sum[BM][BN] = {};
            for (int k0 = 0; k0 < K; k0 += BK) {
                for (int r = 0; r < BM; ++r)
                    for (int k = 0; k < BK; ++k) a[r][k] = float(A[(by * BM + r) * K + k0 + k]);
                for (int c = 0; c < BN; ++c)
                    for (int k = 0; k < BK; ++k) b[k][c] = float(Bt[(bx * BN + c) * K + k0 + k]);
                for (int r = 0; r < BM; ++r)
                    for (int c = 0; c < BN; c += WIDE) {
                        float s[WIDE];
                        for (int j = 0; j < WIDE; ++j) s[j] = sum[r][c + j];
                        for (int k = 0; k < BK; ++k)
                            for (int j = 0; j < WIDE; ++j) s[j] += a[r][k] * b[k][c + j];
                        for (int j = 0; j < WIDE; ++j) sum[r][c + j] = s[j];
                    }
            }
            for (int r = 0; r < BM; ++r)
                for (int c = 0; c < BN; ++c) C[(by * BM + r) * N + bx * BN + c] = sum[r][c];
        }
}
