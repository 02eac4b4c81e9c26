// The backward pass to the weight on tensor cores, as a matrix product: a row for each channel of
// dy in a group, a column for each tap and channel of x in a group, and a depth of all pixels of
// dy. Both tensors have the channels innermost, in whole 16-byte vectors (pack.cu). In shared
// memory a row is a pixel, so that fragments are transposed as they are loaded.
#include <weft/problem.cuh>
#include "ring.cuh"
#include "steps.cuh"

using namespace weft;

// Blocks are numbered by tile, then by part of the depth, of p.each steps (x), and by group (z).
// Each part is a matrix of its own in `parts`: [group][channel of dy][tap][channel of x]. STREAM_K:
// a block has p.each steps of all tiles in a row instead, and the sums of each tile are joined in
// `shared_parts`. ROUND: the tensors are float that has not been rounded to tf32.
template <class T, int BM, int BN, int PIXELS, int WM, int WN, int STAGES, int RESIDENT,
          bool STREAM_K, bool ROUND>
__global__ void __launch_bounds__(BM / WM * (BN / WN) * 32, RESIDENT)
    tensor_weight(const T* x, const T* dy, float* parts, float* shared_parts, int* counters,
                  const Conv p) {
    constexpr int THREADS = BM / WM * (BN / WN) * 32, EACH = 16 / sizeof(T), PAD = 8;
    constexpr int A_PITCH = BM + PAD, B_PITCH = BN + PAD, STAGE = PIXELS * (A_PITCH + B_PITCH);
    constexpr int A_ROWS = THREADS / (BM / EACH), B_ROWS = THREADS / (BN / EACH),
                  DEEP = 32 / sizeof(T);
    constexpr int DOWN = WM / 16, ACROSS = WN / 8, PARTS = PIXELS / DEEP;
    static_assert(PIXELS % A_ROWS == 0 && PIXELS % B_ROWS == 0 && THREADS >= PIXELS,
                  "whole rounds of copies");
    extern __shared__ __align__(128) float memory[];
    __shared__ Steps<PIXELS, STAGES, false> steps;
    T* ring_memory = reinterpret_cast<T*>(memory);
    int group = blockIdx.z, depth = p.batch * p.target_h * p.target_w,
        columns = p.R * p.S * p.source_c;
    Portion portion(p.tiles_m * p.tiles_n, (depth + PIXELS - 1) / PIXELS, p.each, STREAM_K);
    parts += ((long long)portion.split * p.groups + group) * p.target_c * columns;
    dy += group * p.target_group, x += group * p.source_c;
#pragma unroll 1
    for (; portion.left > 0; portion.next()) {
        int2 at = tile_in_bands(portion.tile, p.tiles_m, p.tiles_n);
        int m0 = at.x * BM, n0 = at.y * BN, k0 = portion.from * PIXELS,
            k1 = min(depth, k0 + portion.count() * PIXELS);
        steps.start(p, k0);
        __syncthreads();
        for (int s = 0; s < STAGES; ++s) steps.fill(s, p, k1);
        __syncthreads();

        // What this thread copies: a vector of channels of dy, and one of x at a tap, of some
        // pixels.
        int a_vector = threadIdx.x % (BM / EACH), a_row = threadIdx.x / (BM / EACH);
        int b_vector = threadIdx.x % (BN / EACH), b_row = threadIdx.x / (BN / EACH);
        bool a_there = m0 + a_vector * EACH < p.target_c, b_there = n0 + b_vector * EACH < columns;
        int tap = (n0 + b_vector * EACH) / p.source_c,
            channel = n0 + b_vector * EACH - tap * p.source_c;
        int dh = tap / p.S * p.dil_h, dw = tap % p.S * p.dil_w;
        const T *dy_channel = dy + m0 + a_vector * EACH,
                *x_channel = x + dh * p.source[2] + dw * p.source[3] + channel;
        int fetched = 0;
        auto fetch = [&](int stage, int part) {
            T* to = ring_memory + stage * STAGE;
#pragma unroll
            for (int i = 0; i < PIXELS / A_ROWS; ++i) {
                if (i * PARTS / (PIXELS / A_ROWS) != part) continue;
                const Step& s = steps.table[stage][a_row + i * A_ROWS];
                copy_async<16>(
                    shared_address(to + (a_row + i * A_ROWS) * A_PITCH + a_vector * EACH),
                    dy_channel + s.dy, a_there && s.there);
            }
            to += PIXELS * A_PITCH;
#pragma unroll
            for (int i = 0; i < PIXELS / B_ROWS; ++i) {
                if (i * PARTS / (PIXELS / B_ROWS) != part) continue;
                const Step& s = steps.table[stage][b_row + i * B_ROWS];
                bool inside =
                    b_there && unsigned(s.a + dh) < p.source_h && unsigned(s.b + dw) < p.source_w;
                copy_async<16>(
                    shared_address(to + (b_row + i * B_ROWS) * B_PITCH + b_vector * EACH),
                    x_channel + s.x, inside);
            }
            // The next stage's table is free. The first ones have been filled before.
            if (part == 0 && fetched >= STAGES - 1)
                steps.fill(stage + 1 == STAGES ? 0 : stage + 1, p, k1);
            if (part == PARTS - 1) ++fetched;
        };

        int warp = threadIdx.x / 32, wm = warp / (BN / WN) * WM, wn = warp % (BN / WN) * WN;
        float of[DOWN][ACROSS][4] = {};
        auto load = [&](unsigned (&a)[DOWN][4], unsigned (&b)[ACROSS / 2][4], int stage, int part) {
            const T* here = ring_memory + stage * STAGE;
            load_channels<T, A_PITCH, DOWN>(a, here + part * DEEP * A_PITCH + wm, false);
            load_channels<T, B_PITCH, ACROSS / 2>(
                b, here + PIXELS * A_PITCH + part * DEEP * B_PITCH + wn, true);
        };
        Ring<T, DOWN, ACROSS, PARTS, STAGES, ROUND, ROUND> ring;
        if (!portion.sum<THREADS, STREAM_K>(of, ring, fetch, load, shared_parts, counters))
            continue;
        each_pair(of, [&](int row, int column, float first, float second) {
            int m = m0 + wm + row, c = n0 + wn + column;
            if (m < p.target_c && c < columns)
                *reinterpret_cast<float2*>(parts + (long long)m * columns + c) =
                    make_float2(first, second);
        });
    }
}
