// Convolution on Hopper in which every filter reads one channel, of images whose channels are
// innermost: as depthwise_last.cu, but a copy (TMA) brings the pixels of a tile and their
// neighbours to shared memory, with zeros outside of the image. So threads compute no addresses and
// wait for no loads; blocks that share an SM copy while others compute.
#include <weft/convert.cuh>
#include <weft/early_launch.cuh>
#include <weft/pipeline.cuh>

using namespace weft;

STRUCT_DEPTHWISETILES;  // depthwise/tiles.py declares it

// COUNT pixels of a row in shared memory, STEP elements apart.
template <class T, int COUNT, int EACH, int STEP>
struct Pixels {
    Vector<float, EACH> at[COUNT];

    __device__ explicit Pixels(const T* from) {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) at[i] = to_floats(load<EACH>(from + i * STEP));
    }
};

template <int EACH>
__device__ inline void add_products(Vector<float, EACH>& sums, const Vector<float, EACH>& a,
                                    const Vector<float, EACH>& b) {
#pragma unroll
    for (int i = 0; i < EACH; ++i) sums[i] += a[i] * b[i];
}

// A tile of the target: its channels and its first position.
struct Tile {
    int chunk, x, y, n;

    // Tile number `at` of the positions.
    __device__ Tile(int at, int chunk, const DepthwiseTiles& p) : chunk(chunk) {
        x = at % p.tiles_w * p.tile_w, at /= p.tiles_w;
        y = at % p.tiles_h * p.tile_h, n = at / p.tiles_h;
    }
};

// The forward pass; FLIP: the backward pass to the data with stride 1. A block has CHANNELS of a
// tile, and a thread four of them at COLUMNS x ROWS positions.
template <class T, int R, int S, int STRIDE, int COLUMNS, int ROWS, int CHANNELS, bool FLIP>
__global__ void __launch_bounds__(256)
    depthwise_tiles(const __grid_constant__ TensorMap x, const T* weight, const T* bias, T* y,
                    const __grid_constant__ DepthwiseTiles p) {
    constexpr int EACH = 4, LANES = CHANNELS / EACH, TAPS = R * S;
    extern __shared__ __align__(128) unsigned char bytes[];
    __shared__ __align__(16) float filters[TAPS][CHANNELS];
    __shared__ Barrier full;
    if (threadIdx.x == 0) full.init(1), publish_barriers();
    __syncthreads();
    start_next_kernel();
    wait_for_kernels();
    Tile tile(blockIdx.x / p.chunks, blockIdx.x % p.chunks, p);
    int first = tile.chunk * CHANNELS;
    if (threadIdx.x == 0) {
        full.arrive_expecting(p.box_bytes);
        load_box(shared_address(bytes), x, full, first, tile.x * STRIDE - p.pad_w,
                 tile.y * STRIDE - p.pad_h, tile.n);
    }
    for (int i = threadIdx.x; i < CHANNELS * TAPS; i += blockDim.x) {
        int c = i / TAPS, tap = i % TAPS;
        filters[FLIP ? TAPS - 1 - tap : tap][c] = to<float>(weight[(long long)first * TAPS + i]);
    }
    __syncthreads();
    full.wait(0);
    int strips = p.tile_w / COLUMNS, works = LANES * strips * (p.tile_h / ROWS);
    for (int at = threadIdx.x; at < works; at += blockDim.x) {
        int lane = at % LANES, strip = at / LANES, i = strip / strips * ROWS,
            j = strip % strips * COLUMNS, channel = first + lane * EACH;
        const T* from =
            reinterpret_cast<const T*>(bytes) + lane * EACH + (i * p.box_w + j) * STRIDE * CHANNELS;
        Vector<float, EACH> sums[ROWS][COLUMNS], start = {};
#pragma unroll
        for (int e = 0; e < EACH; ++e)
            if (bias) start[e] = to<float>(bias[channel + e]);
#pragma unroll
        for (int e = 0; e < ROWS * COLUMNS; ++e) sums[e / COLUMNS][e % COLUMNS] = start;
#pragma unroll
        for (int row = 0; row < (ROWS - 1) * STRIDE + R; ++row) {
            Pixels<T, (COLUMNS - 1) * STRIDE + S, EACH, CHANNELS> pixels(from +
                                                                         row * p.box_w * CHANNELS);
#pragma unroll
            for (int o = 0; o < ROWS; ++o) {
                int r = row - o * STRIDE;
                if (r < 0 || r >= R) continue;
#pragma unroll
                for (int s = 0; s < S; ++s) {
                    Vector<float, EACH> factor = load<EACH>(&filters[r * S + s][lane * EACH]);
#pragma unroll
                    for (int c = 0; c < COLUMNS; ++c)
                        add_products(sums[o][c], pixels.at[c * STRIDE + s], factor);
                }
            }
        }
        int row = tile.y + i, column = tile.x + j;
        T* to_pixel =
            y + tile.n * p.target_image + row * p.target_row + column * p.target_column + channel;
#pragma unroll
        for (int o = 0; o < ROWS; ++o)
#pragma unroll
            for (int c = 0; c < COLUMNS; ++c)
                if (row + o < p.target_h && column + c < p.target_w)
                    store_whole(to_pixel + o * p.target_row + c * p.target_column,
                                from_floats<T>(sums[o][c]));
    }
}

