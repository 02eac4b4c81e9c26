// Brings the tensors of a convolution into the order of its tensor-core kernels: the channels of a group are innermost and
// padded with zeros to whole 16-byte vectors. float is rounded to tf32.
#include "vector.cuh"

template <class T>
__device__ T packed(T x) { return x; }
template <>
__device__ inline float packed<float>(float x) {
    unsigned y;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(x));
    return __uint_as_float(y);
}

// A tensor [outer][channels][inner], with strides of its own, becomes [outer][inner][group][padded]: images, where inner are
// pixels. `row` and `column` are the strides of a pixel of `width` to a row.
struct Pack {
    int groups, channels, padded, inner, width;
    long long outer, channel, row, column;
};

// A block turns 64 pixels x 32 channels of a group in shared memory. Blocks: pixels (x), channels of groups (y), outer (z).
template <class T>
__global__ void __launch_bounds__(256) pack_images(const T* from, T* to, const Pack p, int outer) {
    __shared__ T tile[32][66];
    int lane = threadIdx.x % 64, blocks = (p.padded + 31) / 32, group = blockIdx.y / blocks, c0 = blockIdx.y % blocks * 32;
    int pixel = blockIdx.x * 64 + lane;
    for (int n = blockIdx.z; n < outer; n += gridDim.z) {
        const T* image = from + n * p.outer + (pixel / p.width) * p.row + (pixel % p.width) * p.column;
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            int c = c0 + threadIdx.x / 64 + i * 4;
            bool inside = pixel < p.inner && c < p.channels;
            tile[threadIdx.x / 64 + i * 4][lane] = inside ? packed(image[(group * p.channels + c) * p.channel]) : T(0.0f);
        }
        __syncthreads();
        T* out = to + ((long long)n * p.inner * p.groups + group) * p.padded;
        int c = c0 + threadIdx.x % 16 * 2;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            int at = threadIdx.x / 16 + i * 16, x = blockIdx.x * 64 + at;
            if (x >= p.inner || c >= p.padded) continue;
            Vector<T, 2> pair;
            pair[0] = tile[c - c0][at], pair[1] = tile[c - c0 + 1][at];
            store(out + (long long)x * p.groups * p.padded + c, pair);
        }
        __syncthreads();
    }
}

// Weights [group][K][C][taps] become [group][K][taps][padded C], or with BACK [group][C][taps][padded K].
template <class T, bool BACK>
__global__ void __launch_bounds__(256) pack_weights(const T* from, T* to, int K, int C, int taps, int padded, long long size) {
    long long index = blockIdx.x * 256ll + threadIdx.x;
    if (index >= size) return;
    int inner = int(index % padded);
    long long rest = index / padded;
    int tap = int(rest % taps);
    rest /= taps;
    int rows = BACK ? C : K, row = int(rest % rows);
    long long group = rest / rows;
    int k = BACK ? inner : row, c = BACK ? row : inner;
    to[index] = inner < (BACK ? K : C) ? packed(from[((group * K + k) * C + c) * taps + tap]) : T(0.0f);
}
