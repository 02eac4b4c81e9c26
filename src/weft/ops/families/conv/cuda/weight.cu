// The backward pass to the weight in single precision, as a matrix product: a row for each channel
// of dy in a group, a column for each channel of x in a group and each tap, and a depth of all
// pixels of dy. Few tiles and a long depth: blocks share it.
#include <weft/problem.cuh>
#include "steps.cuh"
#include "../../matmul/cuda/tiled.cuh"

using namespace weft;

// Both sides lie in shared memory as [pixel][row or column of the product]; adjacent threads copy
// adjacent pixels.
template <int BM, int BK, int THREADS, class Table>
struct Gradients {
    static constexpr int PITCH = BM + 4, SIZE = BK * PITCH, APART = THREADS / BK,
                         COPIES = BM / APART;

    const float* from;
    float* to;
    const Table& steps;
    long long row;
    int extent;

    __device__ Gradients(const float* dy, float* shared, const Table& table, const Conv& p, int m0)
        : steps(table) {
        int fast = threadIdx.x % BK, slow = threadIdx.x / BK;
        from = dy + (m0 + slow) * p.target[1], to = shared + fast * PITCH + slow;
        extent = p.target_c - m0 - slow, row = APART * p.target[1];
    }
    __device__ void next(int stage) {
        const Step& s = steps.table[stage][threadIdx.x % BK];
        const float* at = from + s.dy;
        bool there = s.there;
#pragma unroll
        for (int i = 0; i < COPIES; ++i) {
            copy_async<4>(to + stage * SIZE + i * APART, at, there && i * APART < extent);
            at += row;
        }
    }
};

template <int BN, int BK, int THREADS, bool MASKED, class Table>
struct Inputs {
    static constexpr int PITCH = BN + 4, SIZE = BK * PITCH, APART = THREADS / BK,
                         COPIES = BN / APART;

    const float* from;
    float* to;
    Table& steps;
    const Conv& p;
    int end;
    int offset[COPIES];
    int tap[COPIES];  // MASKED: the bit of the tap; else its row and column, 16 bits each

    __device__ Inputs(const float* x, float* shared, Table& table, const Conv& conv, int n0, int k1)
        : from(x), steps(table), p(conv), end(k1) {
        int fast = threadIdx.x % BK, slow = threadIdx.x / BK, taps = p.R * p.S;
        to = shared + fast * PITCH + slow;
#pragma unroll
        for (int i = 0; i < COPIES; ++i) {
            int column = n0 + slow + i * APART, c = column / taps, t = column - c * taps,
                r = t / p.S, s = t - r * p.S;
            bool inside = c < p.source_c;
            offset[i] =
                int(c * p.source[1] + r * p.dil_h * p.source[2] + s * p.dil_w * p.source[3]);
            // Beyond the last column: no bit, or a row that no image has.
            if constexpr (MASKED) tap[i] = inside ? 1 << t : 0;
            else tap[i] = inside ? r * p.dil_h << 16 | s * p.dil_w : -1;
        }
    }
    __device__ void next(int stage) {
        const Step& s = steps.table[stage][threadIdx.x % BK];
        const float* at = from + s.x;
        int a = s.a, b = s.b;
#pragma unroll
        for (int i = 0; i < COPIES; ++i) {
            bool inside;
            if constexpr (MASKED) inside = a & tap[i];
            else
                inside = tap[i] >= 0 && unsigned(a + (tap[i] >> 16)) < p.source_h &&
                         unsigned(b + (tap[i] & 0xffff)) < p.source_w;
            copy_async<4>(to + stage * SIZE + i * APART, at + offset[i], inside);
        }
    }
    __device__ void prepare(int stage) { steps.fill(stage, p, end); }
};

// Blocks are numbered by tile, then by part of the depth (x) and by group (z). Each part is a
// matrix of its own in `out`, `part` elements after the one before; `add_parts` adds them where
// there are several.
template <int BM, int BN, int BK, int WM, int WN, int TM, int TN, int STAGES, int RESIDENT,
          bool MASKED>
__global__ void __launch_bounds__(BM / WM * (BN / WN) * 32, RESIDENT)
    weight_gradient(const float* x, const float* dy, float* out, const Conv p) {
    constexpr int THREADS = BM / WM * (BN / WN) * 32;
    using Table = Steps<BK, STAGES, MASKED>;
    using A = Gradients<BM, BK, THREADS, Table>;
    using B = Inputs<BN, BK, THREADS, MASKED, Table>;
    using T = Tile<BM, BN, BK, WM, WN, TM, TN, STAGES, A, B>;
    extern __shared__ __align__(16) float memory[];
    __shared__ Table steps;
    int tiles = p.tiles_m * p.tiles_n, split = blockIdx.x / tiles, group = blockIdx.z;
    int2 at = tile_in_bands(blockIdx.x % tiles, p.tiles_m, p.tiles_n);
    int m0 = at.x * BM, n0 = at.y * BN, depth = p.batch * p.target_h * p.target_w,
        columns = p.source_c * p.R * p.S;
    int k0 = min(depth, split * p.each), k1 = min(depth, k0 + p.each);
    steps.start(p, k0);
    __syncthreads();
    for (int s = 0; s < STAGES; ++s) steps.fill(s, p, k1);
    __syncthreads();
    T tile;
    float *as = memory, *bs = memory + STAGES * A::SIZE;
    tile.run(A(dy + group * p.target_c * p.target[1], as, steps, p, m0),
             B(x + group * p.source_c * p.source[1], bs, steps, p, n0, k1), as, bs, k0, k1);
    out += ((long long)split * p.groups + group) * p.target_c * columns;
    bool wide = columns % 4 == 0;
    tile.each([&](int row, int column, const float* v) {
        int m = m0 + row, n = n0 + column;
        if (m >= p.target_c || n >= columns) return;
        float* to = out + (long long)m * columns + n;
        if (wide) *reinterpret_cast<float4*>(to) = make_float4(v[0], v[1], v[2], v[3]);
        else
            for (int j = 0; j < 4; ++j)
                if (n + j < columns) to[j] = v[j];
    });
}
