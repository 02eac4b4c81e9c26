// The lengths of n points. The coordinates of a point are adjacent: x, y, z, x, y, z, ...
__global__ void lengths(const float* p, float* length, int n) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= n) return;
    float x = p[3 * i], y = p[3 * i + 1], z = p[3 * i + 2];
    length[i] = sqrtf(x * x + y * y + z * z);
}
