// Convolution, batch norm, ReLU and 2 x 2 max pooling. A convolution with stride 1 that keeps its
// results in registers.
//
// LANES threads compute a strip: two rows of 2 TW pixels for LANES * FT filters. A thread has FT
// filters and all pixels of the strip, so the windows of the pooling and the sums over a channel
// stay in one thread. All lanes read the same pixels: a row of the input, once read, serves S
// columns of the filter and two rows of the result. A block has WY strips below each other of IM
// images, and LANES * FT filters. Weights and pixels arrive by cp.async in a ring of STAGES, CC
// channels at a time.
#pragma once
#include <weft/async.cuh>
#include <weft/convert.cuh>
#include <weft/warp.cuh>

using namespace weft;

struct BlockShape {
    int images, channels, height, width, filters;  // of the input and the weights
    int rows, columns;                             // of the convolution
    int pooled_rows, pooled_columns;
    int pad_y, pad_x;
    int tiles_y, tiles_x;
};

// Two rows of two of the convolution's results, which are `columns` wide.
template <class T>
__device__ void window(float (&v)[4], const T* from, int columns) {
    if (columns % 2 == 0) {
        Vector<T, 2> above = load<2>(from), below = load<2>(from + columns);
        v[0] = to<float>(above[0]), v[1] = to<float>(above[1]), v[2] = to<float>(below[0]),
        v[3] = to<float>(below[1]);
    } else {
        v[0] = to<float>(from[0]), v[1] = to<float>(from[1]);
        v[2] = to<float>(from[columns]), v[3] = to<float>(from[columns + 1]);
    }
}

// One element to shared memory, as float; 0 where it is outside.
__device__ inline void fetch(float* to, const float* from, bool inside) {
    copy_async<4>(to, from, inside);
}
template <class T>
__device__ void fetch(float* to_, const T* from, bool inside) {
    *to_ = inside ? to<float>(*from) : 0.0f;
}

// Statistics of some pixels: how many, their mean, and the sum of squared differences from it.
struct Moments {
    float count, mean, m2;
    __device__ void join(const Moments& other) {
        float all = count + other.count;
        if (all == 0) return;
        float apart = other.mean - mean, part = other.count / all;
        mean += apart * part;
        m2 += other.m2 + apart * apart * count * part;
        count = all;
    }
};

template <class T, int R, int S, int LANES, int FT, int TW, int WY, int IM, int CC, int STAGES>
struct ConvTile {
    static constexpr int THREADS = LANES * WY * IM, WARPS = THREADS / 32, FILTERS = LANES * FT,
                         TAPS = R * S;
    static constexpr int DEEP = CC * TAPS;                         // products of a stage
    static constexpr int PITCH =
        FILTERS + (FT > 2 ? FT : 2);      // two filters and 16 products hit 32 banks, or 16
    static_assert(THREADS % 32 == 0, "whole warps");
    static constexpr int IN_ROWS = 2 * WY + R - 1, NEEDED = 2 * TW + S - 1,
                         IN_COLUMNS = (NEEDED + 3) / 4 * 4;
    static constexpr int AREA = IN_ROWS * IN_COLUMNS, EACH = (AREA + THREADS - 1) / THREADS;
    static constexpr int WEIGHTS = (DEEP * PITCH + 3) / 4 * 4, STAGE = WEIGHTS + IM * CC * AREA;

    float of[2][2 * TW][FT];
    int at[EACH];

    // A thread loads the same places of all planes: where they are in a plane, or -1.
    __device__ void locate(const BlockShape& p, int y0, int x0) {
#pragma unroll
        for (int i = 0; i < EACH; ++i) {
            int place = threadIdx.x + i * THREADS, y = y0 + place / IN_COLUMNS,
                x = x0 + place % IN_COLUMNS;
            bool inside = unsigned(y) < unsigned(p.height) && unsigned(x) < unsigned(p.width);
            at[i] = inside && place % IN_COLUMNS < NEEDED ? y * p.width + x : -1;
        }
    }

