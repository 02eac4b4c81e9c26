// rung:   03 grid stride
// idea:   as many blocks as the GPU holds at once, and each continues with the next piece: no block
//         starts late, and any n works with any grid
// expect: load sectors per request <= 4
// launch: vecadd<<<min(cdiv(n, 256), 8 * sms), 256>>>

__global__ void vecadd(const float* a, const float* b, float* c, size_t n) {
    size_t step = size_t(gridDim.x) * blockDim.x;
    for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step)
        c[i] = a[i] + b[i];
}
