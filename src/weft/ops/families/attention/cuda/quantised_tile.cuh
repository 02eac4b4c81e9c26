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

// Finds where the keys of a tile are, from key `first` on: their pages, or -1 from key `keys` on,
// and their numbers there. One division for a key is enough for all that read it.
template <int KEYS>
__device__ void find_places(int2* places, const Pages& pages, const int* table, int first,
                            int keys) {
    int key = first + threadIdx.x, page = key / pages.size;
    if (threadIdx.x < KEYS)
        places[threadIdx.x] =
            key < keys ? make_int2(table[page], key - page * pages.size) : make_int2(-1, 0);
}

// ROWS rows of HEAD elements: a thread has vectors of 8 bytes.
template <int ROWS, int HEAD, int THREADS>
struct QuantisedTile {
    static constexpr int ACROSS = HEAD / 8, COUNT = (ROWS * ACROSS + THREADS - 1) / THREADS;

    uint2 raw[COUNT];

    // Loads the rows of `places`, up to element `depth`; the rest is 0.
    __device__ void load(const int2* places, const signed char* from, const Strides& by,
                         int depth) {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            int n = i * THREADS + threadIdx.x, c = n % ACROSS * 8;
            raw[i] = make_uint2(0, 0);
            if (ROWS * ACROSS % THREADS && n >= ROWS * ACROSS) break;
            int2 at = places[n / ACROSS];
            if (at.x >= 0 && c < depth)
                raw[i] = *reinterpret_cast<const uint2*>(from + by.at(at.x, 0, at.y) + c);
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

// Returns the scale of key threadIdx.x for the first KEYS threads, of values for the next ones; 0
// if there is no such key.
template <int KEYS>
__device__ float load_scale(const QuantisedCache& cache, const int2* places, int head) {
    if (threadIdx.x >= 2 * KEYS) return 0;
    bool values = threadIdx.x >= KEYS;
    int2 at = places[threadIdx.x % KEYS];
    const float* from = values ? cache.value + cache.of_value.at(at.x, head, at.y)
                               : cache.key + cache.of_key.at(at.x, head, at.y);
    return at.x < 0 ? 0 : *from;
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
