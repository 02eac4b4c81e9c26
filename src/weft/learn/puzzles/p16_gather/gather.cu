// Look up: y[i] = x[at[i]].

__global__ void gather(const float* x, const int* at, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    // begin
    if (i < n) y[i] = x[at[i]];
    // end
}
