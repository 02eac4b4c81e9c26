// The part of a problem that a block computes.
#pragma once

namespace weft {

// Returns a / b, rounded up, for a >= 0 and b > 0.
template <class T>
__host__ __device__ constexpr T ceil_div(T a, T b) {
    return (a + b - 1) / b;
}

// Returns x / size for x >= 0 and size > 1, by a multiplication. The host computes, in Python:
//     log = (size - 1).bit_length(), shift = log - 1
//     magic = -(-(1 << (bits - 1 + log)) // size), with bits = 32 or 64, those of x
__device__ inline int quotient(int x, int magic, int shift) {
    return int(__umulhi(x, magic) >> shift);
}
__device__ inline long long quotient(long long x, long long magic, long long shift) {
    return (long long)(__umul64hi(x, magic) >> shift);
}

// Returns the row (x) and column (y) of tile `index` of `rows` x `columns` tiles, in bands of
// HEIGHT rows, column by column: neighbours share operands, which they find in the L2 cache.
template <int HEIGHT = 8>
__device__ inline int2 tile_in_bands(int index, int rows, int columns) {
    int band = index / (HEIGHT * columns), height = min(HEIGHT, rows - band * HEIGHT);
    int rest = index - band * HEIGHT * columns;
    return make_int2(band * HEIGHT + rest % height, rest / height);
}

// Returns the number of a block along y and z, for more blocks than the 65,535 of each.
__device__ inline long long block_index_yz() {
    return blockIdx.y + (long long)blockIdx.z * gridDim.y;
}

// Returns blockIdx, read at this place: no registers hold it from an earlier read on.
__device__ inline int3 reread_block_index() {
    int3 at;
    asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(at.x));
    asm volatile("mov.u32 %0, %%ctaid.y;" : "=r"(at.y));
    asm volatile("mov.u32 %0, %%ctaid.z;" : "=r"(at.z));
    return at;
}

}  // namespace weft
