// A row on one SM, in registers and in shared memory; longer ones on several, which tell each other
// maximum and sum.
#pragma once
#include "split.cuh"

// Of each thread's vectors HELD are in registers and LYING in shared memory.
template <class T, int THREADS, int HELD, int LYING>
__device__ void softmax_chip(const T* __restrict__ x, T* __restrict__ y, int n,
                             unsigned long long* slots, unsigned* readers) {
    using P = Piece<T, THREADS, HELD>;
    using V = Vector<T>;
    constexpr int SIZE = (HELD + LYING) * THREADS * P::N;
    extern __shared__ uint4 lying[];
    __shared__ float2 all;
    int parts = (n + SIZE - 1) / SIZE, row = blockIdx.x / parts, mine = blockIdx.x % parts;
    int left = n - mine * SIZE;
    x += size_t(row) * n + mine * SIZE, y += size_t(row) * n + mine * SIZE;
#pragma unroll
    for (int k = 0; k < LYING; ++k)
        weft::copy_async<16>(lying + k * THREADS + threadIdx.x, x + P::place(HELD + k),
                             P::place(HELD + k) < left);
    P piece;
#pragma unroll
    for (int k = 0; k < HELD; ++k)
        piece.held[k] =
            P::place(k) < left ? *reinterpret_cast<const uint4*>(x + P::place(k)) : P::nothing();
    auto at = [&](int k) {
        return P::place(HELD + k) < left ? lying[k * THREADS + threadIdx.x] : P::nothing();
    };
    float most = piece.top();
    weft::wait_all_copies();
#pragma unroll 2
    for (int k = 0; k < LYING; ++k) most = max_nan(most, V::top(at(k)));
    most = block_reduce<THREADS>(most, lowest(), Maximum());
    float from = base(most), sum = piece.sum(from, n < 0);
#pragma unroll 2
    for (int k = 0; k < LYING; ++k) {
        Piece<T, THREADS, 1> one;
        one.held[0] = at(k);
        sum += one.sum(from, 0);
        if constexpr (V::KEEPS) lying[k * THREADS + threadIdx.x] = one.held[0];
    }
    sum = block_reduce<THREADS>(sum, 0, Plus());
    float scale = 1 / sum;
    if (parts > 1) {
        if (threadIdx.x < 32) {
            float2 found =
                joined(most, sum, slots + size_t(row) * parts, readers + row, mine, parts);
            if (threadIdx.x == 0) all = found;
        }
        __syncthreads();
        scale = (most == all.x ? 1 : __expf(most - all.x)) / all.y;
    }
    piece.write(y, left, from, scale);
#pragma unroll 2
    for (int k = 0; k < LYING; ++k)
        if (P::place(HELD + k) < left)
            *reinterpret_cast<uint4*>(y + P::place(HELD + k)) =
                P::result(lying[k * THREADS + threadIdx.x], from, scale);
}