    __device__ void load(float* stage, const T* x, const T* w, const BlockShape& p, int image,
                         int f0, int c0) const {
        int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
        long long deep = (long long)p.channels * TAPS;
        int left = min(CC, p.channels - c0) * TAPS;
#pragma unroll 1
        for (int pair = warp; pair < FILTERS / 2; pair += WARPS) {
            int f = 2 * pair + lane % 2, k = lane / 2;
            const T* from = w + (f0 + f) * deep + (long long)c0 * TAPS + k;
            bool real = f0 + f < p.filters;
#pragma unroll
            for (int i = 0; i < DEEP; i += 16)
                if (i + 16 <= DEEP || k + i < DEEP)
                    fetch(stage + (k + i) * PITCH + f, real && k + i < left ? from + i : w,
                          real && k + i < left);
        }
        float* to_ = stage + WEIGHTS + threadIdx.x;
        const T* plane = x + ((long long)image * p.channels + c0) * p.height * p.width;
#pragma unroll 1
        for (int im = 0; im < IM; ++im, plane += (long long)(p.channels - CC) * p.height * p.width)
#pragma unroll
            for (int c = 0; c < CC; ++c, to_ += AREA, plane += (long long)p.height * p.width) {
                bool real = image + im < p.images && c0 + c < p.channels;
#pragma unroll
                for (int i = 0; i < EACH; ++i)
                    if ((i + 1) * THREADS <= AREA || threadIdx.x + i * THREADS < AREA) {
                        bool inside = real && at[i] >= 0;
                        fetch(to_ + i * THREADS, inside ? plane + at[i] : x, inside);
                    }
            }
    }

    __device__ void multiply(const float* weights, const float* pixels) {
        float w[TAPS][FT];
#pragma unroll
        for (int t = 0; t < TAPS; ++t) {
            Vector<float, FT> v = ::load<FT>(weights + t * PITCH);
#pragma unroll
            for (int j = 0; j < FT; ++j) w[t][j] = v[j];
        }
#pragma unroll
        for (int r = 0; r <= R; ++r) {
            float in[IN_COLUMNS];
#pragma unroll
            for (int i = 0; i < IN_COLUMNS; i += 4)
                *reinterpret_cast<float4*>(in + i) =
                    *reinterpret_cast<const float4*>(pixels + r * IN_COLUMNS + i);
#pragma unroll
            for (int dy = 0; dy < 2; ++dy) {
                if (r - dy < 0 || r - dy >= R) continue;
#pragma unroll
                for (int s = 0; s < S; ++s)
#pragma unroll
                    for (int i = 0; i < 2 * TW; ++i)
#pragma unroll
                        for (int j = 0; j < FT; ++j)
                            of[dy][i][j] += in[i + s] * w[(r - dy) * S + s][j];
            }
        }
    }

    __device__ void run(float* ring, const T* x, const T* w, const BlockShape& p, int image, int y0,
                        int x0, int f0) {
        int lane = threadIdx.x % LANES, strip = threadIdx.x / LANES % WY,
            im = threadIdx.x / (LANES * WY);
#pragma unroll
        for (int dy = 0; dy < 2; ++dy)
#pragma unroll
            for (int i = 0; i < 2 * TW; ++i)
#pragma unroll
                for (int j = 0; j < FT; ++j) of[dy][i][j] = 0;
        locate(p, y0, x0);
        int chunks = (p.channels + CC - 1) / CC;
        for (int s = 0; s < STAGES - 1; ++s) {
            if (s < chunks) load(ring + s * STAGE, x, w, p, image, f0, s * CC);
            commit_copies();
        }
        int now = 0, into = STAGES - 1;
#pragma unroll 1
        for (int chunk = 0; chunk < chunks; ++chunk) {
            wait_copies<STAGES - 2>();
            __syncthreads();
            if (chunk + STAGES - 1 < chunks)
                load(ring + into * STAGE, x, w, p, image, f0, (chunk + STAGES - 1) * CC);
            commit_copies();
            into = into + 1 == STAGES ? 0 : into + 1;
            const float* weights = ring + now * STAGE + lane * FT;
            const float* pixels =
                ring + now * STAGE + WEIGHTS + (im * CC * IN_ROWS + 2 * strip) * IN_COLUMNS;
#pragma unroll 1
            for (int c = 0; c < CC; ++c)
                multiply(weights + c * TAPS * PITCH, pixels + c * IN_ROWS * IN_COLUMNS);
            now = now + 1 == STAGES ? 0 : now + 1;
        }
        wait_all_copies();
        __syncthreads();
    }
};
