// Fragments of tiles whose rows are pixels, for float16, bfloat16 and tf32.
#pragma once
#include <weft/convert.cuh>
#include <weft/mma.cuh>

using namespace weft;

// Fragments of a tile whose rows are steps along K, PITCH elements apart: COUNT of A with 16 rows
// each, or pairs of B.
template <class T, int PITCH, int COUNT>
__device__ void load_channels(unsigned (*to)[4], const T* tile, bool pairs) {
    int lane = threadIdx.x % 32;
    if constexpr (sizeof(T) == 2) {
        // A has the matrices (channels, pixels) 00 10 01 11, a pair of B has 00 01 10 11.
        int k = pairs ? lane / 8 % 2 : lane / 16, c = pairs ? lane / 16 : lane / 8 % 2;
        unsigned from = shared_address(tile + (k * 8 + lane % 8) * PITCH + c * 8);
#pragma unroll
        for (int i = 0; i < COUNT; ++i) load_matrices_x4<true>(to[i], from + i * 16 * sizeof(T));
    } else {
        int g = lane / 4, t = lane % 4;
#pragma unroll
        for (int i = 0; i < COUNT; ++i)
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                int k = pairs ? e % 2 : e / 2, c = pairs ? e / 2 : e % 2;
                to[i][e] = __float_as_uint(tile[(k * 4 + t) * PITCH + i * 16 + c * 8 + g]);
            }
    }
}
