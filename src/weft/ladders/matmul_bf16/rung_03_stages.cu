// rung:   03 stages
// idea:   cp.async copies the tiles of the next three steps while this one is multiplied, without
//         registers; one barrier per step instead of two
// precision: bf16
// expect: shared load wavefronts per request >= 8
// launch: matmul<<<(cdiv(N, 128), cdiv(M, 128)), 256, 65536>>>

#include "fragments.cuh"

constexpr int STAGES = 4, STAGE = 2 * 128 * 32;

__global__ void __launch_bounds__(256) matmul(const T* A, const T* B, T* C, int M, int N, int K) {
    extern __shared__ __align__(16) T memory[];
    int row = blockIdx.y * 128, column = blockIdx.x * 128, steps = (K + 31) / 32;
    auto fetch = [&](int step) {
        T *as = memory + step % STAGES * STAGE, *bs = as + 128 * 32;
        for (int c = threadIdx.x; c < 512; c += 256) {
            int m = c / 4, k = step * 32 + c % 4 * 8, kb = step * 32 + c / 16, n = c % 16 * 8;
            bool in_a = row + m < M && k < K, in_b = kb < K && column + n < N;
            weft::copy_async<16>(as + m * 32 + c % 4 * 8, in_a ? A + size_t(row + m) * K + k : A,
                                 in_a);
            weft::copy_async<16>(bs + c / 16 * 128 + n, in_b ? B + size_t(kb) * N + column + n : B,
                                 in_b);
        }
        weft::commit_copies();
    };
    Warp<32, 128> warp;
    for (int s = 0; s < STAGES - 1; ++s) fetch(s);
    for (int step = 0; step < steps; ++step) {
        weft::wait_copies<STAGES - 2>();
        __syncthreads();
        fetch(step + STAGES - 1);
        const T* as = memory + step % STAGES * STAGE;
        warp.add(as, as + 128 * 32);
    }
    weft::wait_all_copies();
    warp.write(C, row, column, M, N);
}
