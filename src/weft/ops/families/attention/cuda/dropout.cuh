// Dropout of weights. Whether a weight is kept is a function of seed, offset, head, query and key,
// so that the kernels of the gradients find it again in whatever order they come to it.
//
// A call of Philox gives 128 bits, which are the numbers of 8 weights: in each 16 x 16 tile of
// weights those of one lane of mma.sync's accumulators. Lane (query % 8) * 4 + key % 8 / 2 has the
// subsequence
//   ((batch * heads + head) * ceil(queries / 16) + query / 16) * 32 + lane
// whose call number is offset / 4 + key / 16. Of its words, number query / 8 % 2 * 2 + key / 8 % 2
// is used: the upper half for odd keys. A weight is kept if these 16 bits are less than `keep`.
#pragma once
#include <weft/philox.cuh>
#include "softmax.cuh"

struct Drop {
    PhiloxStart start;
    unsigned keep;
    float scale;          // of the weights that are kept
    long long row_tiles;  // before this head

    __device__ Drop(const Problem& p, const Random& random, int batch, int head)
        : start(random.state, random.seed, random.offset), keep(p.keep), scale(p.keep_scale),
          row_tiles((static_cast<long long>(batch) * p.heads + head) * ((p.rows + 15) / 16)) {}

    __device__ uint4 words(int row_tile, int key_tile, int lane) const {
        return philox(start.seed, (row_tiles + row_tile) * 32 + lane, start.call + key_tile);
    }
    __device__ bool keeps(const uint4& words, int word, int odd) const {
        unsigned bits =
            word < 2 ? (word == 0 ? words.x : words.y) : (word == 2 ? words.z : words.w);
        return (bits >> 16 * odd & 0xffff) < keep;
    }

    // One weight.
    __device__ bool keeps(int query, int key) const {
        uint4 all = words(query / 16, key / 16, query % 8 * 4 + key % 8 / 2);
        return keeps(all, query / 8 % 2 * 2 + key / 8 % 2, key % 2);
    }

    // The weights of accumulators whose rows are queries: x becomes `scale` x, or 0. `row` and
    // `key` are multiples of 16.
    template <int M, int N>
    __device__ void rows(float (&x)[M][N][4], int row, int key) const {
#pragma unroll
        for (int m = 0; m < M; ++m)
#pragma unroll
            for (int n = 0; n < N / 2; ++n) {
                uint4 all = words(row / 16 + m, key / 16 + n, threadIdx.x % 32);
#pragma unroll
                for (int i = 0; i < 8; ++i) {
                    float& value = x[m][2 * n + i / 2 % 2][i / 4 * 2 + i % 2];
                    value = keeps(all, i / 2, i % 2) ? value * scale : 0;
                }
            }
    }

    // Those of accumulators whose rows are keys, as bits: bit i of [m][n] for element i % 4 of 8 x
    // 8 tile 2 n + i / 4.
    template <int M, int N>
    __device__ void columns(unsigned (&bits)[M][N / 2], int row, int key) const {
        int lane = threadIdx.x % 32;
#pragma unroll
        for (int m = 0; m < M; ++m)
#pragma unroll
            for (int n = 0; n < N / 2; ++n) {
                unsigned found = 0;
#pragma unroll
                for (int odd = 0; odd < 2; ++odd) {
                    uint4 all =
                        words(row / 16 + n, key / 16 + m, (lane % 4 * 2 + odd) * 4 + lane / 8);
#pragma unroll
                    for (int word = 0; word < 4; ++word)
                        found |= unsigned(keeps(all, word, lane / 4 % 2))
                                 << (word / 2 * 4 + word % 2 * 2 + odd);
                }
                bits[m][n] = found;
            }
    }
    template <int M, int N>
    __device__ void apply(float (&x)[M][N][4], const unsigned (&bits)[M][N / 2]) const {
#pragma unroll
        for (int m = 0; m < M; ++m)
#pragma unroll
            for (int n = 0; n < N; ++n)
#pragma unroll
                for (int i = 0; i < 4; ++i)
                    x[m][n][i] = bits[m][n / 2] >> (n % 2 * 4 + i) & 1 ? x[m][n][i] * scale : 0;
    }
};
