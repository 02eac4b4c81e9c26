// rung:   01 one block
// idea:   the 1,024 threads of a block share the elements; adjacent threads access adjacent
//         elements, so the 32 loads of a warp are one request of four 32-byte sectors
// expect: load sectors per request <= 4
// bench:  n=2**24
// launch: vecadd<<<1, 1024>>>

__global__ void vecadd(const float* a, const float* b, float* c, size_t n) {
    for (size_t i = threadIdx.x; i < n; i += blockDim.x) c[i] = a[i] + b[i];
}
