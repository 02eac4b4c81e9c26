// Multiply two matrices: C[r, c] is the dot product of row r of A and column c of B.

__global__ void matmul(const float* A, const float* B, float* C, int m, int n, int k) {
    int c = threadIdx.x, r = threadIdx.y;
    // begin
    if (r < m && c < n) {
        float sum = 0;
        for (int j = 0; j < k; j++) sum += A[r * k + j] * B[j * n + c];
        C[r * n + c] = sum;
    }
    // end
}
