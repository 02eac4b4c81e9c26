// y = relu(C + bias). `t` is room for m n numbers.
__global__ void add_bias(const float* C, const float* bias, float* t, int m, int n) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < m * n) t[i] = C[i] + bias[i % n];
}

__global__ void relu(const float* t, float* y, int m, int n) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < m * n) y[i] = t[i] < 0 ? 0 : t[i];
}
