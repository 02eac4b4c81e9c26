// rung:   02 bit tricks
// idea:   four bits become a float without a conversion: put into the bits of 2^23, 2^19, 2^15 or
//         2^11 that count 1 to 8, where they are as they lie; then that and 8 are subtracted. x is
//         read in vectors
// precision: bf16
// expect: load sectors per request < 30
// launch: gemv<<<cdiv(N, 8), 256>>>

#include <weft/convert.cuh>
#include <weft/warp.cuh>

using namespace weft;

// Weight j of a word.
__device__ float weight_at(unsigned word, int j) {
    unsigned bits = j < 4 ? word : word >> 16, place = j % 4 * 4;
    unsigned power = 0x4b000000 - (place << 23);  // 2^(23 - place)
    return __uint_as_float((bits & 15u << place) | power) - (__uint_as_float(power) + 8);
}

__global__ void gemv(const __nv_bfloat16* x, const unsigned char* w, const float* s,
                     __nv_bfloat16* y, int N, int G) {
    int n = blockIdx.x * 8 + warp_index();
    if (n >= N) return;
    w += size_t(n) * G * 64, s += size_t(n) * G;
    float sum = 0;
    for (int begin = 0; begin < G * 4; begin += 32) {
        int i = begin + lane_index();
        float part = 0;
        if (i < G * 4) {
            Vector<unsigned, 4> from = load_once<4>(reinterpret_cast<const unsigned*>(w) + i * 4);
#pragma unroll
            for (int u = 0; u < 4; ++u) {
                Vector<float, 8> of = to_floats(load<8>(x + i * 32 + u * 8));
#pragma unroll
                for (int j = 0; j < 8; ++j) part += of[j] * weight_at(from[u], j);
            }
        }
        part = group_reduce<4>(part, Plus());
        if (i < G * 4 && lane_index() % 4 == 0) sum += part * s[i / 4];
    }
    sum = warp_sum(sum);
    if (lane_index() == 0) y[n] = to<__nv_bfloat16>(sum);
}
