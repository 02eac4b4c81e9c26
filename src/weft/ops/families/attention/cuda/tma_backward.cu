// The kernels of attention's gradients by TMA, for f16 and bf16 on Hopper.
#include "tma_backward.cuh"

template <class T, int HEAD, int BS>
__global__ void __launch_bounds__(256)
    prepare(const T* o, const T* dout, const float* lse, const float* dlse, float* rows,
            unsigned* done, const __grid_constant__ Problem p, const __grid_constant__ Gradients g,
            const __grid_constant__ Streamed streamed) {
    start_next_kernel();
    prepare_rows<T, HEAD, BS>(o, dout, lse, dlse, rows, done, p, g, streamed);
}

template <class T, int HEAD, int BS, int QUERIES, int DOUTS, int BLOCKS, int SCORES, int SUMS>
__global__ void __launch_bounds__(384, 1)
    gradients(const __grid_constant__ TensorMap q, const __grid_constant__ TensorMap k,
              const __grid_constant__ TensorMap v, const __grid_constant__ TensorMap dout,
              const __grid_constant__ TensorMap rows, const __grid_constant__ TensorMap sums,
              const __grid_constant__ TensorMap dq, T* dk, T* dv, unsigned* done, int* counters,
              const __grid_constant__ Problem p, const __grid_constant__ Gradients g,
              const __grid_constant__ Streamed streamed) {
    stream_queries<T, HEAD, BS, QUERIES, DOUTS, BLOCKS, SCORES, SUMS>(
        q, k, v, dout, rows, sums, dq, dk, dv, done, counters, p, g, streamed);
}

template <class T, int HEAD, int BS>
__global__ void __launch_bounds__(256)
    finish(const float* sums, T* dq, const __grid_constant__ Problem p,
           const __grid_constant__ Gradients g, const __grid_constant__ Streamed streamed) {
    wait_for_kernels();
    round_sums<T, HEAD, BS>(sums, dq, p, g, streamed);
}
