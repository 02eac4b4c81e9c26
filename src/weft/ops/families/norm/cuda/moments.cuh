// Mean and sum of squared deviations of some elements, joined without the loss of digits that a
// difference of large sums has (Chan, Golub and LeVeque 1979).
#pragma once
#include <weft/block.cuh>
#include <weft/convert.cuh>

using namespace weft;

// The number that is subtracted from elements before they are summed, so that a large mean costs no
// digits: one of them. The elements of shorter types have fewer digits than float anyway.
template <class T>
__device__ float shift_of(const T* element, bool there) {
    if constexpr (sizeof(T) < 4) return 0;
    return there ? to<float>(*element) : 0;
}

struct Moments {
    float count = 0, mean = 0, squares = 0;

    __device__ void add(float n, float m, float s) {
        float all = count + n, part = all > 0 ? __fdividef(n, all) : 0, difference = m - mean;
        mean += difference * part;
        squares += s + difference * difference * count * part;
        count = all;
    }
    __device__ void add(const Moments& other) { add(other.count, other.mean, other.squares); }
};

// The moments of all threads of a group of G, in every thread of it. All threads of the block take
// part.
template <int G>
__device__ Moments block_moments(const Moments& m) {
    return block_reduce<G>(m, Moments{}, [](Moments a, const Moments& b) {
        a.add(b);
        return a;
    });
}
