// A product of an int8 matrix and a vector. Weights become floats in registers only.
__global__ void gemv(const signed char* q, const float* scale, const float* x, float* y, int rows,
                     int k) {
    int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    const char4* weights = reinterpret_cast<const char4*>(q + row * k);
    const float4* inputs = reinterpret_cast<const float4*>(x);
    float sum = 0;
    for (int i = lane; i < k / 4; i += 32) {
        char4 w = weights[i];
        float4 v = inputs[i];
        sum += w.x * v.x + w.y * v.y + w.z * v.z + w.w * v.w;
    }
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffff, sum, step);
    // The scale of a row is a factor of the whole sum.
    if (lane == 0) y[row] = scale[row] * sum;
}
