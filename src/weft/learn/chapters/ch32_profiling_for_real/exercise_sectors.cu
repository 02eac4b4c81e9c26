// The length of each point (x, y, z). Find with weft profile what the three loads cost.
__global__ void lengths(const float* points, float* length, int n) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= n) return;
    float x = points[3 * i], y = points[3 * i + 1], z = points[3 * i + 2];
    length[i] = sqrtf(x * x + y * y + z * z);
}
