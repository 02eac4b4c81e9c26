// rung:   12 shared tail
// idea:   512 tiles on 132 SMs are three full waves and a last one that leaves SMs idle; 2,048 tiles leave
//         half of them. So the tiles of the last wave are cut along K into as many equal shares as
//         there are SMs (stream-K, Osama and others). Who has the beginning of a tile adds what
//         the others have left in memory
// scratch: partial:f32[sms*32768] told:u32[sms]
// clear:  told
// expect: shared load wavefronts per request = 2
// launch: matmul<<<sms if (N % 4 == 0) * (K % 4 == 0) else 0, 256, 24832>>>
// launch: ragged<<<(cdiv(N, 128), cdiv(M, 128)) if (N % 4 > 0) + (K % 4 > 0) else 0, 256>>>

#include "bands.cuh"
#include "gemm.cuh"
#include "ragged.cuh"

using Tile = Gemm<128, 256, 8, 64, 64, 8, 16, 2>;
static_assert(Tile::THREADS == 256 && Tile::SHARED == 24832, "as the launch says");

// The first step of a block's share, if `steps` are shared by all blocks.
__device__ long long share(int block, long long steps) { return block * steps / gridDim.x; }

__global__ void __launch_bounds__(256, 1) matmul(const float* A, const float* B, float* C, int M, int N, int K,
                                                 float* partial, unsigned* told) {
    int down = (M + 127) / 128, across = (N + 255) / 256, tiles = down * across;
    int length = (K + 7) / 8, waves = tiles / gridDim.x, me = blockIdx.x;  // of a tile in steps of 8
    long long steps = static_cast<long long>(tiles - waves * int(gridDim.x)) * length;
    float4* left = reinterpret_cast<float4*>(partial);
    long long step = share(me, steps), end = share(me + 1, steps);
    for (int wave = 0; wave < waves || step < end; ++wave) {
        int id, from = 0, to = length;
        if (wave < waves) {
            id = wave * gridDim.x + me;
        } else {
            id = waves * gridDim.x + int(step / length);
            from = int(step % length), to = int(min(static_cast<long long>(length), from + end - step));
            step += to - from;
        }
        int2 at = in_bands(id, down, across);
        Tile::Sums sums = Tile::run(A, B, M, N, K, at.x * 128, at.y * 256, from * 8, min(K, to * 8));
        if (from > 0) {  // for the block that has the beginning
            float4* mine = left + me * 8192 + threadIdx.x;
            sums.each([&](int, int, int place, const float* v) {
                __stcg(mine + place * 256, make_float4(v[0], v[1], v[2], v[3]));
            });
            __threadfence();
            __syncthreads();
            if (threadIdx.x == 0) *static_cast<volatile unsigned*>(told + me) = 1;
            continue;
        }
        for (int other = me + 1, had = to; had < length; ++other) {
            int more = int(share(other + 1, steps) - share(other, steps));
            if (more == 0) continue;  // more blocks than steps
            if (threadIdx.x == 0)
                while (*static_cast<volatile unsigned*>(told + other) == 0) {}
            __syncthreads();
            const float4* theirs = left + other * 8192 + threadIdx.x;
            sums.each([&](int, int, int place, float* v) {
                float4 f = __ldcg(theirs + place * 256);
                v[0] += f.x, v[1] += f.y, v[2] += f.z, v[3] += f.w;
            });
            had += more;
        }
        sums.write(C, M, N);
        __syncthreads();  // shared memory is free for the next tile
    }
}
