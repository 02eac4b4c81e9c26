// rung:   00 one block
// idea:   a tree over pairs of value and index in shared memory; one block processes all elements
// bench:  n=2**22
// launch: argmax<<<1, 256>>>

__device__ bool better(float a, long long i, float b, long long k) {
    if (a != a || b != b) return a != a && (b == b || i < k);
    return a > b || (a == b && i < k);
}

__global__ void argmax(const float* x, long long* y, size_t n) {
    __shared__ float value[256];
    __shared__ long long place[256];
    float best = __int_as_float(0xff800000);
    long long at = 0x7fffffffffffffffLL;
    for (size_t i = threadIdx.x; i < n; i += 256)
        if (better(x[i], i, best, at)) best = x[i], at = i;
    value[threadIdx.x] = best, place[threadIdx.x] = at;
    __syncthreads();
    for (int d = 128; d > 0; d /= 2) {
        if (threadIdx.x < d && better(value[threadIdx.x + d], place[threadIdx.x + d],
                                      value[threadIdx.x], place[threadIdx.x]))
            value[threadIdx.x] = value[threadIdx.x + d],
            place[threadIdx.x] = place[threadIdx.x + d];
        __syncthreads();
    }
    if (threadIdx.x == 0) *y = place[0];
}
