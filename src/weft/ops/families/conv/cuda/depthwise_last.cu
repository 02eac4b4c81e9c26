// Convolution in which every filter reads one channel, of images whose channels are innermost. A
// thread computes COLUMNS neighbouring results of ROWS rows for some channels: it keeps the pixels
// of a row that their windows read in registers, and the weights of a tap serve all columns. Lanes
// are neighbours along the channels. The weights of a block's channels are in shared memory,
// [tap][channel].
#include <weft/convert.cuh>
#include <weft/early_launch.cuh>

using namespace weft;

STRUCT_DEPTHWISELAST;  // depthwise_last.py declares it

// COUNT pixels of a row from column `first` on, with zeros where there are none.
template <class T, int COUNT, int EACH>
struct Pixels {
    Vector<float, EACH> at[COUNT];

    __device__ void load(const T* row, int first, int width, long long step, bool there) {
        Vector<T, EACH> v[COUNT];
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            v[i] = fill<EACH>(T(0.0f));
            if (there && unsigned(first + i) < width) v[i] = ::load<EACH>(row + (first + i) * step);
        }
#pragma unroll
        for (int i = 0; i < COUNT; ++i) at[i] = to_floats(v[i]);
    }
};

// The weights of CHANNELS channels of [channel][tap] as [tap][channel]; FLIP: the taps in reverse.
template <class T, int CHANNELS, int TAPS, bool FLIP>
__device__ inline void load_filters(float (&filters)[TAPS][CHANNELS], const T* weight, int first) {
    for (int i = threadIdx.x; i < CHANNELS * TAPS; i += blockDim.x) {
        int c = i / TAPS, tap = i % TAPS;
        filters[FLIP ? TAPS - 1 - tap : tap][c] = to<float>(weight[(long long)first * TAPS + i]);
    }
}

template <int EACH>
__device__ inline void add_products(Vector<float, EACH>& sums, const Vector<float, EACH>& a,
                                    const Vector<float, EACH>& b) {
#pragma unroll
    for (int i = 0; i < EACH; ++i) sums[i] += a[i] * b[i];
}

// The place of a thread: its channels, and a strip of columns of some rows of an image.
template <int EACH, int LANES>
struct Strip {
    int lane, channel, column, row, n;

    __device__ Strip(const DepthwiseLast& p, int columns, int rows) {
        lane = threadIdx.x % LANES;
        channel = (blockIdx.y * LANES + lane) * EACH;
        int at = blockIdx.x * (blockDim.x / LANES) + threadIdx.x / LANES;
        int strips = (p.target_w + columns - 1) / columns, bands = (p.target_h + rows - 1) / rows;
        column = at % strips * columns, at /= strips;
        row = at % bands * rows, n = at / bands;
    }
};

// Results as channels of a pixel; `bias` may be null.
template <class T, int EACH>
__device__ inline Vector<float, EACH> bias_of(const T* bias, int channel) {
    Vector<float, EACH> start = {};
#pragma unroll
    for (int i = 0; i < EACH; ++i)
        if (bias) start[i] = to<float>(bias[channel + i]);
    return start;
}

// The forward pass; FLIP: the backward pass to the data with stride 1.
template <class T, int R, int S, int STRIDE, int COLUMNS, int ROWS, int EACH, int LANES, bool FLIP>
__global__ void __launch_bounds__(256)
    depthwise_last(const T* x, const T* weight, const T* bias, T* y, const DepthwiseLast p) {
    __shared__ __align__(16) float filters[R * S][EACH * LANES];
    start_next_kernel();
    wait_for_kernels();
    load_filters<T, EACH * LANES, R * S, FLIP>(filters, weight, blockIdx.y * LANES * EACH);
    __syncthreads();
    Strip<EACH, LANES> at(p, COLUMNS, ROWS);
    if (at.n >= p.batch) return;
    Vector<float, EACH> sums[ROWS][COLUMNS], start = bias_of<T, EACH>(bias, at.channel);
#pragma unroll
    for (int i = 0; i < ROWS * COLUMNS; ++i) sums[i / COLUMNS][i % COLUMNS] = start;
    x += at.n * p.source_image + at.channel;
    int top = at.row * STRIDE - p.pad_h, left = at.column * STRIDE - p.pad_w;
#pragma unroll
    for (int i = 0; i < (ROWS - 1) * STRIDE + R; ++i) {
        Pixels<T, (COLUMNS - 1) * STRIDE + S, EACH> pixels;
        pixels.load(x + (top + i) * p.source_row, left, p.source_w, p.source_column,
                    unsigned(top + i) < p.source_h);
#pragma unroll
        for (int o = 0; o < ROWS; ++o) {
            int r = i - o * STRIDE;
            if (r < 0 || r >= R) continue;
#pragma unroll
            for (int s = 0; s < S; ++s) {
                Vector<float, EACH> factor = load<EACH>(&filters[r * S + s][at.lane * EACH]);
#pragma unroll
                for (int j = 0; j < COLUMNS; ++j)
                    add_products(sums[o][j], pixels.at[j * STRIDE + s], factor);
            }
        }
    }
    y += at.n * p.target_image + at.channel;
#pragma unroll
    for (int o = 0; o < ROWS; ++o)
#pragma unroll
        for (int j = 0; j < COLUMNS; ++j)
            if (at.row + o < p.target_h && at.column + j < p.target_w)
                store_whole(y + (at.row + o) * p.target_row + (at.column + j) * p.target_column,
                            from_floats<T>(sums[o][j]));
}

