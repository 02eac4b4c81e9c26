// Kept elements of 2:4 sparse matrices: taken from whole rows, and put back into them.
#include <weft/convert.cuh>
#include <weft/early_launch.cuh>
#include <weft/vector.cuh>

using namespace weft;

// Returns the metadata of 16 of K from 16 `sixteen` on of a row: four bits for four neighbours. See
// weft/sparse.cuh; `deep` is the number of 64 of K.
__device__ inline unsigned metadata_of(const int* metadata, int row, int sixteen, int deep) {
    int thread = row % 64 / 16 * 32 + row % 8 * 4 + sixteen % 4;
    unsigned word = metadata[((long long)(row / 64) * deep + sixteen / 4) * 128 + thread];
    return word >> row / 8 % 2 * 16 & 0xffff;
}

// A thread has 16 of K of a row: whole[row][K] and values[row][K / 2]. EXPAND: values are put into
// `whole` between zeros, else they are taken from it.
template <class T, bool EXPAND>
__global__ void places(const int* metadata, T* values, T* whole, int rows, int sixteens) {
    take_turn();
    long long at = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (at >= (long long)rows * sixteens) return;
    unsigned code =
        metadata_of(metadata, int(at / sixteens), int(at % sixteens), (sixteens + 3) / 4);
    T *kept = values + at * 8, *all = whole + at * 16;
    Vector<T, 8> taken, spread[2];
    if constexpr (EXPAND) taken = load<8>(kept);
    else spread[0] = load<8>(all), spread[1] = load<8>(all + 8);
#pragma unroll
    for (int four = 0; four < 4; ++four, code >>= 4) {
        int places[2] = {int(code & 3), int(code >> 2 & 3)};
        // Places are compared, not indexed: vectors stay in registers.
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            T& one = spread[four / 2][four % 2 * 4 + i];
            if constexpr (EXPAND) one = to<T>(0.0f);
#pragma unroll
            for (int j = 0; j < 2; ++j) {
                if constexpr (EXPAND) one = places[j] == i ? taken[four * 2 + j] : one;
                else if (places[j] == i) taken[four * 2 + j] = one;
            }
        }
    }
    if constexpr (EXPAND) store(all, spread[0]), store(all + 8, spread[1]);
    else store(kept, taken);
}
