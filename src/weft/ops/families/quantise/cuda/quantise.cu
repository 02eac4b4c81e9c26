// Quantises segments, which are rows or groups of a row: each has a scale, which maps its largest
// element to the largest number of the type of 8 bits.
#include <weft/block.cuh>
#include <weft/bytes.cuh>
#include <weft/convert.cuh>
#include <weft/early_launch.cuh>
#include "../../swiglu/cuda/gated.cuh"

STRUCT_SEGMENTS;  // see structs.py

// The scale of a segment, and the factor of its elements. A segment of zeros has scale 1. One that
// is not finite has factor 0. The smallest scale has a reciprocal.
struct Scaling {
    float scale, factor;

    template <class Q>
    static __device__ Scaling of(float most) {
        constexpr float LEAST = 1.17549435e-38f;  // 2^-126
        float scale = most == 0 ? 1 : most / LARGEST<Q>;
        scale = scale < LEAST ? LEAST : scale;  // NaN stays
        return {scale, isfinite(scale) ? 1 / scale : 0};
    }
};

// The first element of a segment in x, whose rows are `pitch` elements apart.
template <class T>
__device__ const T* start_of(const T* x, long long segment, long long pitch, const Segments& s) {
    if (s.groups == 1) return x + segment * pitch;
    long long row = segment / s.groups;
    return x + row * pitch + (segment - row * s.groups) * s.n;
}

template <class T, int V>
__device__ float largest(const Vector<T, V>& v, float most) {
    Vector<float, V> f = to_floats(v);
#pragma unroll
    for (int j = 0; j < V; ++j) most = max_nan(most, fabsf(f[j]));
    return most;
}

// Stores a vector of elements times a factor.
template <class Q, class T, int V>
__device__ void store_quantised(Q* to, const Vector<T, V>& v, float factor) {
    Vector<float, V> f = to_floats(v);
    Vector<Q, V> q;
#pragma unroll
    for (int j = 0; j < V; ++j) f[j] *= factor;
    if constexpr (V % 4 == 0) {
        unsigned* words = reinterpret_cast<unsigned*>(&q);
#pragma unroll
        for (int j = 0; j < V; j += 4)
            words[j / 4] = pack_bytes<Q>(f[j], f[j + 1], f[j + 2], f[j + 3]);
    } else {
#pragma unroll
        for (int j = 0; j < V; ++j) {
            unsigned char byte = static_cast<unsigned char>(pack_bytes<Q>(f[j], 0, 0, 0));
            memcpy(&q[j], &byte, 1);
        }
    }
    store(to, q);
}

// LANES threads have a segment, of up to EACH vectors of V elements for each of them, which stay in
// registers. Those of a warp have several segments, or a block has one. `get(segment)` returns a
// function of an element's number in a segment, which returns the vector from there on.
template <class T, int V, int LANES, int EACH, class Q, class Get>
__device__ void quantise_resident(Q* q, float* scales, const Segments& s, Get get) {
    constexpr int THREADS = LANES > 32 ? LANES : 256;
    long long segment = blockIdx.x * static_cast<long long>(THREADS / LANES) + threadIdx.x / LANES;
    int lane = threadIdx.x % LANES;
    bool inside = segment < s.count;
    auto from = get(inside ? segment : 0);
    Vector<T, V> v[EACH];
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
        int at = (i * LANES + lane) * V;
        v[i] = fill<V>(to<T>(0.0f));
        if (inside && at < s.n) v[i] = from(at);
    }
    float most = 0;
#pragma unroll
    for (int i = 0; i < EACH; ++i) most = largest(v[i], most);
    most = block_reduce<LANES>(most, 0, Maximum());
    if (!inside) return;
    Scaling made = Scaling::of<Q>(most);
    if (lane == 0) scales[segment] = made.scale;
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
        int at = (i * LANES + lane) * V;
        if (at < s.n) store_quantised(q + segment * s.n + at, v[i], made.factor);
    }
}

template <class T, class Q, int V, int LANES, int EACH>
__global__ void __launch_bounds__(LANES > 32 ? LANES : 256)
    resident(const T* x, Q* q, float* scales, const Segments s) {
    take_turn();
    quantise_resident<T, V, LANES, EACH>(q, scales, s, [&](long long segment) {
        const T* from = start_of(x, segment, s.pitch, s);
        return [=](int at) { return load<V>(from + at); };
    });
}

// The same for silu(gate) * up, rounded to T; rows of `up` are `up_pitch` elements apart.
template <class T, class Q, int V, int LANES, int EACH>
__global__ void __launch_bounds__(LANES > 32 ? LANES : 256)
    resident_gated(const T* gate, const T* up, Q* q, float* scales, const Segments s,
                   long long up_pitch) {
    take_turn();
    quantise_resident<T, V, LANES, EACH>(q, scales, s, [&](long long segment) {
        const T *a = start_of(gate, segment, s.pitch, s), *b = start_of(up, segment, up_pitch, s);
        return [=](int at) { return gated<Silu>(load<V>(a + at), load<V>(b + at)); };
    });
}

// Parts of long segments: `parts` blocks share each.
constexpr int BLOCK = 256;

// Calls `take(i)` for the first element of each vector of this thread: a block's vectors are
// neighbours.
template <int V, class Take>
__device__ void each_vector(const Segments& s, Take take) {
    long long part = blockIdx.x % s.parts, vectors = s.n / V;
    long long first = vectors * part / s.parts, end = vectors * (part + 1) / s.parts;
#pragma unroll 4
    for (long long i = first + threadIdx.x; i < end; i += BLOCK) take(i * V);
}

// The largest element of each segment, as the bits of a float: those of larger ones are larger
// integers, and those of NaN are larger than all. `most` is 0 before.
template <class T, int V>
__global__ void __launch_bounds__(BLOCK) find_largest(const T* x, int* most, const Segments s) {
    take_turn();
    long long segment = blockIdx.x / s.parts;
    const T* from = start_of(x, segment, s.pitch, s);
    float found = 0;
    each_vector<V>(s, [&](long long i) { found = largest(load<V>(from + i), found); });
    found = block_max<BLOCK>(found);
    if (threadIdx.x == 0)
        atomicMax(most + segment, isnan(found) ? 0x7fffffff : __float_as_int(found));
}

// Quantises by what find_largest has found.
template <class T, class Q, int V>
__global__ void __launch_bounds__(BLOCK)
    apply(const T* x, const int* most, Q* q, float* scales, const Segments s) {
    take_turn();
    long long segment = blockIdx.x / s.parts;
    const T* from = start_of(x, segment, s.pitch, s);
    Scaling made = Scaling::of<Q>(__int_as_float(most[segment]));
    if (threadIdx.x == 0 && blockIdx.x % s.parts == 0) scales[segment] = made.scale;
    each_vector<V>(s, [&](long long i) {
        store_quantised(q + segment * s.n + i, load<V>(from + i), made.factor);
    });
}
