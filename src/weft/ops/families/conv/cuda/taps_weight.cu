// The backward pass to the weight on tensor cores, for stride 1, in which the taps of a row share
// what is copied to shared memory. The product is that of tensor_weight.cu, but its depth is the
// pixels of an image that is S - 1 columns wider (taps.cu): then tap s of step k lies in row k + s
// of shared memory. Steps in the added columns have no gradient.
#include <weft/problem.cuh>
#include "ring.cuh"
#include "window.cuh"

using namespace weft;

// The steps of a stage, and eight after it: where dy and the first tap of the row of x are, or -1
// for zeros. They are computed once for the block, a stage before they are needed.
template <int STEPS, int STAGES>
struct Places {
    struct alignas(16) Position {
        int n, i, j, index;
    };
    longlong2 table[STAGES][STEPS + 8];
    Position at[STEPS + 8],
        step;  // `step` is STEPS as images, rows and columns: a division would delay a whole stage

    static __device__ Position position(const Conv& p, int width, int index) {
        int row = index / width, n = row / p.target_h;
        return {n, row - n * p.target_h, index - row * width, index};
    }
    // A barrier must follow, before `fill`.
    __device__ void start(const Conv& p, int width, int k0) {
        if (threadIdx.x < STEPS + 8) at[threadIdx.x] = position(p, width, k0 + threadIdx.x);
        if (threadIdx.x == 0) step = position(p, width, STEPS);
    }
    // `end` is that of this block's part of the depth. `down`: rows from a pixel to its first tap.
    __device__ void fill(int stage, const Conv& p, int width, int end, int down) {
        if (threadIdx.x >= STEPS + 8) return;
        auto [n, i, j, index] = at[threadIdx.x];
        int h = i + down, w = j - p.pad_w;
        bool inside = n < p.batch && unsigned(h) < p.source_h && unsigned(w) < p.source_w;
        table[stage][threadIdx.x] = make_longlong2(
            index < end && j < p.target_w ? n * p.target[0] + i * p.target[2] + j * p.target[3]
                                          : -1,
            inside ? n * p.source[0] + h * p.source[2] + w * p.source[3] : -1);
        n += step.n, i += step.i, j += step.j;
        if (j >= width) j -= width, ++i;
        if (i >= p.target_h) i -= p.target_h, ++n;
        at[threadIdx.x] = {n, i, j, index + STEPS};
    }
};

// BM channels of dy x S taps of a row and BC channels of x for a tile, PIXELS of the depth for a
// stage; a warp owns WM x WN. Blocks, parts and STREAM_K are those of tensor_weight.cu. ROUND: the
// tensors are float that has not been rounded to tf32.
template <class T, int S, int BM, int BC, int PIXELS, int WM, int WN, int STAGES, int RESIDENT,
          bool STREAM_K, bool ROUND>