// The backward pass to the data with stride 2, from dy (the source) to dx (the target). COLUMNS is
// even, so that the taps of a column are known: those whose distance is even.
template <class T, int R, int S, int PAD, int COLUMNS, int EACH, int LANES>
__global__ void __launch_bounds__(256)
    depthwise_last_up(const T* dy, const T* weight, T* dx, const DepthwiseLast p) {
    constexpr int LEAST = PAD - (S - 1), LOW = (LEAST - (LEAST & 1)) / 2,
                  COUNT = (COLUMNS - 1 + PAD) / 2 - LOW + 1;
    __shared__ __align__(16) float filters[R * S][EACH * LANES];
    start_next_kernel();
    wait_for_kernels();
    load_filters<T, EACH * LANES, R * S, false>(filters, weight, blockIdx.y * LANES * EACH);
    __syncthreads();
    Strip<EACH, LANES> at(p, COLUMNS, 1);
    if (at.n >= p.batch) return;
    Vector<float, EACH> sums[COLUMNS] = {};
    dy += at.n * p.source_image + at.channel;
    for (int r = (at.row + p.pad_h) % 2; r < R; r += 2) {
        int row = (at.row + p.pad_h - r) / 2;
        bool there = at.row + p.pad_h >= r && row < p.source_h;
        Pixels<T, COUNT, EACH> pixels;
        pixels.load(dy + row * p.source_row, at.column / 2 + LOW, p.source_w, p.source_column,
                    there);
#pragma unroll
        for (int s = 0; s < S; ++s) {
            Vector<float, EACH> factor = load<EACH>(&filters[r * S + s][at.lane * EACH]);
#pragma unroll
            for (int j = 0; j < COLUMNS; ++j)
                if ((j + PAD - s) % 2 == 0)
                    add_products(sums[j], pixels.at[(j + PAD - s) / 2 - LOW], factor);
        }
    }
    dx += at.n * p.target_image + at.row * p.target_row + at.channel;
#pragma unroll
    for (int j = 0; j < COLUMNS; ++j)
        if (at.column + j < p.target_w)
            store_whole(dx + (at.column + j) * p.target_column, from_floats<T>(sums[j]));
}

// The backward pass to the weight, from x (the source) and dy (the target): [channel][tap]. Blocks
// along x have parts of all strips of dy, `each` of them, and `out` has a tensor for each part;
// `add_parts` adds these where there are several.
template <class T, class Out, int R, int S, int STRIDE, int COLUMNS, int EACH, int LANES>
__global__ void __launch_bounds__(256)
    depthwise_last_weight(const T* x, const T* dy, Out* out, const DepthwiseLast p) {
    constexpr int TAPS = R * S, AT_ONCE = 8, THREADS = 256 / LANES * LANES, GROUPS = 256 / LANES;
    __shared__ __align__(16) float parts[AT_ONCE][THREADS * EACH];
    start_next_kernel();
    wait_for_kernels();
    int strips = (p.target_w + COLUMNS - 1) / COLUMNS, all = p.batch * p.target_h * strips;
    int lane = threadIdx.x % LANES, group = threadIdx.x / LANES,
        channel = (blockIdx.y * LANES + lane) * EACH;
    int first = blockIdx.x * p.each, last = min(all, first + p.each);
    Vector<float, EACH> sums[TAPS] = {};
    for (int index = first + group; index < last; index += GROUPS) {
        int line = index / strips, column = (index - line * strips) * COLUMNS,
            n = line / p.target_h, row = line - n * p.target_h;
        Pixels<T, COLUMNS, EACH> gradient;
        gradient.load(dy + n * p.target_image + row * p.target_row + channel, column, p.target_w,
                      p.target_column, true);
        int top = row * STRIDE - p.pad_h;
        const T* from = x + n * p.source_image + channel;
#pragma unroll
        for (int r = 0; r < R; ++r) {
            Pixels<T, (COLUMNS - 1) * STRIDE + S, EACH> pixels;
            pixels.load(from + (top + r) * p.source_row, column * STRIDE - p.pad_w, p.source_w,
                        p.source_column, unsigned(top + r) < p.source_h);
#pragma unroll
            for (int s = 0; s < S; ++s)
#pragma unroll
                for (int j = 0; j < COLUMNS; ++j)
                    add_products(sums[r * S + s], pixels.at[j * STRIDE + s], gradient.at[j]);
        }
    }
    out += blockIdx.x * (long long)p.channels * TAPS;
#pragma unroll
    for (int tap = 0; tap < TAPS; tap += AT_ONCE) {
        __syncthreads();
#pragma unroll
        for (int t = 0; t < AT_ONCE; ++t)
            if (tap + t < TAPS) store(&parts[t][threadIdx.x * EACH], sums[tap + t]);
        __syncthreads();
        for (int i = threadIdx.x; i < AT_ONCE * LANES * EACH; i += THREADS) {
            int t = i / (LANES * EACH), c = i % (LANES * EACH);
            if (tap + t >= TAPS) break;
            float sum = 0;
#pragma unroll
            for (int g = 0; g < GROUPS; ++g) sum += parts[t][g * LANES * EACH + c];
            out[(long long)(blockIdx.y * LANES * EACH + c) * TAPS + tap + t] = to<Out>(sum);
        }
    }
}
