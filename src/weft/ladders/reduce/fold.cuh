// One pass over an array by all blocks; the block that finishes last folds what the others left.
// `Fold` says what is folded: its identity, how an element enters, how two are joined.
// The order of every addition is fixed, so that the answer is the same bits each time.
#pragma once
#include <weft/warp.cuh>

template <class Fold, int THREADS, int AHEAD>
__device__ void fold_all(const float* __restrict__ x, size_t n, typename Fold::Value* partial,
                         unsigned* finished, typename Fold::Value& out, bool& last) {
    using Value = typename Fold::Value;
    __shared__ Value part[THREADS / 32];
    __shared__ bool is_last;
    const float4* four = reinterpret_cast<const float4*>(x);
    size_t fours = n / 4, step = size_t(gridDim.x) * THREADS;
    size_t i = size_t(blockIdx.x) * THREADS + threadIdx.x;
    Value v = Fold::identity();
    auto take = [&](float4 f, size_t at) {
        v = Fold::join(v, Fold::join(Fold::join(Fold::of(f.x, at), Fold::of(f.y, at + 1)),
                                     Fold::join(Fold::of(f.z, at + 2), Fold::of(f.w, at + 3))));
    };
    for (; i + (AHEAD - 1) * step < fours; i += AHEAD * step) {
        float4 f[AHEAD];
#pragma unroll
        for (int k = 0; k < AHEAD; ++k) f[k] = __ldcs(four + i + k * step);
#pragma unroll
        for (int k = 0; k < AHEAD; ++k) take(f[k], 4 * (i + k * step));
    }
    for (; i < fours; i += step) take(four[i], 4 * i);
    if (blockIdx.x == 0 && threadIdx.x < n % 4) {
        size_t at = fours * 4 + threadIdx.x;
        v = Fold::join(v, Fold::of(x[at], at));
    }
    auto block = [&](Value mine) {
        mine = weft::warp_reduce(mine, Fold::join);
        if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = mine;
        __syncthreads();
        mine = threadIdx.x < THREADS / 32 ? part[threadIdx.x] : Fold::identity();
        if (threadIdx.x < 32) mine = weft::warp_reduce(mine, Fold::join);
        return mine;
    };
    v = block(v);
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = v;
        __threadfence();
        is_last = atomicAdd(finished, 1) == gridDim.x - 1;
    }
    __syncthreads();
    last = is_last;
    if (!last) return;
    __threadfence();
    v = Fold::identity();
    for (unsigned b = threadIdx.x; b < gridDim.x; b += THREADS)
        v = Fold::join(v, Fold::load(&partial[b]));
    __syncthreads();
    out = block(v);
    if (threadIdx.x == 0) *finished = 0;  // for the next launch
}
