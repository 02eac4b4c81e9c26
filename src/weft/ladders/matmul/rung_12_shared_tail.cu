// rung:   12 shared tail
// idea:   512 tiles on 132 SMs are three full waves and a last one of 116; 2,048 tiles leave half
//         of the SMs idle at the end. The tiles of the last wave are therefore split along K into
//         as many equal shares as there are SMs (stream-K, Osama and others). The block with the
//         first share of a tile adds the partial results of the others
// scratch: partial:f32[sms*32768] told:u32[sms]
// clear:  told
// expect: shared load wavefronts per request <= 2

#include <weft/problem.cuh>
#include "gemm.cuh"
#include "ragged.cuh"

using Product = Gemm<128, 256, 8, 64, 64, 8, 16, 2>;
static_assert(Product::THREADS == 256 && Product::SHARED == 24832, "as launch.py says");

// The tiles of full waves, or all where there is no full one.
__global__ void __launch_bounds__(256, 1)
    whole(const float* A, const float* B, float* C, int M, int N, int K) {
    int2 at = tile_in_bands(blockIdx.x, (M + 127) / 128, (N + 255) / 256);
    Product::write(Product::run(A, B, M, N, K, at.x * 128, at.y * 256, 0, K), C, M, N);
}

// What a block of the rest does next: a tile, and which of its steps of eight k; none if `to` is 0.
struct Turn {
    int tile, from, to;
};

// The first step of a block's share, if `steps` are shared by all blocks.
__device__ int share(int block, int steps) {
    return int(static_cast<long long>(block) * steps / gridDim.x);
}

__device__ Turn turn(int number, int tiles, int length) {
    int steps = tiles % gridDim.x * length, step = share(blockIdx.x, steps),
        end = share(blockIdx.x + 1, steps);
    for (int past = 0; past < number && step < end; ++past) step += length - step % length;
    if (step >= end) return {0, 0, 0};
    return {tiles - tiles % int(gridDim.x) + step / length, step % length,
            min(length, step % length + end - step)};
}

// Turns are found by one thread and lie in shared memory: in registers they would take those of the
// product.
__global__ void __launch_bounds__(256, 1) rest(const float* A, const float* B, float* C, int M,
                                               int N, int K, float* partial, unsigned* told) {
    __shared__ Turn now;
    float4* left = reinterpret_cast<float4*>(partial);
#pragma unroll 1
    for (int number = 0;; ++number) {
        __syncthreads();  // shared memory is free again
        if (threadIdx.x == 0) now = turn(number, (M + 127) / 128 * ((N + 255) / 256), (K + 7) / 8);
        __syncthreads();
        if (now.to == 0) return;
        int2 at = tile_in_bands(now.tile, (M + 127) / 128, (N + 255) / 256);
        Product::Sums sums =
            Product::run(A, B, M, N, K, at.x * 128, at.y * 256, now.from * 8, min(K, now.to * 8));
        float (&of)[32][4] = reinterpret_cast<float (&)[32][4]>(sums.of);
        if (now.from > 0) {  // for the block that has the beginning
            float4* mine = left + blockIdx.x * 8192 + threadIdx.x;
#pragma unroll
            for (int i = 0; i < 32; ++i)
                __stcg(mine + i * 256, make_float4(of[i][0], of[i][1], of[i][2], of[i][3]));
            __threadfence();
            __syncthreads();
            if (threadIdx.x == 0) *static_cast<volatile unsigned*>(told + blockIdx.x) = 1;
            continue;
        }
        int length = (K + 7) / 8, steps = (M + 127) / 128 * ((N + 255) / 256) % gridDim.x * length;
        for (int other = blockIdx.x + 1, had = now.to; had < length; ++other) {
            int more = share(other + 1, steps) - share(other, steps);
            if (more == 0) continue;  // more blocks than steps
            while (*static_cast<volatile unsigned*>(told + other) == 0) {}
            __threadfence();
            const float4* theirs = left + other * 8192 + threadIdx.x;
#pragma unroll
            for (int i = 0; i < 32; ++i) {
                float4 f = __ldcg(theirs + i * 256);
                of[i][0] += f.x, of[i][1] += f.y, of[i][2] += f.z, of[i][3] += f.w;
            }
            had += more;
        }
        Product::write(sums, C, M, N);
    }
}
