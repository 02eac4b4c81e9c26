// The softmax of each row. One warp for each row, which reads it twice (Milakov and Gimelshein).
__global__ void softmax(const float* x, float* y, int n) {
    x += blockIdx.x * n;
    y += blockIdx.x * n;
    float most = -INFINITY, sum = 0;
    for (int i = threadIdx.x; i < n; i += 32) {
        float v = x[i], larger = fmaxf(most, v);
        sum = (most == -INFINITY ? 0 : sum * expf(most - larger)) + expf(v - larger);
        most = larger;
    }
    for (int k = 16; k > 0; k /= 2) {
        float other = __shfl_xor_sync(0xffffffff, most, k);
        float more = __shfl_xor_sync(0xffffffff, sum, k);
        float larger = fmaxf(most, other);
        sum = (most == -INFINITY ? 0 : sum * expf(most - larger)) +
              (other == -INFINITY ? 0 : more * expf(other - larger));
        most = larger;
    }
    for (int i = threadIdx.x; i < n; i += 32) y[i] = expf(x[i] - most) / sum;
}
