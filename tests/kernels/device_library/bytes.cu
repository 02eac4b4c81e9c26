// Calls every function of weft/bytes.cuh.
#include <weft/bytes.cuh>
#include <weft/convert.cuh>

using namespace weft;

// y[n] = x[4 n .. 4 n + 3] as four bytes.
template <class Q>
__global__ void packed(const float* x, unsigned* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = pack_bytes<Q>(x[4 * i], x[4 * i + 1], x[4 * i + 2], x[4 * i + 3]);
}

// The same without the instruction; E4M3: else E5m2.
template <bool E4M3>
__global__ void by_bits(const float* x, unsigned char* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    y[i] =
        static_cast<unsigned char>(E4M3 ? fp8_bits<3, 7, 0x7e>(x[i]) : fp8_bits<2, 15, 0x7b>(x[i]));
}

// Four integers of each word, as 16-bit elements.
template <class T>
__global__ void unpacked(const unsigned* x, unsigned* y) {
    uint2 two = unpack_int8<T>(x[threadIdx.x]);
    y[2 * threadIdx.x] = two.x, y[2 * threadIdx.x + 1] = two.y;
}

__global__ void limits(float* y) {
    y[0] = LARGEST<signed char>, y[1] = LARGEST<E4m3>, y[2] = LARGEST<E5m2>;
}
