// Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3",
// 2011): random numbers as a function of a key and a counter, with no state in memory.
//
// philox(seed, subsequence, call) returns what cuRAND's CURAND_RNG_PSEUDO_PHILOX4_32_10 returns
// from curand_init(seed, subsequence, 4 * call, &state) and curand4(&state).
#pragma once

__device__ inline uint4 philox(unsigned long long seed, unsigned long long subsequence,
                               unsigned long long call) {
    uint4 c = {unsigned(call), unsigned(call >> 32), unsigned(subsequence),
               unsigned(subsequence >> 32)};
    unsigned k0 = unsigned(seed), k1 = unsigned(seed >> 32);
#pragma unroll
    for (int round = 0; round < 10; round++) {
        unsigned long long p0 = 0xD2511F53ull * c.x, p1 = 0xCD9E8D57ull * c.z;
        c = {unsigned(p1 >> 32) ^ c.y ^ k0, unsigned(p1), unsigned(p0 >> 32) ^ c.w ^ k1,
             unsigned(p0)};
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return c;
}

// A number in (0, 1], as curand_uniform.
__device__ inline float uniform(unsigned bits) {
    return fmaf(__uint2float_rn(bits), 0x1p-32f, 0x1p-33f);
}

// Where the numbers of a launch begin: in the launch's arguments, or in memory, so that a CUDA
// graph can change them.
struct Start {
    unsigned long long seed, call;
    __device__ Start(const long long* state, long long seed, long long offset)
        : seed(state ? state[0] : seed),
          call(static_cast<unsigned long long>(state ? state[1] : offset) / 4) {}
};

// Two normally distributed numbers of two random ones (Box and Muller), as curand_normal2 computes
// them.
__device__ inline float2 normal(unsigned a, unsigned b) {
    constexpr float TURN = 2.3283064e-10f * 6.2831855f;  // 2 pi / 2^32, rounded as cuRAND rounds it
    float radius = sqrtf(-2.0f * logf(uniform(a))), sine, cosine;
    __sincosf(fmaf(__uint2float_rn(b), TURN, TURN / 2), &sine, &cosine);
    return {sine * radius, cosine * radius};
}
