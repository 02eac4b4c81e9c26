// rung:   02 four numbers
// idea:   Philox returns four numbers at once: a thread has four neighbouring elements and uses all
//         of them. Its elements are in one vector of 16 bytes, which a warp reads without gaps
// expect: load sectors per request = 16
// launch: drop<<<(cdiv(n, 1024), 2), 256>>>

#include <weft/philox.cuh>

using namespace weft;

__global__ void drop(const float* x, const float* dy, float* y, float* dx, size_t n) {
    const float* from = blockIdx.y ? dy : x;
    float* to = blockIdx.y ? dx : y;
    size_t g = size_t(blockIdx.x) * 256 + threadIdx.x;
    uint4 r = philox(7, g, 0);
    float m[4] = {uniform(r.x) < 0.5f ? 2.0f : 0.0f, uniform(r.y) < 0.5f ? 2.0f : 0.0f,
                  uniform(r.z) < 0.5f ? 2.0f : 0.0f, uniform(r.w) < 0.5f ? 2.0f : 0.0f};
    if (4 * g + 4 <= n) {
        float4 v = reinterpret_cast<const float4*>(from)[g];
        reinterpret_cast<float4*>(to)[g] = {v.x * m[0], v.y * m[1], v.z * m[2], v.w * m[3]};
    } else {
        for (int k = 0; 4 * g + k < n; ++k) to[4 * g + k] = from[4 * g + k] * m[k];
    }
}
