// rung:   03 shared
// idea:   a row of 8,192 elements fits in shared memory: one block does all passes, and global
//         memory is read and written once
// expect: bytes read per result < 24
// expect: shared store wavefronts per request > 1.9

template <int N>
__global__ void fft(const float* x, const float* w, float* y) {
    extern __shared__ float2 both[];  // two arrays of N elements: a pass reads one and writes one
    const float2* root = (const float2*)w;
    size_t row = size_t(blockIdx.x) * N;
    float2 *from = both, *to = both + N;
    for (int i = threadIdx.x; i < N; i += blockDim.x) from[i] = ((const float2*)x)[row + i];
    for (int P = 1; P < N; P *= 2) {
        __syncthreads();
        for (int j = threadIdx.x; j < N / 2; j += blockDim.x) {
            int k = j % P, at = j / P * 2 * P + k;
            float2 a = from[j], v = from[j + N / 2], r = root[k * (N / 2 / P)];
            float2 b = {v.x * r.x - v.y * r.y, v.x * r.y + v.y * r.x};
            to[at] = {a.x + b.x, a.y + b.y};
            to[at + P] = {a.x - b.x, a.y - b.y};
        }
        float2* last = from;
        from = to, to = last;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < N; i += blockDim.x) ((float2*)y)[row + i] = from[i];
}
