// The sums of a warp that multiplies few tokens by rows of a weight, by tensor cores with the
// weights as A and the tokens as B.
//
// Where there are fewer than eight tokens, the eight columns of B are slices of K as well: column
// c holds token c / SLICES and slice c % SLICES. Row r of A holds slice r % SLICES of a row of the
// weight. Results whose slices differ are dropped, and the others are added. A warp thus reads
// SLICES * 64 bytes that are neighbours, and the k of a lane's weights are those of its x.
#pragma once
#include <weft/mma.cuh>
#include "problem.cuh"

// UNITS    eights of weights that a lane reads of a row
// PAIRS    pairs of rows of a lane, each a row of both halves of A: they share what is read of x
// ZERO     rows have zero points
// PREPARED tokens are arranged already, and `ones` has the sums of x: weights of four bits then
// keep
//          an offset, as if their zero points were greater, which saves an instruction for two
template <Weights F, class T, class S, int TOKENS, int UNITS, int PAIRS, bool ZERO,
          bool PREPARED = false>
struct SkinnySums {
    static constexpr bool OFFSET = PREPARED && F == Weights::INT4, HAS_ONES = ZERO || OFFSET;
    // Columns of B, one after another, are eights of tokens. ACROSS of them differ.
    static constexpr int EIGHTS = TOKENS > 8 ? TOKENS / 8 : 1, ACROSS = TOKENS / EIGHTS;
    static constexpr int SLICES = 8 / ACROSS, EACH = 2 * PAIRS, ROWS = EACH * ACROSS;
    static constexpr int LANE = 8 * UNITS, CHUNK = 4 * LANE, STEP = CHUNK * SLICES;  // of K
    static constexpr int WORDS = UNITS * WEIGHT_WORDS<F>;
    using Lane = Vector<unsigned, WORDS>;          // a lane's weights of a row
    using Tokens = Vector<unsigned, 4>[EIGHTS][UNITS];

    float total[EIGHTS][PAIRS][4] = {}, part[EIGHTS][PAIRS][4] = {}, ones[EIGHTS][4] = {};

    // The slice and the token of a lane, which also number its rows of A and columns of B.
    static __device__ int slice(int lane) { return lane / 4 % SLICES; }
    static __device__ int token(int lane) { return lane / 4 / SLICES; }

    // Multiplies a step, whose k are the same for the weights and the tokens of a lane.
    __device__ void multiply(const Dequantiser<F, T>& weights, const Lane (&rows)[EACH],
                             const Tokens& tokens) {
        const unsigned all_ones[4] = {ONES<T>, ONES<T>, ONES<T>, ONES<T>};
#pragma unroll
        for (int u = 0; u < UNITS; ++u) {
            unsigned b[EIGHTS][4];
#pragma unroll
            for (int eight = 0; eight < EIGHTS; ++eight) {
                if constexpr (PREPARED)
#pragma unroll
                    for (int i = 0; i < 4; ++i) b[eight][i] = tokens[eight][u][i];
                else arrange<F>(b[eight], &tokens[eight][u][0]);
                if constexpr (ZERO && !PREPARED)
                    mma<T>(ones[eight], all_ones, b[eight]),
                        mma<T>(ones[eight], all_ones, b[eight] + 2);
            }
#pragma unroll
            for (int pair = 0; pair < PAIRS; ++pair) {
                unsigned low[4], high[4];
                convert(low, weights, &rows[2 * pair][u * WEIGHT_WORDS<F>]);
                convert(high, weights, &rows[2 * pair + 1][u * WEIGHT_WORDS<F>]);
#pragma unroll
                for (int i = 0; i < 4; i += 2) {
                    unsigned a[4] = {low[i], high[i], low[i + 1], high[i + 1]};
#pragma unroll
                    for (int eight = 0; eight < EIGHTS; ++eight)
                        mma<T>(part[eight][pair], a, b[eight] + i);
                }
            }
        }
    }
    static __device__ void convert(unsigned (&to)[4], const Dequantiser<F, T>& weights,
                                   const unsigned* from) {
        if constexpr (OFFSET) offset_int4(to, from[0], weights.magic);
        else weights.convert(to, from);
    }
    // Adds the sums of a group, times the scales of its rows.
    __device__ void flush(const Group<S> (&group)[EACH]) {
#pragma unroll
        for (int i = 0; i < EIGHTS * PAIRS * 4; ++i) {
            int eight = i / 4 / PAIRS, pair = i / 4 % PAIRS;
            float& sum = part[eight][pair][i % 4];
            Group<S> of = group[2 * pair + i % 4 / 2];
            if (OFFSET) of.zero += INT4_OFFSET<T>;
            total[eight][pair][i % 4] += of.sum(sum, HAS_ONES ? ones[eight][i % 4] : 0);
            sum = 0;
        }
#pragma unroll
        for (int i = 0; i < EIGHTS * 4; ++i) ones[i / 4][i % 4] = 0;
    }
    // Calls store(token, row, value) for the results that this lane has, rows from 0 on.
    template <class Store>
    __device__ void results(int lane, Store store) const {
        int slice = SkinnySums::slice(lane), token = SkinnySums::token(lane);
#pragma unroll
        for (int i = 0; i < EIGHTS * EACH; ++i) {
            int eight = i / EACH, r = i % EACH, column = lane % 4 * 2;
            int row = token + r * ACROSS;
            const float* found = total[eight][r / 2] + r % 2 * 2;
            if constexpr (SLICES > 1) {
                float value = column % SLICES == slice ? found[0] : 0;
                value += (column + 1) % SLICES == slice ? found[1] : 0;
#pragma unroll
                for (int mask = 1; mask < SLICES / 2; mask *= 2) value += shuffle_xor(value, mask);
#pragma unroll
                for (int mask = 4; mask < 4 * SLICES; mask *= 2) value += shuffle_xor(value, mask);
                if (slice == 0 && column % SLICES == 0) store(column / SLICES, row, value);
            } else {
#pragma unroll
                for (int j = 0; j < 2; ++j) store(eight * 8 + column + j, row, found[j]);
            }
        }
    }
};
