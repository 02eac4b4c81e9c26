// counts[v] is how often the value v occurs in x. It starts as zeros.
__global__ void histogram(const unsigned char* x, int* counts, int n) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) atomicAdd(&counts[x[i]], 1);
}
