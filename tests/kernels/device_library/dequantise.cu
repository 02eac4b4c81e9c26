// Calls every function of weft/dequantise.cuh.
#include <weft/dequantise.cuh>

using namespace weft;

// Eight weights of each thread as elements of T, and as floats, and eight elements of x in the
// order of the former.
template <Weights F, class T>
__global__ void eights(const unsigned* weights, const uint4* x, uint4* y, uint4* order,
                       float* floats) {
    unsigned to[4], halves[4], arranged[4];
    const unsigned* from = weights + threadIdx.x * WEIGHT_WORDS<F>;
    uint4 of = x[threadIdx.x];
    unsigned words[4] = {of.x, of.y, of.z, of.w};
    Dequantiser<F, T>().convert(to, from);
    Dequantiser<F, __half>().convert(halves, from);
    arrange<F>(arranged, words);
    y[threadIdx.x] = make_uint4(to[0], to[1], to[2], to[3]);
    order[threadIdx.x] = make_uint4(arranged[0], arranged[1], arranged[2], arranged[3]);
    for (int i = 0; i < 8; ++i) floats[threadIdx.x * 8 + i] = weight_at<F>(halves, i);
}

// Words as pairs, and back.
__global__ void pairs(const unsigned* x, unsigned* halves, unsigned* bfloats) {
    halves[threadIdx.x] = as_word(as_half2(x[threadIdx.x]));
    bfloats[threadIdx.x] = as_word(as_bfloat162(x[threadIdx.x]));
}

// Weights of four bits of each thread with their offset, and that offset.
template <class T>
__global__ void offsets(const unsigned* weights, uint4* y, float* offset) {
    unsigned to[4];
    offset_int4(to, weights[threadIdx.x], MAGIC<T>);
    y[threadIdx.x] = make_uint4(to[0], to[1], to[2], to[3]);
    offset[threadIdx.x] = INT4_OFFSET<T>;
}
