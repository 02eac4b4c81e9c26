// Rows that are too long for a block, shared by several that tell each other maximum and sum.
//
// As many blocks as the GPU holds at once go through all pieces of all rows in order. While a block
// works on one piece, and waits for the others of its row, the next one is on its way into shared
// memory: the wait costs no bandwidth.
#pragma once
#include "row.cuh"

// Joins (maximum, sum) of the blocks of a row by one warp. A slot is 0 until its block has written
// it: the sum is at least 1, or the maximum is -inf, or one of them NaN. Who is the last to have
// read them all makes them 0 again, for the next launch.
__device__ inline float2 joined(float most, float sum, unsigned long long* slots, unsigned* readers,
                                int mine, int parts) {
    int lane = threadIdx.x % 32;
    if (lane == 0) {
        unsigned long long word =
            static_cast<unsigned long long>(__float_as_uint(sum)) << 32 | __float_as_uint(most);
        weft::store_relaxed(slots + mine, word);
    }
    auto join = [](float2 a, float2 b) {
        float up = max_nan(a.x, b.x);
        return make_float2(up, (a.x == up ? a.y : a.y * __expf(a.x - up)) +
                                   (b.x == up ? b.y : b.y * __expf(b.x - up)));
    };
    float2 all = make_float2(lowest(), 0);
    for (int i = lane; i < parts; i += 32) {
        unsigned long long word;
        do word = weft::load_relaxed(slots + i);
        while (word == 0);
        all = join(all, make_float2(__uint_as_float(static_cast<unsigned>(word)),
                                    __uint_as_float(static_cast<unsigned>(word >> 32))));
    }
    __syncwarp();
    unsigned before = lane == 0 ? atomicInc(readers, parts - 1) : 0;
    if (weft::shuffle(before, 0) == parts - 1)
        for (int i = lane; i < parts; i += 32) weft::store_relaxed(slots + i, 0);
    return weft::warp_reduce(all, join);
}

template <class T, int THREADS, int VECTORS>
__device__ void softmax_split(const T* __restrict__ x, T* __restrict__ y, int rows, int n,
                              unsigned long long* slots, unsigned* readers) {
    using P = Piece<T, THREADS, VECTORS>;
    extern __shared__ uint4 ahead[];
    __shared__ float2 all;
    int parts = (n + P::SIZE - 1) / P::SIZE, pieces = rows * parts;
    auto fetch = [&](int i) {
        int start = i % parts * P::SIZE;
        const T* from = x + size_t(i / parts) * n + start;
#pragma unroll
        for (int k = 0; k < VECTORS; ++k)
            weft::copy_async<16>(ahead + k * THREADS + threadIdx.x, from + P::place(k),
                                 i < pieces && start + P::place(k) < n);
        weft::commit_copies();
    };
    fetch(blockIdx.x);
    for (int i = blockIdx.x; i < pieces; i += gridDim.x) {
        int row = i / parts, mine = i % parts, left = n - mine * P::SIZE;
        P piece;
        weft::wait_copies<0>();
#pragma unroll
        for (int k = 0; k < VECTORS; ++k)
            piece.held[k] = P::place(k) < left ? ahead[k * THREADS + threadIdx.x] : P::nothing();
        float most = block_reduce<THREADS>(piece.top(), lowest(), Maximum());
        fetch(i + gridDim.x);  // a thread overwrites what it alone has read
        float sum = block_reduce<THREADS>(piece.sum(base(most), n < 0), 0, Plus());
        if (threadIdx.x < 32) {
            float2 found =
                joined(most, sum, slots + size_t(row) * parts, readers + row, mine, parts);
            if (threadIdx.x == 0) all = found;
        }
        __syncthreads();
        float scale = (most == all.x ? 1 : __expf(most - all.x)) / all.y;
        piece.write(y + size_t(row) * n + mine * P::SIZE, left, base(most), scale);
    }
}
