// A row of softmax in the registers of one block, or of several that share it.
//
// T      type of the elements (float, __nv_bfloat16)
// THREADS, VECTORS   a thread holds VECTORS pieces of 16 bytes
// Rows whose length is no multiple of 16 bytes go through `softmax_any`.
// A block holds THREADS * VECTORS * 16 bytes of a row. A longer row is split among `parts` blocks:
// each publishes its maximum and its sum, waits for those of the others, and goes on.
#pragma once
#include <cuda_bf16.h>

template <class T> struct Vector;
template <> struct Vector<float> {
    static constexpr int N = 4;
    static constexpr unsigned LOWEST = 0xff800000u;  // -inf
    static __device__ void open(uint4 v, float* f) {
        f[0] = __uint_as_float(v.x), f[1] = __uint_as_float(v.y);
        f[2] = __uint_as_float(v.z), f[3] = __uint_as_float(v.w);
    }
    static __device__ uint4 close(const float* f) {
        return make_uint4(__float_as_uint(f[0]), __float_as_uint(f[1]), __float_as_uint(f[2]),
                          __float_as_uint(f[3]));
    }
};
template <> struct Vector<__nv_bfloat16> {
    static constexpr int N = 8;
    static constexpr unsigned LOWEST = 0xff80ff80u;  // -inf twice
    static __device__ void open(uint4 v, float* f) {
        unsigned w[4] = {v.x, v.y, v.z, v.w};
        for (int k = 0; k < 4; ++k)
            f[2 * k] = __uint_as_float(w[k] << 16), f[2 * k + 1] = __uint_as_float(w[k] & 0xffff0000u);
    }
    static __device__ uint4 close(const float* f) {
        unsigned w[4];
        for (int k = 0; k < 4; ++k) {
            __nv_bfloat162 pair = __floats2bfloat162_rn(f[2 * k], f[2 * k + 1]);
            w[k] = *reinterpret_cast<unsigned*>(&pair);
        }
        return make_uint4(w[0], w[1], w[2], w[3]);
    }
};

// The larger one, or NaN if either is.
__device__ inline float larger(float a, float b) {
    float m;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(m) : "f"(a), "f"(b));
    return m;
}

template <int THREADS, class Join>
__device__ float across(float v, float* part, float start, Join join) {
    for (int d = 16; d > 0; d /= 2) v = join(v, __shfl_xor_sync(~0u, v, d));
    if constexpr (THREADS > 32) {
        __syncthreads();
        if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
        __syncthreads();
        v = threadIdx.x % 32 < THREADS / 32 ? part[threadIdx.x % 32] : start;
        for (int d = 16; d > 0; d /= 2) v = join(v, __shfl_xor_sync(~0u, v, d));
    }
    return v;
}

// Joins (maximum, sum) of the blocks of a row. The last to arrive at a row resets its counter.
__device__ inline void among_blocks(float& most, float& sum, int row, int part, int parts,
                                    float2* slots, unsigned* arrived) {
    __shared__ float2 joined;
    float2* mine = slots + size_t(row) * parts;
    if (threadIdx.x == 0) {
        __stcg(mine + part, make_float2(most, sum));
        __threadfence();
        atomicAdd(arrived + row, 1);
        while (*static_cast<volatile unsigned*>(arrived + row) < parts) {}
        __threadfence();
    }
    __syncthreads();
    if (threadIdx.x < 32) {
        float m = __int_as_float(0xff800000), s = 0;
        for (int i = threadIdx.x; i < parts; i += 32) {
            float2 other = __ldcg(mine + i);
            float up = larger(m, other.x);
            s = (m == up ? s : s * __expf(m - up)) + (other.x == up ? other.y : other.y * __expf(other.x - up));
            m = up;
        }
        for (int d = 16; d > 0; d /= 2) {
            float om = __shfl_xor_sync(~0u, m, d), os = __shfl_xor_sync(~0u, s, d), up = larger(m, om);
            s = (m == up ? s : s * __expf(m - up)) + (om == up ? os : os * __expf(om - up));
            m = up;
        }
        if (threadIdx.x == 0) joined = make_float2(m, s);
    }
    __syncthreads();
    most = joined.x, sum = joined.y;
}

template <class T, int THREADS, int VECTORS>
__device__ void softmax_row(const T* __restrict__ x, T* __restrict__ y, int n, int parts,
                            float2* slots, unsigned* arrived) {
    using V = Vector<T>;
    constexpr int N = V::N;
    __shared__ float part[THREADS / 32];
    int row = blockIdx.x / parts, piece = blockIdx.x % parts;
    x += size_t(row) * n, y += size_t(row) * n;
    int start = piece * (THREADS * VECTORS * N);
    float v[VECTORS][N];
    float most = __int_as_float(0xff800000), sum = 0;
#pragma unroll
    for (int k = 0; k < VECTORS; ++k) {
        int i = start + (k * THREADS + threadIdx.x) * N;
        uint4 bits = make_uint4(V::LOWEST, V::LOWEST, V::LOWEST, V::LOWEST);
        if (i < n) bits = __ldcs(reinterpret_cast<const uint4*>(x + i));
        V::open(bits, v[k]);
    }
#pragma unroll
    for (int k = 0; k < VECTORS; ++k)
        for (int j = 0; j < N; ++j) most = larger(most, v[k][j]);
    most = across<THREADS>(most, part, __int_as_float(0xff800000), larger);
    float own = most;  // what the exponentials below are relative to
#pragma unroll
    for (int k = 0; k < VECTORS; ++k)
        for (int j = 0; j < N; ++j) {
            v[k][j] = own == __int_as_float(0xff800000) ? 0 : __expf(v[k][j] - own);
            sum += v[k][j];
        }
    sum = across<THREADS>(sum, part, 0, [](float a, float b) { return a + b; });
    if (parts > 1) among_blocks(most, sum, row, piece, parts, slots, arrived);
    float scale = (own == most ? 1 : __expf(own - most)) / sum;
#pragma unroll
    for (int k = 0; k < VECTORS; ++k) {
        int i = start + (k * THREADS + threadIdx.x) * N;
        for (int j = 0; j < N; ++j) v[k][j] *= scale;
        if (i < n) __stcs(reinterpret_cast<uint4*>(y + i), V::close(v[k]));
    }
}

// Any row, by three passes over memory.
template <class T, int THREADS>
__device__ void softmax_any(const T* x, T* y, int n) {
    __shared__ float part[THREADS / 32];
    x += size_t(blockIdx.x) * n, y += size_t(blockIdx.x) * n;
    float most = __int_as_float(0xff800000), sum = 0;
    for (int i = threadIdx.x; i < n; i += THREADS) most = larger(most, x[i]);
    most = across<THREADS>(most, part, __int_as_float(0xff800000), larger);
    for (int i = threadIdx.x; i < n; i += THREADS) sum += __expf(static_cast<float>(x[i]) - most);
    sum = across<THREADS>(sum, part, 0, [](float a, float b) { return a + b; });
    for (int i = threadIdx.x; i < n; i += THREADS)
        y[i] = static_cast<T>(__expf(static_cast<float>(x[i]) - most) / sum);
}
