// rung:   02 parts
// idea:   several blocks for each channel, so that few channels fill the GPU as well: one kernel
//         for the moments of parts, and one that joins them and writes
// scratch: found:f32[3*C*cdiv(8*sms,C)]
// launch: parts<<<C * cdiv(8 * sms, C), 256>>>
// launch: finish<<<C * cdiv(8 * sms, C), 256>>>

#include "../../ops/families/norm/cuda/moments.cuh"

struct Part {
    int c, part, parts, begin, end, C, S;
    __device__ Part(int N, int C, int S) : C(C), S(S) {
        parts = gridDim.x / C, c = blockIdx.x % C, part = blockIdx.x / C;
        int each = (N * S + parts - 1) / parts;
        begin = part * each, end = min(N * S, begin + each);
    }
    __device__ size_t at(int i) const { return (size_t(i / S) * C + c) * S + i % S; }
};

__global__ void __launch_bounds__(256) parts(const float* x, float* found, int N, int C, int S) {
    Part p(N, C, S);
    Moments all;
    for (int i = p.begin + threadIdx.x; i < p.end; i += 256) all.add(1, x[p.at(i)], 0);
    all = block_moments<256>(all);
    if (threadIdx.x == 0) reinterpret_cast<Moments*>(found)[p.c * p.parts + p.part] = all;
}

__global__ void __launch_bounds__(256) finish(const float* x, const float* w, const float* b,
                                              float* y, float* found, int N, int C, int S) {
    Part p(N, C, S);
    Moments all;
    for (int i = threadIdx.x; i < p.parts; i += 256)
        all.add(reinterpret_cast<Moments*>(found)[p.c * p.parts + i]);
    all = block_moments<256>(all);
    float scale = rsqrtf(all.squares / N / S + 1e-5f);
    for (int i = p.begin + threadIdx.x; i < p.end; i += 256)
        y[p.at(i)] = (x[p.at(i)] - all.mean) * scale * w[p.c] + b[p.c];
}
