// Multiply a matrix by a vector: y[r] is the dot product of row r and x. One thread for each row.

__global__ void matvec(const float* A, const float* x, float* y, int h, int w) {
    int r = threadIdx.x;
    // begin
    if (r < h) {
        float sum = 0;
        for (int c = 0; c < w; c++) sum += A[r * w + c] * x[c];
        y[r] = sum;
    }
    // end
}