// The backward pass to the weight: [channel][tap]. Blocks along x have every gridDim.x-th tile of
// dy, and `out` has a tensor for each; `add_parts` adds these where there are several. A thread
// sums EACH channels of all taps.
template <class T, class Out, int R, int S, int STRIDE, int COLUMNS, int EACH, int CHANNELS>
__global__ void __launch_bounds__(256)
    depthwise_tiles_weight(const __grid_constant__ TensorMap x,
                           const __grid_constant__ TensorMap dy, Out* out,
                           const __grid_constant__ DepthwiseTiles p) {
    constexpr int TAPS = R * S, LANES = CHANNELS / EACH, GROUPS = 256 / LANES,
                  THREADS = GROUPS * LANES, AT_ONCE = 8, STAGES = 2;
    extern __shared__ __align__(128) unsigned char bytes[];
    __shared__ __align__(16) float parts[AT_ONCE][THREADS * EACH + 4];  // taps in other banks
    __shared__ Barrier full[STAGES];
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; ++i) full[i].init(1);
        publish_barriers();
    }
    __syncthreads();
    start_next_kernel();
    wait_for_kernels();
    int tiles = p.tiles_w * p.tiles_h * p.batch, slot = p.box_slot + p.dy_slot;
    auto copy = [&](int at, int stage) {
        Tile tile(at, blockIdx.y, p);
        unsigned to = shared_address(bytes) + stage * slot;
        full[stage].arrive_expecting(p.box_bytes + p.dy_bytes);
        load_box(to, x, full[stage], tile.chunk * CHANNELS, tile.x * STRIDE - p.pad_w,
                 tile.y * STRIDE - p.pad_h, tile.n);
        load_box(to + p.box_slot, dy, full[stage], tile.chunk * CHANNELS, tile.x, tile.y, tile.n);
    };
    int step = gridDim.x;
    if (threadIdx.x == 0)
        for (int i = 0; i < STAGES; ++i)
            if (blockIdx.x + i * step < tiles) copy(blockIdx.x + i * step, i);
    int lane = threadIdx.x % LANES, group = threadIdx.x / LANES, strips = p.tile_w / COLUMNS;
    Vector<float, EACH> sums[TAPS] = {};
    Turn<STAGES> turn;
    for (int at = blockIdx.x; at < tiles; at += step, turn.next()) {
        full[turn.stage].wait(turn.parity);
        const T* pixels_at = reinterpret_cast<const T*>(bytes + turn.stage * slot) + lane * EACH;
        const T* dy_at =
            reinterpret_cast<const T*>(bytes + turn.stage * slot + p.box_slot) + lane * EACH;
        for (int strip = group; strip < strips * p.tile_h; strip += GROUPS) {
            int i = strip / strips, j = strip % strips * COLUMNS;
            Pixels<T, COLUMNS, EACH, CHANNELS> gradient(dy_at + (i * p.tile_w + j) * CHANNELS);
            const T* from = pixels_at + (i * p.box_w + j) * STRIDE * CHANNELS;
#pragma unroll
            for (int r = 0; r < R; ++r) {
                Pixels<T, (COLUMNS - 1) * STRIDE + S, EACH, CHANNELS> pixels(from + r * p.box_w *
                                                                                        CHANNELS);
#pragma unroll
                for (int s = 0; s < S; ++s)
#pragma unroll
                    for (int c = 0; c < COLUMNS; ++c)
                        add_products(sums[r * S + s], pixels.at[c * STRIDE + s], gradient.at[c]);
            }
        }
        __syncthreads();  // all have read the stage
        if (threadIdx.x == 0 && at + STAGES * step < tiles) copy(at + STAGES * step, turn.stage);
    }
    out += blockIdx.x * (long long)p.channels * TAPS;
#pragma unroll
    for (int tap = 0; tap < TAPS; tap += AT_ONCE) {
        __syncthreads();
#pragma unroll
        for (int t = 0; t < AT_ONCE; ++t)
            if (tap + t < TAPS) store(&parts[t][threadIdx.x * EACH], sums[tap + t]);
        __syncthreads();
        for (int i = threadIdx.x; i < AT_ONCE * CHANNELS; i += THREADS) {
            int t = i % AT_ONCE, c = i / AT_ONCE;  // neighbours store neighbours
            if (tap + t >= TAPS) continue;
            float sum = 0;
#pragma unroll
            for (int g = 0; g < GROUPS; ++g) sum += parts[t][g * CHANNELS + c];
            out[(long long)(blockIdx.y * CHANNELS + c) * TAPS + tap + t] = to<Out>(sum);
        }
    }
}
