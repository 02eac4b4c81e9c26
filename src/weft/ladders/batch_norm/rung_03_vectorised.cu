// rung:   03 vectorised
// idea:   16 bytes at a time, four loads under way in each thread, and no divisions on the way. The
//         last block of a channel joins the moments; results are written by many short blocks.
//         These are the kernels of weft.ops.batch_norm
// expect: store sectors per request >= 12
// scratch: found:f32[3*C*cdiv(4*sms,C)] counters:i32[C] mean:f32[C] var:f32[C]

#include "../../ops/families/norm/cuda/batch_norm.cuh"

template <int V>
__device__ ChannelShape shape(int N, int C, int S) {
    int parts = gridDim.x / C, count = N * (S / V);
    return {C, S / V, count, 1, parts, (count + parts - 1) / parts};
}

template <int V>
__global__ void __launch_bounds__(256)
    statistics(const float* x, float* mean, float* var, float* found, int* counters, int N, int C,
               int S) {
    channel_statistics<float, Walk<V, false>>(x, mean, var, reinterpret_cast<Moments*>(found),
                                              counters, shape<V>(N, C, S), float(N) * S);
}

template <int V>
__global__ void __launch_bounds__(256)
    write(const float* x, const float* w, const float* b, float* y, float* mean, float* var, int N,
          int C, int S) {
    channel_norm<float, float, float, Walk<V, false>>(x, mean, var, w, b, y, shape<V>(N, C, S),
                                                      1e-5f);
}
