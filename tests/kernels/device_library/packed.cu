// Calls every function of weft/packed.cuh, without NVIDIA's headers for 16-bit types.
#include <weft/packed.cuh>

using namespace weft;

struct __half {
    unsigned short bits;
};
struct __nv_bfloat16 {
    unsigned short bits;
};

// A word from two numbers, and the numbers from the word.
template <class T>
__global__ void words(const float2* x, unsigned* y, float2* back) {
    int i = threadIdx.x;
    y[i] = pack<T>(x[i].x, x[i].y);
    back[i] = make_float2(unpack<T>(y[i], 0), unpack<T>(y[i], 1));
}

__global__ void saturated(const float2* x, unsigned* y) {
    y[threadIdx.x] = pack_saturated(x[threadIdx.x].x, x[threadIdx.x].y);
}

// N elements of each thread, times their number plus one.
template <class T, int N>
__global__ void mapped(const unsigned* x, unsigned* y, float* first) {
    using P = Packed<T, N>;
    P v = reinterpret_cast<const P*>(x)[threadIdx.x];
    v.forget();
    reinterpret_cast<P*>(y)[threadIdx.x] = v.map([](float e, int i) { return e * (i + 1); });
    first[threadIdx.x] = v[0];
}

template __global__ void words<__half>(const float2*, unsigned*, float2*);
template __global__ void words<__nv_bfloat16>(const float2*, unsigned*, float2*);
template __global__ void words<float>(const float2*, unsigned*, float2*);
template __global__ void mapped<__half, 8>(const unsigned*, unsigned*, float*);
template __global__ void mapped<__half, 3>(const unsigned*, unsigned*, float*);
template __global__ void mapped<__nv_bfloat16, 8>(const unsigned*, unsigned*, float*);
template __global__ void mapped<__nv_bfloat16, 3>(const unsigned*, unsigned*, float*);
