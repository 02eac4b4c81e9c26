// rung:   01 blelloch
// idea:   up a tree of sums and down again: 2·n additions instead of n·log2(n); but half of the
//         threads are idle at every level
// bench:  n=2**22
// launch: scan<<<1, 1024>>>

__global__ void scan(const float* x, float* y, size_t n) {
    __shared__ float t[2048];
    float before = 0;
    for (size_t start = 0; start < n; start += 2048) {
        float mine[2];
        for (int k = 0; k < 2; ++k) {
            size_t i = start + threadIdx.x + 1024 * k;
            mine[k] = t[threadIdx.x + 1024 * k] = i < n ? x[i] : 0;
        }
        for (int d = 1; d < 2048; d *= 2) {
            __syncthreads();
            int k = (threadIdx.x + 1) * 2 * d - 1;
            if (k < 2048) t[k] += t[k - d];
        }
        __syncthreads();
        float total = t[2047];
        __syncthreads();
        if (threadIdx.x == 0) t[2047] = 0;
        for (int d = 1024; d > 0; d /= 2) {
            __syncthreads();
            int k = (threadIdx.x + 1) * 2 * d - 1;
            if (k < 2048) {
                float left = t[k - d];
                t[k - d] = t[k];
                t[k] += left;
            }
        }
        __syncthreads();
        for (int k = 0; k < 2; ++k) {
            size_t i = start + threadIdx.x + 1024 * k;
            if (i < n) y[i] = before + t[threadIdx.x + 1024 * k] + mine[k];
        }
        before += total;
        __syncthreads();
    }
}
