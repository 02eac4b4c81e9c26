// Copies operands of 16-bit elements, whose rows begin anywhere, to rows of whole, aligned vectors.
#include "half.cuh"

// aligned_copy.py declares `AlignedRows`.
STRUCT_ALIGNEDROWS;

// Each thread stores 16 bytes. What is past the end of a row is zero. I is an integer type that
// holds the number of vectors.
template <class I, class T>
__device__ void copy_rows(const T* from, T* to, const AlignedRows& r, I block) {
    I i = block * I(256) + threadIdx.x;
    if (i >= I(r.vectors)) return;
    I across = I(r.pitch / 8), row = i / across, matrix = row / I(r.rows);
    int column = int(i - row * across) * 8;
    UnalignedVector unaligned;
    unaligned.read(from + (long long)matrix * r.batch +
                       (long long)(row - matrix * I(r.rows)) * r.stride + column,
                   min(8, r.columns - column), reinterpret_cast<size_t>(from),
                   reinterpret_cast<size_t>(from + r.last));
    *reinterpret_cast<uint4*>(to + (long long)i * 8) = unaligned.joined();
}

// One operand, or both by one launch.
template <class T, class I>
__global__ void __launch_bounds__(256)
    copy_aligned(const T* first, T* to_first, const AlignedRows r, const T* second, T* to_second,
                 const AlignedRows s) {
    if (blockIdx.x < r.blocks) copy_rows(first, to_first, r, I(blockIdx.x));
    else copy_rows(second, to_second, s, I(blockIdx.x - r.blocks));
}
