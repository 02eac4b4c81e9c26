// C = A B in float32, from the first version to asynchronous copies; row-major, any M, N, K.
#include <cuda_pipeline.h>

__global__ void naive(const float* A, const float* B, float* C, int M, int N, int K) {
    int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= M || col >= N) return;
    float sum = 0.f;
    for (int k = 0; k < K; k++) sum += A[row * K + k] * B[k * N + col];
    C[row * N + col] = sum;
}

template <int TILE>
__global__ void tiled(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float a[TILE][TILE], b[TILE][TILE + 1];
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * TILE + ty, col = blockIdx.x * TILE + tx;
    float sum = 0.f;
    for (int k0 = 0; k0 < K; k0 += TILE) {
        a[ty][tx] = row < M && k0 + tx < K ? A[row * K + k0 + tx] : 0.f;
        b[ty][tx] = k0 + ty < K && col < N ? B[(k0 + ty) * N + col] : 0.f;
        __syncthreads();
#pragma unroll
        for (int k = 0; k < TILE; k++) sum += a[ty][k] * b[k][tx];
        __syncthreads();
    }
    if (row < M && col < N) C[row * N + col] = sum;
}

// 64 x 64 tile a block of 64 threads, 8 x 8 results a thread.
__global__ void __launch_bounds__(64)
blocked(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float a[8][64], b[8][64];
    int t = threadIdx.x, r0 = blockIdx.y * 64, c0 = blockIdx.x * 64;
    int tr = t / 8 * 8, tc = t % 8 * 8;
    float sum[8][8] = {};
    for (int k0 = 0; k0 < K; k0 += 8) {
        for (int i = t; i < 512; i += 64) {
            int r = i / 8, k = i % 8;
            a[k][r] = r0 + r < M && k0 + k < K ? A[(r0 + r) * K + k0 + k] : 0.f;
            int kb = i / 64, c = i % 64;
            b[kb][c] = k0 + kb < K && c0 + c < N ? B[(k0 + kb) * N + c0 + c] : 0.f;
        }
        __syncthreads();
        for (int k = 0; k < 8; k++) {
            float x[8], y[8];
            for (int i = 0; i < 8; i++) x[i] = a[k][tr + i], y[i] = b[k][tc + i];
            for (int i = 0; i < 8; i++)
                for (int j = 0; j < 8; j++) sum[i][j] += x[i] * y[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++)
            if (r0 + tr + i < M && c0 + tc + j < N) C[(r0 + tr + i) * N + c0 + tc + j] = sum[i][j];
}

// 32 x 32 tile a block of 64 threads; the next K slice is on its way while this one is used.
// K and N are multiples of 4 (16-byte copies).
__global__ void __launch_bounds__(64)
pipelined(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ __align__(16) float a[2][32][16], b[2][16][32];
    int t = threadIdx.x, r0 = blockIdx.y * 32, c0 = blockIdx.x * 32;
    int tr = t / 8 * 4, tc = t % 8 * 4, slices = (K + 15) / 16;
    float sum[4][4] = {};
    auto fetch = [&](int slice) {
        int k0 = slice * 16, s = slice % 2;
        for (int i = t; i < 128; i += 64) {
            int r = i / 4, k = i % 4 * 4;
            bool in = r0 + r < M && k0 + k < K;
            __pipeline_memcpy_async(&a[s][r][k], in ? &A[(r0 + r) * K + k0 + k] : A, 16,
                                    in ? 0 : 16);
            int kb = i / 8, c = i % 8 * 4;
            in = k0 + kb < K && c0 + c < N;
            __pipeline_memcpy_async(&b[s][kb][c], in ? &B[(k0 + kb) * N + c0 + c] : B, 16,
                                    in ? 0 : 16);
        }
        __pipeline_commit();
    };
    fetch(0);
    for (int slice = 0; slice < slices; slice++) {
        if (slice + 1 < slices) fetch(slice + 1);
        else __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();
        int s = slice % 2;
        for (int k = 0; k < 16; k++)
            for (int i = 0; i < 4; i++)
                for (int j = 0; j < 4; j++) sum[i][j] += a[s][tr + i][k] * b[s][k][tc + j];
        __syncthreads();
    }
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++)
            if (r0 + tr + i < M && c0 + tc + j < N) C[(r0 + tr + i) * N + c0 + tc + j] = sum[i][j];
}

// float4 loads; M and N multiples of 64, K of 16: the shape of many published kernels.
__global__ void __launch_bounds__(256)
vectorised(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, int M,
           int N, int K, float alpha, float beta) {
    __shared__ float a[16 * 64], b[16 * 64];
    int t = threadIdx.x, tr = t / 16 * 4, tc = t % 16 * 4;
    A += blockIdx.y * 64 * K, B += blockIdx.x * 64, C += blockIdx.y * 64 * N + blockIdx.x * 64;
    float sum[4][4] = {};
    for (int k0 = 0; k0 < K; k0 += 16) {
        float4 x = reinterpret_cast<const float4*>(&A[t / 4 * K + t % 4 * 4])[0];
        int k = t % 4 * 4, r = t / 4;
        a[(k + 0) * 64 + r] = x.x, a[(k + 1) * 64 + r] = x.y;
        a[(k + 2) * 64 + r] = x.z, a[(k + 3) * 64 + r] = x.w;
        reinterpret_cast<float4*>(b)[t] = reinterpret_cast<const float4*>(&B[t / 16 * N])[t % 16];
        __syncthreads();
        A += 16, B += 16 * N;
        for (int i = 0; i < 16; i++) {
            float4 p = *(float4*)&a[i * 64 + tr], q = *(float4*)&b[i * 64 + tc];
            float ps[4] = {p.x, p.y, p.z, p.w}, qs[4] = {q.x, q.y, q.z, q.w};
            for (int m = 0; m < 4; m++)
                for (int n = 0; n < 4; n++) sum[m][n] += ps[m] * qs[n];
        }
        __syncthreads();
    }
    for (int m = 0; m < 4; m++) {
        float4* at = (float4*)&C[(tr + m) * N + tc];
        float4 c = *at;
        c.x = alpha * sum[m][0] + beta * c.x, c.y = alpha * sum[m][1] + beta * c.y;
        c.z = alpha * sum[m][2] + beta * c.z, c.w = alpha * sum[m][3] + beta * c.w;
        *at = c;
    }
}
