// rung:   00 one thread
// idea:   a kernel is a C function; one thread does all the work, as on a CPU
// expect: load sectors per request = 1
// bench:  n=2**18
// launch: vecadd<<<1, 1>>>

__global__ void vecadd(const float* a, const float* b, float* c, size_t n) {
    for (size_t i = 0; i < n; ++i) c[i] = a[i] + b[i];
}
