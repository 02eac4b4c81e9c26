// A row of softmax in the registers of one block, or piece by piece in those of several.
//
// T      type of the elements (float, __nv_bfloat16)
// THREADS, VECTORS   a thread holds VECTORS pieces of 16 bytes, a block THREADS times as many
// Rows whose length is no multiple of 16 bytes go through `softmax_any`.
#pragma once
#include <cuda_bf16.h>
#include <weft/async.cuh>
#include <weft/block.cuh>

using weft::block_reduce;
using weft::lowest;
using weft::max_nan;
using weft::Maximum;
using weft::Plus;

// What exponentials are relative to. Where all is -inf they are 0, and 0 / 0 at the end.
__device__ inline float base(float most) { return most == lowest() ? 0 : most; }

// KEEPS: exponentials take the place of the elements; as bf16 they would lose digits, so there the
// elements stay and their exponentials are computed again.
template <class T> struct Vector;
template <> struct Vector<float> {
    static constexpr int N = 4;
    static constexpr bool KEEPS = true;
    static constexpr unsigned LOWEST = 0xff800000u;  // -inf
    static __device__ void open(uint4 v, float* f) {
        f[0] = __uint_as_float(v.x), f[1] = __uint_as_float(v.y);
        f[2] = __uint_as_float(v.z), f[3] = __uint_as_float(v.w);
    }
    static __device__ uint4 close(const float* f) {
        return make_uint4(__float_as_uint(f[0]), __float_as_uint(f[1]), __float_as_uint(f[2]),
                          __float_as_uint(f[3]));
    }
    static __device__ float top(uint4 v) {
        float f[4];
        open(v, f);
        return max_nan(max_nan(f[0], f[1]), max_nan(f[2], f[3]));
    }
};
template <> struct Vector<__nv_bfloat16> {
    static constexpr int N = 8;
    static constexpr bool KEEPS = false;
    static constexpr unsigned LOWEST = 0xff80ff80u;  // -inf twice
    static __device__ void open(uint4 v, float* f) {
        unsigned w[4] = {v.x, v.y, v.z, v.w};
        for (int k = 0; k < 4; ++k)
            f[2 * k] = __uint_as_float(w[k] << 16),
                  f[2 * k + 1] = __uint_as_float(w[k] & 0xffff0000u);
    }
    static __device__ uint4 close(const float* f) {
        unsigned w[4];
        for (int k = 0; k < 4; ++k) {
            __nv_bfloat162 pair = __floats2bfloat162_rn(f[2 * k], f[2 * k + 1]);
            w[k] = *reinterpret_cast<unsigned*>(&pair);
        }
        return make_uint4(w[0], w[1], w[2], w[3]);
    }
    static __device__ float top(uint4 v) {
        auto larger = [](unsigned a, unsigned b) {
            return weft::max_nan_packed<__nv_bfloat16>(a, b);
        };
        unsigned m = larger(larger(v.x, v.y), larger(v.z, v.w));
        return max_nan(__uint_as_float(m << 16), __uint_as_float(m & 0xffff0000u));
    }
};

// What a block holds of a row.
template <class T, int THREADS, int VECTORS>
struct Piece {
    using V = Vector<T>;
    static constexpr int N = V::N, SIZE = THREADS * VECTORS * N;
    uint4 held[VECTORS];

    static __device__ int place(int k) { return (k * THREADS + threadIdx.x) * N; }
    static __device__ uint4 nothing() {
        return make_uint4(V::LOWEST, V::LOWEST, V::LOWEST, V::LOWEST);
    }

    // The largest element of a thread.
    __device__ float top() const {
        float top = lowest();
#pragma unroll
        for (int k = 0; k < VECTORS; ++k) top = max_nan(top, V::top(held[k]));
        return top;
    }
    // The sum of a thread's exponentials. Where they are not kept, 0 is added to the elements, in a
    // way that the compiler does not see through: it would keep what it has opened, in twice the
    // registers.
    __device__ float sum(float from, unsigned zero) {
        float sum = 0;
#pragma unroll
        for (int k = 0; k < VECTORS; ++k) {
            float v[N];
            V::open(held[k], v);
            for (int j = 0; j < N; ++j) sum += v[j] = __expf(v[j] - from);
            if constexpr (V::KEEPS) held[k] = V::close(v);
            else held[k].x += zero, held[k].y += zero, held[k].z += zero, held[k].w += zero;
        }
        return sum;
    }
    __device__ static uint4 result(uint4 held, float from, float scale) {
        float v[N];
        V::open(held, v);
        for (int j = 0; j < N; ++j) v[j] = (V::KEEPS ? v[j] : __expf(v[j] - from)) * scale;
        return V::close(v);
    }
    __device__ void write(T* y, int left, float from, float scale) const {
#pragma unroll
        for (int k = 0; k < VECTORS; ++k)
            if (place(k) < left)
                *reinterpret_cast<uint4*>(y + place(k)) = result(held[k], from, scale);
    }
};

template <class T, int THREADS, int VECTORS>
__device__ void softmax_row(const T* __restrict__ x, T* __restrict__ y, int n) {
    using P = Piece<T, THREADS, VECTORS>;
    x += size_t(blockIdx.x) * n, y += size_t(blockIdx.x) * n;
    P piece;
#pragma unroll
    for (int k = 0; k < VECTORS; ++k)
        piece.held[k] =
            P::place(k) < n ? *reinterpret_cast<const uint4*>(x + P::place(k)) : P::nothing();
    float from = base(block_reduce<THREADS>(piece.top(), lowest(), Maximum()));
    float sum = block_reduce<THREADS>(piece.sum(from, n < 0), 0, Plus());
    piece.write(y, n, from, 1 / sum);
}

// Any row, by three passes over memory.
template <class T, int THREADS>
__device__ void softmax_any(const T* x, T* y, int n) {
    x += size_t(blockIdx.x) * n, y += size_t(blockIdx.x) * n;
    float most = lowest(), sum = 0;
    for (int i = threadIdx.x; i < n; i += THREADS) most = max_nan(most, static_cast<float>(x[i]));
    most = block_reduce<THREADS>(most, lowest(), Maximum());
    for (int i = threadIdx.x; i < n; i += THREADS) sum += __expf(static_cast<float>(x[i]) - most);
    sum = block_reduce<THREADS>(sum, 0, Plus());
    for (int i = threadIdx.x; i < n; i += THREADS)
        y[i] = static_cast<T>(__expf(static_cast<float>(x[i]) - most) / sum);
}
