// Copies operands of 8 or 16-bit elements, whose rows begin anywhere, to rows of whole, aligned
// vectors.
#include <weft/early_launch.cuh>
#include "half.cuh"

// aligned_copy.py declares `AlignedRows`.
STRUCT_ALIGNEDROWS;

// Each thread stores 16 bytes. What is past the end of a row is zero. I is an integer type that
// holds the number of vectors.
template <class T, class I>
__device__ void copy_rows(const void* rows, void* copy, const AlignedRows& r, I block) {
    constexpr int EACH = 16 / sizeof(T);
    const T* from = static_cast<const T*>(rows);
    I i = block * I(256) + threadIdx.x;
    if (i >= I(r.vectors)) return;
    I across = I(r.pitch / EACH), row = i / across, matrix = row / I(r.rows);
    int column = int(i - row * across) * EACH;
    UnalignedVector unaligned;
    unaligned.read(from + (long long)matrix * r.batch +
                       (long long)(row - matrix * I(r.rows)) * r.stride + column,
                   min(EACH, r.columns - column), reinterpret_cast<size_t>(from),
                   reinterpret_cast<size_t>(from + r.last));
    static_cast<uint4*>(copy)[i] = unaligned.joined();
}

// One operand, or both by one launch; those of 8 bits may have different types.
template <class T, class I>
__global__ void __launch_bounds__(256)
    copy_aligned(const void* first, void* to_first, const AlignedRows r, const void* second,
                 void* to_second, const AlignedRows s) {
    take_turn();
    if (blockIdx.x < r.blocks) copy_rows<T>(first, to_first, r, I(blockIdx.x));
    else copy_rows<T>(second, to_second, s, I(blockIdx.x - r.blocks));
}
