// The network's sizes, and products of matrices on tensor cores.
//
// pixels [n][SIDE x SIDE] - convolution 3 x 3, batch norm, ReLU, pooling 2 x 2 - maps [n][FIRST][MID]
// maps - convolution 3 x 3 - raw [n][SECOND][MID] - batch norm, ReLU, pooling - [n][SECOND][WINDOWS] - linear, ReLU - linear
#pragma once

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
static_assert(SIDE % 4 == 0 && FIRST % 16 == 0 && 32 % FIRST == 0 && SECOND % 32 == 0 && HIDDEN % 128 == 0 && CLASSES <= 16, "sizes");

// Maps and gradients are planes with a border of zeros. Their places decide which banks of shared memory lanes read: 8 neighbours of
// 4 planes have different ones, and so have 4 neighbours of 8 planes. Four neighbours from column 2, 6, 10, ... on are 16 aligned bytes.
constexpr int PITCH = (HALF + 5) / 4 * 4, PLANE = ((HALF + 2) * PITCH + 23) / 32 * 32 + 8;
__device__ constexpr int plane_at(int c) { return c * PLANE + (c & 4) + 1; }
// Numbers of an image with so many planes. Some are read behind the last plane, where they do not count.
__device__ constexpr int volume(int planes) { return (planes * PLANE + 64) / 32 * 32; }
constexpr int MAPS = volume(FIRST), RESULTS = volume(SECOND);

// Tiles of 16 pixels are in one row. The last ones of a row may not be pixels.
constexpr int SEGMENTS = (HALF + 15) / 16, TILES = HALF * SEGMENTS, PAIRS = (TILES + 1) / 2;
struct Pixel {
    int row, column;
    __device__ Pixel(int tile, int at) : row(tile / SEGMENTS), column(tile % SEGMENTS * 16 + at) {}
    __device__ bool exists() const { return row < HALF && column < HALF; }
    __device__ int number() const { return row * HALF + column; }
    // The place of its window of 3 x 3 in a plane.
    __device__ int corner() const { return row * PITCH + column; }
};
__device__ inline int corner(int p) { return p + p / HALF * (PITCH - HALF); }
// The place of a tap in a window.
__device__ constexpr int tap_at(int tap) { return tap / 3 * PITCH + tap % 3; }

__device__ inline float rounded(float x) {
    unsigned r;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(x));
    return __uint_as_float(r);
}

// What is multiplied: tf32 numbers are rounded when they are stored, those of single precision when they are used.
template <bool EXACT>
__device__ inline float operand(float x) {
    if constexpr (EXACT) return x;
    return rounded(x);
}

__device__ inline void multiply(float* c, const unsigned* a, const unsigned* b) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// A number of single precision is the sum of one of tf32 and a rest, which is rounded next. The sum keeps a NaN: the rest is one then.
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
    for (int i = 0; i < N; ++i) small[i] = __float_as_uint(rounded(rest[i]));
}

