// dx = dy times the derivative of x sigmoid(x).
__global__ void silu_backward(const float* x, const float* dy, float* dx, int n) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= n) return;
    float s = 1 / (1 + expf(-x[i]));
    dx[i] = dy[i] * (s + x[i] * s * (1 - s));
}
