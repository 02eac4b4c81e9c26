// counts[v] is how often the value v occurs in x. It starts as zeros.
// At most 4 blocks are launched.
__global__ void histogram(const unsigned char* x, int* counts, int n) {
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256)
        atomicAdd(&counts[x[i]], 1);
}
