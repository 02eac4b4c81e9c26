// Short rows: G lanes of a warp sort a row in registers, E elements each, by a bitonic network.
//
// An element is one word: its key, its index, and a mark for -0.0. Words differ, so that the order
// is the stable one.
#include <weft/warp.cuh>

#include "keys.cuh"
#include "rows.cuh"

using namespace weft;

// A word for keys of 64 bits.
struct alignas(16) Wide {
    unsigned long long key;
    unsigned low;
};
__device__ inline bool less(unsigned a, unsigned b) { return a < b; }
__device__ inline bool less(unsigned long long a, unsigned long long b) { return a < b; }
__device__ inline bool less(const Wide& a, const Wide& b) {
    return a.key < b.key || (a.key == b.key && a.low < b.low);
}
template <class W> __device__ W from_lane(W w, int distance) { return shuffle_xor(w, distance); }
template <> __device__ inline Wide from_lane(Wide w, int distance) {
    return {shuffle_xor(w.key, distance), shuffle_xor(w.low, distance)};
}

template <class U> struct Words;
template <> struct Words<unsigned char> {
    using Type = unsigned;
    static __device__ Type make(unsigned key, unsigned low) { return key << 16 | low; }
    static __device__ Type last() { return ~0u; }
    static __device__ unsigned char key(Type w) { return static_cast<unsigned char>(w >> 16); }
    static __device__ unsigned low(Type w) { return w & 0xffff; }
};
template <> struct Words<unsigned short> {
    using Type = unsigned;
    static __device__ Type make(unsigned key, unsigned low) { return key << 16 | low; }
    static __device__ Type last() { return ~0u; }
    static __device__ unsigned short key(Type w) { return static_cast<unsigned short>(w >> 16); }
    static __device__ unsigned low(Type w) { return w & 0xffff; }
};
template <> struct Words<unsigned> {
    using Type = unsigned long long;
    static __device__ Type make(unsigned long long key, unsigned low) { return key << 32 | low; }
    static __device__ Type last() { return ~0ull; }
    static __device__ unsigned key(Type w) { return unsigned(w >> 32); }
    static __device__ unsigned low(Type w) { return unsigned(w); }
};
template <> struct Words<unsigned long long> {
    using Type = Wide;
    static __device__ Type make(unsigned long long key, unsigned low) { return {key, low}; }
    static __device__ Type last() { return {~0ull, ~0u}; }
    static __device__ unsigned long long key(const Type& w) { return w.key; }
    static __device__ unsigned low(const Type& w) { return w.low; }
};

template <class W> __device__ void exchange(W& a, W& b, bool up) {
    bool swap = less(b, a) == up;
    W least = swap ? b : a;
    b = swap ? a : b, a = least;
}

// Sorts the words of G lanes: afterwards lane l has words l * E to l * E + E - 1.
template <int E, int G, class W> __device__ void bitonic(W (&w)[E], int lane) {
#pragma unroll
    for (int size = 2; size <= E; size *= 2)
#pragma unroll
        for (int d = size / 2; d > 0; d /= 2)
#pragma unroll
            for (int j = 0; j < E; j++)
                if (!(j & d)) exchange(w[j], w[j | d], !((lane * E + j) & size));
    // Loops, not code: a whole network would be thousands of instructions.
#pragma unroll 1
    for (int lanes = 2; lanes <= G; lanes *= 2) {
        bool up = !(lane & lanes);
#pragma unroll 1
        for (int d = lanes / 2; d > 0; d /= 2) {
            bool smaller = !(lane & d) == up;
#pragma unroll
            for (int j = 0; j < E; j++) {
                W other = from_lane(w[j], d);
                if (less(other, w[j]) == smaller) w[j] = other;
            }
        }
#pragma unroll
        for (int d = E / 2; d > 0; d /= 2)
#pragma unroll
            for (int j = 0; j < E; j++)
                if (!(j & d)) exchange(w[j], w[j | d], up);
    }
}

// A block has 256 / G rows, which pass through shared memory: neighbours in memory are read and
// written by neighbouring threads, along rows or across them.
template <class T, int E, int G>
__global__ void __launch_bounds__(256)
    sort_warps(const T* x, T* values, long long* indices, Rows r) {
    using U = typename Keys<T>::U;
    using Made = Words<U>;
    using W = typename Made::Type;
    constexpr int ROWS = 256 / G, PITCH = G * (E + 1);
    __shared__ W tile[ROWS * PITCH];
    __shared__ long long from[ROWS], to[ROWS];
    Keys<T> keys(r.descending);
    long long first_row = blockIdx.x * (long long)ROWS;
    int rows = int(min((long long)ROWS, r.rows - first_row)), n = int(r.n);
    for (int i = threadIdx.x; i < rows; i += 256) {
        from[i] = x_base(r, first_row + i);
        to[i] = y_base(r, first_row + i);
    }
    __syncthreads();
    auto slot = [](int i) { return i + i / E; };  // gaps keep lanes in different banks
    bool across = r.inner > 1 && r.x_inner < r.x_step;
    for (int t = threadIdx.x; t < ROWS * n; t += 256) {
        int row = across ? t % ROWS : t / n, i = across ? t / ROWS : t - row * n;
        if (row >= rows) continue;
        U key = keys.of(x[from[row] + i * r.x_step]), compared = keys.compared(key);
        tile[row * PITCH + slot(i)] = Made::make(compared, unsigned(i) << 1 | (key != compared));
    }
    __syncthreads();
    int lane = threadIdx.x % G;
    W* own = tile + threadIdx.x / G * PITCH;
    W w[E];
#pragma unroll
    for (int j = 0; j < E; j++) {
        int i = j * G + lane;
        w[j] = Made::last();
        if (i < n && int(threadIdx.x / G) < rows) w[j] = own[slot(i)];
    }
    bitonic<E, G>(w, lane);
    __syncthreads();
#pragma unroll
    for (int j = 0; j < E; j++) own[slot(lane * E + j)] = w[j];
    __syncthreads();
    across = r.inner > 1 && r.y_inner < r.y_step;
    int count = int(r.count), first = int(r.first);
    for (int t = threadIdx.x; t < ROWS * count; t += 256) {
        int row = across ? t % ROWS : t / count, i = across ? t / ROWS : t - row * count;
        if (row >= rows) continue;
        W found = tile[row * PITCH + slot(first + i)];
        unsigned low = Made::low(found);
        long long at = to[row] + i * r.y_step;
        if (values) values[at] = keys.value(low & 1 ? keys.minus_zero() : Made::key(found));
        if (indices) indices[at] = low >> 1;
    }
}
