// Brings the tensors of a convolution into the order of its tensor-core kernels: the channels of a group are innermost and
// padded with zeros to whole 16-byte vectors. float is rounded to tf32. One launch packs all tensors of a pass.
#pragma once
#include "../vector.cuh"

template <class T>
__device__ T packed(T x) { return x; }
template <>
__device__ inline float packed<float>(float x) {
    unsigned y;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(x));
    return __uint_as_float(y);
}

// Images [batch][group][channel][pixel] become [batch][pixel][group][padded channel]. `row` and `column` are the strides of
// a pixel of `width` to a row. `wide`: pixels of an image are contiguous, in whole 16-byte vectors. A block packs 64 pixels.
struct Images {
    int blocks, pixel_tiles, channel_tiles, groups, channels, padded, pixels, width, wide;
    long long batch, channel, row, column;
};

// Weights [group][K][C][tap] with strides of their own become [group][K][tap][padded C], or with BACK [group][C][tap][padded
// K]. Each of `vectors` threads makes 16 bytes.
struct Weights {
    int K, C, taps, padded;
    long long vectors, k, c, tap;
};

template <class T>
__device__ void pack_images(const T* from, T* to, const Images& p, int block, Vector<T, 16 / sizeof(T)>* memory) {
    constexpr int EACH = 16 / sizeof(T), CHANNELS = 128 / sizeof(T), VECTORS = 64 / EACH;
    int tile = block % p.pixel_tiles, rest = block / p.pixel_tiles, c0 = rest % p.channel_tiles * CHANNELS;
    int group = rest / p.channel_tiles % p.groups, n = rest / p.channel_tiles / p.groups, x0 = tile * 64;
    from += n * p.batch + (group * p.channels + c0) * p.channel;
    // In shared memory a row is a channel. Its vectors change places by the number of the output vector that reads it.
    auto slot = [&](int c, int v) { return c * VECTORS + (v ^ c / EACH % 8); };
    // All loads of a thread start before the first is needed.
    if (p.wide) {
        constexpr int COPIES = CHANNELS * VECTORS / 256;
        Vector<T, EACH> v[COPIES];
#pragma unroll
        for (int i = 0; i < COPIES; ++i) {
            int c = (threadIdx.x + i * 256) / VECTORS, x = x0 + threadIdx.x % VECTORS * EACH;
            v[i] = {};
            if (c0 + c < p.channels && x < p.pixels) v[i] = load<EACH>(from + c * p.channel + x);
        }
#pragma unroll
        for (int i = 0; i < COPIES; ++i) memory[slot((threadIdx.x + i * 256) / VECTORS, threadIdx.x % VECTORS)] = v[i];
    } else {
        int x = x0 + threadIdx.x % 64, row = x / p.width;
        const T* pixel = from + row * p.row + (x - row * p.width) * p.column;
        T v[CHANNELS / 4];
#pragma unroll
        for (int i = 0; i < CHANNELS / 4; ++i) {
            int c = threadIdx.x / 64 + i * 4;
            v[i] = c0 + c < p.channels && x < p.pixels ? pixel[c * p.channel] : T(0.0f);
        }
#pragma unroll
        for (int i = 0; i < CHANNELS / 4; ++i)
            memory[slot(threadIdx.x / 64 + i * 4, threadIdx.x % 64 / EACH)][threadIdx.x % EACH] = v[i];
    }
    __syncthreads();
    int vector = threadIdx.x % 8, c = c0 + vector * EACH;
    for (int x = threadIdx.x / 8; x < 64; x += 32) {
        if (x0 + x >= p.pixels || c >= p.padded) continue;
        Vector<T, EACH> v;
#pragma unroll
        for (int j = 0; j < EACH; ++j) v[j] = packed(memory[slot(vector * EACH + j, x / EACH)][x % EACH]);
        store(to + (((long long)n * p.pixels + x0 + x) * p.groups + group) * p.padded + c, v);
    }
}

template <class T, bool BACK>
__device__ void pack_weights(const T* from, T* to, const Weights& p, long long index) {
    constexpr int EACH = 16 / sizeof(T);
    if (index >= p.vectors) return;
    // Neighbouring threads read neighbours: taps, and with BACK channels of x as well.
    int tap = int(index % p.taps), count = p.padded / EACH;
    long long rest = index / p.taps;
    int row, vector;
    if (BACK) row = int(rest % p.C), vector = int(rest / p.C % count);
    else vector = int(rest % count), row = int(rest / count % p.K);
    long long group = rest / count / (BACK ? p.C : p.K);
    from += group * p.K * p.k + row * (BACK ? p.c : p.k) + tap * p.tap;
    int inner = BACK ? p.K : p.C;
    long long step = BACK ? p.k : p.c;
    Vector<T, EACH> v;
#pragma unroll
    for (int j = 0; j < EACH; ++j) v[j] = vector * EACH + j < inner ? packed(from[(vector * EACH + j) * step]) : T(0.0f);
    store(to + ((group * (BACK ? p.C : p.K) + row) * p.taps + tap) * p.padded + vector * EACH, v);
}
