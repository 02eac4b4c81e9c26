// Sums of which several blocks have a part: each stores its own, and the last one adds them all.
#pragma once
#include <weft/block.cuh>

using namespace weft;

// A thread's results, four at a time: [place of a thread's four results][thread]. `to` and `from`
// are the places of its first four.
template <int THREADS, int COUNT>
__device__ void store_part(float4* to, const float (&of)[COUNT]) {
#pragma unroll
    for (int f = 0; f < COUNT / 4; ++f)
        to[f * THREADS] = make_float4(of[f * 4], of[f * 4 + 1], of[f * 4 + 2], of[f * 4 + 3]);
}
template <int THREADS, int COUNT>
__device__ void add_part(float (&of)[COUNT], const float4* from) {
#pragma unroll
    for (int f = 0; f < COUNT / 4; ++f) {
        float4 v = __ldcg(from + f * THREADS);
        of[f * 4] += v.x, of[f * 4 + 1] += v.y, of[f * 4 + 2] += v.z, of[f * 4 + 3] += v.w;
    }
}

// Adds the parts of K that `splits` blocks have summed. Each block stores its sums in `parts`, and
// the last one to come here adds them in order: results do not depend on which block comes last.
// True for that block, false for the others. `slot` is the number of the tile; `parts` are
// [slot][split][place of a thread's four results][thread].
template <int THREADS, int COUNT>
__device__ bool join_parts(float (&of)[COUNT], float* parts, int* counters, long long slot,
                           int split, int splits) {
    constexpr int FOURS = COUNT / 4;
    float4* mine = reinterpret_cast<float4*>(parts) + slot * splits * FOURS * THREADS + threadIdx.x;
    store_part<THREADS>(mine + split * FOURS * THREADS, of);
    if (!is_last_block(counters + slot, splits)) return false;
#pragma unroll
    for (int i = 0; i < COUNT; ++i) of[i] = 0;
    for (int s = 0; s < splits; ++s) add_part<THREADS>(of, mine + s * FOURS * THREADS);
    return true;
}
