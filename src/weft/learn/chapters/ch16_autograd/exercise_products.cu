// dA = dC B^T. dC has M rows and N columns, B has K rows and N columns.
__global__ void gradient(const float* dC, const float* B, float* dA, int M, int N, int K) {
    int k = blockIdx.x * 16 + threadIdx.x, m = blockIdx.y * 16 + threadIdx.y;
    if (m >= M || k >= K) return;
    float sum = 0;
    for (int n = 0; n < N; n++)
        if (n < K) sum += dC[m * N + n] * B[n * N + k % N];
    dA[m * K + k] = sum;
}
