// Tiles of keys and values of 8 bits, whose rows are in pages: they wait in registers, and become
// 16-bit integers on their way to shared memory. Their scales are applied to scores and weights.
#pragma once
#include <weft/bytes.cuh>
#include "mma.cuh"
#include "problem.cuh"

// Scales of keys and of values, a float for each key and head, and their strides: of pages, heads
// and keys of a page.
struct QuantisedCache {
    const float *key, *value;
    Strides of_key, of_value;
};

// Weights are multiplied by so many times a scale of values, which is the largest value of a key:
// 16-bit weights keep their bits.
constexpr float VALUE_STEPS = 128;

// ROWS rows of HEAD elements: a thread has vectors of 8 bytes.
template <int ROWS, int HEAD, int THREADS>
struct QuantisedTile {
    static constexpr int ACROSS = HEAD / 8, COUNT = (ROWS * ACROSS + THREADS - 1) / THREADS;

    uint2 raw[COUNT];

    // Loads the rows from `first` on, up to row `rows` and element `depth`; the rest is 0. `at`
    // gives the address of a row.
    template <class At>
    __device__ void load(int first, int rows, int depth, At at) {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            int n = i * THREADS + threadIdx.x, r = first + n / ACROSS, c = n % ACROSS * 8;
            raw[i] = make_uint2(0, 0);
            if (n < ROWS * ACROSS && r < rows && c < depth)
                raw[i] = *reinterpret_cast<const uint2*>(at(r) + c);
        }
    }
    // Stores them as elements of T, in rows of pitch(HEAD).
    template <class T>
    __device__ void store(T* shared) const {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            int n = i * THREADS + threadIdx.x, r = n / ACROSS, c = n % ACROSS * 8;
            if (ROWS * ACROSS % THREADS && n >= ROWS * ACROSS) break;
            uint2 low = unpack_int8<T>(raw[i].x), high = unpack_int8<T>(raw[i].y);
            *reinterpret_cast<uint4*>(shared + r * pitch(HEAD) + c) =
                make_uint4(low.x, low.y, high.x, high.y);
        }
    }
};

// Returns the scale of key first + threadIdx.x for the first KEYS threads, of values for the next
// ones; 0 for keys from `keys` on.
template <int KEYS>
__device__ float load_scale(const QuantisedCache& cache, const Pages& pages, const int* table,
                            int head, int first, int keys) {
    bool values = threadIdx.x >= KEYS;
    int key = first + threadIdx.x % KEYS, page = key / pages.size;
    if (key >= keys || threadIdx.x >= 2 * KEYS) return 0;
    const Strides& by = values ? cache.of_value : cache.of_key;
    return (values ? cache.value : cache.key)[by.at(table[page], head, key - page * pages.size)];
}

// Multiplies the scores of a warp, or its weights, by a number for each key: those of `keys`.
template <int M, int N>
__device__ void scale_keys(float (&s)[M][N][4], const float* keys, float factor) {
#pragma unroll
    for (int n = 0; n < N; ++n) {
        Vector<float, 2> two = load<2>(keys + n * 8 + c_column(0));
#pragma unroll
        for (int m = 0; m < M; ++m)
#pragma unroll
            for (int i = 0; i < 4; ++i) s[m][n][i] *= two[i % 2] * factor;
    }
}

// Divides results by a power of two.
template <int M, int WIDTH>
__device__ void divide(float (&result)[M][WIDTH][4], float by) {
#pragma unroll
    for (int i = 0; i < M * WIDTH * 4; ++i) (&result[0][0][0])[i] *= 1 / by;
}