__global__ void __launch_bounds__(BM / WM * (S * BC / WN) * 32, RESIDENT)
    taps_weight(const T* x, const T* dy, float* parts, float* shared_parts, int* counters,
                const Conv p) {
    constexpr int ACROSS_WARPS = S * BC / WN, THREADS = BM / WM * ACROSS_WARPS * 32,
                  EACH = 16 / sizeof(T), PAD = 8;
    constexpr int A_PITCH = BM + PAD, B_PITCH = BC + PAD, B_STEPS = PIXELS + 8,
                  STAGE = PIXELS * A_PITCH + B_STEPS * B_PITCH;
    constexpr int A_ROWS = THREADS / (BM / EACH), B_ROWS = THREADS / (BC / EACH),
                  DEEP = 32 / sizeof(T);
    constexpr int A_COPIES = PIXELS / A_ROWS, B_COPIES = (B_STEPS + B_ROWS - 1) / B_ROWS,
                  PARTS = PIXELS / DEEP;
    constexpr int DOWN = WM / 16, ACROSS = WN / 8;
    static_assert(PIXELS % A_ROWS == 0 && THREADS >= B_STEPS && S * BC % WN == 0 && BC % 16 == 0 &&
                      WN % 16 == 0,
                  "whole rounds of copies");
    extern __shared__ __align__(128) float memory[];
    __shared__ Places<PIXELS, STAGES> steps;
    T* ring_memory = reinterpret_cast<T*>(memory);
    int group = blockIdx.z, blocks = (p.source_c + BC - 1) / BC, width = p.target_w + S - 1,
        depth = p.batch * p.target_h * width;
    int columns = p.R * S * p.source_c;
    Portion portion(p.tiles_m * p.tiles_n, (depth + PIXELS - 1) / PIXELS, p.each, STREAM_K);
    parts += ((long long)portion.split * p.groups + group) * p.target_c * columns;
    dy += group * p.target_group, x += group * p.source_c;
#pragma unroll 1
    for (; portion.left > 0; portion.next()) {
        int2 at = tile_in_bands(portion.tile, p.tiles_m, p.tiles_n);
        int r = at.y / blocks, m0 = at.x * BM, c0 = (at.y - r * blocks) * BC,
            down = r * p.dil_h - p.pad_h;
        int k0 = portion.from * PIXELS, k1 = min(depth, k0 + portion.count() * PIXELS);
        steps.start(p, width, k0);
        __syncthreads();
        for (int s = 0; s < STAGES; ++s) steps.fill(s, p, width, k1, down);
        __syncthreads();

        // What this thread copies: a vector of channels of dy, and one of x, of some pixels.
        int a_vector = threadIdx.x % (BM / EACH), a_row = threadIdx.x / (BM / EACH);
        int b_vector = threadIdx.x % (BC / EACH), b_row = threadIdx.x / (BC / EACH);
        bool a_there = m0 + a_vector * EACH < p.target_c,
             b_there = c0 + b_vector * EACH < p.source_c;
        const T *dy_channel = dy + m0 + a_vector * EACH, *x_channel = x + c0 + b_vector * EACH;
        int fetched = 0;
        auto fetch = [&](int stage, int part) {
            T* to = ring_memory + stage * STAGE;
#pragma unroll
            for (int i = 0; i < A_COPIES; ++i) {
                if (i * PARTS / A_COPIES != part) continue;
                long long from = steps.table[stage][a_row + i * A_ROWS].x;
                bool inside = a_there && from >= 0;
                copy_async<16>(
                    shared_address(to + (a_row + i * A_ROWS) * A_PITCH + a_vector * EACH),
                    inside ? dy_channel + from : dy, inside);
            }
            to += PIXELS * A_PITCH;
#pragma unroll
            for (int i = 0; i < B_COPIES; ++i) {
                int row = b_row + i * B_ROWS;
                if (i * PARTS / B_COPIES != part || (B_STEPS % B_ROWS && row >= B_STEPS)) continue;
                long long from = steps.table[stage][row].y;
                bool inside = b_there && from >= 0;
                copy_async<16>(shared_address(to + row * B_PITCH + b_vector * EACH),
                               inside ? x_channel + from : x, inside);
            }
            // The next stage's table is free. The first ones have been filled before.
            if (part == 0 && fetched >= STAGES - 1)
                steps.fill(stage + 1 == STAGES ? 0 : stage + 1, p, width, k1, down);
            if (part == PARTS - 1) ++fetched;
        };

        int warp = threadIdx.x / 32, wm = warp / ACROSS_WARPS * WM, wn = warp % ACROSS_WARPS * WN;
        float of[DOWN][ACROSS][4] = {};
        auto load = [&](unsigned (&a)[DOWN][4], unsigned (&b)[ACROSS / 2][4], int stage, int part) {
            const T* here = ring_memory + stage * STAGE;
            load_channels<T, A_PITCH, DOWN>(a, here + part * DEEP * A_PITCH + wm, false);
#pragma unroll
            for (int i = 0; i < ACROSS / 2; ++i) {
                int column = wn + i * 16, s = column / BC;  // 16 columns are of one tap
                const T* pixels =
                    here + PIXELS * A_PITCH + (part * DEEP + s) * B_PITCH + column - s * BC;
                load_channels<T, B_PITCH, 1>(b + i, pixels, true);
            }
        };
        Ring<T, DOWN, ACROSS, PARTS, STAGES, ROUND, ROUND> ring;
        if (!portion.sum<THREADS, STREAM_K>(of, ring, fetch, load, shared_parts, counters))
            continue;
        each_pair(of, [&](int row, int at_column, float first, float second) {
            int m = m0 + wm + row, column = wn + at_column, s = column / BC,
                c = c0 + column - s * BC;
            if (m < p.target_c && c < p.source_c)
                *reinterpret_cast<float2*>(parts + (long long)m * columns +
                                           (r * S + s) * p.source_c + c) =
                    make_float2(first, second);
        });
    }
}
