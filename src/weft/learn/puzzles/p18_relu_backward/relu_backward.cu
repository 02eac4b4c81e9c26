// The gradient of a ReLU: dx[i] is dy[i] where x[i] is greater than 0, and 0 elsewhere.

__global__ void relu_backward(const float* x, const float* dy, float* dx, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    // begin
    if (i < n) dx[i] = x[i] > 0 ? dy[i] : 0;
    // end
}
