#ifndef FACTOR
#error "extra_cuda_cflags were lost"
#endif

__global__ void scale(float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= FACTOR;
}
__global__ void beyond(float *x, int n) { x[n] = 1; }

void double_all(float *x, int n) { scale<<<(n + 127) / 128, 128>>>(x, n); }
void write_beyond(float *x, int n) { beyond<<<1, 1>>>(x, n); }
int last_error() { return cudaGetLastError(); }
