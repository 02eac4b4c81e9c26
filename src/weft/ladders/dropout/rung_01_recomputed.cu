// rung:   01 recomputed
// idea:   a number is a function of the seed and of the element's index: the backward pass computes
//         it again, and the mask needs no memory
// expect: bytes read per result = 8
// launch: drop<<<(cdiv(n, 256), 2), 256>>>

#include <weft/philox.cuh>

using namespace weft;

__global__ void drop(const float* x, const float* dy, float* y, float* dx, size_t n) {
    const float* from = blockIdx.y ? dy : x;
    float* to = blockIdx.y ? dx : y;
    size_t i = size_t(blockIdx.x) * 256 + threadIdx.x;
    if (i >= n) return;
    uint4 r = philox(7, i / 4, 0);
    unsigned bits[4] = {r.x, r.y, r.z, r.w};
    to[i] = uniform(bits[i % 4]) < 0.5f ? 2 * from[i] : 0 * from[i];
}
