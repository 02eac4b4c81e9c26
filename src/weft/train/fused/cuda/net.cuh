// The network's sizes, and products of matrices on tensor cores.
//
// The results of its layers, for n images:
//   pixels [n][SIDE x SIDE] - convolution 3 x 3, batch norm, ReLU, pooling 2 x 2
//   maps [n][FIRST][MID] - convolution 3 x 3
//   raw [n][SECOND][MID] - batch norm, ReLU, pooling 2 x 2
//   [n][SECOND][WINDOWS] - linear, ReLU, linear
#pragma once
#include <weft/async.cuh>
#include <weft/mma.cuh>

#ifndef SIDE
#define SIDE 28
#define FIRST 32
#define SECOND 64
#define HIDDEN 128
#define CLASSES 10
#endif

constexpr int TAPS = 9, PIXELS = SIDE * SIDE;
constexpr int HALF = SIDE / 2, MID = HALF * HALF;             // after the first pooling
constexpr int QUARTER = SIDE / 4, WINDOWS = QUARTER * QUARTER;  // after the second one
constexpr int FLAT = SECOND * WINDOWS;
constexpr int DEPTH = TAPS * FIRST;  // products of a result of the second convolution
constexpr int MOMENTS = TAPS * (TAPS + 1);
static_assert(SIDE % 4 == 0 && FIRST % 16 == 0 && 32 % FIRST == 0 && SECOND % 32 == 0 &&
                  HIDDEN % 128 == 0 && CLASSES <= 16,
              "sizes");

// Maps and gradients are channels of positions: the pixels, row by row, inside a border of zeros. A
// row of a tile is 16 positions; those behind the last pixel of a row are zeros too, or of the next
// row where nothing counts them.
constexpr int PITCH = HALF < 15 ? 16 : HALF + 1, POSITIONS = (HALF + 2) * PITCH + 2,
              PAIRS = HALF / 2;
static_assert(HALF <= 16, "a row of pixels is one tile");
__device__ constexpr int position(int row, int column) { return (row + 1) * PITCH + column + 1; }
// The place of a tap in a window of 3 x 3, from the window's first position on.
__device__ constexpr int tap_at(int tap) { return tap / 3 * PITCH + tap % 3; }

// Numbers are multiplied as halves, which have as many digits as tf32. EXACT: a number is the sum
// of two halves.
template <bool EXACT>
constexpr int PIECES = EXACT ? 2 : 1;
// Halves of a position or row: those of all channels, the rests of all, and 8 more, so that
// neighbours have different banks.
template <bool EXACT>
__device__ constexpr int line(int channels) {
    return channels * PIECES<EXACT> + 8;
}

__device__ inline float rounded(float x) { return __uint_as_float(weft::to_tf32(x)); }

// A factor as it is stored: tf32 numbers are rounded when they are stored, those of single
// precision when they are used.
template <bool EXACT>
__device__ inline float operand(float x) {
    if constexpr (EXACT) return x;
    return rounded(x);
}

// A number of single precision is the sum of one of tf32 and a rest, which is rounded next. The sum
// keeps a NaN: the rest is one then.
template <int N>
__device__ inline void split(const float (&x)[N], unsigned (&big)[N], float (&rest)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
        big[i] = (__float_as_uint(x[i]) + 0x1000u) & 0xffffe000u;
        rest[i] = x[i] - __uint_as_float(big[i]);
    }
}
template <int N>
__device__ inline void split(const float (&x)[N], unsigned (&big)[N], unsigned (&small)[N]) {
    float rest[N];
    split(x, big, rest);
#pragma unroll
    for (int i = 0; i < N; ++i) small[i] = weft::to_tf32(rest[i]);
}

