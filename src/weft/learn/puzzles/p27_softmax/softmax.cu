// Compute the softmax of each row; large elements must not overflow.

__global__ void softmax(const float* x, float* y, int h, int w) {
    int r = threadIdx.x;
    // begin
    if (r < h) {
        const float* row = x + r * w;
        float most = row[0], sum = 0;
        for (int c = 1; c < w; c++) most = fmaxf(most, row[c]);
        for (int c = 0; c < w; c++) sum += expf(row[c] - most);
        for (int c = 0; c < w; c++) y[r * w + c] = expf(row[c] - most) / sum;
    }
    // end
}
