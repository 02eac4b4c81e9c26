// Sums in single precision over the chunks of a loss, beside the result in 16 bits that they
// become.
#pragma once
#include <weft/convert.cuh>
#include <weft/packed.cuh>

using namespace weft;

// What a launch does with a sum: begins it, adds to it, or adds to it and rounds it to the result.
enum Stage { BEGIN, GO_ON, END };

// Has the L2 cache fetch the line of an address.
__device__ inline void prefetch_line(const void* at) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(at));
}

// Eight neighbouring sums as they lie in memory, on their way to or from it.
struct Eight {
    uint4 part[2];
};

// Sums, of which number i is a multiple of eight. Of bfloat16 the result has the upper half of a
// sum, and `rest` the lower one, so that both take no more memory than the sum.
template <class T>
struct Sums;

template <>
struct Sums<__nv_bfloat16> {
    __nv_bfloat16* out;
    int* rest;

    __device__ Eight get(long long i) const {
        return {*reinterpret_cast<const uint4*>(out + i),
                *reinterpret_cast<const uint4*>(reinterpret_cast<unsigned short*>(rest) + i)};
    }
    __device__ void put(long long i, const Eight& e) const {
        *reinterpret_cast<uint4*>(out + i) = e.part[0];
        *reinterpret_cast<uint4*>(reinterpret_cast<unsigned short*>(rest) + i) = e.part[1];
    }
    // Those of 128 bytes of results.
    __device__ void prefetch(long long i) const {
        prefetch_line(out + i), prefetch_line(reinterpret_cast<unsigned short*>(rest) + i);
    }
    static __device__ void add(float (&sum)[8], const Eight& e) {
        auto* high = reinterpret_cast<const unsigned*>(&e.part[0]);
        auto* low = reinterpret_cast<const unsigned*>(&e.part[1]);
#pragma unroll
        for (int k = 0; k < 4; k++) {
            sum[2 * k] += __uint_as_float(__byte_perm(low[k], high[k], 0x5410));
            sum[2 * k + 1] += __uint_as_float(__byte_perm(low[k], high[k], 0x7632));
        }
    }
    static __device__ Eight split(const float (&sum)[8]) {
        Eight e;
        auto *high = reinterpret_cast<unsigned*>(&e.part[0]),
             *low = reinterpret_cast<unsigned*>(&e.part[1]);
#pragma unroll
        for (int k = 0; k < 4; k++) {
            unsigned a = __float_as_uint(sum[2 * k]), b = __float_as_uint(sum[2 * k + 1]);
            high[k] = __byte_perm(a, b, 0x7632), low[k] = __byte_perm(a, b, 0x5410);
        }
        return e;
    }
    __device__ float get_one(long long i) const {
        unsigned high = bits_of(out[i]), low = reinterpret_cast<const unsigned short*>(rest)[i];
        return __uint_as_float(high << 16 | low);
    }
    __device__ void put_one(long long i, float sum) const {
        unsigned bits = __float_as_uint(sum);
        reinterpret_cast<unsigned short*>(out)[i] = static_cast<unsigned short>(bits >> 16);
        reinterpret_cast<unsigned short*>(rest)[i] = static_cast<unsigned short>(bits);
    }
};

template <>
struct Sums<__half> {
    __half* out;
    int* rest;

    __device__ Eight get(long long i) const { return *reinterpret_cast<const Eight*>(rest + i); }
    __device__ void put(long long i, const Eight& e) const {
        *reinterpret_cast<Eight*>(rest + i) = e;
    }
    __device__ void prefetch(long long i) const {
        prefetch_line(rest + i), prefetch_line(rest + i + 32);
    }
    static __device__ void add(float (&sum)[8], const Eight& e) {
#pragma unroll
        for (int k = 0; k < 8; k++) sum[k] += reinterpret_cast<const float*>(&e)[k];
    }
    static __device__ Eight split(const float (&sum)[8]) {
        Eight e;
#pragma unroll
        for (int k = 0; k < 8; k++) reinterpret_cast<float*>(&e)[k] = sum[k];
        return e;
    }
    __device__ float get_one(long long i) const { return __int_as_float(rest[i]); }
    __device__ void put_one(long long i, float sum) const { rest[i] = __float_as_int(sum); }
};

// Adds products to eight sums that were read, and stores them; at the end, the results.
template <int STAGE, class T>
__device__ void put_sums(const Sums<T>& sums, long long i, float (&products)[8], const Eight& old) {
    if constexpr (STAGE != BEGIN) Sums<T>::add(products, old);
    if constexpr (STAGE != END) {
        sums.put(i, Sums<T>::split(products));
    } else {
        uint4 rounded;
#pragma unroll
        for (int k = 0; k < 4; k++)
            reinterpret_cast<unsigned*>(&rounded)[k] =
                pack<T>(products[2 * k], products[2 * k + 1]);
        *reinterpret_cast<uint4*>(sums.out + i) = rounded;
    }
}
