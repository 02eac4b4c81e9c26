// rung:   00 hillis steele
// idea:   one block; in step d every element adds the element d places before it: log2 steps over
//         all elements of a tile, n·log2(n) additions
// bench:  n=2**22
// launch: scan<<<1, 1024>>>

__global__ void scan(const float* x, float* y, size_t n) {
    __shared__ float now[1024], next[1024];
    float before = 0;  // the sum of all tiles so far
    for (size_t start = 0; start < n; start += 1024) {
        size_t i = start + threadIdx.x;
        now[threadIdx.x] = i < n ? x[i] : 0;
        __syncthreads();
        for (int d = 1; d < 1024; d *= 2) {
            next[threadIdx.x] = now[threadIdx.x] + (threadIdx.x >= d ? now[threadIdx.x - d] : 0);
            __syncthreads();
            now[threadIdx.x] = next[threadIdx.x];
            __syncthreads();
        }
        if (i < n) y[i] = before + now[threadIdx.x];
        before += now[1023];
        __syncthreads();
    }
}
