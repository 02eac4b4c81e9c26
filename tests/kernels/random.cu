// Random numbers: Philox written out, and cuRAND's device library.
#include <curand_kernel.h>

__device__ uint4 philox(uint4 counter, uint2 key) {
    for (int round = 0; round < 10; round++) {
        unsigned h0 = __umulhi(0xD2511F53u, counter.x), l0 = 0xD2511F53u * counter.x;
        unsigned h1 = __umulhi(0xCD9E8D57u, counter.z), l1 = 0xCD9E8D57u * counter.z;
        counter = make_uint4(h1 ^ counter.y ^ key.x, l1, h0 ^ counter.w ^ key.y, l0);
        key.x += 0x9E3779B9u, key.y += 0xBB67AE85u;
    }
    return counter;
}

// Four elements a thread; the mask depends on seed and position only.
__global__ void dropout(const float* x, float* y, unsigned* bits, int n, float p,
                        unsigned long long seed, unsigned long long offset) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    uint4 counter = make_uint4((unsigned)offset, (unsigned)(offset >> 32), i, 0);
    uint4 r = philox(counter, make_uint2((unsigned)seed, (unsigned)(seed >> 32)));
    unsigned words[4] = {r.x, r.y, r.z, r.w};
    float scale = 1.f / (1.f - p);
    for (int k = 0; k < 4; k++) {
        int at = 4 * i + k;
        if (at >= n) return;
        float u = (words[k] >> 8) * 0x1p-24f;
        bits[at] = words[k];
        y[at] = u >= p ? x[at] * scale : 0.f;
    }
}

__global__ void curand_bits(unsigned* out, unsigned long long seed, unsigned long long skip) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    curandStatePhilox4_32_10_t state;
    curand_init(seed, i, skip, &state);
    for (int k = 0; k < 4; k++) out[4 * i + k] = curand(&state);
}

__global__ void monte_carlo_pi(unsigned long long* inside, int samples, unsigned long long seed) {
    curandState state;  // XORWOW
    curand_init(seed, blockIdx.x * blockDim.x + threadIdx.x, 0, &state);
    unsigned hits = 0;
    for (int k = 0; k < samples; k++) {
        float x = curand_uniform(&state), y = curand_uniform(&state);
        hits += x * x + y * y <= 1.f;
    }
    atomicAdd(inside, (unsigned long long)hits);
}

__global__ void normals(float* out, double* wide, int samples, unsigned long long seed) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    curandStatePhilox4_32_10_t state;
    curand_init(seed, i, 0, &state);
    for (int k = 0; k < samples; k++) {
        float4 v = curand_normal4(&state);
        ((float4*)out)[i * samples + k] = v;
        wide[i * samples + k] = curand_normal_double(&state);
    }
}