// sums += a b for M x N tiles of 16 x 8 results and 8 products each. EXACT: of the four products of
// two sums of two numbers three count, and the result has the accuracy of single precision.
template <bool EXACT, int M, int N>
__device__ inline void products(float (&sums)[M][N][4], const float (&a)[M][4],
                                const float (&b)[N][2]) {
    unsigned a_big[M][4], a_small[M][4], b_big[N][2], b_small[N][2];
    if constexpr (EXACT) {
#pragma unroll
        for (int m = 0; m < M; ++m) split(a[m], a_big[m], a_small[m]);
#pragma unroll
        for (int n = 0; n < N; ++n) split(b[n], b_big[n], b_small[n]);
#pragma unroll
        for (int n = 0; n < N; ++n)
#pragma unroll
            for (int m = 0; m < M; ++m) weft::mma<float>(sums[m][n], a_small[m], b_big[n]);
#pragma unroll
        for (int n = 0; n < N; ++n)
#pragma unroll
            for (int m = 0; m < M; ++m) weft::mma<float>(sums[m][n], a_big[m], b_small[n]);
    } else {
#pragma unroll
        for (int m = 0; m < M; ++m)
#pragma unroll
            for (int j = 0; j < 4; ++j) a_big[m][j] = __float_as_uint(a[m][j]);
#pragma unroll
        for (int n = 0; n < N; ++n)
#pragma unroll
            for (int j = 0; j < 2; ++j) b_big[n][j] = __float_as_uint(b[n][j]);
    }
#pragma unroll
    for (int n = 0; n < N; ++n)
#pragma unroll
        for (int m = 0; m < M; ++m) weft::mma<float>(sums[m][n], a_big[m], b_big[n]);
}

typedef unsigned short Half;

// The pieces of two numbers. The operands are scaled to be near 1: the second piece of a small
// number has few digits.
template <bool EXACT>
__device__ inline void pieces(float x, float y, unsigned (&piece)[PIECES<EXACT>]) {
    piece[0] = weft::pack_saturated(x, y);  // beyond the range of halves: the largest one
    if constexpr (EXACT) {
        float a = weft::unpack<__half>(piece[0], 0), b = weft::unpack<__half>(piece[0], 1);
        piece[1] = weft::pack_saturated(x - a, y - b);
    }
}

// Four numbers, as their pieces; `apart` are the halves between the pieces.
template <bool EXACT, int APART>
__device__ inline void store_pieces(Half* to, const float4& x) {
    unsigned low[PIECES<EXACT>], high[PIECES<EXACT>];
    pieces<EXACT>(x.x, x.y, low);
    pieces<EXACT>(x.z, x.w, high);
#pragma unroll
    for (int p = 0; p < PIECES<EXACT>; ++p)
        *reinterpret_cast<uint2*>(to + p * APART) = {low[p], high[p]};
}

// sums += a b for M x N tiles of 16 x 8 results and 16 products each, from column `from` of the
// tiles on. Of the four products of pieces three count.
template <bool EXACT, int M, int ALL, int N>
__device__ inline void products_of_halves(float (&sums)[M][ALL][4],
                                          const unsigned (&a)[M][PIECES<EXACT>][4],
                                          const unsigned (&b)[N][2 * PIECES<EXACT>], int from) {
    if constexpr (EXACT) {
#pragma unroll
        for (int n = 0; n < N; ++n)
#pragma unroll
            for (int m = 0; m < M; ++m) weft::mma<__half>(sums[m][from + n], a[m][1], b[n]);
#pragma unroll
        for (int n = 0; n < N; ++n)
#pragma unroll
            for (int m = 0; m < M; ++m) weft::mma<__half>(sums[m][from + n], a[m][0], b[n] + 2);
    }
#pragma unroll
    for (int n = 0; n < N; ++n)
#pragma unroll
        for (int m = 0; m < M; ++m) weft::mma<__half>(sums[m][from + n], a[m][0], b[n]);
}

// Four or two matrices of 8 x 8 halves; each lane has the address of a row of one of them.
template <bool TRANSPOSED, int N>
__device__ inline void load_matrices(unsigned (&r)[N], unsigned at) {
    if constexpr (N == 4) weft::load_matrices_x4<TRANSPOSED>(r, at);
    else weft::load_matrices_x2<TRANSPOSED>(r, at);
}

