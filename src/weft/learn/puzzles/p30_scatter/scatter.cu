// Add each value to the sum that it belongs to: y[at[i]] += x[i].

__global__ void scatter(const int* x, const int* at, int* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    // begin
    if (i < n) atomicAdd(&y[at[i]], x[i]);
    // end
}
