// Convolution of 16-bit elements by warpgroups on Hopper: the implicit matrix product of
// tensor.cuh, for one phase. Its rows are pixels, gathered as they are copied; its columns are
// target channels, whose weights are rows of taps and source channels.
#include <weft/problem.cuh>
#include "write.cuh"
#include "warpgroup.cuh"

using namespace weft;

// The windows of 128 pixels as a side of the product: as WarpgroupSide. A thread copies one vector
// of some rows.
template <class T, int THREADS, bool BACK>
struct WindowSide {
    static constexpr bool TRANSPOSE = false;
    static constexpr int ROWS = THREADS / 8, COPIES = 128 / ROWS, BYTES = 128 * 128;

    const T* x;
    int row, vector, per_tap, at, r, s;  // `at` counts vectors of the channels of tap r, s
    int row_step, column_step;  // in vectors
    int corner[COPIES], h[COPIES],
        w[COPIES];  // of the first tap: its place in vectors, its row and its column
    int rows, columns, step_h, step_w, height, width;

    __device__ WindowSide(const T* source, const Conv& p, int first, int thread) : x(source) {
        Window window = Window::of<BACK>(p, 0);
        row = thread / 8, vector = thread % 8, per_tap = p.source_c / 8;
        int pixels = window.pixels(p), tap = vector / per_tap;
        rows = window.h.taps, columns = window.w.taps, height = p.source_h, width = p.source_w;
        step_h = window.h.step, step_w = window.w.step;
        at = vector - tap * per_tap, r = tap / columns, s = tap - r * columns;
        row_step = int(p.source[2] / 8) * step_h, column_step = int(p.source[3] / 8) * step_w;
#pragma unroll
        for (int i = 0; i < COPIES; ++i) {
            int index = first + row + i * ROWS;
            Pixel pixel(min(index, pixels - 1), window);
            int top = pixel.i * window.h.mul + window.h.base;
            h[i] = index < pixels ? top : -(1 << 30), w[i] = pixel.j * window.w.mul + window.w.base;
            corner[i] = int((pixel.n * p.source[0] + top * p.source[2] + w[i] * p.source[3]) / 8);
        }
    }
    __device__ void next(unsigned tile) {
        int dh = r * step_h, dw = s * step_w, offset = r * row_step + s * column_step + at;
#pragma unroll
        for (int i = 0; i < COPIES; ++i) {
            int place = row + i * ROWS;
            bool inside = r < rows && unsigned(h[i] + dh) < height && unsigned(w[i] + dw) < width;
            copy_async<16>(tile + place * 128 + (vector ^ place % 8) * 16,
                           x + (long long)(corner[i] + offset) * 8, inside);
        }
        at += 8;
        while (at >= per_tap) {
            at -= per_tap;
            if (++s == columns) s = 0, ++r;
        }
    }
    static __device__ unsigned long long operand(unsigned tile, int along, int k) {
        return wgmma_rows(tile + along * 128 + k * 2);
    }
};

// 128 pixels x BN channels for a block. Blocks are numbered by tile (x) and by group (z). With
// PRODUCER, a third warpgroup copies; else two blocks of an SM cover each other's waits.
template <class T, int BN, int STAGES, bool PRODUCER, bool BACK>
__global__ void __launch_bounds__(PRODUCER ? 384 : 256, PRODUCER ? 1 : 2)
    warpgroup(const T* x, const T* weight, const T* bias, T* y, const Conv p) {
    constexpr int THREADS = PRODUCER ? 128 : 256;
    using G = WarpgroupTile<T, BN, STAGES, WindowSide<T, THREADS, BACK>,
                            WarpgroupSide<T, BN, THREADS, true>>;
    extern __shared__ __align__(16) unsigned char bytes[];
    unsigned ring = slab_aligned(shared_address(bytes));
    float* memory = reinterpret_cast<float*>(bytes + (ring - shared_address(bytes)));
    int depth = p.R * p.S * p.source_c, steps = (depth + 63) / 64;
    int2 tile_at =
        tile_in_bands(blockIdx.x, p.tiles_m, p.tiles_n);  // rows of this order are channels
    int first = tile_at.y * 128, channel = tile_at.x * BN;
    G tile;
    {
        int thread = PRODUCER ? threadIdx.x % 128 : threadIdx.x;
        auto a = [&] { return typename G::A(x + blockIdx.z * p.source_c, p, first, thread); };
        auto b = [&] {
            return typename G::B(weight + blockIdx.z * p.weight_group, p.weight_target, channel,
                                 p.target_c, depth, thread);
        };
        if (!tile.template multiply<PRODUCER, 72, 216>(a, b, ring, steps)) return;
    }
    barrier_sync<256>(1);  // both have read the last stages: the results take their place
    y += (long long)blockIdx.z * p.target_c * p.target[1];
    BiasEpilogue<T> epilogue = BiasEpilogue<T>{bias}.from(blockIdx.z * p.target_c);
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    float* mine = memory + warp * writing<T, 16, BN>();
    long long* offsets = reinterpret_cast<long long*>(mine);
    Window window = Window::of<BACK>(p, 0);
    int pixels = window.pixels(p), index = first + warp * 16 + lane;
    if (lane < 16) {
        Pixel pixel(min(index, pixels - 1), window);
        offsets[lane] = index < pixels
                            ? pixel.n * p.target[0] + window.h.out(pixel.i) * p.target[2] +
                                  window.w.out(pixel.j) * p.target[3]
                            : -1;
    }
    if (p.target[1] == 1)
        write_channels<16, BN>(tile.of, mine + 32, offsets, y, epilogue, p, channel);
    else write_pixels<16, BN>(tile.of, mine + 32, offsets, y, epilogue, p, channel);
}
