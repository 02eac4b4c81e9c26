// Tokens in the order in which `pipelined` multiplies them: within every 128 of K, so that a lane's
// weights, which are neighbours in memory, are a fragment of the tensor cores.
//
// A block of 128 has 16 eights. Lane t of four has UNITS neighbouring eights of every 4 UNITS. Word
// j of `arrange` of a lane's eight number u goes to step 2 u + j / 2 of 16 of K: it is the word
// t of half j % 2.
#include "problem.cuh"

// Half a warp arranges a block of a token. SUMS: `sums` gets the sums of x over 32 UNITS of K, one
// row of `pitch` tokens after another.
template <Weights F, class T, int UNITS, bool SUMS>
__global__ void __launch_bounds__(256)
    arranged(const T* x, T* y, float* sums, int pitch, const __grid_constant__ QuantisedProblem p) {
    take_turn();
    constexpr int OF_LANES = 4 * UNITS;
    int blocks = ceil_div(p.K, 128), eight = threadIdx.x % 16;
    long long at = blockIdx.x * 16ll + threadIdx.x / 16;
    bool inside = at < (long long)p.M * blocks;
    int token = inside ? int(at / blocks) : 0, block = inside ? int(at % blocks) : 0;
    int k = block * 128 + eight * 8;
    auto from = fill<4>(0u);
    if (inside && k < p.K)
        from = load<4>(reinterpret_cast<const unsigned*>(x + token * p.x_row + k));
    int lane = eight % OF_LANES / UNITS, unit = eight / OF_LANES * UNITS + eight % UNITS;
    unsigned words[4];
    arrange<F>(words, &from[0]);
    unsigned* to = reinterpret_cast<unsigned*>(y) + at * 64 + unit * 16 + lane;
    if (inside)
#pragma unroll
        for (int j = 0; j < 4; ++j) to[j * 4] = words[j];
    if constexpr (SUMS) {
        float sum = 0;
#pragma unroll
        for (int j = 0; j < 4; ++j) sum += unpack<T>(from[j], 0) + unpack<T>(from[j], 1);
#pragma unroll
        for (int mask = 1; mask < OF_LANES; mask *= 2) sum += shuffle_xor(sum, mask);
        if (inside && eight % OF_LANES == 0)
            sums[(block * (16 / OF_LANES) + eight / OF_LANES) * (long long)pitch + token] = sum;
    }
}
