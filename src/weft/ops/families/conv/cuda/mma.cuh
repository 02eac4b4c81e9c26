// Fragments of tiles in shared memory, for float16, bfloat16 and tf32.
#pragma once
#include <weft/convert.cuh>
#include <weft/mma.cuh>

using namespace weft;

// This lane's place in fragments of a tile whose rows of BYTES bytes run along K, swizzled: of A
// with 16 rows each, or with PAIRS of pairs of B.
template <int BYTES, bool PAIRS>
struct FragmentRows {
    int row, vector;

    // Fragments from row `first` on.
    __device__ explicit FragmentRows(int first) {
        int lane = threadIdx.x % 32;
        row = first + (PAIRS ? lane % 8 + lane / 16 * 8 : lane % 16);
        vector = PAIRS ? lane / 8 % 2 : lane / 16;
        __builtin_assume(row >= 0);  // a remainder is then one instruction
    }
    // Loads COUNT fragments of a slice of 32 bytes, `down` rows further down.
    template <int COUNT>
    __device__ void load(unsigned (&to)[COUNT][4], unsigned tile, int slice, int down = 0) const {
#pragma unroll
        for (int i = 0; i < COUNT; ++i)
            load_matrices_x4(to[i], tile + swizzle<BYTES>(row + down + i * 16, slice * 2 + vector));
    }
};

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

// Calls f(row, column, result, next result) for each two neighbours of a warp's results.
template <int DOWN, int ACROSS, class Function>
__device__ void each_pair(const float (&of)[DOWN][ACROSS][4], Function f) {
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < DOWN; ++i)
#pragma unroll
        for (int n = 0; n < ACROSS; ++n)
#pragma unroll
            for (int e = 0; e < 4; e += 2)
                f(i * 16 + lane / 4 + e / 2 * 8, n * 8 + lane % 4 * 2, of[i][n][e],
                  of[i][n][e + 1]);
}
