// rung:   02 grid
// idea:   a block runs on one SM, so one block uses one of them; one thread per element keeps all
//         of them busy
// expect: load sectors per request <= 4
// launch: vecadd<<<cdiv(n, 256), 256>>>

__global__ void vecadd(const float* a, const float* b, float* c, size_t n) {
    size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
