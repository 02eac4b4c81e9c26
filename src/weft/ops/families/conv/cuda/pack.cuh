// Brings the tensors of a convolution into the order of its tensor-core kernels: the channels of a
// group are innermost and padded with zeros to whole 16-byte vectors. float is rounded to tf32. One
// launch packs all tensors of a pass.
#pragma once
#include <weft/convert.cuh>
#include <weft/mma.cuh>

using namespace weft;

template <class T>
__device__ T packed(T x) {
    return x;
}
template <>
__device__ inline float packed<float>(float x) {
    return __uint_as_float(to_tf32(x));
}

// Images [batch][group][channel][pixel] become [batch][pixel][group][padded channel]. `row` and
// `column` are the strides of a pixel of `width` to a row; pixels of an image are contiguous in
// whole vectors of `each`, 1 if there are none. A block packs 64 pixels, or with `each` 0, for
// channels that are one vector, 256.
struct Images {
    int blocks, pixel_tiles, channel_tiles, groups, channels, padded, pixels, width, each;
    long long batch, channel, row, column;
};

// Weights [group][K][C][tap] with strides of their own become [group][K][tap][padded C], or with
// BACK [group][C][tap][padded K]. Each of `vectors` threads makes 16 bytes.
struct Weights {
    int K, C, taps, padded, vectors;
    long long k, c, tap;
};

// In shared memory a row is a channel. Its vectors change places by the number of the output vector
// that reads it.
template <class T>
__device__ int slot(int channel, int vector) {
    constexpr int EACH = 16 / sizeof(T);
    return channel * (64 / EACH) + (vector ^ channel / EACH % 8);
}

// Reads a block's pixels from x0 on, N at a time. All loads of a thread start before the first is
// needed.
template <int N, class T>
__device__ void read_pixels(const T* from, const Images& p, int c0, int x0,
                            Vector<T, 16 / sizeof(T)>* memory) {
    constexpr int EACH = 16 / sizeof(T), CHANNELS = 128 / sizeof(T), ACROSS = 64 / N,
                  DOWN = 256 / ACROSS, COPIES = CHANNELS / DOWN;
    int x = x0 + threadIdx.x % ACROSS * N, c = threadIdx.x / ACROSS, row = x / p.width;
    from += row * p.row + (x - row * p.width) * p.column + c * p.channel;
    Vector<T, N> v[COPIES];
#pragma unroll
    for (int i = 0; i < COPIES; ++i) {
        v[i] = {};
        if (c0 + c + i * DOWN < p.channels && x < p.pixels)
            v[i] = load<N>(from + i * DOWN * p.channel);
    }
#pragma unroll
    for (int i = 0; i < COPIES; ++i)
        store(&memory[slot<T>(c + i * DOWN, (x - x0) / EACH)][x % EACH], v[i]);
}

template <class T>
__device__ void pack_images(const T* from, T* to, const Images& p, int block,
                            Vector<T, 16 / sizeof(T)>* memory) {
    constexpr int EACH = 16 / sizeof(T), CHANNELS = 128 / sizeof(T);
    int tile = block % p.pixel_tiles, rest = block / p.pixel_tiles,
        c0 = rest % p.channel_tiles * CHANNELS;
    int group = rest / p.channel_tiles % p.groups, n = rest / p.channel_tiles / p.groups,
        x0 = tile * 64;
    from += n * p.batch + (group * p.channels + c0) * p.channel;
    if (p.each == 0) {
        int x = tile * 256 + threadIdx.x, row = x / p.width;
        if (x >= p.pixels) return;
        from += row * p.row + (x - row * p.width) * p.column;
        Vector<T, EACH> v;
#pragma unroll
        for (int j = 0; j < EACH; ++j)
            v[j] = j < p.channels ? packed(from[j * p.channel]) : T(0.0f);
        store(to + (((long long)n * p.pixels + x) * p.groups + group) * EACH, v);
        return;
    }
    if (p.each == EACH) read_pixels<EACH>(from, p, c0, x0, memory);
    else if (p.each == EACH / 2) read_pixels<EACH / 2>(from, p, c0, x0, memory);
    else read_pixels<1>(from, p, c0, x0, memory);
    __syncthreads();
    int vector = threadIdx.x % 8, c = c0 + vector * EACH;
    for (int x = threadIdx.x / 8; x < 64; x += 32) {
        if (x0 + x >= p.pixels || c >= p.padded) continue;
        Vector<T, EACH> v;
#pragma unroll
        for (int j = 0; j < EACH; ++j)
            v[j] = packed(memory[slot<T>(vector * EACH + j, x / EACH)][x % EACH]);
        store(to + (((long long)n * p.pixels + x0 + x) * p.groups + group) * p.padded + c, v);
    }
}

template <class T, bool BACK>
__device__ void pack_weights(const T* from, T* to, const Weights& p, int index) {
    constexpr int EACH = 16 / sizeof(T);
    if (index >= p.vectors) return;
    // Neighbouring threads read neighbours: taps, and with BACK channels of x as well.
    int count = p.padded / EACH, rest = index / p.taps, tap = index - rest * p.taps,
        rows = BACK ? p.C : p.K;
    int fast = BACK ? rows : count, above = rest / fast, first = rest - above * fast;
    int slow = BACK ? count : rows, group = above / slow, second = above - group * slow;
    int row = BACK ? first : second, vector = BACK ? second : first;
    from += (long long)group * p.K * p.k + row * (BACK ? p.c : p.k) + tap * p.tap;
    int inner = BACK ? p.K : p.C;
    long long step = BACK ? p.k : p.c;
    Vector<T, EACH> v;
#pragma unroll
    for (int j = 0; j < EACH; ++j)
        v[j] = vector * EACH + j < inner ? packed(from[(vector * EACH + j) * step]) : T(0.0f);
    store(to + (((long long)group * rows + row) * p.taps + tap) * p.padded + vector * EACH, v);
}
