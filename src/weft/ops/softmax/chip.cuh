// A long row on one SM: registers hold the first part, shared memory the next, and what fits in neither
// is read twice, the second time from the L2.
#pragma once
#include "row.cuh"

// A sum of exponentials relative to one maximum, now relative to a larger one.
__device__ inline float moved(float sum, float from, float to) {
    return from == lowest() ? 0 : sum * __expf(from - to);
}

// Of each thread's vectors HELD are in registers, SHARED in shared memory, AGAIN are read again.
template <class T, int THREADS, int HELD, int SHARED, int AGAIN>
__device__ void softmax_chip(const T* __restrict__ x, T* __restrict__ y, int n) {
    using P = Piece<T, THREADS, HELD>;
    using V = Vector<T>;
    constexpr int CHUNK = 4;  // vectors that are on their way at a time, of those that are read again
    extern __shared__ uint4 lying[];
    __shared__ float part[THREADS / 32];
    x += size_t(blockIdx.x) * n, y += size_t(blockIdx.x) * n;
    auto read = [&](int k) {
        return P::place(k) < n ? *reinterpret_cast<const uint4*>(x + P::place(k)) : P::nothing();
    };
#pragma unroll
    for (int k = 0; k < SHARED; ++k)
        copy16(lying + k * THREADS + threadIdx.x, x + P::place(HELD + k), P::place(HELD + k) < n);
    asm volatile("cp.async.commit_group;");
    P piece;
#pragma unroll
    for (int k = 0; k < HELD; ++k) piece.held[k] = read(k);
    float top = lowest(), sum = 0;
#pragma unroll 1
    for (int k = 0; k < AGAIN; k += CHUNK) {
        Piece<T, THREADS, CHUNK> chunk;
#pragma unroll
        for (int c = 0; c < CHUNK; ++c) chunk.held[c] = k + c < AGAIN ? read(HELD + SHARED + k + c) : P::nothing();
        float up = larger(top, chunk.top());
        sum = moved(sum, top, up) + chunk.sum(base(up), 0);
        top = up;
    }
    float before = top;
    top = larger(top, piece.top());
    asm volatile("cp.async.wait_group 0;" ::: "memory");
#pragma unroll 2
    for (int k = 0; k < SHARED; ++k)
        if (P::place(HELD + k) < n) top = larger(top, V::top(lying[k * THREADS + threadIdx.x]));
    float most = across<THREADS>(top, part, lowest(), larger), all = base(most);
    sum = moved(sum, before, most) + piece.sum(all, n < 0);
#pragma unroll 2
    for (int k = 0; k < SHARED; ++k) {
        Piece<T, THREADS, 1> one;
        one.held[0] = P::place(HELD + k) < n ? lying[k * THREADS + threadIdx.x] : P::nothing();
        sum += one.sum(all, 0);
        if constexpr (V::KEEPS) lying[k * THREADS + threadIdx.x] = one.held[0];
    }
    float scale = 1 / across<THREADS>(sum, part, 0, add);
    piece.write(y, n, all, scale);
#pragma unroll 2
    for (int k = 0; k < SHARED; ++k)
        if (P::place(HELD + k) < n)
            *reinterpret_cast<uint4*>(y + P::place(HELD + k)) =
                P::result(lying[k * THREADS + threadIdx.x], all, scale);
#pragma unroll 4
    for (int k = HELD + SHARED; k < HELD + SHARED + AGAIN; ++k) {
        Piece<T, THREADS, 1> one;
        one.held[0] = read(k);
        if constexpr (V::KEEPS) one.sum(all, 0);
        if (P::place(k) < n) *reinterpret_cast<uint4*>(y + P::place(k)) = P::result(one.held[0], all, scale);
    }
}
