// The operands of a convolution as a matrix product: weights [target channel][depth] times windows
// [depth][pixel]. The depth counts source channels and taps. Tiles arrive by cp.async as those of
// tiled.cuh do.
#pragma once
#include "window.cuh"
#include "../../matmul/cuda/tiled.cuh"

// One step along the depth: where it lies in a window and in the weights.
struct Depth {
    int x;       // from the first element of a window
    int weight;  // from the first weight of a target channel; -1 beyond the end
    int a, b;    // MASKED: the bit of the tap; else its row and column, relative to the window
};

// The steps of a stage are computed once for the block, by BK threads, a stage before they are
// needed.
template <int BK, int STAGES, bool MASKED>
struct Depths {
    struct Position {
        int channel, row, column;
    };
    Depth table[STAGES][BK];
    Position at[BK], step;  // `step` is BK as channels, rows and columns of taps: a division would
                            // delay a whole stage
    int k[BK];

    __device__ void start(const Window& w, int k0) {
        if (threadIdx.x < BK) {
            int mine = k0 + threadIdx.x, taps = max(1, w.h.taps * w.w.taps), tap = mine % taps;
            int columns = max(1, w.w.taps);
            k[threadIdx.x] = mine, at[threadIdx.x] = {mine / taps, tap / columns, tap % columns};
            if (threadIdx.x == 0) step = {BK / taps, BK % taps / columns, BK % taps % columns};
        }
    }
    // Fills a stage, and steps BK further.
    __device__ void fill(int stage, const Conv& p, const Window& w, int end) {
        if (threadIdx.x >= BK) return;
        Position o = at[threadIdx.x];
        int row = o.row * w.h.step, column = o.column * w.w.step, mine = k[threadIdx.x];
        Depth d;
        d.x = int(o.channel * p.source[1] + row * p.source[2] + column * p.source[3]);
        d.weight = mine < end ? o.channel * p.weight_source + (w.h.first + o.row * w.h.skip) * p.S +
                                    w.w.first + o.column * w.w.skip
                              : -1;
        if constexpr (MASKED) d.a = mine < end ? 1 << (o.row * w.w.taps + o.column) : 0;
        else d.a = mine < end ? row : -(1 << 30), d.b = column;
        table[stage][threadIdx.x] = d;
        o.channel += step.channel, o.row += step.row, o.column += step.column;
        if (o.column >= w.w.taps) o.column -= w.w.taps, ++o.row;
        if (o.row >= w.h.taps) o.row -= w.h.taps, ++o.channel;
        at[threadIdx.x] = o, k[threadIdx.x] = mine + BK;
    }
};

// Weights: BM target channels, in shared memory [depth][channel]. Adjacent threads copy adjacent
// steps of the depth, which are contiguous in the forward pass.
template <int BM, int BK, int THREADS, class Table>
struct Weights {
    static constexpr int PITCH = BM + 4, SIZE = BK * PITCH, APART = THREADS / BK,
                         COPIES = BM / APART;
    static_assert(THREADS % BK == 0 && BM % APART == 0, "every thread copies as many elements");

    const float* from;
    float* to;
    const Table& depths;
    int extent, row;

    __device__ Weights(const float* weight, float* shared, const Table& table, const Conv& p,
                       int m0)
        : depths(table) {
        int fast = threadIdx.x % BK, slow = threadIdx.x / BK;
        from = weight + (long long)(m0 + slow) * p.weight_target, to = shared + fast * PITCH + slow;
        extent = p.target_c - m0 - slow, row = p.weight_target;
    }
    __device__ void next(int stage) {
        int at = depths.table[stage][threadIdx.x % BK].weight;
        const float* first = from + at;
#pragma unroll
        for (int i = 0; i < COPIES; ++i)
            copy_async<4>(to + stage * SIZE + i * APART, first + (long long)(i * APART) * row,
                          at >= 0 && i * APART < extent);
    }
};

// Windows: BN pixels, in shared memory [depth][pixel]. A thread copies elements of one pixel;
// adjacent threads copy adjacent pixels. With MASKED, a bit of `mask` says for each tap (at most
// 32) whether it lies in the source.
template <int BN, int BK, int THREADS, bool BACK, bool MASKED, class Table>
struct Windows {
    static constexpr int PITCH = BN, SIZE = BK * PITCH, APART = THREADS / BN, COPIES = BK / APART;
    static_assert(THREADS % BN == 0 && BK % APART == 0, "a thread has one pixel");

    const float* from;
    float* to;
    Table& depths;
    const Conv& p;
    const Window& window;
    int end, h, w;
    unsigned mask;

    __device__ Windows(const float* x, float* shared, Table& table, const Conv& conv,
                       const Window& win, int n0, int k1)
        : depths(table), p(conv), window(win), end(k1) {
        int column = threadIdx.x % BN, index = n0 + column;
        bool inside = index < win.pixels(conv);
        Pixel pixel(inside ? index : 0, win);
        h = pixel.i * win.h.mul + win.h.base, w = pixel.j * win.w.mul + win.w.base;
        from = x + pixel.n * p.source[0] + h * p.source[2] + w * p.source[3];
        to = shared + threadIdx.x / BN * PITCH + column;
        mask = 0;
        if constexpr (MASKED) {
            for (int r = 0; r < win.h.taps; ++r)
                for (int s = 0; s < win.w.taps; ++s)
                    mask |= unsigned(here(h + r * win.h.step, w + s * win.w.step))
                            << (r * win.w.taps + s);
            if (!inside) mask = 0;
        } else if (!inside) {
            h = -(1 << 30);
        }
    }
    __device__ bool here(int row, int column) const {
        return unsigned(row) < p.source_h && unsigned(column) < p.source_w;
    }
    __device__ void next(int stage) {
        const Depth* d = depths.table[stage] + threadIdx.x / BN;
#pragma unroll
        for (int i = 0; i < COPIES; ++i) {
            Depth at = d[i * APART];
            bool inside;
            if constexpr (MASKED) inside = mask & at.a;
            else inside = here(h + at.a, w + at.b);
            copy_async<4>(to + stage * SIZE + i * APART * PITCH, from + at.x, inside);
        }
    }
    __device__ void prepare(int stage) { depths.fill(stage, p, window, end); }
};