// sums += a b for M x N tiles of 16 x 8 results and 8 products each. EXACT: of the four products of two sums of two
// numbers three count, and the result has the accuracy of single precision.
template <bool EXACT, int M, int N>
__device__ inline void products(float (&sums)[M][N][4], const float (&a)[M][4], const float (&b)[N][2]) {
    unsigned a_big[M][4], a_small[M][4], b_big[N][2], b_small[N][2];
    if constexpr (EXACT) {
#pragma unroll
        for (int m = 0; m < M; ++m) split(a[m], a_big[m], a_small[m]);
#pragma unroll
        for (int n = 0; n < N; ++n) split(b[n], b_big[n], b_small[n]);
#pragma unroll
        for (int n = 0; n < N; ++n)
#pragma unroll
            for (int m = 0; m < M; ++m) multiply(sums[m][n], a_small[m], b_big[n]);
#pragma unroll
        for (int n = 0; n < N; ++n)
#pragma unroll
            for (int m = 0; m < M; ++m) multiply(sums[m][n], a_big[m], b_small[n]);
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
        for (int m = 0; m < M; ++m) multiply(sums[m][n], a_big[m], b_big[n]);
}

__device__ inline unsigned halves(float x, float y) {
    unsigned both;
    asm("cvt.rn.satfinite.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(y), "f"(x));
    return both;
}

__device__ inline void multiply_halves(float* c, const unsigned* a, const unsigned* b) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// The same for 16 products, two times 8. EXACT: the two small products are of halves, which tensor cores multiply twice as fast. Halves
// have as many digits as tf32, but a smaller range: the operands are scaled to be near 1.
template <bool EXACT, int M, int N>
__device__ inline void products_of_16(float (&sums)[M][N][4], const float (&a)[2][M][4], const float (&b)[2][N][2]) {
    if constexpr (!EXACT) {
        products<false>(sums, a[0], b[0]);
        products<false>(sums, a[1], b[1]);
    } else {
        unsigned big[2][M][4], high[M][4], low[M][4];
#pragma unroll
        for (int m = 0; m < M; ++m)
#pragma unroll
            for (int s = 0; s < 2; ++s) {
                float small[4];
                split(a[s][m], big[s][m], small);
                // Neighbouring halves are the products t and t + 4 of tf32's order: any order does, if both sides have it.
#pragma unroll
                for (int j = 0; j < 2; ++j) {
                    high[m][2 * s + j] = halves(__uint_as_float(big[s][m][j]), __uint_as_float(big[s][m][j + 2]));
                    low[m][2 * s + j] = halves(small[j], small[j + 2]);
                }
            }
#pragma unroll
        for (int n = 0; n < N; ++n) {
            unsigned right[2][2], right_high[2], right_low[2];
#pragma unroll
            for (int s = 0; s < 2; ++s) {
                float small[2];
                split(b[s][n], right[s], small);
                right_high[s] = halves(__uint_as_float(right[s][0]), __uint_as_float(right[s][1]));
                right_low[s] = halves(small[0], small[1]);
            }
#pragma unroll
            for (int m = 0; m < M; ++m) multiply_halves(sums[m][n], low[m], right_high);
#pragma unroll
            for (int m = 0; m < M; ++m) multiply_halves(sums[m][n], high[m], right_low);
#pragma unroll
            for (int s = 0; s < 2; ++s)
#pragma unroll
                for (int m = 0; m < M; ++m) multiply(sums[m][n], big[s][m], right[s]);
        }
    }
}

// Tensor cores cut their sums off. EXACT adds what they add up over a stage to the result by ordinary additions.
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
    __device__ inline void add(float (&sums)[M][N][4], const float (&a)[M][4], const float (&b)[N][2]) {
        if constexpr (EXACT) products<true>(part, a, b);
        else products<false>(sums, a, b);
    }
    __device__ inline void add_16(float (&sums)[M][N][4], const float (&a)[2][M][4], const float (&b)[2][N][2]) {
        if constexpr (EXACT) products_of_16<true>(part, a, b);
        else products_of_16<false>(sums, a, b);
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

// By all threads of a block: zeros, or a copy that goes on until copies are waited for; 4 numbers are 16 bytes.
__device__ inline void clear(float* to, int count) {
    for (int i = threadIdx.x; i < count; i += blockDim.x) to[i] = 0;
}

template <int BYTES>
__device__ inline void copy_async(void* to, const void* from) {
    unsigned at = (unsigned)__cvta_generic_to_shared(to);
    if constexpr (BYTES == 16) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from));
    else asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(at), "l"(from), "n"(BYTES));
}
__device__ inline void copy(float* to, const float* __restrict__ from, int count) {
    for (int i = threadIdx.x * 4; i < count; i += blockDim.x * 4) copy_async<16>(to + i, from + i);
}
__device__ inline void end_of_group() { asm volatile("cp.async.commit_group;"); }
// Waits until at most so many groups of copies are under way.
template <int GROUPS>
__device__ inline void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(GROUPS));
}

// The second convolution's weights are multiplied by this where they are packed.
constexpr float WEIGHT_SCALE = 32;

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

__device__ inline double sum_of_warp(double x) {
#pragma unroll
    for (int i = 16; i > 0; i /= 2) x += __shfl_xor_sync(~0u, x, i);
    return x;
}

// Batch norm: z = scale * y + shift = gain * (y - mean) * inverse + bias.
struct Norm {
    float scale, shift, mean, inverse;
};
