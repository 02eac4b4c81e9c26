// The sum of each row of 32 elements, one row for each thread. The tile is loaded row by row, so
// that the loads are coalesced. Find with weft profile what the sum costs.
__global__ void row_sums(const float* x, float* sums, int rows) {
    __shared__ float tile[32][32];
    int t = threadIdx.x, first = 32 * blockIdx.x;
    for (int r = 0; r < 32; r++)
        if (first + r < rows) tile[r][t] = x[(first + r) * 32 + t];
    __syncwarp();
    if (first + t >= rows) return;
    float sum = 0;
    for (int k = 0; k < 32; k++) sum += tile[t][k];
    sums[first + t] = sum;
}