// Weights that are the right operand of a product are packed as lanes read them: [16 products][8
// columns][lane], the two registers of each piece side by side. This is a lane's part of 8 columns.
template <bool EXACT>
constexpr int PACKED = 2 * PIECES<EXACT>;
template <bool EXACT>
__device__ inline void load_packed(unsigned (&b)[PACKED<EXACT>], const unsigned* from) {
    if constexpr (EXACT) {
        uint4 x = *reinterpret_cast<const uint4*>(from);
        b[0] = x.x, b[1] = x.y, b[2] = x.z, b[3] = x.w;
    } else {
        uint2 x = *reinterpret_cast<const uint2*>(from);
        b[0] = x.x, b[1] = x.y;
    }
}

// Tensor cores cut their sums off. EXACT adds what they add up over a stage to the result by
// ordinary additions.
template <bool EXACT, int M, int N>
struct Stage {
    float part[EXACT ? M : 1][EXACT ? N : 1][4];
    __device__ inline void begin() {
        if constexpr (EXACT) {
#pragma unroll
            for (int m = 0; m < M; ++m)
#pragma unroll
                for (int n = 0; n < N; ++n)
#pragma unroll
                    for (int j = 0; j < 4; ++j) part[m][n][j] = 0;
        }
    }
    __device__ inline void add(float (&sums)[M][N][4], const float (&a)[M][4],
                               const float (&b)[N][2]) {
        if constexpr (EXACT) products<true>(part, a, b);
        else products<false>(sums, a, b);
    }
    template <int SOME>
    __device__ inline void add(float (&sums)[M][N][4], const unsigned (&a)[M][PIECES<EXACT>][4],
                               const unsigned (&b)[SOME][2 * PIECES<EXACT>], int from = 0) {
        if constexpr (EXACT) products_of_halves<true>(part, a, b, from);
        else products_of_halves<false>(sums, a, b, from);
    }
    __device__ inline void end(float (&sums)[M][N][4]) {
        if constexpr (EXACT) {
#pragma unroll
            for (int m = 0; m < M; ++m)
#pragma unroll
                for (int n = 0; n < N; ++n)
#pragma unroll
                    for (int j = 0; j < 4; ++j) sums[m][n][j] += part[m][n][j];
        }
    }
};

// By all threads of a block.
template <class T>
__device__ inline void clear(T* to, int count) {
    for (int i = threadIdx.x; i < count; i += blockDim.x) to[i] = 0;
}

// Weights of the second convolution and of the first linear layer are multiplied by these where
// they become halves.
constexpr float WEIGHT_SCALE = 32, HIDDEN_SCALE = 64;

// The pooled result of four: the largest, the first of equal ones.
struct Pooled {
    float value;
    int place;
    __device__ Pooled(float a, float b, float c, float d) : value(a), place(0) {
        if (b > value) value = b, place = 1;
        if (c > value) value = c, place = 2;
        if (d > value) value = d, place = 3;
    }
};

// Batch norm turns the order of its operands where its gain is negative.
__device__ inline float sign_of(float gain) { return gain < 0 ? -1.0f : 1.0f; }

// The first linear layer's columns are divided into tiles. For each tile and channel that has some
// of its columns there are two sums: of the gradient after batch norm, and of the gradient times
// the normalised results.
constexpr int WIDTH = 32, TILES = FLAT / WIDTH, TILE_CHANNELS = WIDTH / WINDOWS + 2;
static_assert(FLAT % WIDTH == 0, "whole tiles");
__device__ inline double2 sums_of_channel(const float* __restrict__ sums, int parts, int channel) {
    double2 sum = {0, 0};
    for (int p = 0; p < parts; ++p)
        for (int tile = channel * WINDOWS / WIDTH;
             tile <= (channel * WINDOWS + WINDOWS - 1) / WIDTH; ++tile) {
            const float* at =
                sums + ((p * TILES + tile) * TILE_CHANNELS + channel - tile * WIDTH / WINDOWS) * 2;
            sum.x += at[0], sum.y += at[1];
        }
    return sum;
}

// Batch norm: z = scale * y + shift = gain * (y - mean) * inverse + bias.
struct Norm {
    float scale, shift, mean, inverse;
};
