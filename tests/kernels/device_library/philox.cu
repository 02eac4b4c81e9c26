// Calls every function of weft/philox.cuh.
#include <weft/philox.cuh>

using namespace weft;

// Four words of thread i: its subsequence, from the launch's first call on.
__global__ void words(uint4* y, const long long* state, long long seed, long long offset) {
    PhiloxStart start(state, seed, offset);
    y[threadIdx.x] = philox(start.seed, threadIdx.x, start.call);
}

__global__ void numbers(const uint2* words, float* uniforms, float2* normals) {
    uint2 w = words[threadIdx.x];
    uniforms[threadIdx.x] = uniform(w.x);
    normals[threadIdx.x] = normal(w.x, w.y);
}
