// C = A Bt in f16 with f32 sums on tensor cores: a block makes 64 x 64, a warp 32 x 32 of them by
// mma.sync.m16n8k16. Rows of A and of Bt run along K. M, N multiples of 64, K of 32.
// block: 128
#include <cuda_fp16.h>

constexpr int BM = 64, BN = 64, BK = 32, PAD = 8, THREADS = 128;

__device__ void mma(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ unsigned pair(const half* p) { return *reinterpret_cast<const unsigned*>(p); }

// Copies a tile of 64 rows of BK halves, 16 bytes a thread at a time.
__device__ void stage(half (&to)[BM][BK + PAD], const half* from, int K) {
    for (int c = threadIdx.x; c < BM * BK / 8; c += THREADS) {
        int row = c / (BK / 8), col = c % (BK / 8) * 8;
        *reinterpret_cast<uint4*>(&to[row][col]) =
            *reinterpret_cast<const uint4*>(from + row * K + col);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
hgemm(const half* __restrict__ A, const half* __restrict__ Bt, float* __restrict__ C, int M, int N,
      int K) {
    __shared__ __align__(16) half a[BM][BK + PAD], b[BN][BK + PAD];
    int warp = threadIdx.x / 32, group = threadIdx.x % 32 / 4, quad = threadIdx.x % 4 * 2;
    int row = warp / 2 * 32, col = warp % 2 * 32;
    A += blockIdx.y * BM * K;
    Bt += blockIdx.x * BN * K;
    C += blockIdx.y * BM * N + blockIdx.x * BN;
    float sum[2][4][4] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        stage(a, A + k0, K);
        stage(b, Bt + k0, K);
        __syncthreads();
        for (int k = quad; k < BK; k += 16) {
            unsigned x[2][4], y[4][2];
            for (int i = 0; i < 2; ++i)
                for (int p = 0; p < 4; ++p)
                    x[i][p] = pair(&a[row + i * 16 + group + p % 2 * 8][k + p / 2 * 8]);
            for (int j = 0; j < 4; ++j)
                for (int p = 0; p < 2; ++p) y[j][p] = pair(&b[col + j * 8 + group][k + p * 8]);
            for (int i = 0; i < 2; ++i)
                for (int j = 0; j < 4; ++j) mma(sum[i][j], x[i], y[j]);
        }
        __syncthreads();
    }
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 4; ++j)
            for (int p = 0; p < 2; ++p) {
                float* to = C + (row + i * 16 + group + p * 8) * N + col + j * 8 + quad;
                to[0] = sum[i][j][p * 2];
                to[1] = sum[i][j][p * 2 + 1];
            }
}
