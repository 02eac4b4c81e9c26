// Rows that are too long for a block, shared by several that tell each other maximum and sum.
//
// As many blocks as the GPU holds at once go through all pieces of all rows in order. While a block
// works on one piece, and waits for the others of its row, the next one is on its way into shared
// memory: the wait costs no bandwidth.
#pragma once
#include "row.cuh"

// Joins (maximum, sum) of the blocks of a row by one warp. A slot is 0 until its block has written it:
// the sum is at least 1, or the maximum is -inf, or one of them NaN. Who is the last to have read them
// all makes them 0 again, for the next launch.
__device__ inline float2 joined(float most, float sum, unsigned long long* slots, unsigned* readers, int mine,
                                int parts) {
    int lane = threadIdx.x % 32;
    if (lane == 0) {
        unsigned long long word =
            static_cast<unsigned long long>(__float_as_uint(sum)) << 32 | __float_as_uint(most);
        asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(slots + mine), "l"(word) : "memory");
    }
    float m = lowest(), s = 0;
    auto take = [&](float om, float os) {
        float up = larger(m, om);
        s = (m == up ? s : s * __expf(m - up)) + (om == up ? os : os * __expf(om - up));
        m = up;
    };
    for (int i = lane; i < parts; i += 32) {
        unsigned long long word;
        do asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(word) : "l"(slots + i) : "memory");
        while (word == 0);
        take(__uint_as_float(static_cast<unsigned>(word)), __uint_as_float(static_cast<unsigned>(word >> 32)));
    }
    __syncwarp();
    unsigned before = lane == 0 ? atomicInc(readers, parts - 1) : 0;
    if (__shfl_sync(~0u, before, 0) == parts - 1)
        for (int i = lane; i < parts; i += 32)
            asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(slots + i), "l"(0ull) : "memory");
    for (int d = 16; d > 0; d /= 2) {
        float om = __shfl_xor_sync(~0u, m, d), os = __shfl_xor_sync(~0u, s, d);
        take(om, os);
    }
    return make_float2(m, s);
}

template <class T, int THREADS, int VECTORS>
__device__ void softmax_split(const T* __restrict__ x, T* __restrict__ y, int rows, int n,
                              unsigned long long* slots, unsigned* readers) {
    using P = Piece<T, THREADS, VECTORS>;
    extern __shared__ uint4 ahead[];
    __shared__ float part[THREADS / 32];
    __shared__ float2 all;
    int parts = (n + P::SIZE - 1) / P::SIZE, pieces = rows * parts;
    auto fetch = [&](int i) {
        int start = i % parts * P::SIZE;
        const T* from = x + size_t(i / parts) * n + start;
#pragma unroll
        for (int k = 0; k < VECTORS; ++k)
            copy16(ahead + k * THREADS + threadIdx.x, from + P::place(k), i < pieces && start + P::place(k) < n);
        asm volatile("cp.async.commit_group;");
    };
    fetch(blockIdx.x);
    for (int i = blockIdx.x; i < pieces; i += gridDim.x) {
        int row = i / parts, mine = i % parts, left = n - mine * P::SIZE;
        P piece;
        asm volatile("cp.async.wait_group 0;" ::: "memory");
#pragma unroll
        for (int k = 0; k < VECTORS; ++k)
            piece.held[k] = P::place(k) < left ? ahead[k * THREADS + threadIdx.x] : P::nothing();
        float most = across<THREADS>(piece.top(), part, lowest(), larger);
        fetch(i + gridDim.x);  // a thread overwrites what it alone has read
        float sum = across<THREADS>(piece.sum(base(most), n < 0), part, 0, add);
        if (threadIdx.x < 32) {
            float2 found = joined(most, sum, slots + size_t(row) * parts, readers + row, mine, parts);
            if (threadIdx.x == 0) all = found;
        }
        __syncthreads();
        float scale = (most == all.x ? 1 : __expf(most - all.x)) / all.y;
        piece.write(y + size_t(row) * n + mine * P::SIZE, left, base(most), scale);
    }
}
