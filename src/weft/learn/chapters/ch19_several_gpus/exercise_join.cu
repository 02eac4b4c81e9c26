// a and b are softmax-weighted means over two sets of keys, la and lb the logarithms of their sums.
__global__ void join(const float* a, const float* la, const float* b, const float* lb, float* out,
                     int d) {
    int row = blockIdx.x;
    for (int i = threadIdx.x; i < d; i += 64)
        out[row * d + i] = (a[row * d + i] + b[row * d + i]) / 2;
}
