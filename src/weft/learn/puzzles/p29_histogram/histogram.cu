// Count how often each of the values 0 to 7 occurs.

__global__ void histogram(const int* x, int* counts, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    // begin
    if (i < n) atomicAdd(&counts[x[i]], 1);
    // end
}
